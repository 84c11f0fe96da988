"""Where styles begin: groups of lines that use the levels differently (theory.md, Levels).

Enters: how often each line uses each level. Leaves: a share of each line in each style. Lines are clustered by a
mixture of multinomials, from several starts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from nmar.arrays import Array
from nmar.data.cells import Cells

STARTS = 10
ROUNDS = 40
SMOOTH = 1.0  # cells of each level in each style


def level_counts(cells: Cells, axis: int, levels: Array) -> Array:
    """How often each line of an axis has each level: (lines, L)."""
    parts = []
    for _, lines in cells.by(axis).blocks():
        place = np.searchsorted(levels, lines.values.astype(np.float64))
        line = np.repeat(np.arange(lines.n), np.diff(lines.indptr))
        found = np.bincount(line * len(levels) + place, minlength=lines.n * len(levels))
        parts.append(found.reshape(lines.n, len(levels)).astype(np.float64))
    return np.concatenate(parts)


def first_styles(counts: Array, styles: int, rng: np.random.Generator) -> Array:
    """Probability of each style of each line: (lines, G), the best of several starts."""
    best, most = np.full((len(counts), styles), 1.0 / styles), -np.inf
    for _ in range(STARTS):
        found, value = _mixture(counts, styles, rng)
        if value > most:
            best, most = found, value
    return best


def _mixture(counts: Array, styles: int, rng: np.random.Generator) -> tuple[Array, float]:
    """A mixture of multinomials from lines drawn by their length, and its log likelihood."""
    length, value = counts.sum(axis=1), -np.inf
    chosen = rng.choice(len(counts), styles, replace=len(counts) < styles, p=length / length.sum())
    use = counts[chosen] + counts.sum(axis=0) / length.sum() * np.sqrt(length.mean())
    share = np.full(styles, 1.0 / styles)
    for _ in range(ROUNDS):
        logs = counts @ np.log(use / use.sum(axis=1, keepdims=True)).T + np.log(share)
        each = logsumexp(logs, axis=1, keepdims=True)
        found, value = np.exp(logs - each), float(each.sum())
        use, share = found.T @ counts + SMOOTH, (found.sum(axis=0) + 1.0) / (len(found) + styles)
    return found, value
