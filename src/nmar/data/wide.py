"""Wide tables on disk: one line for each row of the matrix, one column for each of its columns.

Enters: a path, csv, tsv, txt (also compressed) or parquet. Leaves: numbers with NaN where a cell is empty, and the ids.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from nmar.data import outside
from nmar.data.axis import Axis
from nmar.data.tables import infer, open_bytes, parquet_library
from nmar.data.usual import is_index, shortened

EMPTY = frozenset(("", "na", "nan", "null", "none"))  # a cell that is missing, in small letters


def read_wide_parquet(file: Path, index: str | None) -> outside.Matrix:
    """A parquet file; row ids are those of the column ``index``, else of a pandas index, else positions."""
    table = parquet_library("reading").read_table(file)
    stored = [name for name in table.column_names if is_index(name)]
    return outside.wide(table, index or (stored[0] if stored else None), f"path={str(file)!r}")


def read_wide_text(
    file: Path, index: str | None, separator: str, header: bool = True, text_ids: bool = False
) -> outside.Matrix:
    """A text file; row ids are those of the column ``index``, else of a first column without numbers, else positions.

    Empty fields, NA, NaN and null are missing. Without a header columns are called "0", "1", "2", …
    """
    where = f"path={str(file)!r}"
    with open_bytes(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        lines = [line for line in csv.reader(text, delimiter=separator) if line]
    names = lines[0] if header else [str(place) for place in range(len(lines[0]))]
    body = lines[1:] if header else lines
    ragged = next((number for number, line in enumerate(body) if len(line) != len(names)), None)
    if ragged is not None:
        raise ValueError(
            f"{where}: row {ragged + 1} has {len(body[ragged])} fields, and there are {len(names)} columns"
        )
    if len(names) < 2 or not body:
        raise ValueError(f"{where} has {len(names)} columns and {len(body)} rows; check the delimiter")
    if index is not None and index not in names:
        raise ValueError(f"index={index!r} is not a column of {where}; available: {shortened(names)}")
    ids = None if index is None else names.index(index)
    if ids is None and (is_index(names[0]) or not _are_numbers([line[0] for line in body])):
        ids = 0
    places = [place for place in range(len(names)) if place != ids]
    numbers = np.stack([_column(where, names[place], [line[place] for line in body]) for place in places], axis=1)
    rows = None if ids is None else Axis.from_ids(infer([line[ids] for line in body], text_ids))
    if rows is not None and ids is not None and not is_index(names[ids]):
        rows = rows.called(names[ids])
    return outside.Matrix(numbers, rows, Axis.from_ids(np.array([names[place] for place in places], object)))


def _are_numbers(column: list[str]) -> bool:
    """Whether every entry that is there is a number."""
    try:
        _as_numbers(column)
    except ValueError:
        return False
    return True


def _as_numbers(column: list[str]) -> np.ndarray:
    return np.array([np.nan if entry.strip().lower() in EMPTY else float(entry) for entry in column])


def _column(where: str, name: str, column: list[str]) -> np.ndarray:
    try:
        return _as_numbers(column)
    except ValueError as error:
        raise ValueError(
            f"{where}: the column {name!r} does not hold numbers ({error}); name a column of row ids with index=, and"
            " leave other texts out"
        ) from None
