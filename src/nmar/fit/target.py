"""Which cells a fit is about: the observed ones, or all of them (theory.md, Target population).

Enters: training cells and P(observed) of each, from a pattern fitted first or from the user. Leaves: the cells with
weights by inverse probability, so that observed cells stand for all. The values do not steer this pattern; in the
coupled fit that follows they do, so the weights stay as they are.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells

CLIP = 0.99  # quantile of the weights at which larger ones are cut
FEW = 0.1  # share of the cells below which their effective number is warned of


def inverse_weights(probability: Array) -> Array:
    """Weights 1/P(observed), cut at their 99 % quantile, whose sum is the effective number of cells.

    (Σw)²/Σw² cells of equal weight would tell as much. With a sum of as many cells as there are, few cells of large
    weight would count as many and be overfitted (docs/experiments/coat.md).

    Examples
    --------
    >>> equal, unequal = (inverse_weights(np.array(p)) for p in ([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]))
    >>> equal.tolist(), round(float(unequal.sum()), 3)
    ([1.0, 1.0, 1.0], 2.479)
    """
    weights = 1.0 / probability
    weights = np.minimum(weights, np.quantile(weights, CLIP))
    return weights * float(weights.mean() / np.mean(weights**2)) if len(weights) else weights


def weighted(cells: Cells, probability: Array) -> Cells:
    """The cells with inverse weights times their own; warns where few of them carry most of the weight."""
    weights = inverse_weights(probability)
    effective = float(weights.sum())
    if effective < FEW * len(cells):
        warnings.warn(
            f"weights by inverse P(observed) leave {effective:.0f} effective cells of {len(cells)}: few cells stand for"
            " most of the others, and predictions for all cells rest on them",
            UserWarning,
            stacklevel=6,
        )
    return cells.with_weights(weights if cells.weights is None else weights * cells.weights)


def given_probability(propensity: Any, cells: Cells) -> Array:
    """P(observed) of the cells as the user gives it: a function of ids, a matrix, or one number for each cell."""
    if callable(propensity):
        found = np.asarray(propensity(cells.row_ids[cells.row_index], cells.col_ids[cells.col_index]), float)
    else:
        found = np.asarray(propensity, float)
        if found.shape == cells.shape:
            found = found[cells.positions()]
    if found.shape != (len(cells),):
        raise ValueError(
            f"propensity has shape {found.shape}; give a function of row and column ids, a matrix of shape"
            f" {cells.shape}, or {len(cells)} numbers, one for each training cell in row-major order"
        )
    if not (np.all(found > 0.0) and np.all(found <= 1.0)):
        worst = found[~((found > 0.0) & (found <= 1.0))][0]
        raise ValueError(f"propensity holds {worst:g}; probabilities of observed cells lie above 0 and up to 1")
    return found
