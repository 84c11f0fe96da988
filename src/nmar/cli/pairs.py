"""Tables of pairs: a column of row ids and a column of column ids, no values."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from nmar.cli.common import cast_ids
from nmar.cli.files import named

Named = tuple[str, Any]


def read_pairs(path: str, args: argparse.Namespace, rows: Any, cols: Any) -> tuple[Named, Named]:
    """Names and ids of the two columns, ids in the kind that the model's axes hold; ``-`` is standard input."""
    labels, columns = _columns(path, args, "PAIRS")
    names = [_choose(labels, given, place, what) for place, (given, what) in enumerate(_wanted(args, labels))]
    if names[0] == names[1]:
        raise ValueError(f"--row {names[0]!r} and --col {names[1]!r} name the same column; name both")
    ids = [cast_ids(columns[name], axis) for name, axis in zip(names, (rows, cols), strict=True)]
    if not len(ids[0]):
        raise ValueError(f"PAIRS {path!r} has no lines; at least one pair is needed")
    return (names[0], ids[0]), (names[1], ids[1])


def read_labels(path: str, args: argparse.Namespace, axis: Any) -> dict[Any, str]:
    """Labels by id from the first two columns of a table, or from a data set that has titles ("movielens")."""
    from nmar.data import datasets

    if path == "movielens":
        return datasets.titles()
    names, columns = _columns(path, args, "--labels")
    if len(names) < 2:
        raise ValueError(f"--labels {path!r} has one column, {names[0]!r}; ids and their labels are needed")
    return dict(zip(cast_ids(columns[names[0]], axis).tolist(), map(str, columns[names[1]]), strict=True))


def _columns(path: str, args: argparse.Namespace, what: str) -> tuple[list[str], dict[str, list[Any]]]:
    """Names and columns of a table; ``-`` is standard input."""
    with named(path) as name:
        file = Path(name)
        if not file.is_file():
            raise FileNotFoundError(f"{what} {path!r} does not exist or is not a file; check the spelling")
        parquet = file.suffix.lower() in (".parquet", ".pq")
        return _parquet(file) if parquet else _text(file, args, what)


def _wanted(args: argparse.Namespace, labels: list[str]) -> list[tuple[str | None, str]]:
    from nmar.data.usual import usual_pair

    row, col = usual_pair(labels) or (None, None)
    return [(args.row or row, "--row"), (args.col or col, "--col")]


def _choose(labels: list[str], given: str | None, place: int, what: str) -> str:
    from nmar.data.usual import shortened

    if given is None:
        if len(labels) < 2:
            raise ValueError(f"PAIRS has columns {shortened(labels)}; two are needed (check --delimiter)")
        if len(labels) > 2:
            raise ValueError(f"PAIRS has columns {shortened(labels)}; name two of them with --row and --col")
        return labels[place]
    if given not in labels:
        raise ValueError(f"{what} {given!r} is not a column of PAIRS; available: {shortened(labels)}")
    return given


def _text(file: Path, args: argparse.Namespace, what: str) -> tuple[list[str], dict[str, list[str]]]:
    from nmar.data.tables import open_bytes

    plain = file.with_suffix("") if file.suffix.lower() in (".gz", ".bz2", ".xz", ".zst") else file
    separator = args.delimiter or ("," if plain.suffix.lower() == ".csv" else "\t")
    with open_bytes(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        lines = [line for line in csv.reader(text, delimiter=separator) if line]
    if not lines:
        raise ValueError(f"{what} {str(file)!r} is empty; at least one line is needed")
    labels = [str(k) for k in range(len(lines[0]))] if args.no_header else lines[0]
    body = lines if args.no_header else lines[1:]
    ragged = next((k for k, line in enumerate(body, 1 + (not args.no_header)) if len(line) != len(labels)), None)
    if ragged is not None:
        raise ValueError(f"{what} {str(file)!r}: line {ragged} does not have {len(labels)} fields")
    return labels, {name: [line[k] for line in body] for k, name in enumerate(labels)}


def _parquet(file: Path) -> tuple[list[str], dict[str, list[Any]]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("reading parquet needs pyarrow: pip install pyarrow") from None
    found = parquet.read_table(file)
    return found.column_names, {name: found.column(name).to_pylist() for name in found.column_names}
