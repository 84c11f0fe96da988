"""Row and column means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from nmar.data.cells import Cells
from nmar.models.arguments import check_choice
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

SURE_SCALE = 1e6  # prior shape of a scale that is the same for all lines, for all practical purposes


@dataclass(frozen=True)
class Effects(Leveled):
    """Row means, column means, or both: what the paper's appendix prints under the name of a mixture.

    The appendix's "GMM" and "PMM" have no assignment variable; each row (or column) has a mean of its own. For clusters
    use :class:`Mixture`.

    Parameters
    ----------
    axis : {"rows", "cols", "both"}, default="rows"
        Which lines have effects.
    family : {"gaussian", "poisson", "levels"}, default="gaussian"
        Family. Effects of the Gaussian and of levels add up, those of the Poisson multiply.
    rows, cols : DataFrame, array-like or None, default=None
        Covariates, as in :class:`Factorization`.
    center : float or None, default=None
        Value that predictions are shrunk to where a row and a column have few values: the sum of the prior means of
        both biases. None: the mean of the training values. Only Gaussian.
    levels, styles, styles_by : optional
        Levels and styles of ``family="levels"``, as in :class:`Factorization`.

    Examples
    --------
    >>> Effects("both", family="poisson").describe()
    'poisson-effects:both'
    """

    axis: Literal["rows", "cols", "both"] = "rows"
    family: Literal["gaussian", "poisson", "levels"] = "gaussian"
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)
    center: float | None = None

    def __post_init__(self) -> None:
        check_choice("axis", self.axis, ("rows", "cols", "both"))
        check_choice("family", self.family, ("gaussian", "poisson", "levels"))
        self.check_levels(self.family)
        check_covariates(self.family, self.rows, self.cols)
        check_center(self.family, self.center)
        other = {"rows": self.cols, "cols": self.rows, "both": None}[self.axis]
        if other is not None:
            raise ValueError(f"axis={self.axis!r} has no effects of the other axis, so its covariates say nothing")

    def build(self, cells: Cells | None) -> DataModel:
        """A bilinear model of intercepts, or a Poisson product of rank 1."""
        if self.family == "poisson":
            return self._poisson(cells)
        own, other = Coordinates((True,), (0.0,), (True,), 0), Coordinates((False,), (1.0,), (False,))
        axes = (own, other) if self.axis == "rows" else (other, own)
        if self.axis == "both":
            axes = with_intercepts(0, cells)
        return Bilinear(with_designs(axes, cells, self.rows, self.cols), center=self.center)

    def _poisson(self, cells: Cells | None) -> DataModel:
        """Gamma effects around a common level: one weight says nothing about a scale of its own, so lines share it.

        The spread of the prior is the spread of the line means beyond Poisson noise, by moments.
        """
        known = (self.axis == "cols", self.axis == "rows")
        if cells is None:
            return Product(1, known=known)
        mean = max(cells.by(0).mean(), 1e-6)
        shapes = [effect_shape(cells, axis, mean) for axis in (0, 1) if not known[axis]]
        shape, level = min(shapes), mean ** (1.0 / len(shapes))
        return Product(1, shape, SURE_SCALE, SURE_SCALE * level / shape, known)

    def describe(self) -> str:
        """Name and axis, and whether it has covariates."""
        known = "" if self.rows is None and self.cols is None else "+covariates"
        return f"{self.kind}effects:{self.axis}{self.styles_name}{known}{center_name(self.center)}"
