"""Parquet files become pieces: some row groups each, ids numbered, cells by rows; the one pass over the source.

Every piece numbers its own ids, sorted, so that pieces know nothing of each other: they can be made in any order, by
several threads, and a build that was broken off goes on with those that are not there yet. Because each piece is sorted
by its ids, the cells of a range of rows are a range of every piece.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.data import build
from nmar.data.axis import Axis
from nmar.data.compact import compact
from nmar.data.compressed import index_dtype
from nmar.data.manifest import pack_axis, read_axis
from nmar.data.storage import Storage, as_array, filesystem, is_remote, version_of
from nmar.data.tables import Wanted, arrow_array, coded, named_parquet, parquet_library

PIECE = 1 << 21  # lines of the source in one piece, about: what one thread holds in memory
FOLDER = "_build"  # where pieces lie until the shards are made of them


@dataclass(frozen=True)
class Piece:
    """Some row groups of a Parquet file."""

    number: int
    file: str
    groups: tuple[int, ...]
    lines: int

    def name(self, kind: str) -> str:
        """A file of the piece."""
        return f"{FOLDER}/{self.number:06d}.{kind}"


@dataclass(frozen=True)
class Source:
    """Where the cells come from."""

    pieces: tuple[Piece, ...]  # pieces of all files, in order
    columns: tuple[str, ...]  # names of the row, column and value columns and, where there is one, of the weights
    # names, lengths, times and columns of the files, by which a build that goes on knows them again
    identity: dict[str, Any]
    options: tuple[tuple[str, Any], ...] = ()


def open_parquet(path: str, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    """A Parquet file, of which nothing but the description is read yet."""
    source = filesystem(path, options).open(path, "rb") if is_remote(path) else path
    with named_parquet(path):
        return parquet_library("reading").ParquetFile(source)


def plan(files: Sequence[str], wanted: Wanted, options: tuple[tuple[str, Any], ...] = ()) -> Source:
    """Cut files into pieces of about ``PIECE`` lines; a row group is never cut."""
    pieces: list[Piece] = []
    first: tuple[tuple[str, ...], list[str]] | None = None
    told = []
    parquet_library("reading")
    for file in files:
        with open_parquet(file, options) as parquet:
            schema, meta = parquet.schema_arrow, parquet.metadata
            names = wanted.names(schema.names, file)  # type: ignore[arg-type]
            kinds = [str(schema.field(name).type) for name in names]
            if first is None:
                first = names, kinds
            elif first != (names, kinds):
                raise ValueError(
                    f"path={file!r} has columns {dict(zip(names, kinds, strict=True))}, but {files[0]!r} has"
                    f" {dict(zip(*first, strict=True))}; give files of one kind"
                )
            sizes = [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]
        told.append([file, sizes, version_of(file, options)])
        pieces += _cut(file, sizes)
    if first is None or not any(piece.lines for piece in pieces):
        raise ValueError("the source has no lines (empty input); at least one observed cell is needed")
    numbered = tuple(replace(piece, number=number) for number, piece in enumerate(pieces))
    return Source(numbered, first[0], {"files": told, "columns": list(first[0])}, options)


def _cut(file: str, sizes: list[int]) -> list[Piece]:
    """Pieces of one file, not numbered yet; row groups without lines are left out."""
    made: list[Piece] = []
    groups: list[int] = []
    lines = 0
    for group, size in enumerate(sizes):
        if groups and lines + size > PIECE:
            made.append(Piece(0, file, tuple(groups), lines))
            groups, lines = [], 0
        if size:
            groups.append(group)
            lines += size
    return [*made, Piece(0, file, tuple(groups), lines)] if groups else made


def make_piece(source: Source, piece: Piece, storage: Storage) -> None:
    """Read one piece and write it, sorted by its rows; the description comes last, so that half a piece is none."""
    if storage.exists(piece.name("json")):
        return
    with open_parquet(piece.file, source.options) as parquet:
        table = parquet.read_row_groups(list(piece.groups), columns=list(source.columns), use_threads=False)
    where = f"{piece.file!r}, row groups {piece.groups[0]} to {piece.groups[-1]}"
    try:
        (rows, row), (cols, col) = (_numbered(table.column(name)) for name in source.columns[:2])
        values = compact(build.as_values(arrow_array(table.column(source.columns[2])), source.columns[2]))
        weights = [build.as_weights(arrow_array(table.column(name)), name) for name in source.columns[3:]]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    order, indptr = by_lines(row, len(rows))
    storage.write(piece.name("rows"), pack_axis(rows))
    storage.write(piece.name("cols"), pack_axis(cols))
    storage.write(piece.name("counts"), np.bincount(col, minlength=len(cols)))
    storage.write(piece.name("indptr"), indptr)
    storage.write(piece.name("col"), col[order])
    storage.write(piece.name("values"), values[order])
    for weight in weights:
        storage.write(piece.name("weights"), weight[order])
    storage.write(piece.name("json"), json.dumps({"values": values.dtype.str, "lines": len(values)}).encode())


def _numbered(column: Any) -> tuple[Axis, Array]:
    """The distinct ids of a column, sorted, and the number of each line's id."""
    if column.null_count:
        raise ValueError(f"ids: {column.null_count} missing; drop or name those entries")
    distinct, codes = coded(column)
    axis, rank = Axis.from_values(distinct.to_numpy(zero_copy_only=False))
    return axis, rank.astype(np.int32)[codes.to_numpy()]


