"""Tables on disk and their columns, read by pyarrow.

Enters: a path and the names of the columns wanted. Leaves: those columns as arrays (csv, tsv, parquet), or the whole
of a wide table as an arrow table.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.ids import object_array
from nmar.data.usual import is_index, shortened, usual_cells

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
EMPTY = ("", "NA", "Na", "na", "NaN", "Nan", "nan", "NULL", "Null", "null", "None", "none")  # missing in wide tables
Columns = dict[str, NDArray[Any]]
Names = tuple[str, ...]  # row, col, value and, where there is one, weight


@dataclass(frozen=True)
class Wanted:
    """The columns that a user named; None leaves the choice to `names`."""

    row: str | None = None
    col: str | None = None
    value: str | None = None
    weight: str | None = None

    def given(self) -> dict[str, str]:
        """The columns that were named, by argument."""
        named = {"row": self.row, "col": self.col, "value": self.value, "weight": self.weight}
        return {argument: name for argument, name in named.items() if name is not None}

    def names(self, available: Sequence[str], where: str) -> Names:
        """The columns: those named, else those called row, col, value, else those of other usual names
        (nmar/data/usual.py), else the only ones they can be.

        Other columns are never guessed: of a table with more than three columns, or with one that has no name (as an
        index is written), those wanted have to be named. `where` is what errors call the table.
        """
        given = self.given()
        if len(available) < 3:
            raise ValueError(
                f"{where} has columns {shortened(available)}, but row, col and value are needed;"
                f" {_delimiter(available)}"
            )
        for argument, name in given.items():
            if name not in available:
                raise ValueError(f"{argument}={name!r} is not a column of {where}; available: {shortened(available)}")
        row, col, value = self._three(given, list(available), where)
        if len({row, col, value}) < 3:
            raise ValueError(f"row={row!r}, col={col!r}, value={value!r} name one column twice; name all three")
        if self.weight in (row, col, value):
            raise ValueError(f"weight={self.weight!r} is a column of ids or values already; name another")
        return (row, col, value) if self.weight is None else (row, col, value, self.weight)

    def _three(self, given: dict[str, str], available: list[str], where: str) -> list[str]:
        """Row, column and value; those not named are what is left, if that leaves no choice."""
        arguments = ("row", "col", "value")
        if set(arguments) <= set(available):
            return [given.get(argument, argument) for argument in arguments]
        usual = None if set(given) & set(arguments) else usual_cells(available)
        if usual is not None:
            return list(usual)
        missing = [argument for argument in arguments if argument not in given]
        left = [name for name in available if name not in given.values()]
        if len(missing) == len(left) == 1 and not is_index(left[0]):
            return [given.get(argument, left[0]) for argument in arguments]
        if missing and (len(available) > 3 or any(is_index(name) for name in available)):
            wanted = ", ".join(f"{argument}=" for argument in missing)
            raise ValueError(
                f"{where} has columns {shortened(available)}; which are meant is not clear: name them with {wanted}"
            )
        return [given.get(argument, name) for argument, name in zip(arguments, available, strict=False)]


def _delimiter(names: Sequence[str]) -> str:
    """What to do about a table with too few columns: another delimiter, where the header has one."""
    found = [mark for mark in (";", "\t", "|", ",") if any(mark in name for name in names)]
    return f"pass delimiter={found[0]!r}, by which its header is divided" if found else "check the delimiter"


@contextmanager
def open_bytes(file: Path) -> Iterator[IO[bytes]]:
    """The content of a file as bytes, decompressed according to its last ending.

    What is found wrong while it is read, damage or text that is not UTF-8, is an error that names the file.
    """
    openers: dict[str, Callable[..., Any]] = {
        ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": _open_zstandard,
    }  # fmt: skip
    ending = file.suffix.lower()
    try:
        with openers.get(ending, open)(file, "rb") as stream:
            yield stream
    except UnicodeDecodeError:
        raise _not_utf8(file) from None
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if ending not in openers:
            raise
        raise ValueError(
            f"path={str(file)!r} cannot be decompressed ({error}); it is damaged, incomplete or no {ending} file: "
            "fetch it again, or name it after what it is"
        ) from None


def _not_utf8(file: Path) -> ValueError:
    return ValueError(
        f"path={str(file)!r} is not UTF-8 text; convert it first (from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW)"
    )


def _open_zstandard(file: Path, mode: str) -> Any:
    return io.BufferedReader(arrow("reading .zst").input_stream(str(file), compression="zstd"))


def arrow(doing: str) -> Any:
    """The package pyarrow."""
    try:
        import pyarrow.compute
        import pyarrow.csv
    except ImportError:
        raise ImportError(f"{doing} needs pyarrow: pip install pyarrow") from None
    return pyarrow


# --- text -------------------------------------------------------------------------------------------------------


def read_text(file: Path, wanted: Wanted, separator: str, header: bool, text_ids: bool) -> tuple[Columns, Names]:
    """The wanted columns of a csv or tsv file and their names.

    Ids are numbers where all of them are, unless ``text_ids`` keeps them as they are written.
    """
    labels = _labels(file, separator, header)
    if header and not wanted.given() and all(_is_number(label) for label in labels):
        raise ValueError(
            f"path={str(file)!r}: the first line {separator.join(labels)!r} looks like data, not like names; "
            "pass header=False, or name the columns with row=, col=, value="
        )
    names = wanted.names(labels, f"path={str(file)!r}")
    table = _read_text(file, labels, names, separator, header, names[:2])
    ids = {name: _ids(file, name, table.column(name), text_ids) for name in names[:2]}
    return {**ids, **arrow_columns(table, names[2:])}, names


def read_wide_text(file: Path, index: str | None, separator: str, header: bool, text_ids: bool) -> tuple[Any, Any]:
    """A wide table as an arrow table, and the column of its row ids: ``index``, else a first one without numbers."""
    labels = _labels(file, separator, header)
    if len(labels) < 2:
        raise ValueError(f"path={str(file)!r} has one column, {labels[0]!r}; {_delimiter(labels)}")
    if index is not None and index not in labels:
        raise ValueError(f"index={index!r} is not a column of {str(file)!r}; available: {shortened(labels)}")
    if index is None and is_index(labels[0]):
        index = labels[0]
    table = _read_text(file, labels, labels, separator, header, () if index is None else (index,), EMPTY)
    if index is None and arrow("text").types.is_string(table.schema.types[0]):
        index = labels[0]
    elif index is not None:
        ids = _ids(file, index, table.column(index), text_ids)
        table = table.set_column(labels.index(index), index, arrow("text").array(ids))
    return table, index


def _labels(file: Path, separator: str, header: bool) -> list[str]:
    """Names of the columns, or their places where there is no header."""
    with open_bytes(file) as stream:
        first = stream.readline().decode("utf-8-sig").rstrip("\r\n")  # in here, for the error to name the file
    if not first.strip():
        raise ValueError(f"path={str(file)!r} is empty or begins with an empty line; begin with the column names")
    labels = next(csv.reader([first], delimiter=separator))
    if not header:
        return [str(place) for place in range(len(labels))]
    if len(set(labels)) < len(labels):
        raise ValueError(f"path={str(file)!r}: the header {labels} repeats a name; rename one")
    return labels


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_text(
    file: Path,
    labels: list[str],
    names: Sequence[str],
    separator: str,
    header: bool,
    ids: Sequence[str],
    empty: Sequence[str] = ("",),  # an id may well be "NA" or "null"
) -> Any:
    """An arrow table of the columns ``names``, those of ``ids`` as texts with a dictionary."""
    pyarrow = arrow("reading tables")
    kinds = {name: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) for name in ids}

    def parse(line_breaks: bool) -> Any:
        with open_bytes(file) as stream:
            return parse_csv(stream, separator, names, None if header else labels, kinds, empty, line_breaks)

    try:
        try:
            table = parse(False)
        except pyarrow.ArrowInvalid:
            table = parse(True)
    except pyarrow.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8(file) from None
        raise ValueError(f"path={str(file)!r} is not a table separated by {separator!r}: {error}") from None
    if any(pyarrow.types.is_binary(kind) for kind in table.schema.types):
        raise _not_utf8(file)
    return table


def parse_csv(
    stream: IO[bytes],
    separator: str,
    names: Sequence[str],
    labels: Sequence[str] | None = None,
    kinds: Mapping[str, Any] | None = None,
    empty: Sequence[str] = ("",),
    line_breaks: bool = False,
) -> Any:
    """Columns of a csv file as an arrow table.

    Parameters
    ----------
    stream : file-like
        Text as bytes.
    separator : str
        One character.
    names : sequence of str
        Columns to keep.
    labels : sequence of str or None, default=None
        Names of all columns. None: those in the first line. None at all: "f0", "f1" and so on.
    kinds : dict of str to DataType or None, default=None
        Types of columns that are not inferred.
    empty : sequence of str
        Texts that stand for a missing entry.
    line_breaks : bool, default=False
        Whether quoted texts may hold line breaks, which takes longer.
    """
    table = arrow("reading tables").csv
    return table.read_csv(
        stream,
        read_options=table.ReadOptions(column_names=labels, autogenerate_column_names=labels == ()),
        parse_options=table.ParseOptions(delimiter=separator, newlines_in_values=line_breaks),
        convert_options=table.ConvertOptions(
            include_columns=list(names), column_types=kinds, null_values=list(empty), strings_can_be_null=True
        ),
    )


def _ids(file: Path, name: str, column: Any, as_written: bool) -> NDArray[Any]:
    """A column of texts as whole numbers, numbers or texts, the first that fits all; None where there is none."""
    distinct, codes = coded(column)
    numbers = None if as_written else _as_numbers(file, name, distinct)
    ids = object_array(distinct.to_pylist()) if numbers is None else numbers
    if codes.null_count:
        ids, codes = np.append(ids.astype(object), np.array([None])), codes.fill_null(len(ids))
    return ids[codes.to_numpy()]


def coded(column: Any) -> tuple[Any, Any]:
    """The distinct entries of an arrow column, and the number of each entry among them."""
    pyarrow = arrow("reading tables")
    encoded = column if pyarrow.types.is_dictionary(column.type) else column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pyarrow.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded.dictionary, encoded.indices


def _as_numbers(file: Path, name: str, texts: Any) -> NDArray[Any] | None:
    """Distinct texts as numbers, None unless all are; two spellings of one number ("007", "7") are refused."""
    pyarrow = arrow("reading tables")
    texts = pyarrow.compute.utf8_trim_whitespace(texts)
    for kind in (pyarrow.int64(), pyarrow.float64()):
        try:
            numbers: NDArray[Any] = texts.cast(kind).to_numpy()
        except pyarrow.ArrowInvalid:
            continue
        if len(np.unique(numbers)) < len(pyarrow.compute.unique(texts)):
            _refuse_spellings(file, name, texts.to_pylist(), numbers.tolist())
        return numbers
    return None


def _refuse_spellings(file: Path, name: str, texts: list[str], numbers: list[Any]) -> None:
    spelled: dict[Any, str] = {}
    for text, number in zip(texts, numbers, strict=True):
        if spelled.setdefault(number, text) != text:
            raise ValueError(
                f"path={str(file)!r}: ids {spelled[number]!r} and {text!r} of column {name!r} are one number; "
                "pass text_ids=True to keep them apart, or write them alike"
            )


# --- arrow ------------------------------------------------------------------------------------------------------


def arrow_columns(table: Any, names: Sequence[str]) -> Columns:
    """Columns of an arrow table as arrays."""
    return {name: arrow_array(table.column(name)) for name in names}


def arrow_array(column: Any) -> NDArray[Any]:
    """A column as an array."""
    if arrow("reading tables").types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array: NDArray[Any] = column.to_numpy()
    return array


def parquet_library(doing: str) -> Any:
    """The module pyarrow.parquet."""
    arrow(f"{doing} parquet")
    from pyarrow import parquet

    return parquet


def read_parquet(file: Path, wanted: Wanted) -> tuple[Columns, Names]:
    """The wanted columns of a parquet file, and their names."""
    parquet = parquet_library("reading")
    with named_parquet(file):
        names = wanted.names(parquet.read_schema(file).names, f"path={str(file)!r}")
        table = parquet.read_table(file, columns=list(names))
    return arrow_columns(table, names), names


@contextmanager
def named_parquet(file: Path | str) -> Iterator[None]:
    """What pyarrow finds wrong with a file is an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (arrow("reading parquet").ArrowException, OSError) as error:
        raise ValueError(f"path={str(file)!r} is not a parquet file, or a damaged one: {error}") from None


def read_wide_parquet(file: Path, index: str | None) -> tuple[Any, Any]:
    """A wide table as an arrow table, and the column of its row ids: ``index``, else a pandas index."""
    with named_parquet(file):
        table = parquet_library("reading").read_table(file)
    return table, index or next((name for name in table.column_names if is_index(name)), None)
