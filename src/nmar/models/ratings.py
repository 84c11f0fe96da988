"""Levels read as normal values between cut points, with styles of rows or of columns (theory.md, Levels).

A cell has level ℓ where its y* lies between the cut points t_{ℓ−1} and t_ℓ of the style of its row (or column). The
reader integrates y* out and finds the styles r of the lines it updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nmar.arrays import Array
from nmar.kernels.spec import EMPTY_FLOAT, LevelCells
from nmar.models.predictive import pick
from nmar.models.reading import ReadCells, Reading
from nmar.prob.cuts import better_cuts, ends, log_prior

NOBODY = np.empty((0, 0))
ONE_LINE = 1.0  # lines of each style that the prior of their shares stands for


@dataclass(frozen=True, eq=False)
class Styles:
    """Which style each line of an axis has.

    Attributes
    ----------
    probability : array of shape (n, G)
        q(z_i = g).
    """

    probability: Array

    def take(self, lines: slice | Array) -> Styles:
        """The chosen lines."""
        return Styles(self.probability[lines])

    def drawn(self, rng: np.random.Generator) -> Styles:
        """One style of each line, drawn."""
        chosen = pick(self.probability.astype(np.float64), 1, rng)
        return Styles((chosen == np.arange(self.probability.shape[1])).astype(self.probability.dtype))


@dataclass(frozen=True, eq=False)
class LevelSums:
    """What cut points and shares of styles are learned from; sums of blocks are added.

    Attributes
    ----------
    cells : array of shape (G, L, 4)
        Sums by style and level (kernels/spec.py, LevelReading).
    lines : array of shape (G,) or None
        Σ_i q(z_i = g), where the block's lines have styles.
    """

    cells: Array
    lines: Array | None

    def __add__(self, other: LevelSums) -> LevelSums:
        lines = None if self.lines is None or other.lines is None else self.lines + other.lines
        return LevelSums(self.cells + other.cells, lines)


@dataclass(frozen=True, eq=False)
class CutPoints:
    """The reader of levels.

    Attributes
    ----------
    cuts : array of shape (G, L − 1)
        Cut points of each style, in the model's units.
    shares : array of shape (G,)
        Prior probabilities π of the styles.
    axis : int
        The axis whose lines have styles.
    turn : bool
        Whether the next step is that of σ², not that of the cut points.
    """

    cuts: Array
    shares: Array
    axis: int = 0
    turn: bool = True

    @property
    def styles(self) -> int:
        """Number of styles G."""
        return len(self.cuts)

    @property
    def alternates(self) -> bool:
        """σ² and cut points are learned in turn: each step holds where the other stays."""
        return True

    @property
    def learns_scale(self) -> bool:
        """Whether σ² is learned next."""
        return self.turn and not self.scale_is_known

    @property
    def scale_is_known(self) -> bool:
        """Whether σ² cannot be learned: two levels only say on which side of a cut point y* lies."""
        return self.cuts.shape[1] < 2

    def start(self, axis: int, n: int) -> Styles | None:
        """Styles of lines before any cell is seen; None where the axis has none."""
        if self.styles == 1 or axis != self.axis:
            return None
        return Styles(np.repeat(self.shares[None, :], n, axis=0))

    def read(self, given: ReadCells) -> Reading:
        """Normal values between the cut points of each cell's level.

        Lines get their new styles first, unless cut points will be learned, which needs the present ones.
        """
        mine, theirs = (NOBODY if side is None else side.probability for side in (given.mine, given.theirs))
        renewed = mine.size > 0 and not given.learns
        found = given.kernels.read_levels(
            LevelCells(
                given.cells.indptr,
                given.cells.indices,
                given.cells.group,
                given.cells.weight,
                given.mean,
                given.variance,
                given.noise,
                ends(self.cuts),
                mine,
                theirs,
                np.log(self.shares) if renewed else EMPTY_FLOAT,
                given.learns,
            )
        )
        if not given.learns:
            return Reading(
                found.value, found.information, found.square, found.log_z, Styles(found.styles) if renewed else None
            )
        sums = LevelSums(found.sums, mine.sum(axis=0) if mine.size else None)
        return Reading(found.value, found.information, found.square, found.log_z, sums=sums)

    def learned(self, sums: LevelSums) -> CutPoints:
        """Shares of the styles and, unless it was the turn of σ², cut points."""
        shares = self.shares
        if sums.lines is not None:
            shares = (sums.lines + ONE_LINE) / (sums.lines.sum() + ONE_LINE * len(sums.lines))
        cuts = self.cuts if self.learns_scale else better_cuts(self.cuts, sums.cells)
        return replace(self, shares=shares, cuts=cuts, turn=not self.turn)

    def log_prior(self) -> float:
        """Log prior of the cut points and of the shares."""
        return log_prior(self.cuts) + ONE_LINE * float(np.sum(np.log(self.shares)))

    def divergence(self, axis: int, lines: Styles | None) -> float:
        """KL of the styles of an axis from their shares."""
        if lines is None:
            return 0.0
        q = lines.probability.astype(np.float64)
        return float(np.sum(q * (np.log(np.maximum(q, 1e-300)) - np.log(self.shares))))
