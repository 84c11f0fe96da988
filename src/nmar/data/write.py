"""Tables written whole or not at all, as text or parquet."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nmar.data.atomic import write_with
from nmar.data.tables import parquet_library


def write_frame(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns of equal length as a table, whole or not at all.

    The table is written beside its destination and then put in place, so that a reader never sees half of it
    and a failure leaves an older file as it was.

    Parameters
    ----------
    path : path
        Ends in csv, tsv or txt (also .gz), or parquet.
    columns : dict of str to object
        Mapping of names to arrays.

    Examples
    --------
    >>> import os, tempfile
    >>> from nmar.data import write_frame
    >>> path = os.path.join(tempfile.mkdtemp(), "out.tsv")
    >>> write_frame(path, {"row": [1, 2], "mean": [0.5, 0.25]})
    >>> open(path).read()
    'row\\tmean\\n1\\t0.5\\n2\\t0.25\\n'
    """
    file = Path(path)
    write = _writer(file)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"columns: lengths {lengths} differ or there are none; pass arrays of one length")
    write_with(file, lambda temporary: write(temporary, columns))


def _writer(file: Path) -> Callable[[Path, Mapping[str, Any]], None]:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in (".parquet", ".pq"):
        return _write_parquet
    plain = suffixes[:-1] if suffixes and suffixes[-1] == ".gz" else suffixes
    separators = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
    separator = separators.get(plain[-1]) if plain else None
    if separator is None:
        raise ValueError(f"path={str(file)!r}: the ending names the format; use .csv, .tsv (also .gz) or .parquet")
    return lambda temporary, columns: _write_text(temporary, columns, separator)


def _write_text(file: Path, columns: Mapping[str, Any], separator: str) -> None:
    opener: Any = gzip.open if file.suffix.lower() == ".gz" else open
    with opener(file, "wt", encoding="utf-8", newline="") as stream:
        write_csv(stream, columns, separator)


def write_csv(stream: IO[str], columns: Mapping[str, Any], separator: str = ",") -> None:
    """Write columns of equal length as text."""
    # tolist() gives Python numbers, whose text reads back as the same number.
    listed = [np.asarray(column).tolist() for column in columns.values()]
    returns = any(isinstance(value, str) and "\r" in value for column in listed for value in column)
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL  # which leaves a carriage return bare
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=quoting)
    writer.writerow(columns)
    writer.writerows(zip(*listed, strict=True))


def _write_parquet(file: Path, columns: Mapping[str, Any]) -> None:
    parquet = parquet_library("writing")
    import pyarrow

    parquet.write_table(pyarrow.table({name: pyarrow.array(_plain(c)) for name, c in columns.items()}), file)


def _plain(column: Any) -> Any:
    array = np.asarray(column)
    return array.tolist() if array.dtype.kind in "OU" else array
