"""The formats that the data sets come in, one parser each.

Enters: open files. Leaves: :class:`Triplets`: ids, values and, where the file tells, times. Nothing is known here of
any data set by name.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.datasets.archive import Member

__all__ = ["Blocks", "Grid", "JsonLines", "Matrix", "Movies", "Parser", "Quoted", "Table", "Triplets"]


class Triplets(NamedTuple):
    """One entry per observed cell.

    Attributes
    ----------
    row, col, value : ndarray
        Ids and values.
    time : ndarray or None
        Anything that sorts: which of several is the latest.
    counted : int
        Rows of a file that has no ids but counts them; those of the next file go on from there.
    """

    row: Array
    col: Array
    value: Array
    time: Array | None = None
    counted: int = 0

    @classmethod
    def join(cls, parts: list[Triplets]) -> Triplets:
        """Those of several files."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(part.counted for part in parts)])
        row = np.concatenate(
            [part.row + n if part.counted else part.row for part, n in zip(parts, before, strict=False)]
        )
        col, value = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        times = [part.time for part in parts if part.time is not None]
        return cls(row, col, value, np.concatenate(times) if len(times) == len(parts) else None, int(before[-1]))


Parser = Callable[[Member], Triplets]


def _fails(member: Member, why: object) -> ValueError:
    return ValueError(f"{member.where!r} is not in the format that was expected: {why}")


@dataclass(frozen=True)
class Table:
    """Lines of numbers: row id, column id and value stand in three of the columns.

    Attributes
    ----------
    separator : str or None
        Between columns; None: white space.
    columns : tuple of (str, str, str) or tuple of (int, int, int)
        Names in the header, or places where there is no header.
    """

    separator: str | None = None
    columns: tuple[str, str, str] | tuple[int, int, int] = (0, 1, 2)

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        places = self._places(member)
        kinds = [("row", np.int64), ("col", np.int64), ("value", np.float64)]
        lines: Iterable[bytes] = member.stream
        separator = self.separator
        if separator is not None and len(separator) > 1:  # NumPy takes one character
            long, separator = separator.encode(), "\t"
            lines = (line.replace(long, b"\t") for line in member.stream)
        try:
            found = np.loadtxt(lines, kinds, delimiter=separator, usecols=places, comments=None, ndmin=1,
                               encoding="latin-1")  # fmt: skip
        except ValueError as error:
            raise _fails(member, error) from None
        return Triplets(found["row"], found["col"], found["value"])

    def _places(self, member: Member) -> tuple[int, ...]:
        """Where the columns are; reads the header, if there is one."""
        if isinstance(self.columns[0], int):
            return tuple(int(place) for place in self.columns)
        header = member.stream.readline().decode("utf-8-sig").strip().split(self.separator)
        absent = [name for name in self.columns if name not in header]
        if absent:
            raise _fails(member, f"no column {absent[0]!r} in its header {header}")
        return tuple(header.index(str(name)) for name in self.columns)


@dataclass(frozen=True)
class Quoted:
    """A csv file with a header whose ids are texts and whose fields may be quoted and span lines."""

    row: str
    col: str
    value: str
    time: str

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        names = (self.row, self.col, self.value, self.time)
        with io.TextIOWrapper(member.stream, "utf-8", errors="replace", newline="") as text:
            lines = csv.DictReader(text)
            try:
                found = [tuple(line[name] for name in names) for line in lines]
            except KeyError as error:
                raise _fails(member, f"no column {error} in its header {lines.fieldnames}") from None
        return _texts(member, found)


@dataclass(frozen=True)
class Blocks:
    """Blocks of lines "field: text", an empty line between them."""

    row: str
    col: str
    value: str
    time: str

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        found, fields = [], (self.row, self.col, self.value, self.time)
        begins = {f"{field}: ".encode("latin-1"): field for field in fields}
        block: dict[str, str] = {}
        for line in member.stream:
            name = next((begin for begin in begins if line.startswith(begin)), None)
            if name is not None:
                block[begins[name]] = line[len(name) :].decode("latin-1").strip()
            elif not line.strip() and block:
                found.append(self._entry(member, block, fields))
                block = {}
        if block:
            found.append(self._entry(member, block, fields))
        return _texts(member, found)

    @staticmethod
    def _entry(member: Member, block: dict[str, str], fields: tuple[str, ...]) -> tuple[str, ...]:
        absent = [field for field in fields if field not in block]
        if absent:
            raise _fails(member, f"a block has no field {absent[0]!r}")
        return tuple(block[field] for field in fields)


