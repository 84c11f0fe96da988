"""Files become cells.

Enters: a path. Leaves: `Cells`. The ending of the name gives the format: csv, tsv, txt, parquet, mtx, npz, h5ad; text
formats also with .gz, .bz2, .xz or .zst behind.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.build import Duplicates, check_duplicates_policy
from nmar.data.cells import Cells
from nmar.data.container import array_of
from nmar.data.matrix_market import read_matrix_market
from nmar.data.outside import wide as wide_matrix
from nmar.data.structure import FEW_LINES, check_structure
from nmar.data.tables import (
    COMPRESSIONS,
    Wanted,
    open_bytes,
    read_parquet,
    read_text,
    read_wide_parquet,
    read_wide_text,
)

__all__ = ["read"]

TEXTS = (".csv", ".tsv", ".txt")
PARQUETS = (".parquet", ".pq")
MATRICES = (".mtx", ".npz", ".h5ad")
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError)  # what zip files raise
COMPRESSED = ("data", "indices", "indptr", "shape")
REMEDY = "write it again, or get an undamaged copy"


def read(
    path: str | os.PathLike[str],
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
    *,
    delimiter: str | None = None,
    header: bool = True,
    text_ids: bool = False,
    weight: str | None = None,
    layer: str | None = None,
    wide: bool = False,
    index: str | None = None,
) -> Cells:
    """Read observed cells from a file.

    Parameters
    ----------
    path : str or path-like
        Path csv, tsv or txt (also .gz, .bz2, .xz, .zst), parquet, mtx, npz (a scipy sparse matrix, or arrays row, col,
        value: ids, or positions if there is also an array shape), h5ad (X or a layer: what a sparse matrix stores, what
        is not NaN in a dense one).
    row, col, value : str, optional
        Columns of a table that hold the ids and the values. By default those named row, col, value or by other usual
        names (user_id, movieId, rating …), otherwise the three there are, in this order; of more columns those wanted
        must be named.
    duplicates : {"error", "last", "mean", "sum"}, default="error"
        What to do with a cell that occurs more than once.
    delimiter : str, optional
        Of a text table; by default a comma for csv and a tab for tsv and txt.
    header : bool, default=True
        Whether the first line of a text table has the names of the columns. Otherwise they are called "0", "1" and so
        on.
    text_ids : bool, default=False
        Whether to keep the ids of a text table as they are written ("007") instead of as numbers. Otherwise
        ids in two spellings of one number are refused.
    weight : str, optional
        Column that says how often each cell counts among the values (:meth:`Cells.with_weights`).
    layer : str, optional
        Layer of an h5ad file; by default X.
    wide : bool
        True if a table has one line for each row of the matrix and one column for each of its columns. Empty fields
        are missing.
    index : str, optional
        Of a wide table the column with the row ids; by default a first column that has no numbers or no name, else
        rows are counted.

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile
    >>> from nmar.data import read, write_frame
    >>> path = os.path.join(tempfile.mkdtemp(), "ratings.csv")
    >>> write_frame(path, {"user": ["a", "b"], "item": [1, 2], "stars": [4.0, 5.0]})
    >>> read(path, row="user", col="item", value="stars").row_ids.tolist()
    ['a', 'b']
    """
    check_duplicates_policy(duplicates)
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path={str(file)!r} does not exist or is not a file; check the spelling")
    kind = _kind(file)
    if file.stat().st_size == 0:
        raise ValueError(f"path={str(file)!r} is empty; it should hold at least one observed cell")
    wanted = Wanted(row, col, value, weight)
    if layer is not None and kind != ".h5ad":
        raise ValueError(f"layer={layer!r}: only h5ad files have layers, not {kind[1:]}; leave it out")
    if wide or index is not None:
        return _read_wide(file, kind, wanted, (delimiter, header, text_ids), index if wide else _no_index(index))
    if kind in MATRICES:
        return _read_matrix(file, kind, wanted, duplicates, layer)
    if kind in PARQUETS:
        columns, names = read_parquet(file, wanted)
    else:
        columns, names = read_text(file, wanted, _separator(kind, delimiter), header, text_ids)
    if len(columns[names[0]]) == 0:
        raise ValueError(f"path={str(file)!r} has columns but no lines (empty input); at least one is needed")
    row, col, value = names[:3]
    return Cells.from_frame(columns, row, col, value, duplicates, weight=weight)


def _separator(kind: str, delimiter: str | None) -> str:
    return delimiter or ("," if kind == ".csv" else "\t")


def _no_index(index: str | None) -> str | None:
    raise ValueError(f"index={index!r} is the column of row ids in a wide table; pass wide=True, or leave it out")


def _read_wide(file: Path, kind: str, wanted: Wanted, form: tuple[str | None, bool, bool], index: str | None) -> Cells:
    """A wide table; ``form`` is the delimiter, whether there is a header, and whether ids stay texts."""
    for argument, name in wanted.given().items():
        raise ValueError(f"{argument}={name!r} is for tables with one line per cell; leave it out with wide=True")
    if kind in MATRICES:
        raise ValueError(f"wide=True is for tables; a {kind[1:]} file holds a matrix already; leave it out")
    delimiter, header, text_ids = form
    if kind in PARQUETS:
        table, index = read_wide_parquet(file, index)
    else:
        table, index = read_wide_text(file, index, _separator(kind, delimiter), header, text_ids)
    return Cells.from_matrix(wide_matrix(table, index, f"path={str(file)!r}"))


def _kind(file: Path) -> str:
    """The ending that names the format, whatever compression stands behind it."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    kind = suffixes[-2:][0] if compressed else "".join(suffixes[-1:])
    if kind not in TEXTS + PARQUETS + MATRICES:
        known = ", ".join(ending[1:] for ending in TEXTS + PARQUETS + MATRICES)
        raise ValueError(f"path={str(file)!r}: the ending names the format; use one of {known} (text also .gz, .zst)")
    if compressed and kind not in (*TEXTS, ".mtx"):
        raise ValueError(f"path={str(file)!r}: decompress it first; only csv, tsv, txt and mtx may be compressed")
    return kind


