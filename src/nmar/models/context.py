"""What a sweep needs besides the state: the cells, the law, the kernels, and where block tasks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Kernels, Lines, Room
from nmar.models.buffers import LineBuffers
from nmar.models.law import Law
from nmar.prob.families import Family
from nmar.prob.pieces import pieces

CELLS = 1 << 16  # values that are worked on at a time
PIECE = 1 << 12  # lines of one piece of work that goes by line


@dataclass(frozen=True, eq=False)
class Observed:
    """The cells a sweep reads, with what belongs to each cell."""

    cells: Cells  # values as the model sees them (in its units)
    hidden: Cells | None = None  # cells that are neither observed nor missing, or None
    # class of each cell in row-major order (known bins; distinct values), or None: none, or looked up
    group: Array | None = None
    distinct: Array | None = None  # values of the classes, for families that need them and for levels on disk
    _constants: dict[str, float] = field(default_factory=dict, init=False)  # of the families that were asked for
    _kept: dict[Any, Lines | None] = field(default_factory=dict, init=False)  # blocks that a backend keeps

    def log_constant(self, family: Family) -> float:
        """The part of Σ log p(y) that depends on the values alone, which kernels leave out."""
        if family.name not in self._constants:
            values, weights = self.cells.by(0).values, self.cells.weights_by(0)
            total = 0.0
            for piece in pieces(len(values), CELLS):
                each = family.constant(values[piece].astype(np.float64))
                total += float(np.sum(each if weights is None else each * weights[piece].astype(np.float64)))
            self._constants[family.name] = total
        return self._constants[family.name]

    def block(self, axis: int, start: int, stop: int, offset: Array | None = None) -> Lines:
        """Lines ``start`` … ``stop`` of an axis as the kernels read them.

        ``offset`` is a known part of E[μ] of each cell, row-major.
        """
        whole = self.cells.by(axis)
        part = whole.lines(start, stop)
        cells = slice(int(whole.indptr[start]), int(whole.indptr[stop]))
        group = self._classes(part.values) if self.group is None else self._along(self.group, axis, cells)
        known = EMPTY_FLOAT if offset is None else self._along(offset, axis, cells)
        whole_weights = self.cells.weights_by(axis)
        weight = EMPTY_FLOAT if whole_weights is None else whole_weights[cells]
        return Lines(part.indptr, part.indices, part.values, group, known, weight=weight)

    def hidden_block(self, axis: int, start: int, stop: int) -> Lines | None:
        """The hidden cells of lines ``start`` … ``stop``, or None where no cell of the matrix is hidden."""
        if self.hidden is None or not self.hidden.n_observed:
            return None
        part = self.hidden.by(axis).lines(start, stop)
        return Lines(part.indptr, part.indices, EMPTY_FLOAT, EMPTY_INT, EMPTY_FLOAT)

    def read(
        self, axis: int, block: tuple[int, int], law: Law, kernels: Kernels, offset: Array | None = None
    ) -> tuple[Lines, Lines | None]:
        """The cells of a block of lines as a backend reads them, and its hidden cells.

        ``offset`` is a known part of E[μ] of each cell, row-major; it changes from sweep to sweep, and cells do not.
        """
        if not kernels.own_memory:
            return self.block(axis, *block, offset), self.hidden_block(axis, *block)
        found = self.kept(("seen", axis, block), lambda: with_functions(self.block(axis, *block), law), kernels)
        assert found is not None
        if offset is not None:
            found = found._replace(offset=kernels.place(self.block(axis, *block, offset).offset))
        return found, self.kept(("hidden", axis, block), lambda: self.hidden_block(axis, *block), kernels)

    def kept(self, name: Any, make: Callable[[], Lines | None], kernels: Kernels) -> Lines | None:
        """A block of cells where a backend keeps it: placed at its first use."""
        if name not in self._kept:
            made = make()
            self._kept[name] = made if made is None else Lines(*(kernels.place(part) for part in made))
        return self._kept[name]

    def _classes(self, values: Array) -> Array:
        """Classes of the cells of a block by their values, where none were kept: the cells are on disk."""
        if self.distinct is None:
            return EMPTY_INT
        return np.searchsorted(self.distinct, values.astype(np.float64)).astype(np.int32)

    def _along(self, per_cell: Array, axis: int, cells: slice) -> Array:
        if axis == 0:
            return per_cell[cells]
        return per_cell[self.cells.order(1)[cells]]


def with_functions(cells: Lines, law: Law) -> Lines:
    """Cells with the functions of their values that the family's tables multiply, unless they have them."""
    if cells.functions.size or not law.data.has_values:
        return cells
    functions = law.family.functions(cells.values)
    return cells._replace(functions=np.array(functions, cells.values.dtype)) if functions else cells


class Executor(Protocol):
    """Runs independent tasks. A task is a function of module level whose arguments can be pickled.

    Attributes
    ----------
    shares_memory : bool
        Whether tasks may write results to arrays of the caller.
    nearby : object
        Executor that shares memory, for small work of one that does not. Optional.
    room : object
        Makes arrays that its tasks can read where they are. Optional.
    """

    shares_memory: bool

    def map(self, task: Callable[[Any, Any], Any], common: Any, parts: Iterable[Any]) -> list[Any]:
        """``[task(common, part) for part in parts]``, in this order whatever ran first."""
        ...


@dataclass(frozen=True, eq=False)
class Context:
    """Data, law, and where a sweep runs."""

    observed: Observed
    law: Law
    kernels: Kernels
    executor: Executor
    buffers: LineBuffers | None = None  # memory for the new lines of a run; None: new arrays for every half sweep
    # whether a line with more cells than a block is summed in parts, whose number depends on all cells
    cuts_lines: bool = True

    def with_buffers(self) -> Context:
        """The same with memory for the new lines of a run, which tasks read where it is, if they can."""
        room = None if self.kernels.own_memory else getattr(self.executor, "room", None)
        return replace(self, buffers=LineBuffers(self.kernels, room))

    def room(self, name: Any) -> Room:
        """Where an array for one half sweep comes from."""
        buffers = self.buffers
        return self.kernels.empty if buffers is None else lambda shape, dtype: buffers.scratch(name, shape, dtype)

    def by_line(self, task: Callable[[Any, tuple[int, int]], Any], common: Any, lines: int) -> None:
        """Run work that goes by line, not by cell, in pieces (start, stop)."""
        self.here(task, common, [(piece.start, piece.stop) for piece in pieces(lines, PIECE)])

    def here(self, task: Callable[[Any, Any], Any], common: Any, parts: list[Any]) -> list[Any]:
        """As the executor's ``map``, but in this process: for tasks that write to the caller's arrays."""
        nearby = self.executor if self.executor.shares_memory else getattr(self.executor, "nearby", None)
        if nearby is not None:
            return nearby.map(task, common, parts)
        return [task(common, part) for part in parts]