@dataclass(frozen=True)
class Movies:
    """Sections that begin with "column:" and list "row,value,date", in one file or many."""

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        text = member.stream.read()
        heads = list(re.finditer(rb"^(\d+):[ \r]*$", text, re.MULTILINE))
        if not heads or text[: heads[0].start()].strip():
            raise _fails(member, "it does not begin with a line such as '1:'")
        ends = [head.start() for head in heads[1:]] + [len(text)]
        parts = [self._section(member, head, text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
        return Triplets.join(parts)

    @staticmethod
    def _section(member: Member, head: re.Match[bytes], body: bytes) -> Triplets:
        lines = body.split()
        kinds = [("row", np.int64), ("value", np.float64)]
        if not lines:
            found = np.empty(0, kinds)
        else:
            try:
                found = np.loadtxt(lines, kinds, delimiter=",", usecols=(0, 1), ndmin=1, encoding="latin-1")
            except ValueError as error:
                raise _fails(member, f"under {head.group().decode()!r}: {error}") from None
        return Triplets(found["row"], np.full(len(found), int(head.group(1))), found["value"])


@dataclass(frozen=True)
class JsonLines:
    """A JSON object per line; ``entries`` takes row, column, value and time out of it, any number of times.

    Cells that occur more than once are counted by the caller.
    """

    entries: Callable[[dict[str, Any]], Iterable[tuple[Any, Any, Any, Any]]]

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        return _texts(member, list(self._all(member)))

    def _all(self, member: Member) -> Iterator[tuple[str, ...]]:
        for number, line in enumerate(member.stream, 1):
            if not line.strip():
                continue
            try:
                for row, col, value, time in self.entries(json.loads(line)):
                    yield str(row), str(col), str(value), str(time)
            except (ValueError, KeyError, TypeError) as error:
                raise _fails(member, f"line {number}: {type(error).__name__} {error}") from None


@dataclass(frozen=True)
class Matrix:
    """A matrix with names of columns in its first line and names of rows in a column; cells that are not positive
    are missing.

    Attributes
    ----------
    name : str
        Header of the column with the row names.
    skip : int
        Columns before the first value.
    """

    name: str
    skip: int

    def __call__(self, member: Member) -> Triplets:
        """Parse a file."""
        header = member.stream.readline().decode("utf-8-sig").rstrip("\r\n").split("\t")
        if self.name not in header[: self.skip]:
            raise _fails(member, f"no column {self.name!r} among the first {self.skip} of its header")
        place, cols = header.index(self.name), np.array(header[self.skip :], object)
        rows, values, found = [], [], []
        for number, line in enumerate(member.stream):
            fields = line.decode().rstrip("\r\n").split("\t")
            if len(fields) != len(header):
                raise _fails(member, f"line {number + 2} has {len(fields)} fields, its header {len(header)}")
            rows.append(fields[place])
            try:
                numbers = np.array(fields[self.skip :], np.float64)
            except ValueError as error:
                raise _fails(member, f"line {number + 2}: {error}") from None
            kept = np.flatnonzero(numbers > 0.0)
            values.append(numbers[kept])
            found.append(kept)
        if not rows:
            raise _fails(member, "it has a header and nothing else")
        counts = [len(kept) for kept in found]
        row = np.repeat(np.array(rows, object), counts)
        return Triplets(row, cols[np.concatenate(found)], np.concatenate(values))


@dataclass(frozen=True)
class Grid:
    """A matrix of numbers without names: rows and columns are counted; one number stands for a missing cell.

    Attributes
    ----------
    missing : float
        That number.
    separator : str or None
        Between numbers; None: white space.
    skip : int
        Columns before the first value (a count of the ratings of a row, say).
    first : int
        Number of the first row and column.
    """

    missing: float
    separator: str | None = None
    skip: int = 0
    first: int = 0

    def __call__(self, member: Member) -> Triplets:
        """Parse a file; an Excel sheet needs xlrd."""
        try:
            sheet = _sheet(member.stream) if member.name.lower().endswith(".xls") else None
            found = sheet if sheet is not None else np.loadtxt(member.stream, delimiter=self.separator, ndmin=2)
        except ValueError as error:
            raise _fails(member, error) from None
        values = np.asarray(found, np.float64)[:, self.skip :]
        row, col = np.nonzero(values != self.missing)
        return Triplets(row + self.first, col + self.first, values[row, col], counted=len(values))


def _sheet(stream: IO[bytes]) -> Array:
    """The first sheet of an Excel file of the old kind."""
    try:
        import xlrd
    except ImportError:
        raise ImportError("reading .xls needs xlrd: pip install xlrd (or save the sheet as csv)") from None
    sheet = xlrd.open_workbook(file_contents=stream.read()).sheet_by_index(0)
    return np.array([sheet.row_values(place) for place in range(sheet.nrows)], np.float64)


def _texts(member: Member, found: list[tuple[str, ...]]) -> Triplets:
    """Triplets from texts: row, column, value and time of each cell."""
    if not found:
        raise _fails(member, "no entry was found")
    row, col, value, time = (np.array(part, object) for part in zip(*found, strict=True))
    try:
        return Triplets(row, col, value.astype(np.float64), _times(time))
    except ValueError as error:
        raise _fails(member, error) from None


def _times(texts: Array) -> Array:
    """Numbers where all are, so that seconds since 1970 of different lengths sort; dates sort as they are written."""
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts.astype(str)
