"""How values are read that are not normal around their mean (theory.md, Readings).

A *reader* is the law of such cells, and is shared by all of them: levels and their cut points, say. Given the mean and
the variance of μ in each cell of a block, it returns the normal values y* that stand for the cells, q(y*), with which
the data model, the noise levels and σ² are updated as if these had been observed. The loops over cells know nothing of
it. With q(y*) integrated out, what a cell adds to the bound is

    log ∫ over the cell's values of exp E_q log N(y*; μ, σ²/(λ_i ρ_j)) dy*

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
    mean, variance : arrays of shape (m,)
        E[y*] and Var[y*] of each cell.
    log_z : float
        Σ log ∫ exp E_q log N(y*; μ, noise) dy* over the cells, as if the noise of each were known.
    lines : object
        The reader's new lines of the block, or None where it has none on this axis.
    sums : object
        What the reader is learned from; sums of blocks are added.
    """

    mean: Floats
    variance: Floats
    log_z: float
    lines: Any = None
    sums: Any = None


class Reader(Protocol):
    """The law of cells whose values are read by it. Frozen; parts of a state.

    Its own lines of an axis are a record of arrays with ``take``, ``blend`` and ``drawn``, as factors have them.

    Attributes
    ----------
    alternates : bool
        Whether σ² is learned in leading half sweeps alone, and the reader in the others, because a step of one is only
        right while the other stays.
    scale_is_known : bool
        Whether σ² cannot be learned.
    """

    @property
    def alternates(self) -> bool: ...

    @property
    def scale_is_known(self) -> bool: ...

    def start(self, axis: int, n: int) -> Any:
        """Its own lines of an axis before any cell is seen, or None."""
        ...

    def read(self, given: ReadCells) -> Reading:
        """The values that stand for the cells of a block."""
        ...

    def learned(self, sums: Any, scaled: bool) -> Self:
        """The reader with its own parameters learned from sums over all cells; ``scaled``: so was σ², just before."""
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
        The cells with E[y*] as their values.
    reading : Reading
        What the reader returned.
    instead : float
        What a loop over ``cells`` adds to log Z and the reader replaces.
    scatter : array of shape (n,)
        Σ E[λ] E[ρ] Var[y*]/σ² of each line, which squared residuals of E[y*] leave out.
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
        """Noise as a loop that sums squared residuals of E[y*] alone must be given it."""
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
    variance = np.maximum(second - first**2, 0.0)
    return ReadCells(axis, cells, line, first, variance, dispersion / precision, *lines, kernels, learns)


def stand(reader: Reader, given: ReadCells, dispersion: float) -> Stand:
    """The values that stand for the cells of a block."""
    reading, cells = reader.read(given), given.cells
    values = reading.mean.astype(cells.values.dtype)
    weight = cells.weight.astype(np.float64) if cells.weight.size else np.ones(len(values))
    residual = (values - given.mean) ** 2 + given.variance
    # the loop has log σ² where the reader's normal laws have log σ²/(E[λ] E[ρ])
    logs = np.log(2.0 * np.pi * dispersion) + np.log(given.noise / dispersion)
    instead = -0.5 * float(np.sum(weight * (logs + residual / given.noise)))
    scatter = np.bincount(given.line, weight * reading.variance / given.noise, len(cells.indptr) - 1).astype(np.float64)
    return Stand(cells._replace(values=values), reading, instead, scatter)


def read_statistics(reading: Reading, given: ReadCells, dispersion: float) -> Array:
    """n-vectors of the only bin, (2, 1): how often the cells count, and Σ E[λ] E[ρ] E[(y* − μ)²]."""
    cells = given.cells
    weight = cells.weight.astype(np.float64) if cells.weight.size else np.ones(len(given.mean))
    square = (reading.mean - given.mean) ** 2 + given.variance + reading.variance
    return np.array([[weight.sum()], [float(np.sum(weight * square / given.noise)) * dispersion]])