def _read_matrix(file: Path, kind: str, wanted: Wanted, duplicates: Duplicates, layer: str | None) -> Cells:
    if kind == ".npz":
        return _read_npz(file, wanted, duplicates)
    for argument, name in wanted.given().items():
        raise ValueError(f"{argument}={name!r} names a column, but a {kind[1:]} file has none; leave it out")
    if kind == ".h5ad":
        return _read_h5ad(file, duplicates, layer)
    with open_bytes(file) as stream:
        try:
            matrix = read_matrix_market(stream)
        except (ValueError, OverflowError) as error:
            while stream.read(1 << 20):  # where the compression is damaged, that is the error
                pass
            raise ValueError(f"path={str(file)!r} is not a Matrix Market file: {error}") from None
    if sparse.issparse(matrix):
        return Cells.from_scipy(matrix, duplicates)
    return Cells.from_dense(matrix)


def _read_npz(file: Path, wanted: Wanted, duplicates: Duplicates) -> Cells:
    """A stored scipy matrix, or arrays: of ids and values, or, with a `shape`, of positions and values."""
    where = f"path={str(file)!r}"
    with _open_npz(file) as archive:
        if "format" in archive and "data" in archive:
            return Cells.from_scipy(_npz_matrix(archive, file), duplicates)
        names = wanted.names([name for name in archive if name != "shape"], where)
        arrays: dict[str, NDArray[Any]] = {name: _npz_array(archive, name, file) for name in names}
        size = len(arrays[names[2]]) if arrays[names[2]].ndim else 0
        shape = _shape(_npz_array(archive, "shape", file), size, where) if "shape" in archive else None
    row, col, value = names[:3]
    if shape is not None:
        weights = None if wanted.weight is None else arrays[wanted.weight]
        return Cells.from_arrays(arrays[row], arrays[col], arrays[value], shape, duplicates, weights)
    return Cells.from_frame(arrays, row, col, value, duplicates, weight=wanted.weight)


def _npz_matrix(archive: Any, file: Path) -> Any:
    """A matrix written by scipy.sparse.save_npz; compressed ones are checked before scipy reads them."""
    where, form = f"path={str(file)!r}", _npz_array(archive, "format", file)
    kind = form.item().decode("ascii", "replace") if form.shape == () and form.dtype.kind == "S" else str(form)
    names = {"csr": COMPRESSED, "csc": COMPRESSED, "coo": ("data", "row", "col", "shape")}.get(kind)
    if names is None:
        raise ValueError(f"{where} is a sparse matrix of the kind {kind[:20]!r}; convert it to csr, csc or coo")
    parts = [_npz_array(archive, name, file) for name in names]
    if kind != "coo":
        return _compressed(kind, parts[:3], parts[3], where)
    try:
        return sparse.coo_array((parts[0], (parts[1], parts[2])), shape=_shape(parts[3], parts[0].size, where))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} is not a sparse matrix of scipy: {error}; {REMEDY}") from None


