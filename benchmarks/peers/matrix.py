"""A problem as every library can take it: a sparse matrix by rows, and held-out cells if it has any, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse

Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]
PARTS = ("valid", "test")


@dataclass(frozen=True, eq=False)
class Matrix:
    """Observed cells.

    Attributes
    ----------
    values : ratings, float32, stored entries are observed
    held : (row, column, value) of held-out cells by the name of their part; empty for simulated problems
    """

    values: sparse.csr_matrix
    held: dict[str, Triplets]

    def pattern(self) -> sparse.csr_matrix:
        """The same cells with ones for values; the positions are shared."""
        ones = np.ones(self.values.nnz, np.float32)
        return sparse.csr_matrix((ones, self.values.indices, self.values.indptr), shape=self.values.shape, copy=False)

    def save(self, path: Path) -> None:
        """Write one uncompressed ``npz``, which appears whole or not at all."""
        matrix = self.values
        arrays = {f"{part}_{k}": array for part, triplets in self.held.items() for k, array in enumerate(triplets)}
        unfinished = path.with_suffix(".part.npz")
        np.savez(
            unfinished, shape=matrix.shape, indptr=matrix.indptr, indices=matrix.indices, values=matrix.data, **arrays
        )
        unfinished.rename(path)


def load(path: Path) -> Matrix:
    """Read what :meth:`Matrix.save` wrote."""
    with np.load(path) as stored:
        parts = (stored["values"], stored["indices"], stored["indptr"])
        values = sparse.csr_matrix(parts, shape=tuple(stored["shape"]), copy=False)
        held = {part: tuple(stored[f"{part}_{k}"] for k in range(3)) for part in PARTS if f"{part}_0" in stored}
    return Matrix(values, held)


def build(name: str) -> Matrix:
    """A problem by its name in :mod:`benchmarks.problems`, or simulated: ``200x100x3000`` is rows, columns, cells."""
    from benchmarks.problems import PROBLEMS, SHAPES, simulated

    if name in PROBLEMS:
        train, valid, test = PROBLEMS[name]()
        held = {part: _triplets(cells) for part, cells in zip(PARTS, (valid, test), strict=True)}
        return Matrix(_compressed(*_triplets(train), train.shape), held)
    n_rows, n_cols, cells = SHAPES[name] if name in SHAPES else (int(n) for n in name.split("x"))
    return Matrix(_compressed(*simulated(n_rows, n_cols, cells), (n_rows, n_cols)), {})


def _triplets(cells: Any) -> Triplets:
    return (*cells.positions(), cells.values.astype(np.float32))


def _compressed(row: np.ndarray, col: np.ndarray, value: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Triplets in row-major order by rows: only the row starts have to be counted."""
    starts = np.zeros(shape[0] + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=starts[1:])
    return sparse.csr_matrix((value, col.astype(np.int32, copy=False), starts), shape=shape, copy=False)
