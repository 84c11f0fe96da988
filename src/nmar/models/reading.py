"""How values are read that are not normal around their mean (theory.md, Readings).

A *reader* is the law of such cells, and is shared by all of them: levels and their cut points, say. Given the mean and
the variance of μ in each cell of a block, it returns the normal values y* behind the cells given the mean of μ, and how
much the cells tell about μ. The data model is updated from the parabola in μ that touches log p(value | μ) there, noise
levels and σ² from E[(y* − μ)²]. The loops over cells know nothing of it. What a cell adds to the bound is
E_q log p(value | μ), to second order in μ around its mean:

    log p(value | E μ) + ½ Var[μ] ∂² log p(value | μ)/∂μ²,    p(value | μ) = ∫ over its y* of N(y*; μ, σ²/(λ_i ρ_j)) dy*

A reader may keep lines of its own on each side (``Side.reading``): the style of each row, say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.kernels.spec import Expectation, Kernels, LineNoise, Lines

Floats = NDArray[np.float64]


class ReadCells(NamedTuple):
    """The cells of a block as a reader sees them.

    Attributes
    ----------
    axis : int
        The axis whose lines are updated.
    cells : Lines
        Values, classes, weights and places of the cells.
    line : array of shape (m,)
        The line of the block that each cell belongs to.
    mean, variance : arrays of shape (m,)
        E[μ] and Var[μ] of each cell.
    noise : array of shape (m,)
        Variance σ² / (E[λ] E[ρ]) of the noise of each cell.
    mine, theirs : object
        The reader's own lines of the block, and of the whole other side.
    kernels : Kernels
        The backend.
    learns : bool
        Whether sums are asked for that the reader is learned from. Its own lines then stay as they are; else they are
        updated first.
    """

    axis: int
    cells: Lines
    line: Array
    mean: Floats
    variance: Floats
    noise: Floats
    mine: Any
    theirs: Any
    kernels: Kernels
    learns: bool


class Reading(NamedTuple):
    """Normal values that stand for the cells of a block.

    Attributes
    ----------
    value, information : arrays of shape (m,)
        The parabola −½ information/noise (value − μ)² in μ that touches log p(value | μ) of each cell at the mean of μ;
        the information is 1 where y* itself is observed.
    square : array of shape (m,)
        E[(y* − μ)²] of each cell, to second order in μ around its mean.
    log_z : float
        Σ E log p(value | μ) over the cells, as if the noise of each were known.
    lines : object
        The reader's new lines of the block, or None where it has none on this axis.
    sums : object
        What the reader is learned from; sums of blocks are added.
    """

    value: Floats
    information: Floats
    square: Floats
    log_z: float
    lines: Any = None
    sums: Any = None


class Reader(Protocol):
    """The law of cells whose values are read by it. Frozen; parts of a state.

    Its own lines of an axis are a record of arrays with ``take``, ``blend`` and ``drawn``, as factors have them.

    Attributes
    ----------
    alternates : bool
        Whether σ² is learned in one sweep and the reader in the next, because a step of one is only right while the
        other stays. One reading of the cells for it, after the leading lines were updated, is then enough.
    learns_scale : bool
        Whether σ² is learned next.
    scale_is_known : bool
        Whether σ² cannot be learned.
    """

    @property
    def alternates(self) -> bool: ...

    @property
    def learns_scale(self) -> bool: ...

    @property
    def scale_is_known(self) -> bool: ...

    def start(self, axis: int, n: int) -> Any:
        """Its own lines of an axis before any cell is seen, or None."""
        ...

    def read(self, given: ReadCells) -> Reading:
        """The values that stand for the cells of a block."""
        ...

    def learned(self, sums: Any) -> Self:
        """The reader with its own parameters learned from sums over all cells."""
        ...

    def log_prior(self) -> float:
        """Log prior of its parameters."""
        ...

    def divergence(self, axis: int, lines: Any) -> float:
        """KL of its own lines of an axis from their prior; 0 where it has none."""
        ...


@dataclass(frozen=True, eq=False)
class Stand:
    """A block's cells with the values that stand for them, and what that changes in the block's sums.

    Attributes
    ----------
    cells : Lines
        The cells with the values and the precision of the parabola that touches log p(value | μ) at the mean of μ.
    reading : Reading
        What the reader returned.
    instead : float
        What a loop over ``cells`` adds to log Z and the reader replaces.
    scatter : array of shape (n,)
        Σ E[(y* − μ)²] E[λ] E[ρ]/σ² of each line, less what a loop over ``cells`` gives in its place.
    """

    cells: Lines
    reading: Reading
    instead: float
    scatter: Floats

    def corrected(self, found: Expectation) -> Expectation:
        """The sums of a loop over ``cells``, corrected for what the reader knows better."""
        log_z = found.log_z - self.instead + self.reading.log_z
        return found._replace(log_z=log_z, squares=found.squares + self.scatter)

    def line_noise(self, noise: LineNoise) -> LineNoise:
        """Noise as a loop that updates lines from its own sums of squares must be given it."""
        return noise._replace(mean=noise.mean + self.scatter / (2.0 * noise.rate)) if noise.mean.size else noise


def given_cells(
    axis: int,
    cells: Lines,
    moments: tuple[Array, Array],
    dispersion: float,
    lines: tuple[Any, Any],
    kernels: Kernels,
    learns: bool,
) -> ReadCells:
    """The cells of a block for a reader, whose own lines and those of the other side are ``lines``."""
    first, second = moments
    line = np.repeat(np.arange(len(cells.indptr) - 1), np.diff(cells.indptr))
    precision = cells.precision if cells.precision.size else np.ones(len(first))
    variance = second - first * first
    np.maximum(variance, 0.0, out=variance)
    return ReadCells(axis, cells, line, first, variance, dispersion / precision, *lines, kernels, learns)


def stand(reader: Reader, given: ReadCells, dispersion: float) -> Stand:
    """The values that stand for the cells of a block."""
    reading, cells = reader.read(given), given.cells
    values = reading.value.astype(cells.values.dtype)
    square = values - given.mean
    square *= square
    square += given.variance
    square *= reading.information
    # the loop has log σ² where the reader's normal laws have log σ²/(E[λ] E[ρ])
    often, each = cells.weight.astype(np.float64), np.log((2.0 * np.pi) * given.noise) + square / given.noise
    instead = -0.5 * float(often @ each if often.size else each.sum())
    rest = (reading.square - square) / given.noise
    scatter = np.bincount(given.line, often * rest if often.size else rest, len(cells.indptr) - 1).astype(np.float64)
    seen = cells._replace(values=values, precision=reading.information * (dispersion / given.noise))
    return Stand(seen, reading, instead, scatter)


def read_statistics(reading: Reading, given: ReadCells, dispersion: float) -> Array:
    """n-vectors of the only bin, (2, 1): how often the cells count, and Σ E[λ] E[ρ] E[(y* − μ)²]."""
    often, each = given.cells.weight.astype(np.float64), reading.square / given.noise
    found = (often.sum(), often @ each) if often.size else (float(len(each)), each.sum())
    return np.array([[found[0]], [found[1] * dispersion]])
