"""From raw triplets to ordered cells: every check on what the user passed, and the one sort.

Enters: row numbers, column numbers, values in any order (arrays, or columns of a data frame). Leaves: a
`Compressed` by rows, with duplicates resolved, or an error that names the argument and the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.compact import all_finite, compact
from nmar.data.compressed import Compressed, index_dtype
from nmar.data.ids import as_ids, not_a_number, unknown_ids
from nmar.data.usual import shortened

Duplicates = Literal["error", "last", "mean", "sum"]


def check_duplicates_policy(duplicates: str) -> None:
    """Refuse a policy that does not exist."""
    if duplicates not in get_args(Duplicates):
        raise ValueError(f"duplicates={duplicates!r} is not a policy; use 'error', 'last', 'mean' or 'sum'")


def check_weights_policy(duplicates: str) -> None:
    """Refuse a mean of cells that count differently often."""
    if duplicates == "mean":
        raise ValueError("duplicates='mean' and weights cannot be combined; average the cells before, or use 'last'")


def check_lengths(**arrays: NDArray[Any]) -> None:
    """Refuse empty input and arrays that are not of one length."""
    lengths = {name: len(array) for name, array in arrays.items()}
    listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
    if len(set(lengths.values())) > 1:
        raise ValueError(f"lengths differ: {listed}; pass one entry per observed cell in each")
    if 0 in lengths.values():
        raise ValueError(f"empty input: {listed}; at least one observed cell is needed")


def as_values(values: Any, argument: str = "value") -> NDArray[Any]:
    """Observed values in the dtype they came in, all of them finite."""
    array = as_numbers(values, argument)
    if not all_finite(array):
        finite = np.isfinite(array)
        first = int(np.argmin(finite))
        raise ValueError(
            f"{argument}: {int((~finite).sum())} NaN or infinite, first {array[first]} at position {first}; "
            "drop those entries (an absent cell is a missing one)"
        )
    return array


def as_weights(weights: Any, argument: str) -> NDArray[np.float64]:
    """Weights as float64, all of them finite and none below 0."""
    array = as_values(weights, argument).astype(np.float64)
    if len(array) and array.min() < 0.0:
        place = int(np.argmin(array))
        raise ValueError(f"{argument}: {array[place]:g} at position {place} is below 0; weights count cells")
    return array


def as_numbers(values: Any, argument: str) -> NDArray[Any]:
    """A one-dimensional array of booleans, integers or floats, in the dtype it came in (objects as float64)."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{argument} has shape {array.shape}; pass a one-dimensional array")
    if array.dtype == object and not any(isinstance(value, str | bytes) for value in array.tolist()):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass  # falls through to the error, which shows an offending value
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{argument} is not numeric (dtype {array.dtype}, e.g. {not_a_number(array.tolist())!r}); "
            "convert it to numbers first"
        )
    return array


