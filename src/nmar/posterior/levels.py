"""Predictions of levels: the probability of each, and what follows from them (theory.md, Levels).

Enters: a posterior of ordinal values and positions of cells. Leaves: P(level), mixed over the styles of the line, and
the means, quantiles and draws of the levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nmar.arrays import Array
from nmar.models.predictive import NormalPredictive, pick
from nmar.prob.cuts import ends
from nmar.prob.pieces import pieces

if TYPE_CHECKING:
    from nmar.posterior.posterior import Posterior

BLOCK = 1 << 13  # cells handled at a time
LEAST = 1e-300


def probabilities(posterior: Posterior, i: Array, j: Array, plugin: bool = False) -> Array:
    """P(level) of the cells (i, j): (cells, L)."""
    shared = posterior.state.shared
    edges, axis = ends(shared.reader.cuts), shared.reader.axis
    table, styles = posterior.table(None), posterior.state.sides[axis].reading
    out = np.zeros((len(i), edges.shape[1] - 1))
    for block in pieces(len(i), BLOCK):
        known = posterior.cells(i[block], j[block])
        assert isinstance(known, NormalPredictive)
        lines = (i, j)[axis][block]
        for style, between in enumerate(edges):
            found = known.between(between, table, plugin)
            if styles is not None:
                found *= styles.probability[lines, style, None]
            out[block] += found
    return out / out.sum(axis=1, keepdims=True)


def log_probability(posterior: Posterior, i: Array, j: Array, y: Array, plugin: bool = False) -> Array:
    """log P(level) of the level that each cell has."""
    scale = posterior.law.scale
    assert scale is not None
    found = probabilities(posterior, i, j, plugin)
    return np.log(np.maximum(found[np.arange(len(i)), scale.places(y)], LEAST))


def moments(posterior: Posterior, i: Array, j: Array) -> tuple[Array, Array]:
    """Mean and variance of the levels as numbers."""
    values, found = _values(posterior), probabilities(posterior, i, j)
    mean = found @ values
    return mean, np.maximum(found @ values**2 - mean**2, 0.0)


def quantiles(posterior: Posterior, i: Array, j: Array, at: tuple[float, ...]) -> Array:
    """The lowest level up to which there is so much probability: (cells, quantiles)."""
    below = np.cumsum(probabilities(posterior, i, j), axis=1)
    places = [np.sum(below < one - 1e-12, axis=1) for one in at]
    values = _values(posterior)
    return values[np.minimum(np.stack(places, axis=1), len(values) - 1)]


def sample(posterior: Posterior, i: Array, j: Array, n: int, rng: np.random.Generator) -> Array:
    """Draws of the levels: (cells, n)."""
    return _values(posterior)[pick(probabilities(posterior, i, j), n, rng)]


def _values(posterior: Posterior) -> Array:
    assert posterior.law.scale is not None
    return np.array(posterior.law.scale.values)
