"""Regression on known covariates of the other axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_lines, listed, one_for_every_id
from nmar.models.bilinear import Bilinear
from nmar.models.coordinates import Coordinates
from nmar.models.protocol import DataModel
from nmar.models.settings.leveled import Leveled

FULL_COVARIATES = 40  # up to this many coordinates a full covariance matrix is kept for every line


@dataclass(frozen=True, eq=False)
class Regression(Leveled):
    """Linear regression with a coefficient vector per row on column covariates, or per column on row covariates.

    Parameters
    ----------
    covariates : (lines, covariates) array or frame
        One line per column of the matrix (per row, for ``axis="cols"``), in its order; a frame whose index holds the
        ids is put in order by them.
    axis : {"rows", "cols"}, default="rows"
        Which lines have coefficients.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        Covariance of the coefficients of a line; "auto" is full up to 40 covariates.
    names : tuple of str or None, default=None
        Names of the covariates. A frame has its own.
    family : {"gaussian", "levels"}, default="gaussian"
        Family of the values.
    levels, styles, styles_by : optional
        Levels and styles of ``family="levels"``, as in :class:`Factorization`.

    Examples
    --------
    >>> Regression(np.arange(6.0).reshape(3, 2), names=("dose", "age")).covariate_names
    ('intercept', 'dose', 'age')
    """

    covariates: Any
    axis: Literal["rows", "cols"] = "rows"
    covariance: Literal["auto", "full", "diagonal"] = "auto"
    names: tuple[str, ...] | None = None
    family: Literal["gaussian", "levels"] = "gaussian"

    def __post_init__(self) -> None:
        check_choice("axis", self.axis, ("rows", "cols"))
        check_choice("covariance", self.covariance, ("auto", "full", "diagonal"))
        check_choice("family", self.family, ("gaussian", "levels"))
        self.check_levels(self.family)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """Names, the intercept first."""
        if self.names is not None:
            return ("intercept", *self.names)
        if hasattr(self.covariates, "columns"):
            return ("intercept", *(str(name) for name in self.covariates.columns))
        return ("intercept", *(f"x{k}" for k in range(np.shape(self.covariates)[1])))

    def build(self, cells: Cells | None) -> DataModel:
        """A bilinear model with one side known: an intercept and standardised covariates."""
        known = self._design(cells)
        size = known.shape[1]
        yes, no, zero = (True,) * size, (False,) * size, (0.0,) * size
        own, other = Coordinates(yes, zero, yes), Coordinates(no, zero, no, -1, known)
        small = "full" if size <= FULL_COVARIATES else "diagonal"
        covariance = small if self.covariance == "auto" else self.covariance
        return Bilinear((own, other) if self.axis == "rows" else (other, own), covariance)

    def portable(self, rows: Axis, cols: Axis) -> Regression:
        """The same as model files can hold it: an array in the order of the fitted lines, and the names."""
        ids = (cols if self.axis == "rows" else rows).ids
        return replace(self, covariates=self._ordered(ids), names=self.covariate_names[1:])

    def _ordered(self, ids: Array | None) -> Array:
        """The covariates as numbers, in the order of these ids where a frame has them in its index."""
        table = self.covariates
        if ids is not None and hasattr(table, "reindex"):
            absent = [key for key in ids if key not in table.index]
            if absent:
                side = 1 if self.axis == "rows" else 0
                raise ValueError(f"covariates has no line for {listed(side, absent)}; {one_for_every_id('covariates')}")
            table = table.loc[list(ids)]
        return np.asarray(table, np.float64)

    def _design(self, cells: Cells | None) -> Array:
        side = 1 if self.axis == "rows" else 0
        x = self._ordered(None if cells is None else (cells.col_ids if side == 1 else cells.row_ids))
        if x.ndim != 2 or not np.all(np.isfinite(x)):
            raise ValueError("covariates must be a table of finite numbers; impute or drop the missing ones first")
        if cells is not None:
            check_lines("covariates", len(x), side, cells)
        spread = x.std(axis=0)
        scaled = (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return np.column_stack([np.ones(len(x)), scaled])

    def describe(self) -> str:
        """Name and number of covariates."""
        return f"{self.kind}regression:{len(self.covariate_names) - 1}{self.styles_name}"