def as_index(values: Any, argument: str, size: int | None) -> NDArray[Any]:
    """Positions on one axis: integers from 0 to size - 1 (no upper limit if `size` is None)."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{argument} has shape {array.shape}; pass a one-dimensional array")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} has dtype {array.dtype}, not integers (e.g. {array.tolist()[0]!r}); "
            "cast it to int, or use Cells.from_frame for ids of any kind"
        )
    if array.min() < 0:
        first = int(np.argmax(array < 0))
        raise ValueError(f"{argument} has a negative index {array[first]} at position {first}; count from 0")
    if size is not None and array.max() >= size:
        first = int(np.argmax(array >= size))
        raise ValueError(
            f"{argument} has index {array[first]} at position {first}, but shape allows only 0..{size - 1}; "
            "enlarge shape or leave it out"
        )
    return array


def as_shape(shape: Any) -> tuple[int, int]:
    """A shape of two dimensions, each at least 1."""
    dims = tuple(int(d) for d in shape)
    if len(dims) != 2 or min(dims) < 1:
        raise ValueError(f"shape={shape!r}: pass (rows, columns), each at least 1")
    return dims[0], dims[1]


def infer_size(index: NDArray[Any], argument: str) -> int:
    """Length of an axis from its largest index; refuses what must be ids rather than positions."""
    size = int(index.max()) + 1
    # The line pointers of such an axis would fill the memory for next to no cells.
    if size > 100 * len(index) + 10**8:
        raise ValueError(
            f"{argument} has index {size - 1} for only {len(index)} cells; if these are ids use "
            "Cells.from_frame({'row': …, 'col': …, 'value': …}, row='row', col='col', value='value'), "
            "otherwise pass shape= explicitly"
        )
    return size


def compress(
    row: NDArray[Any], col: NDArray[Any], values: NDArray[Any], rows: Axis, cols: Axis, duplicates: str
) -> Compressed:
    """Triplets in any order, by rows, columns ascending within a row, each cell once.

    Parameters
    ----------
    row, col : array-like of int
        Checked positions on `rows` and `cols`.
    values : ndarray
        Array of numbers, all finite.
    duplicates : {"error", "last", "mean", "sum"}
        What to do with a cell that occurs more than once; "last" means last in the order given.

    Returns
    -------
    Compressed
        Its values are float32 where that holds each exactly, otherwise float64.
    """
    check_duplicates_policy(duplicates)
    shape = (len(rows), len(cols))
    sort = _sort_by_keys if shape[1] > 4 * len(values) + 10**6 else _sort_by_counting
    ordered = sort(row, col, compact(values), shape)
    return _settle_duplicates(ordered, rows, cols, duplicates)


def _sort_by_counting(row: NDArray[Any], col: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]) -> Compressed:
    # Two counting sorts, both stable: by column, then by row; so duplicates stay in the order given.
    matrix = _count_columns(row, col, values, shape).tocsr()
    return _from_matrix(matrix.indptr, matrix.indices, matrix.data, shape[1])


def _count_columns(
    row: NDArray[Any], col: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> sparse.csc_array:
    """The triplets by column, in the order given within one; narrowed positions are let go before the next sort."""
    dtype = index_dtype(max(shape))
    places = row.astype(dtype, copy=False), col.astype(dtype, copy=False)
    triplets = sparse.coo_array((values, places), shape=shape)
    # Not a claim but a request: scipy then leaves duplicates alone instead of summing them.
    triplets.has_canonical_format = True
    return triplets.tocsc()


def _sort_by_keys(row: NDArray[Any], col: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]) -> Compressed:
    """The same for very many columns, where one counter per column would cost more than the cells."""
    order = np.lexsort((col, row))
    indptr = np.searchsorted(row[order], np.arange(shape[0] + 1))
    return _from_matrix(indptr, col[order], values[order], shape[1])


def _from_matrix(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], n_other: int) -> Compressed:
    indices = indices.astype(index_dtype(n_other), copy=False)
    return Compressed(indptr.astype(np.int64, copy=False), indices, values, n_other)


def as_matrix(cells: Compressed) -> sparse.csr_array:
    """The cells as a csr array that shares their positions and values."""
    # scipy gives positions the dtype of the pointers: int64 would make it copy them, at twice their size.
    indptr = cells.indptr.astype(index_dtype(cells.n_cells + 1))
    return sparse.csr_array((cells.values, cells.indices, indptr), shape=(cells.n, cells.n_other))


def turn(cells: Compressed) -> Compressed:
    """The other orientation of the same cells, by one counting sort."""
    matrix = as_matrix(cells).tocsc()
    return _from_matrix(matrix.indptr, matrix.indices, matrix.data, cells.n)


def _settle_duplicates(ordered: Compressed, rows: Axis, cols: Axis, duplicates: str) -> Compressed:
    if ordered.n_cells < 2:
        return ordered
    repeat = np.zeros(ordered.n_cells, dtype=bool)  # the cell equals the one before it
    np.equal(ordered.indices[1:], ordered.indices[:-1], out=repeat[1:])
    starts = ordered.indptr[:-1]
    repeat[starts[starts < ordered.n_cells]] = False
    if not repeat.any():
        return ordered
    if duplicates == "error":
        raise _duplicate_error(ordered, repeat, rows, cols)
    if duplicates == "last":
        kept = ordered.select(np.append(~repeat[1:], True))
        return kept.with_values(compact(kept.values))
    first = ~repeat
    return ordered.select(first).with_values(compact(_merge(ordered.values, np.flatnonzero(first), duplicates)))


def _merge(values: NDArray[Any], groups: NDArray[Any], duplicates: str) -> NDArray[np.float64]:
    """The sum or mean of each run of values; `groups` is where the runs begin."""
    merged: NDArray[np.float64] = np.add.reduceat(values, groups, dtype=np.float64)
    if duplicates == "mean":
        merged /= np.diff(groups, append=len(values))
    return merged


def _duplicate_error(ordered: Compressed, repeat: NDArray[np.bool_], rows: Axis, cols: Axis) -> ValueError:
    place = int(np.argmax(repeat))
    line = int(np.searchsorted(ordered.indptr, place, side="right")) - 1
    row_id, col_id = rows.id_at(line), cols.id_at(int(ordered.indices[place]))
    return ValueError(
        f"duplicates: {int(repeat.sum())} entries repeat a cell, e.g. row {row_id!r}, column {col_id!r}; "
        "pass duplicates='last', 'mean' or 'sum', or remove them"
    )


def frame_columns(frame: Any, **wanted: str) -> dict[str, NDArray[Any]]:
    """The wanted columns of a pandas, polars or pyarrow table, or of a dict of arrays, as NumPy arrays."""
    if isinstance(frame, Mapping):
        available, get = list(frame), frame.__getitem__
    else:
        try:
            import narwhals as nw
        except ImportError:
            raise ImportError(
                "reading a data frame needs narwhals: pip install narwhals (or pass a dict of arrays)"
            ) from None
        try:
            wrapped = nw.from_native(frame)
        except TypeError:
            raise ValueError(
                f"df of type {type(frame).__name__} is not a table; pass a pandas, polars or pyarrow table, "
                "or a dict of arrays"
            ) from None
        if isinstance(wrapped, nw.LazyFrame):
            wrapped = wrapped.collect()
        available, get = list(wrapped.columns), lambda name: wrapped[name].to_numpy()
    for argument, name in wanted.items():
        if name not in available:
            raise ValueError(f"{argument}={name!r} is not a column; available: {shortened(available)}")
    return {argument: get(name) for argument, name in wanted.items()}


def place_ids(ids: Any, argument: str, axis: Axis | None) -> tuple[Axis, NDArray[np.int64]]:
    """The axis of an id column (or the given one), and the position of each id on it."""
    array = as_ids(ids)
    if axis is None:
        try:
            return Axis.from_values(array)
        except ValueError as error:  # which column it was is known only here
            raise ValueError(f"{argument}: {error}") from None
    positions = axis.positions(array, unknown="prior")
    if (positions < 0).any():
        raise unknown_ids(argument, array[positions < 0], f"remove them, or extend the {argument}s= axis")
    return axis, positions
