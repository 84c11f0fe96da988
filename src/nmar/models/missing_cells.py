"""Missing cells of a block of lines: all of them, or a weighted sample (theory.md, Values that decide).

Enters: which cells of the lines are observed or hidden. Leaves: positions of missing cells, how many each stands for,
and the two things that sums need of them: inner products of both lines' features, and sums of the other side's features
by line. Nothing of the size of the table is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from nmar.arrays import Array

Floats = NDArray[np.float64]

SOME = 1 << 14  # sampled cells whose features are gathered at a time


class AllMissing(NamedTuple):
    """All missing cells of some lines."""

    line: Array  # (m,) number of the line within the block, and line of the other side
    other: Array
    where: Array  # (m,) places in lines × the other side
    shape: tuple[int, ...]  # number of lines, and of lines of the other side

    def products(self, mine: Array, theirs: Array) -> Floats:
        """Inner product of the features of both lines of each cell."""
        return np.asarray((mine @ theirs.T).ravel()[self.where], np.float64)

    def sums(self, each: Floats, theirs: Array) -> Floats:
        """Sum of the other side's features over the cells of each line, times a number for each cell."""
        dense = np.zeros(self.shape[0] * self.shape[1])
        dense[self.where] = each
        return np.asarray(dense.reshape(self.shape) @ theirs)

    def by_line(self, each: Floats) -> Floats:
        """Sum over the cells of each line."""
        return np.asarray(np.bincount(self.line, each, self.shape[0]), np.float64)

    def total(self, each: Floats) -> float:
        """Sum over the cells."""
        return float(np.sum(each))


class SomeMissing(NamedTuple):
    """A sample of the missing cells of some lines."""

    line: Array  # (m,) number of the line within the block, ascending, and line of the other side
    other: Array
    times: Floats  # (m,) how many missing cells each stands for: one over the expected number of times that it is drawn
    shape: tuple[int, ...]  # number of lines, and of lines of the other side

    def products(self, mine: Array, theirs: Array) -> Floats:
        """Inner product of the features of both lines of each cell."""
        out = np.empty(len(self.line))
        for start in range(0, len(out), SOME):
            part = slice(start, start + SOME)
            out[part] = np.einsum("md,md->m", mine[self.line[part]], theirs[self.other[part]], dtype=np.float64)
        return out

    def sums(self, each: Floats, theirs: Array) -> Floats:
        """Estimated sum of the other side's features over the cells of each line, times a number for each cell."""
        indptr = np.searchsorted(self.line, np.arange(self.shape[0] + 1))
        return np.asarray(sparse.csr_array((each * self.times, self.other, indptr), shape=self.shape) @ theirs)

    def by_line(self, each: Floats) -> Floats:
        """Estimated sum over the cells of each line."""
        return np.asarray(np.bincount(self.line, each * self.times, self.shape[0]), np.float64)

    def total(self, each: Floats) -> float:
        """Estimated sum over the cells."""
        return float(np.sum(each * self.times))


def drawn_missing(
    counts: Array, their_counts: Array, away: list[tuple[Array, Array]], rng: np.random.Generator
) -> SomeMissing:
    """A sample of missing cells, each with probability proportional to the counts of its lines, plus 1.

    Each line draws as many cells of all as it has observed ones, and one more, with replacement; those that are not
    missing are left out. Sums over the sample, each cell times 1/(draws × probability), have the sums over all missing
    cells as their expectation.

    Parameters
    ----------
    counts, their_counts : arrays of shape (n,) and (N,)
        Observed cells of the lines, and of the lines of the other side.
    away : list of (indptr, indices)
        Cells of the lines that are not missing.
    rng : Generator
        Source of the draws.
    """
    width, draws = len(their_counts), counts + 1
    chance = (their_counts + 1.0) / (their_counts.sum() + width)
    line = np.repeat(np.arange(len(counts)), draws)
    other = np.minimum(np.searchsorted(np.cumsum(chance), rng.random(len(line)), side="right"), width - 1)
    missing = np.ones(len(line), np.bool_)
    key = line * width + other
    for indptr, indices in away:
        known = np.repeat(np.arange(len(counts)), np.diff(indptr)) * width + indices
        missing &= ~np.isin(key, known)
    line, other = line[missing], other[missing]
    return SomeMissing(line, other, 1.0 / (draws[line] * chance[other]), (len(counts), width))
