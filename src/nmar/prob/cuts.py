"""Steps of cut points that can only raise the bound (theory.md, Levels).

Enters: sums over cells by style and level. Leaves: better cut points. The log probability of a level between two cut
points is the log of their distance plus a function whose curvature is at most 1/σ² in each; replacing that function by
its parabola gives a bound that touches at the present cut points. Its maximum is found by Newton's method, and the log
of the distances keeps the cut points in their order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nmar.prob.truncated import truncated

__all__ = ["EXTRA", "better_cuts", "log_prior"]

Floats = NDArray[np.float64]

EXTRA = 1.0  # cells of each level and style that the prior stands for, with mean 0 and variance 1
STEPS = 50
ENOUGH = 1e-20  # squared Newton decrement for each cell


def ends(cuts: Floats) -> Floats:
    """Cut points with −∞ and ∞ around them: (G, L + 1)."""
    return np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))


def log_prior(cuts: Floats) -> float:
    """Log prior: ``EXTRA`` cells of each level whose y* is standard normal."""
    between = ends(cuts)
    return EXTRA * float(truncated(between[:, :-1], between[:, 1:]).log_mass.sum())


def better_cuts(cuts: Floats, sums: Floats) -> Floats:
    """Cut points at which the bound is at least as high.

    The mean over the cells of all styles of the first and of the last cut point stays: y* has no units of its own.

    Parameters
    ----------
    cuts : array of shape (G, L − 1)
        Cut points of each style.
    sums : array of shape (G, L, 4)
        What cells give by style and level (kernels/spec.py, LevelReading).
    """
    styles, many = cuts.shape
    if many == 0 or (styles == 1 and many <= 2):
        return cuts
    between = ends(cuts)
    extra = truncated(between[:, :-1], between[:, 1:])
    own = np.stack([np.ones_like(extra.mean), extra.at_low, extra.at_high, np.ones_like(extra.mean)], axis=-1)
    share = sums[:, :, 0].sum(axis=1) + EXTRA
    return _highest(cuts, sums + EXTRA * own, share / share.sum())


def _highest(cuts: Floats, sums: Floats, share: Floats) -> Floats:
    """Maximum of the bound that touches at ``cuts``, by Newton's method with halved steps."""
    gaps, inside = np.diff(cuts, axis=1), sums[:, 1:-1, 0]
    curve = sums[:, :-1, 3] + sums[:, 1:, 3]
    slope = sums[:, :-1, 2] - sums[:, 1:, 1]
    slope[:, 1:] -= inside / gaps
    slope[:, :-1] += inside / gaps
    fixed = _fixed(share, cuts.shape[1])
    move, value = np.zeros_like(cuts), float(np.sum(inside * np.log(gaps)))
    for _ in range(STEPS):
        step, decrement = _newton(slope - curve * move, curve, inside, gaps + np.diff(move, axis=1), fixed)
        if not decrement > ENOUGH * inside.sum():
            break
        length = 1.0
        while length > 1e-10:
            new = move + length * step
            apart = gaps + np.diff(new, axis=1)
            if np.all(apart > 0.0):
                found = float(np.sum(slope * new - 0.5 * curve * new**2) + np.sum(inside * np.log(apart)))
                if found > value:
                    break
            length *= 0.5
        else:
            break
        move, value = new, found
    return cuts + move


def _fixed(share: Floats, many: int) -> Floats:
    """Directions in which cut points do not move: the pooled first one and the pooled last one."""
    styles = len(share)
    rows = np.zeros((min(many, 2), styles, many))
    rows[0, :, 0] = share
    rows[-1, :, -1] = share
    return rows.reshape(len(rows), styles * many)


def _newton(slope: Floats, curve: Floats, inside: Floats, gaps: Floats, fixed: Floats) -> tuple[Floats, float]:
    """Newton's step within what is free, and the squared decrement; ``slope`` leaves out the logs of the gaps."""
    styles, many = slope.shape
    pull, steep = inside / gaps, inside / gaps**2
    gradient = slope.copy()
    gradient[:, 1:] += pull
    gradient[:, :-1] -= pull
    size, held = styles * many, len(fixed)
    system = np.zeros((size + held, size + held))
    place = np.arange(size).reshape(styles, many)
    diagonal = curve.copy()
    diagonal[:, 1:] += steep
    diagonal[:, :-1] += steep
    system[place, place] = diagonal
    system[place[:, 1:], place[:, :-1]] = system[place[:, :-1], place[:, 1:]] = -steep
    system[size:, :size], system[:size, size:] = fixed, fixed.T
    right = np.concatenate([gradient.ravel(), np.zeros(held)])
    step = np.linalg.solve(system, right)[:size].reshape(styles, many)
    return step, float(np.sum(step * gradient))
