"""One orientation of the observed cells: the cells of line 0, then those of line 1, and so on.

Enters: arrays that are already ordered (see `build`). Leaves: `Compressed`, on which the kernels loop, and
pieces of it: a range of lines, chosen lines, chunks of about equal work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.ids import as_positions


def index_dtype(n_other: int) -> type[np.int32] | type[np.int64]:
    """int32 while the other axis has fewer than 2**31 entries: half the memory traffic of int64."""
    return np.int32 if n_other < 2**31 else np.int64


@dataclass(frozen=True, eq=False)
class Compressed:
    """The observed cells, line by line; a line is a row or a column.

    Treat the arrays as read-only: other objects share them. Parts of the cells keep the dtype of the whole. Sums over
    values ask for ``dtype=np.float64``, because NumPy would add float32 values in float32.

    Examples
    --------
    >>> from nmar.data import Cells
    >>> rows = Cells.from_arrays([0, 0, 2], [1, 0, 1], [5.0, 3.0, 4.0]).by(0)
    >>> rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    ([0, 2, 2, 3], [0, 1, 1], [3.0, 5.0, 4.0])
    """

    indptr: NDArray[np.int64]  # (n + 1): the cells of line i lie at indptr[i]:indptr[i + 1]
    indices: NDArray[Any]  # (n_cells): position on the other axis, ascending within a line
    values: NDArray[Any]  # (n_cells): the observed values, float32 where that holds each exactly, else float64
    n_other: int  # length of the other axis

    @property
    def n(self) -> int:
        """Number of lines, those without cells included."""
        return len(self.indptr) - 1

    @property
    def n_cells(self) -> int:
        """Number of observed cells."""
        return len(self.indices)

    def major(self) -> NDArray[Any]:
        """The line number of each cell."""
        return np.repeat(np.arange(self.n, dtype=index_dtype(self.n)), np.diff(self.indptr))

    def lines(self, start: int, stop: int) -> Compressed:
        """The lines start..stop-1, as views of the same memory."""
        if not 0 <= start <= stop <= self.n:
            raise ValueError(f"start={start}, stop={stop}: need 0 <= start <= stop <= {self.n}")
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - first
        return Compressed(indptr, self.indices[first:last], self.values[first:last], self.n_other)

    def take(self, lines: Any) -> Compressed:
        """The chosen lines (integers in any order, repeats allowed, or a boolean mask), copied."""
        chosen = as_positions(lines, self.n)
        counts = np.diff(self.indptr)[chosen]
        indptr = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        source = np.arange(indptr[-1], dtype=np.int64)
        source += np.repeat(self.indptr[chosen] - indptr[:-1], counts)
        return Compressed(indptr, self.indices[source], self.values[source], self.n_other)

    def select(self, mask: NDArray[np.bool_]) -> Compressed:
        """The cells where `mask` (one boolean per cell) is true, on the same lines, without sorting."""
        kept = np.flatnonzero(mask)
        return Compressed(self._starts(kept), self.indices[kept], self.values[kept], self.n_other)

    def with_values(self, values: NDArray[Any]) -> Compressed:
        """The same cells with other values, which are in the order of this orientation."""
        return Compressed(self.indptr, self.indices, values, self.n_other)

    def chunks(self, cells_per_chunk: int) -> list[tuple[int, int]]:
        """Ranges of lines, in order and without gaps, of at most `cells_per_chunk` cells each.

        A line with more cells than that is a chunk of its own. The ranges depend on the data only, never on
        the number of workers, so that sums over chunks come out the same everywhere.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> Cells.from_arrays([0, 0, 1, 2], [0, 1, 0, 0], [1.0, 1, 1, 1]).by(0).chunks(2)
        [(0, 1), (1, 3)]
        """
        if cells_per_chunk < 1:
            raise ValueError(f"cells_per_chunk={cells_per_chunk} must be at least 1")
        ranges, start = [], 0
        while start < self.n:
            furthest = int(np.searchsorted(self.indptr, self.indptr[start] + cells_per_chunk, side="right")) - 1
            stop = max(furthest, start + 1)
            ranges.append((start, stop))
            start = stop
        return ranges

    def line_sums(self) -> NDArray[Any]:
        """Sum of the values of each line."""
        return np.bincount(self.major(), weights=self.values, minlength=self.n)

    def total(self, weights: NDArray[Any] | None = None) -> float:
        """Sum of all values, each as often as it counts."""
        return float(np.sum(self.values, dtype=np.float64) if weights is None else self.values @ weights)

    def mean(self) -> float:
        """Mean of all values."""
        return float(np.mean(self.values.astype(np.float64)))

    def variance(self) -> float:
        """Variance of all values."""
        return float(np.var(self.values, dtype=np.float64))

    def value_parts(self) -> Iterator[NDArray[Any]]:
        """All values in order; those that are not in memory come a piece at a time."""
        yield self.values

    def some_values(self, count: int) -> NDArray[Any]:
        """All values; of those that are not in memory, at most ``count``, evenly spread."""
        return self.values

    def blocks(self) -> Iterator[tuple[int, Compressed]]:
        """All lines: the number of the first one and the lines, some at a time where they are not in memory."""
        yield 0, self

    def _starts(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(kept, self.indptr).astype(np.int64, copy=False)
