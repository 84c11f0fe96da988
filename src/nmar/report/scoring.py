"""How a fitted model does on held-out cells: log densities, errors, coverage.

Enters: posteriors and cells. Leaves: one number per cell. Nothing is drawn here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmar.data.cells import Cells
from nmar.posterior.mixing import mixtures
from nmar.posterior.posterior import Posterior, log_density, mean_and_variance, sample

Array = NDArray[Any]


def as_cells(X: Any, argument: str = "cells") -> Cells:
    """Cells from Cells, a scipy sparse matrix, or a dense array with NaN where missing."""
    if isinstance(X, Cells):
        return X
    if sparse.issparse(X):
        return Cells.from_scipy(X)
    if isinstance(X, np.ndarray):
        return Cells.from_dense(X)
    raise TypeError(
        f"{argument} is a {type(X).__name__}; pass nmar.Cells (nmar.read, nmar.Cells.from_frame …), a scipy"
        " sparse matrix, or a dense array with NaN where missing"
    )


class Places(NamedTuple):
    """Cells as a posterior sees them."""

    posterior: Posterior
    row: Array
    col: Array


def locate(posterior: Posterior, cells: Cells) -> Places:
    """Positions of the cells on the posterior's axes; ids it never saw get its prior line, at position −1."""
    if cells.rows == posterior.rows and cells.cols == posterior.cols:
        return Places(posterior, *cells.pairs())
    row = posterior.rows.positions(cells.row_ids, unknown="prior")[cells.row_index]
    col = posterior.cols.positions(cells.col_ids, unknown="prior")[cells.col_index]
    unseen = bool((row < 0).any() or (col < 0).any())
    return Places(posterior.extended() if unseen else posterior, row, col)


@dataclass(frozen=True, eq=False)
class Scores:
    """What a posterior says about each held-out cell, in row-major order."""

    predictive: Array  # log p(y | observed), the data model's posterior integrated out
    plugin: Array  # the same at its mean: the paper's L_NM
    squared_error: Array  # (y − E[y | observed])²

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(self.squared_error.mean()))


def score(posterior: Posterior, cells: Cells) -> Scores:
    """Score every cell."""
    at = locate(posterior, cells)
    y = np.asarray(cells.values, np.float64)
    mean, _ = mean_and_variance(*at)
    return Scores(log_density(*at, y), log_density(*at, y, plugin=True), (y - mean) ** 2)


def probability_integral(posterior: Posterior, cells: Cells, seed: int = 0) -> Array:
    """P(Y ≤ y | observed) of each cell: uniform if the model is right.

    Count families are randomised within the step of their distribution function; a model without a closed
    form is ranked among 200 draws.
    """
    at, y = locate(posterior, cells), np.asarray(cells.values, np.float64)
    rng = np.random.default_rng(seed)
    units = posterior.units
    seen = units.to_model(y)
    whole = posterior.law.family.name in ("poisson", "binomial", "negative_binomial")
    out = np.empty(len(y))
    for m in mixtures(*at):
        block = m.where
        upper = m.cells.cumulative(seen[block], m.table)
        if upper is None:
            draws = sample(at.posterior, at.row[block], at.col[block], 200, rng)
            out[block] = np.mean(draws < y[block, None] + 1e-12 * units.scale, axis=1)
            continue
        weight = np.exp(m.log_weight)
        out[block] = np.sum(weight * upper, axis=1)
        if whole:
            lower = m.cells.cumulative(seen[block] - 1.0, m.table)
            below = np.sum(weight * lower, axis=1)
            out[block] = below + rng.random(len(below)) * (out[block] - below)
    return np.clip(out, 0.0, 1.0)


def coverage(probability: Array, levels: Array) -> Array:
    """Share of cells inside the central interval of each level, from their probability integrals."""
    off_center = np.sort(np.abs(probability - 0.5))
    return np.searchsorted(off_center, 0.5 * levels, side="right") / len(off_center)
