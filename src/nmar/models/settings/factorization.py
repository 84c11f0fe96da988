"""Matrix factorization, Gaussian or Poisson."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_count, warn_of_rank
from nmar.models.bilinear import Bilinear
from nmar.models.coordinates import Coordinates
from nmar.models.product import Product
from nmar.models.protocol import DataModel
from nmar.models.settings.leveled import Leveled
from nmar.models.settings.lines import (
    center_name,
    check_center,
    check_covariates,
    effect_shape,
    with_designs,
    with_intercepts,
)


@dataclass(frozen=True)
class Factorization(Leveled):
    """Matrix factorization of the values.

    Parameters
    ----------
    rank : int or "auto", default=10
        Number of factors. "auto" chooses it in a fit: ranks are tried upwards by short fits, until one predicts
        training cells that are set aside worse than the one before it.
    family : {"gaussian", "poisson", "levels"}, default="gaussian"
        Family. "gaussian" has normal factors (probabilistic matrix factorization) and "poisson" gamma factors. "levels"
        is for ordinal values such as ratings: normal values between cut points that are learned.
    covariance : {"full", "diagonal"}, default="full"
        Covariance of the factors of a row or column: a whole matrix, or its diagonal as in the paper. Not Poisson.
    bias : bool, default=True
        Whether rows and columns have biases. Not Poisson.
    student : bool, default=True
        Whether factors have a Student prior, with degrees of freedom that are learned: rows and columns then differ in
        how large their factors are. False: a normal prior, as in the paper. Not Poisson, and not with
        ``solver="entrywise"``, whose prior is normal.
    rows, cols : DataFrame, array-like or None, default=None
        Covariates of the rows and of the columns. The prior means of factors and biases depend on them. A frame has a
        line per id (in a pandas index, or in the one column that holds every id), an array a line per position. Ids
        without cells are predicted from their covariates. Not Poisson.
    center : float or None, default=None
        Value that predictions are shrunk to where a row and a column have few values: the sum of the prior means of
        both biases. None: the mean of the training values. Only ``family="gaussian"``.
    levels : sequence or None, default=None
        All levels in order, with ``family="levels"``. None: those found in the values.
    styles : int or "auto", default=1
        Number of sets of cut points, with ``family="levels"``. Each row (or column) uses one of them. "auto" chooses it
        in a fit: 1, 2, 4, 8 and 16 are tried by short fits on training cells that are set aside.
    styles_by : {"rows", "cols"}, default="rows"
        Which lines have styles.

    Examples
    --------
    >>> Factorization(5).describe()
    'factorization:5'
    """

    rank: int | Literal["auto"] = 10
    family: Literal["gaussian", "poisson", "levels"] = "gaussian"
    covariance: Literal["full", "diagonal"] = "full"
    bias: bool = True
    student: bool = True
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)
    center: float | None = None

    def __post_init__(self) -> None:
        if self.rank != "auto":
            check_count("rank", self.rank, 1)
        check_choice("family", self.family, ("gaussian", "poisson", "levels"))
        self.check_levels(self.family)
        check_choice("covariance", self.covariance, ("full", "diagonal"))
        check_covariates(self.family, self.rows, self.cols)
        check_center(self.family, self.center)

    def build(self, cells: Cells | None) -> DataModel:
        """A Gaussian bilinear model or a Poisson product. Warns of a rank above the matrix's smaller side.

        Where the rank is still open, the model has rank 1: it tells the family and what else does not depend on rank.
        """
        if self.rank == "auto" and cells is None:
            raise ValueError("rank='auto' is chosen from cells in a fit; give a number")
        rank = 1 if self.rank == "auto" else int(self.rank)
        warn_of_rank(rank, cells)
        if self.family == "poisson":
            return self._poisson(rank, cells)
        factors = (True,) * rank
        axis = Coordinates(factors, (0.0,) * rank, factors)
        axes = with_intercepts(rank, cells) if self.bias else (axis, axis)
        axes = with_designs(axes, cells, self.rows, self.cols)
        return Bilinear(axes, self.covariance, rank, student=self.student, center=self.center)

    def _poisson(self, rank: int, cells: Cells | None) -> DataModel:
        """Hierarchical gamma lines whose priors are as wide as the line means differ beyond Poisson noise.

        With the sparse prior of implicit counts (shape 0.3) values of a few, all alike, come out far too spread.
        """
        if cells is None:
            return Product(rank)
        mean = max(cells.by(0).mean(), 1e-6)
        between = min(effect_shape(cells, axis, mean) for axis in (0, 1))
        shape, level = max(between / rank, 0.1), np.sqrt(mean / rank)
        return Product(rank, shape, between, between * float(level) / shape)

    def describe(self) -> str:
        """Name and rank, and whether it has covariates."""
        name = f"{self.kind}factorization"
        known = "" if self.rows is None and self.cols is None else "+covariates"
        known += center_name(self.center)
        return f"{name}:{self.rank}" + (":diagonal" if self.covariance == "diagonal" else "") + self.styles_name + known
