"""Matrices as other libraries hold them.

Enters: wide frames (pandas, polars, pyarrow), AnnData, torch tensors, scipy sparse matrices, arrays. Leaves: numbers,
with NaN or nothing stored where a cell is missing, and the ids of rows and columns where the library has them. Nothing
is imported here that the user has not imported already: objects are recognised by the module of their class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.ids import not_a_number
from nmar.data.usual import is_index, shortened, usual_cells, usual_pair

ACCEPTED = (
    "nmar.Cells, a table (pandas, polars, pyarrow) with a line for each row of the matrix or with the columns row, col"
    " and value, AnnData, a torch tensor, a scipy sparse matrix, or an array with NaN where missing"
)
BY_NAME = "nmar.Cells.from_frame(df, row={}, col={}, value={})"


@dataclass(frozen=True, eq=False)
class Matrix:
    """Numbers, and the ids of the two sides where there are some."""

    numbers: Any  # array, NaN where missing, or scipy sparse matrix that stores what is observed
    rows: Axis | None = None  # Ids, where the matrix has some
    cols: Axis | None = None


def library(X: Any) -> str:
    """The library that an object comes from, by name."""
    for base in type(X).__mro__:
        name = base.__module__.partition(".")[0]
        if name in ("pandas", "polars", "pyarrow", "anndata", "torch"):
            return str(name)
    return ""


def is_frame(X: Any) -> bool:
    """Whether this is a table with named columns."""
    return library(X) in ("pandas", "polars", "pyarrow") and (hasattr(X, "columns") or hasattr(X, "column_names"))


def long_columns(X: Any) -> tuple[Any, Any, Any] | None:
    """Columns of row ids, column ids and values of a table with one line per cell, by their names; else None."""
    return usual_cells(column_names(X)) if is_frame(X) else None


def is_long(X: Any) -> bool:
    """Whether this is a table with one line per cell, recognised by the names of its columns."""
    return long_columns(X) is not None


def matrix_of(X: Any, argument: str = "X") -> Matrix:
    """What a user passed as a matrix."""
    kind = library(X)
    if is_frame(X):
        _refuse_pairs(X, argument)
        return wide(X, argument=argument)
    if kind == "anndata":
        return of_anndata(X)
    if kind == "torch":
        return Matrix(of_torch(X))
    if sparse.issparse(X) or isinstance(X, np.ndarray):
        return Matrix(X)
    raise TypeError(f"{argument} is a {type(X).__name__}; pass {ACCEPTED}")


# --- frames -------------------------------------------------------------------------------------------------


def column_names(frame: Any) -> list[Any]:
    """Names of the columns."""
    return list(frame.column_names if library(frame) == "pyarrow" else _eager(frame).columns)


def _eager(frame: Any) -> Any:
    """A lazy polars frame with its content."""
    return frame.collect() if type(frame).__name__ == "LazyFrame" else frame


def _refuse_pairs(frame: Any, argument: str) -> None:
    """Raise where a table that would be read as a matrix has one line per cell, by all that can be seen.

    It has columns of row and of column ids by name, or it has three columns without a missing cell, the first two of
    them whole numbers that occur again while pairs of them do not.
    """
    names = column_names(frame)
    pair = usual_pair(names)
    if pair is None and not (len(names) == 3 and _are_pairs(_eager(frame), names)):
        return
    row, col = pair or names[:2]
    value = "…" if pair else repr(names[2])
    raise ValueError(
        f"{argument} has columns {shortened(names)}, as a table with one line per cell has; name them:"
        f" {BY_NAME.format(repr(row), repr(col), value)}, or nmar.Cells.from_wide(df) if each line is a row of a matrix"
    )


def _are_pairs(frame: Any, names: list[Any]) -> bool:
    """Whether two columns of whole numbers look like the ids of cells, whose values are the third."""
    columns = [np.asarray(frame[name]) for name in names]
    if any(column.dtype.kind not in "iuf" for column in columns):
        return False
    row, col, value = columns
    if len(value) < 3 or not all(np.all(np.isfinite(column)) for column in columns):
        return False
    if any(np.any(ids != np.floor(ids)) or np.any(ids < 0) for ids in (row, col)):
        return False
    again = all(len(np.unique(ids)) < len(ids) for ids in (row, col))
    return again and len(np.unique(np.stack([row, col]), axis=1).T) == len(value)


def wide(frame: Any, index: str | None = None, argument: str = "df") -> Matrix:
    """A table with one line for each row of the matrix and one column for each of its columns.

    Row ids are those of the column ``index``, else of a pandas index, else positions.
    """
    frame = _eager(frame)
    names = column_names(frame)
    if index is not None and index not in names:
        raise ValueError(f"index={index!r} is not a column; available: {shortened(names)}")
    columns = [name for name in names if name != index]
    numbers = np.empty((len(frame), len(columns)))
    for place, name in enumerate(columns):
        numbers[:, place] = _numbers(frame[name], name, names, argument)
    rows, cols = None, _axis(columns, f"the columns of {argument}")
    if index is not None:
        rows = Axis.from_ids(np.asarray(frame[index])).called(None if is_index(index) else index)
    elif library(frame) == "pandas":
        rows = _axis(frame.index, f"the index of {argument}").called(frame.index.name)
    if library(frame) == "pandas":
        cols = cols.called(frame.columns.name)
    return Matrix(numbers, rows, cols)


def _numbers(column: Any, name: Any, names: list[Any], argument: str) -> NDArray[np.float64]:
    """A column as float64, nulls as NaN."""
    try:
        if library(column) == "pandas":
            found = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            found = column.to_numpy().astype(np.float64)
        if not any(kind in str(getattr(column, "dtype", getattr(column, "type", ""))).lower() for kind in _NOT_NUMBERS):
            return np.asarray(found)
    except (TypeError, ValueError):
        pass  # falls through to the error, which says what can be done
    entries = column.to_pylist() if library(column) == "pyarrow" else column.to_numpy().tolist()
    raise ValueError(
        f"{argument}: the column {name!r} does not hold numbers (e.g. {not_a_number(entries)!r}); columns are"
        f" {shortened(names)}. Of a table with one line per cell name the columns:"
        " nmar.Cells.from_frame(df, row=…, col=…, value=…); if the column holds the ids of the rows:"
        f" nmar.Cells.from_wide(df, index={name!r})"
    )


_NOT_NUMBERS = ("object", "str", "date", "time", "duration", "categor", "dictionary", "binary")


def _axis(ids: Any, what: str) -> Axis:
    try:
        return Axis.from_ids(ids)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def as_frame(columns: Any, doing: str) -> Any:
    """A pandas frame of columns by name, or of one dict for each line."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"{doing} needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns)