def by_lines(major: Array, count: int) -> tuple[Array, NDArray[np.int64]]:
    """The order that sorts cells by line, as they came within one, and where each line begins."""
    order = np.argsort((major & 0xFFFF).astype(np.uint16), kind="stable")  # two radix sorts, far faster than one sort
    if count > 1 << 16:
        order = order[np.argsort((major >> 16).astype(np.uint16)[order], kind="stable")]
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(major, minlength=count), out=indptr[1:])
    return order, indptr


@dataclass(frozen=True, eq=False)
class Placed:
    """A piece whose ids have their places on the axes of all cells."""

    piece: Piece
    values: str  # Dtypes of the values, and of the places of the columns
    columns: np.dtype[Any]
    cells: NDArray[np.int64]  # (shards + 1) where the cells of each shard of rows begin in the piece
    lines: NDArray[np.int64]  # (shards + 1) the same for its rows

    def cells_of(self, storage: Storage, shard: int, weighted: bool) -> tuple[Array, Array, Array, Array]:
        """Row, column, value and weight (or nothing) of the cells of one shard of rows."""
        start, stop = int(self.cells[shard]), int(self.cells[shard + 1])
        first, last = int(self.lines[shard]), int(self.lines[shard + 1])

        def read(kind: str, dtype: Any, begin: int, end: int) -> Array:
            size = np.dtype(dtype).itemsize
            return as_array(storage.read(self.piece.name(kind), begin * size, end * size), dtype)

        places = read("rowmap", np.int64, first, last)
        row = np.repeat(places, np.diff(read("indptr", np.int64, first, last + 1)))
        weights = read("weights", np.float64, start, stop) if weighted else np.empty(0)
        return row, read("placed", self.columns, start, stop), read("values", self.values, start, stop), weights


def join_axes(pieces: Sequence[Piece], storage: Storage, kind: str) -> Axis:
    """The ids of all pieces, sorted."""
    held: list[Array] = []
    for piece in pieces:
        held.append(read_axis(storage, piece.name(kind)).ids)
        if sum(map(len, held)) > 4 * PIECE:
            held = [_distinct(held)]
    return Axis.from_values(_distinct(held))[0]


def _distinct(held: list[Array]) -> Array:
    """The distinct ids of several axes, sorted."""
    if {array.dtype for array in held} == {np.dtype(np.int64), np.dtype(np.uint64)}:
        held = [array.astype(np.uint64) for array in held]  # NumPy would make floats of both, which do not hold them
    return Axis.from_values(np.concatenate(held))[0].ids


def place(piece: Piece, storage: Storage, rows: Axis, cols: Axis) -> tuple[Array, Array, Array, Array]:
    """Write where a piece's rows and the columns of its cells lie on the axes.

    Leaves the places of its ids and the number of cells of each, rows then columns.
    """
    row_map = rows.positions(read_axis(storage, piece.name("rows")).ids)
    col_map = cols.positions(read_axis(storage, piece.name("cols")).ids)
    storage.write(piece.name("rowmap"), row_map)
    columns = as_array(storage.read(piece.name("col")), np.int32)
    storage.write(piece.name("placed"), col_map.astype(index_dtype(len(cols)))[columns])
    degree = np.diff(as_array(storage.read(piece.name("indptr")), np.int64))
    return row_map, degree, col_map, as_array(storage.read(piece.name("counts")), np.int64)


def placed(piece: Piece, storage: Storage, bounds: NDArray[np.int64], cols: Axis) -> Placed:
    """Where the shards of rows, which begin at ``bounds``, begin in a piece."""
    described = json.loads(storage.read(piece.name("json")).decode())
    row_map = as_array(storage.read(piece.name("rowmap")), np.int64)
    indptr = as_array(storage.read(piece.name("indptr")), np.int64)
    lines = np.searchsorted(row_map, bounds).astype(np.int64)
    return Placed(piece, described["values"], np.dtype(index_dtype(len(cols))), indptr[lines], lines)
