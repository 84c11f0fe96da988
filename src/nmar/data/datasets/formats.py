"""The formats that the data sets come in, one parser each.

Enters: an open file. Leaves: :class:`Triplets`: ids, values and, where the file has them, times. No data set is known
here by name. A file in another format is a ValueError that says why.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.tables import arrow, arrow_array, parse_csv

__all__ = [
    "Parser",
    "Triplets",
    "blocks",
    "fields",
    "grid",
    "json_lines",
    "matrix",
    "movies",
    "records",
    "sheet",
    "table",
]


class Triplets(NamedTuple):
    """One entry per observed cell."""

    row: Array  # Ids and values
    col: Array
    value: Array
    time: Array | None = None  # anything that sorts: which of several is the latest
    # number of rows of a file that has no ids but counts them; those of the next file go on from there
    counted: int = 0

    @classmethod
    def join(cls, parts: list[Triplets]) -> Triplets:
        """Those of several files."""
        before = np.cumsum([0, *(part.counted for part in parts)])
        rows = [part.row + n if part.counted else part.row for part, n in zip(parts, before, strict=False)]
        col, value = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        times = [part.time for part in parts if part.time is not None]
        return cls(np.concatenate(rows), col, value, np.concatenate(times) if times else None, int(before[-1]))


Parser = Callable[[IO[bytes]], Triplets]
Record = dict[str, Any]


def table(
    stream: IO[bytes], separator: str, columns: tuple[str, ...] | tuple[int, ...], text_ids: bool = False
) -> Triplets:
    """A line per cell: row id, column id, value and perhaps time stand in these columns, by name or by place."""
    pyarrow = arrow("reading data sets")
    named = isinstance(columns[0], str)
    names = [str(name) if named else f"f{name}" for name in columns]
    kind = pyarrow.string() if text_ids else pyarrow.int64()
    kinds = {names[0]: kind, names[1]: kind, names[2]: pyarrow.float64()}
    found = parse_csv(stream, separator, names, None if named else (), kinds, line_breaks=text_ids)
    row, col, value, *time = (arrow_array(found.column(name)) for name in names)
    return Triplets(row, col, value, time[0] if time else None)


def blocks(stream: IO[bytes]) -> Iterator[Record]:
    """Records that are blocks of lines "field: text", an empty line between them."""
    record: Record = {}
    for line in io.TextIOWrapper(stream, "latin-1"):
        name, _, text = line.strip().partition(": ")
        if name:
            record.setdefault(name, text)
        elif record:
            yield record
            record = {}
    if record:
        yield record


def json_lines(stream: IO[bytes]) -> Iterator[Record]:
    """Records that are JSON objects, one per line."""
    return (json.loads(line) for line in stream if line.strip())


def records(
    stream: IO[bytes], read: Callable[[IO[bytes]], Iterable[Record]], entries: Callable[[Record], Iterable[Any]]
) -> Triplets:
    """Records of named fields; ``entries`` takes row, column, value and time out of each, any number of times."""
    found: list[Any] = []
    for number, record in enumerate(read(stream), 1):
        try:
            found += entries(record)
        except (KeyError, TypeError) as error:
            raise ValueError(f"record {number}: {type(error).__name__} {error}") from None
    if not found:
        raise ValueError("it has no entry")
    row, col, value, time = (np.array([str(one) for one in part], object) for part in zip(*found, strict=True))
    return Triplets(row, col, value.astype(np.float64), _times(time))


def _times(texts: Array) -> Array:
    """Numbers where all are, so that seconds since 1970 of different lengths sort; dates sort as they are written."""
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts.astype(str)


def movies(stream: IO[bytes]) -> Triplets:
    """Sections that begin with "column:" and list "row,value,date", in one file or many."""
    text = stream.read()
    heads = list(re.finditer(rb"^(\d+):[ \r]*$", text, re.MULTILINE))
    if not heads or text[: heads[0].start()].strip():
        raise ValueError("it does not begin with a line such as '1:'")
    ends = [head.start() for head in heads[1:]] + [len(text)]
    kinds = [("row", np.int64), ("value", np.float64)]
    parts = []
    for head, end in zip(heads, ends, strict=True):
        if lines := text[head.end() : end].split():
            found = np.loadtxt(lines, kinds, delimiter=",", usecols=(0, 1), ndmin=1, encoding="latin-1")
            parts.append(Triplets(found["row"], np.full(len(found), int(head.group(1))), found["value"]))
    return Triplets.join(parts)


def matrix(stream: IO[bytes], name: str, skip: int) -> Triplets:
    """A matrix whose first line names its columns; cells that are not positive are missing.

    Parameters
    ----------
    stream : file-like
        Text with tabs between columns.
    name : str
        Header of the column with the row names.
    skip : int
        Columns before the first value.
    """
    labels = stream.readline().decode("utf-8-sig").rstrip("\r\n").split("\t")
    cols = labels[skip:]
    kinds = dict.fromkeys(cols, arrow("reading data sets").float64())
    found = parse_csv(stream, "\t", [name, *cols], labels, kinds)
    values = np.stack([arrow_array(found.column(col)) for col in cols], axis=1)
    row, col = np.nonzero(values > 0.0)
    return Triplets(arrow_array(found.column(name))[row], np.array(cols, object)[col], values[row, col])


def grid(stream: Any, missing: float, separator: str | None = None, skip: int = 0, first: int = 0) -> Triplets:
    """A matrix of numbers without names: rows and columns are counted; one number stands for a missing cell.

    Parameters
    ----------
    stream : file-like or ndarray
        Text, or the numbers themselves.
    missing : float
        The number of a missing cell.
    separator : str or None
        Between numbers; None: white space.
    skip : int
        Columns before the first value (a count of the ratings of a row, say).
    first : int
        Number of the first row and column.
    """
    found = stream if isinstance(stream, np.ndarray) else np.loadtxt(stream, delimiter=separator, ndmin=2)
    values = found[:, skip:]
    row, col = np.nonzero(values != missing)
    return Triplets(row + first, col + first, values[row, col], counted=len(values))


def sheet(stream: IO[bytes], **settings: Any) -> Triplets:
    """A grid that is the first sheet of an Excel file of the old kind."""
    try:
        import xlrd
    except ImportError:
        raise ImportError("reading .xls needs xlrd: pip install xlrd (or save the sheet as csv)") from None
    found = xlrd.open_workbook(file_contents=stream.read()).sheet_by_index(0)
    return grid(np.array([found.row_values(place) for place in range(found.nrows)], np.float64), **settings)


def fields(*names: str) -> Callable[[Record], Iterable[Any]]:
    """One entry per record, made of these fields."""
    return lambda record: (tuple(record[name] for name in names),)
