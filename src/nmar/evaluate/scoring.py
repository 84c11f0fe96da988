"""How a fitted model does on held-out cells: log densities, errors, coverage.

Enters: posteriors and cells. Leaves: one number per cell. Nothing is drawn here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.problem import seed_sequence
from nmar.posterior import levels
from nmar.posterior.mixing import draws, mixtures
from nmar.posterior.places import Places, cell_places
from nmar.posterior.posterior import Posterior, expectation, log_density

DRAWS = 200  # of a cell, among which its value is ranked


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
    at = cell_places(posterior, cells)
    y = np.asarray(cells.values, np.float64)
    mean = expectation(*at)
    return Scores(log_density(*at, y), log_density(*at, y, plugin=True), (y - mean) ** 2)


def probability_integral(posterior: Posterior, cells: Cells, random_state: Any = 0) -> Array:
    """P(Y ≤ y | observed) of each cell, randomised: uniform if the model is right.

    Parameters
    ----------
    posterior : Posterior
        Fitted model.
    cells : Cells
        Held-out cells.
    random_state : int, Generator or None, default=0
        Seed of the random draws.

    Notes
    -----
    Counts, and ratings on levels, get a uniform number between P(Y < y) and P(Y ≤ y). Where there is no closed
    distribution function the cell is ranked among ``DRAWS`` draws, ties broken at random and the rank spread over its
    step, which is uniform too.
    """
    at, y = cell_places(posterior, cells), np.asarray(cells.values, np.float64)
    rng = np.random.default_rng(seed_sequence(random_state))
    if posterior.law.scale is not None:
        return _within_levels(at, y, rng)
    if posterior.law.support is not None:
        return _between_edges(at, y, rng)
    seen, out = posterior.units.to_model(y), np.empty(len(y))
    for m in mixtures(*at):
        upper = m.cumulative(seen[m.where])
        if upper is None:
            drawn = draws(m, DRAWS, rng)
            out[m.where] = _rank(seen[m.where], drawn, rng)
        elif posterior.law.family.discrete:
            lower = m.cumulative(seen[m.where] - 1.0)
            out[m.where] = lower + rng.random(len(upper)) * (upper - lower)
        else:
            out[m.where] = upper
    return np.clip(out, 0.0, 1.0)


def _within_levels(at: Places, y: Array, rng: np.random.Generator) -> Array:
    """A uniform number between the probability of the levels below and that of those up to the cell's."""
    scale = at.posterior.law.scale
    assert scale is not None
    below = np.cumsum(np.pad(levels.probabilities(*at), ((0, 0), (1, 0))), axis=1)
    cell, place = np.arange(len(y)), scale.places(y)
    lower, upper = below[cell, place], below[cell, place + 1]
    return np.clip(lower + rng.random(len(y)) * (upper - lower), 0.0, 1.0)


def _between_edges(at: Places, y: Array, rng: np.random.Generator) -> Array:
    """A uniform number between the probabilities of the two values of the model that are seen as the same one."""
    posterior, out = at.posterior, np.empty(len(y))
    assert posterior.law.support is not None
    edges = [posterior.units.to_model(edge) for edge in posterior.law.support.between(y)]
    for m in mixtures(*at):
        lower, upper = (np.asarray(m.cumulative(edge[m.where])) for edge in edges)
        out[m.where] = lower + rng.random(len(lower)) * (upper - lower)
    return np.clip(out, 0.0, 1.0)


def _rank(y: Array, drawn: Array, rng: np.random.Generator) -> Array:
    """Where y lies among n draws of its cell: (#{below} + U (1 + #{equal})) / (n + 1)."""
    below, equal = np.sum(drawn < y[:, None], axis=1), np.sum(drawn == y[:, None], axis=1)
    return (below + rng.random(len(y)) * (1.0 + equal)) / (drawn.shape[1] + 1.0)


def coverage(probability: Array, levels: Array) -> Array:
    """Share of cells inside the central interval of each level, from their probability integrals."""
    off_center = np.sort(np.abs(probability - 0.5))
    return np.searchsorted(off_center, 0.5 * levels, side="right") / len(off_center)
