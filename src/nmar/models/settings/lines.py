"""Pieces that several data models are built of: intercepts, covariates, and how wide a gamma prior has to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.data.covariates import Design, design
from nmar.models.coordinates import Coordinates
from nmar.models.product import shape_by_moments


def with_intercepts(rank: int, cells: Cells | None) -> tuple[Coordinates, Coordinates]:
    """Coordinates (factors, own intercept, 1) of the longer axis and (factors, 1, own intercept) of the other.

    The longer axis comes first, so that a transposed matrix gives the transposed answer to the last bit.
    """
    factors, zeros = (True,) * rank, (0.0,) * rank
    longer = Coordinates((*factors, True, False), (*zeros, 0.0, 1.0), (*factors, True, False), rank)
    other = Coordinates((*factors, False, True), (*zeros, 1.0, 0.0), (*factors, False, True), rank + 1)
    rows_first = cells is None or cells.shape[0] >= cells.shape[1]
    return (longer, other) if rows_first else (other, longer)


def check_covariates(family: str, rows: Any, cols: Any) -> None:
    """Covariates move the means of normal lines."""
    if family == "poisson" and not (rows is None and cols is None):
        raise ValueError(
            f"covariates are for family='gaussian' and 'levels'; rows and cols must be None with family={family!r}"
        )


def check_center(family: str, center: float | None) -> None:
    """A center is a finite number, of Gaussian values."""
    if center is None:
        return
    if family != "gaussian":
        raise ValueError(f"center={center!r} is for family='gaussian', not {family!r}")
    if isinstance(center, bool) or not (isinstance(center, int | float | np.number) and np.isfinite(center)):
        raise ValueError(f"center={center!r}; give a finite number, or None for the mean of the values")


def center_name(center: float | None) -> str:
    """What a name says of the center, where it is not the mean."""
    return "" if center is None else f":center-{center:g}"


def with_designs(
    axes: tuple[Coordinates, Coordinates], cells: Cells | None, rows: Any, cols: Any
) -> tuple[Coordinates, Coordinates]:
    """The axes with covariates, where they are given."""
    first, second = (
        axis if known is None else replace(axis, design=known)
        for axis, known in zip(axes, designs(cells, rows, cols), strict=True)
    )
    return first, second


def designs(cells: Cells | None, rows: Any, cols: Any) -> tuple[Design | None, Design | None]:
    """Covariates of both axes as numbers, None where there are none."""
    if rows is None and cols is None:
        return None, None
    if cells is None:
        raise ValueError("a model with covariates cannot be simulated; simulate without them")
    of_rows = None if rows is None else design(rows, cells.rows, "rows")
    return of_rows, None if cols is None else design(cols, cells.cols, "cols")


def effect_shape(cells: Cells, axis: int, mean: float) -> float:
    """Shape of the gamma prior of one axis's Poisson effects, by moments."""
    lines = cells.by(axis)
    return shape_by_moments(lines.line_sums(), np.diff(lines.indptr), mean)