def _shape(shape: Any, entries: int, where: str) -> tuple[int, int]:
    """Numbers of rows and columns that a file names for so many entries."""
    size = np.asarray(shape)
    if size.shape != (2,) or size.dtype.kind not in "iu" or size.min() < 0:
        raise ValueError(f"{where}: shape {size.tolist()} is not that of a matrix; {REMEDY}")
    rows, cols = int(size[0]), int(size[1])
    if max(rows, cols) > max(FEW_LINES, 64 * entries):
        raise ValueError(f"{where}: shape {size.tolist()} is not that of {entries} entries; {REMEDY}")
    return rows, cols


def _compressed(kind: str, parts: Sequence[Any], shape: Any, where: str) -> Any:
    """A csr or csc array of (data, indices, indptr) from a file."""
    data, indices, indptr = parts
    rows, cols = _shape(shape, np.size(data), where)
    lines = (rows, cols) if kind == "csr" else (cols, rows)
    check_structure(indptr, indices, data, lines, where, REMEDY)
    container = sparse.csr_array if kind == "csr" else sparse.csc_array
    return container((data, indices, indptr), shape=(rows, cols))


def _open_npz(file: Path) -> Any:
    try:
        archive = np.load(file, allow_pickle=False)
    except (*DAMAGED, ValueError, OSError, NotImplementedError):  # numpy would say how to load it unsafely
        archive = None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(
            f"path={str(file)!r} is not an npz archive; write it with numpy.savez or scipy.sparse.save_npz"
        )
    return archive


def _npz_array(archive: Any, name: str, file: Path) -> NDArray[Any]:
    if name not in archive:
        raise ValueError(f"path={str(file)!r} has no array {name!r}; {REMEDY}")
    try:
        return array_of(archive.zip.read(f"{name}.npy"))
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds
        raise ValueError(f"path={str(file)!r}: array {name!r} is damaged: {error}; {REMEDY}") from None


def _read_h5ad(file: Path, duplicates: Duplicates, layer: str | None) -> Cells:
    """The matrix X or a layer of an AnnData file, under the names of its observations and variables."""
    try:
        import h5py
    except ImportError:
        raise ImportError("reading h5ad needs h5py: pip install h5py") from None
    if not h5py.is_hdf5(file):
        raise ValueError(f"path={str(file)!r} is not an h5ad file; write it with AnnData.write_h5ad")
    with h5py.File(file, "r") as archive:
        if layer is not None and layer not in archive.get("layers", ()):
            raise ValueError(
                f"layer={layer!r} is no layer of {str(file)!r}; available: {list(archive.get('layers', ()))}"
            )
        group = archive.get("X") if layer is None else archive["layers"][layer]
        matrix = _h5ad_matrix(group, f"path={str(file)!r}: {'X' if layer is None else f'layer {layer!r}'}")
        rows, cols = (_h5ad_axis(archive, name, size) for name, size in zip(("obs", "var"), matrix.shape, strict=True))
    cells = Cells.from_scipy(matrix, duplicates) if sparse.issparse(matrix) else Cells.from_dense(matrix)
    return Cells(cells.by(0), rows, cols)


def _h5ad_matrix(group: Any, what: str) -> Any:
    """A stored sparse matrix, or a dense one with NaN; in one without, zeros may well stand for missing cells."""
    encoding = "" if group is None else str(group.attrs.get("encoding-type", ""))
    if encoding in ("csr_matrix", "csc_matrix"):
        try:
            parts = tuple(group[name][:] for name in ("data", "indices", "indptr"))
            shape = group.attrs["shape"]
        except (KeyError, OSError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{what} is damaged: {error}; {REMEDY}") from None
        return _compressed(encoding[:3], parts, shape, what)
    dense = group[()] if hasattr(group, "dtype") else None
    if dense is None or dense.ndim != 2 or not np.isnan(dense).any():
        raise ValueError(
            f"{what} is {encoding or 'absent'}, not a sparse matrix, and has no NaN, so zeros and missing cells look"
            " alike; store X as csr, or use Cells.from_anndata, which reads every number as observed"
        )
    return dense


def _h5ad_axis(archive: Any, name: str, size: int) -> Axis:
    if name not in archive or "_index" not in archive[name].attrs:
        return Axis.range(size)
    labels = archive[name][archive[name].attrs["_index"]].asstr()[:]
    return Axis.from_ids(labels)
