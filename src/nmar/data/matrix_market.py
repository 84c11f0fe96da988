"""Matrix Market files, read by NumPy: scipy's reader ends the process at some damaged files.

Enters: a stream of bytes. Leaves: a sparse matrix of the entries that the file lists, or an array of all of them.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np
import scipy.sparse as sparse

from nmar.arrays import Array
from nmar.data.structure import FEW_LINES

FORMATS, SYMMETRIES = ("coordinate", "array"), ("general", "symmetric", "skew-symmetric")
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")


def read_matrix_market(stream: IO[bytes]) -> Any:
    """The matrix in a Matrix Market file.

    Parameters
    ----------
    stream : binary file
        The file, decompressed.

    Returns
    -------
    coo_array or ndarray
        Entries of the format "coordinate"; all numbers of the format "array".

    Raises
    ------
    ValueError
        If the file is damaged, or holds complex numbers.

    Examples
    --------
    >>> import io
    >>> text = b"%%MatrixMarket matrix coordinate real general\\n2 3 1\\n2 3 0.5\\n"
    >>> read_matrix_market(io.BytesIO(text)).todense().tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5]]
    """
    banner = stream.readline(1000).decode("latin-1").lower().split()
    if banner[:2] != ["%%matrixmarket", "matrix"] or len(banner) != 5:
        raise ValueError("its first line is no banner '%%MatrixMarket matrix …'")
    form, field, symmetry = banner[2:]
    for name, known in ((form, FORMATS), (field, FIELDS), (symmetry, SYMMETRIES)):
        if name not in known:
            raise ValueError(f"its banner says {name[:20]!r}; known are {', '.join(known)}")
    line = stream.readline()
    while line.startswith(b"%") or (line and not line.strip()):
        line = stream.readline()
    sizes = [int(part) for part in line.split()]
    if len(sizes) != 2 + (form == "coordinate") or min(sizes) < 0:
        raise ValueError(f"its sizes are {sizes}")
    return (_listed if form == "coordinate" else _dense)(stream, sizes, field, symmetry)


def _numbers(stream: IO[bytes], lines: int, columns: int) -> Array:
    """The rest of a file, which has so many lines of so many numbers."""
    if lines == 0:
        return np.empty((0, columns))
    found = np.loadtxt(stream, np.float64, comments="%", ndmin=2, encoding="latin-1")
    if found.shape != (lines, columns):
        raise ValueError(f"{found.shape[0]} lines of {found.shape[1]} numbers in place of {lines} of {columns}")
    return found


def _listed(stream: IO[bytes], sizes: list[int], field: str, symmetry: str) -> Any:
    rows, cols, entries = sizes
    found = _numbers(stream, entries, 2 if field == "pattern" else 3)
    if max(rows, cols) > max(FEW_LINES, 64 * entries):
        raise ValueError(f"its sizes {sizes} are not those of a matrix")
    if not all(np.all((at >= 1) & (at <= size) & (at % 1 == 0)) for at, size in zip(found.T, sizes[:2], strict=False)):
        raise ValueError(f"a position is outside 1 … {rows} or 1 … {cols}")
    i, j = found[:, :2].T.astype(np.int64) - 1
    values = np.ones(entries) if field == "pattern" else found[:, 2]
    if symmetry != "general":
        off, sign = i != j, 1.0 if symmetry == "symmetric" else -1.0
        i, j, values = (
            np.concatenate([i, j[off]]), np.concatenate([j, i[off]]), np.concatenate([values, sign * values[off]])
        )  # fmt: skip
    return sparse.coo_array((values, (i, j)), shape=(rows, cols))


def _dense(stream: IO[bytes], sizes: list[int], field: str, symmetry: str) -> Array:
    rows, cols = sizes
    if symmetry == "general":
        return _numbers(stream, rows * cols, 1).reshape(rows, cols, order="F")
    skew = int(symmetry != "symmetric")
    if rows != cols:
        raise ValueError(f"its sizes {sizes} are not those of a square")
    found = _numbers(stream, rows * (rows + 1 - 2 * skew) // 2, 1)[:, 0]
    matrix, (j, i) = np.zeros((rows, rows)), np.triu_indices(rows, skew)
    matrix[j, i] = -found if skew else found
    matrix[i, j] = found
    return matrix