def rebuilt(X: Any, numbers: NDArray[np.float64], changed: NDArray[np.bool_], index: str | None = None) -> Any:
    """A copy of a table, an array or AnnData, with the columns of ``numbers`` that have a changed cell."""
    kind = library(X)
    if not is_frame(X):
        if kind != "anndata":
            return numbers
        found = X.copy()
        found.X = numbers
        return found
    found = X.copy() if kind == "pandas" else _eager(X)
    names = column_names(found)
    places = [place for place, name in enumerate(names) if name != index]
    for column in np.flatnonzero(changed.any(axis=0)):
        place, values = places[column], numbers[:, column].copy()
        if kind == "pandas":
            found.isetitem(place, values)
        elif kind == "polars":
            found = found.with_columns(type(found.to_series(place))(names[place], values))
        else:
            import pyarrow

            found = found.set_column(place, names[place], pyarrow.array(values))
    return found


# --- AnnData and torch ----------------------------------------------------------------------------------------


def of_anndata(adata: Any, layer: str | None = None) -> Matrix:
    """X or a layer, under the names of observations and variables."""
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"layer={layer!r} is no layer; available: {list(adata.layers)}")
    numbers = adata.X if layer is None else adata.layers[layer]
    if numbers is None:
        raise ValueError(f"adata has no X; name a layer: layer= one of {list(adata.layers)}")
    if not sparse.issparse(numbers):
        numbers = np.asarray(numbers)
    return Matrix(numbers, _axis(adata.obs_names, "obs_names"), _axis(adata.var_names, "var_names"))


def of_torch(tensor: Any) -> Any:
    """A dense array, or a coo array of what a sparse tensor stores."""
    tensor = tensor.detach().cpu()
    if tensor.ndim != 2:
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)}; pass a two-dimensional one")
    if not (tensor.is_sparse or str(tensor.layout) in ("torch.sparse_csr", "torch.sparse_csc")):
        return tensor.numpy()
    stored = tensor if tensor.is_sparse else tensor.to_sparse_coo()
    # not coalesced, which would add up the values of a cell that occurs twice
    places, values = stored._indices().numpy(), stored._values().numpy()
    return sparse.coo_array((values, (places[0], places[1])), shape=tuple(stored.shape))
