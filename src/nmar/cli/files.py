"""Where verbs read from and write to: files, and standard input and output as ``-``.

Outputs are looked at before the work: a fit of an hour must not end at a folder that cannot be written.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STREAM = "-"
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


@contextmanager
def named(path: str) -> Iterator[str]:
    """A path to read from; ``-`` is standard input (csv, or parquet), kept in a file for as long as it is read."""
    if path != STREAM:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        first = sys.stdin.buffer.read(4)
        file = Path(folder) / ("stdin.parquet" if first == b"PAR1" else "stdin.csv")
        with open(file, "wb") as stream:
            stream.write(first)
            shutil.copyfileobj(sys.stdin.buffer, stream)
        yield str(file)


def check_output(path: str | None, option: str = "--output", table: bool = False) -> None:
    """Refuse a file that could not be written, before the work.

    Parameters
    ----------
    path : str or None
        File, ``-`` (standard output) or None (nothing is to be written).
    option : str, default="--output"
        Name of the option in errors.
    table : bool, default=False
        Whether the ending must be that of a table.
    """
    if path is None or path == STREAM:
        return
    file = Path(path)
    plain = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    if table and plain.suffix.lower() not in TABLES:
        raise ValueError(f"{option} {path!r}: the ending names the format; use .csv, .tsv (also .gz) or .parquet")
    if file.is_dir():
        raise IsADirectoryError(f"{option} {path!r} is a folder; name a file in it")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{option} {path!r}: the folder {str(file.parent)!r} does not exist; create it")
    _check_folder(file.parent, f"{option} {path!r}")


def check_streams(json: bool, outputs: Mapping[str, str | None]) -> None:
    """Refuse two results on standard output, where a reader could not tell them apart.

    Parameters
    ----------
    json : bool
        Whether a JSON object is written there (``--json``).
    outputs : dict of str to str or None
        Files by option; ``-`` is standard output.
    """
    given = ["--json"] * json + [f"{option} {STREAM}" for option, path in outputs.items() if path == STREAM]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} write to standard output; name a file for one of them")


def check_model_output(path: str) -> None:
    """The same for a model file, which is no text."""
    if path == STREAM:
        raise ValueError("--output -: a model file is no text; name a file")
    check_output(path)


def _check_folder(folder: Path, what: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):  # files are written beside and then put in place
        raise PermissionError(f"{what}: the folder {str(folder)!r} cannot be written; choose another")


def write_table(path: str, columns: Mapping[str, Any]) -> None:
    """Write a table to a file, or as csv to standard output."""
    from nmar.data.write import write_csv
    from nmar.data.write import write_frame as write

    if path == STREAM:
        write_csv(sys.stdout, columns)
    else:
        write(path, columns)


def write_page(path: str, text: str) -> None:
    """Write a text to a file, or to standard output."""
    from nmar.data.atomic import write_text

    if path == STREAM:
        sys.stdout.write(text)
    else:
        write_text(path, text)
