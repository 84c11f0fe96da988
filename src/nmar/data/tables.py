"""Tables on disk and their columns.

Enters: a path and the names of the columns wanted. Leaves: those columns as arrays (csv, tsv, parquet). pyarrow is
used where present; text needs only the standard library.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.usual import is_index, shortened, usual_cells

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
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
    try:
        import pyarrow
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise ImportError("reading .zst needs pyarrow: pip install 'nmar[io]'") from None
        return zstandard.open(file, mode)
    return io.BufferedReader(pyarrow.input_stream(str(file), compression="zstd"))


def read_text(file: Path, wanted: Wanted, separator: str, header: bool, text_ids: bool) -> tuple[Columns, Names]:
    """The wanted columns of a csv or tsv file, numbers where every entry is one, and their names.

    Ids that are one number in two spellings ("007", "7") are refused, unless ``text_ids`` keeps them as they are.
    """
    labels = _labels(file, wanted, separator, header)
    names = wanted.names(labels, f"path={str(file)!r}")
    texts = names[:2] if text_ids else ()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return _parse_plain(file, labels, names, separator, header, texts), names
    return _parse_arrow(file, labels, names, separator, header, texts), names


def _labels(file: Path, wanted: Wanted, separator: str, header: bool) -> list[str]:
    with open_bytes(file) as stream:
        first = stream.readline().decode("utf-8-sig").rstrip("\r\n")  # in here, for the error to name the file
    if not first.strip():
        raise ValueError(f"path={str(file)!r} is empty or begins with an empty line; begin with the column names")
    labels = next(csv.reader([first], delimiter=separator))
    if not header:
        return [str(place) for place in range(len(labels))]
    if not wanted.given() and all(_is_number(label) for label in labels):
        raise ValueError(
            f"path={str(file)!r}: the first line {first!r} looks like data, not like names; "
            "pass header=False, or name the columns with row=, col=, value="
        )
    if len(set(labels)) < len(labels):
        raise ValueError(f"path={str(file)!r}: the header {labels} repeats a name; rename one")
    return labels


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_spelling(file: Path, name: str, texts: Iterable[str], kind: type) -> None:
    """Refuse a column of ids if two of its texts are one number; spaces around it do not count."""
    spelled: dict[Any, str] = {}
    for text in texts:
        other = spelled.setdefault(kind(text), text.strip())
        if other != text.strip():
            raise ValueError(
                f"path={str(file)!r}: ids {other!r} and {text.strip()!r} of column {name!r} are one number; "
                "pass text_ids=True to keep them apart, or write them alike"
            )


def _parse_arrow(
    file: Path, labels: list[str], names: Names, separator: str, header: bool, texts: Sequence[str]
) -> Columns:
    import pyarrow
    from pyarrow import compute

    table = _read_arrow(file, labels, names, separator, header, texts)
    if table is None:
        return {name: np.empty(0) for name in names}
    if any(pyarrow.types.is_binary(kind) for kind in table.schema.types):
        raise _not_utf8(file)
    kinds = {name: table.schema.field(name).type for name in names[:2]}
    whole = tuple(name for name, kind in kinds.items() if pyarrow.types.is_integer(kind))
    broken = tuple(name for name, kind in kinds.items() if pyarrow.types.is_floating(kind))
    doubtful = broken + (whole if whole and _zeros_lead(file) else ())
    again: Any = _read_arrow(file, labels, doubtful, separator, header, doubtful) if doubtful else None
    for name in doubtful:
        written = compute.unique(again.column(name))
        if len(written) > len(compute.unique(table.column(name))):
            _check_spelling(file, name, written.drop_null().to_pylist(), int if name in whole else float)
    return arrow_columns(table, names)


def _zeros_lead(file: Path) -> bool:
    """Whether a zero begins a longer number anywhere in a text: without, whole numbers have one spelling each.

    Asked first, because it takes far less time than reading the columns once more as texts.
    """
    with open_bytes(file) as stream:
        last = b"\n"
        while block := stream.read(1 << 22):
            text = np.frombuffer(last + block, np.uint8)
            digit = (text >= ord("0")) & (text <= ord("9"))
            leads = (text[1:-1] == ord("0")) & digit[2:] & ~digit[:-2] & (text[:-2] != ord("."))
            if leads.any():
                return True
            last = (last + block)[-2:]
    return False


def _read_arrow(
    file: Path,
    labels: list[str],
    names: Names,
    separator: str,
    header: bool,
    texts: Sequence[str],
    broken: bool = False,
) -> Any:
    """An arrow table of the columns, those of ``texts`` as they are written; None if there is a header and no line.

    ``broken`` says that quoted texts may hold line breaks, which takes longer and is tried second.
    """
    import pyarrow
    from pyarrow import csv as arrow

    convert = arrow.ConvertOptions(
        include_columns=list(names),
        column_types={name: pyarrow.string() for name in texts},
        null_values=[""],  # an id may well be "NA" or "null"
        strings_can_be_null=True,
    )
    try:
        with open_bytes(file) as stream:
            return arrow.read_csv(
                stream,
                read_options=arrow.ReadOptions(column_names=labels, skip_rows=int(header)),
                parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=broken),
                convert_options=convert,
            )
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return None
        if "invalid UTF8" in str(error):
            raise _not_utf8(file) from None
        if not broken:
            return _read_arrow(file, labels, names, separator, header, texts, broken=True)
        raise ValueError(f"path={str(file)!r} is not a table separated by {separator!r}: {error}") from None


def arrow_columns(table: Any, names: Names) -> Columns:
    """Columns of an arrow table as arrays."""
    return {name: arrow_array(table.column(name)) for name in names}


def arrow_array(column: Any) -> NDArray[Any]:
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array: NDArray[Any] = column.to_numpy()
    return array


def _parse_plain(
    file: Path, labels: list[str], names: Names, separator: str, header: bool, texts: Sequence[str]
) -> Columns:
    """The same without pyarrow: slower, no further package."""
    places = [labels.index(name) for name in names]
    columns: list[list[str]] = [[] for _ in names]
    with open_bytes(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        lines = csv.reader(text, delimiter=separator)
        if header:
            next(lines)
        for line in lines:
            if not line:
                continue
            if len(line) != len(labels):
                raise ValueError(
                    f"path={str(file)!r} is not a table separated by {separator!r}: line {lines.line_num} "
                    f"has {len(line)} fields, expected {len(labels)}"
                )
            for column, place in zip(columns, places, strict=True):
                column.append(line[place])
    found = {name: infer(column, name in texts) for name, column in zip(names, columns, strict=True)}
    for name, column in zip(names[:2], columns, strict=False):
        if found[name].dtype != object:
            kind = int if found[name].dtype.kind == "i" else float
            _check_spelling(file, name, filter(None, dict.fromkeys(column)), kind)
    return found


def infer(column: list[str], as_text: bool) -> NDArray[Any]:
    """A column of text as whole numbers, numbers or texts, the first that fits."""
    for kind in () if as_text else (np.int64, np.float64):
        try:
            return np.array([kind(entry) if entry else np.nan for entry in column], dtype=kind)
        except (ValueError, OverflowError):  # not every entry is of this kind (a NaN is no integer)
            continue
    array = np.empty(len(column), dtype=object)
    array[:] = [entry or None for entry in column]
    return array


def read_parquet(file: Path, wanted: Wanted) -> tuple[Columns, Names]:
    """The wanted columns of a parquet file, and their names."""
    parquet = parquet_library("reading")
    import pyarrow

    try:
        available = parquet.read_schema(file).names
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"path={str(file)!r} is not a parquet file: {error}") from None
    names = wanted.names(available, f"path={str(file)!r}")
    table = parquet.read_table(file, columns=list(names))
    return arrow_columns(table, names), names


def read_columns(file: Path) -> Columns:
    """All columns of a parquet file."""
    table = parquet_library("reading").read_table(file)
    return {name: arrow_array(table.column(name)) for name in table.column_names}


def parquet_library(doing: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(f"{doing} parquet needs pyarrow: pip install 'nmar[io]'") from None
    return parquet
