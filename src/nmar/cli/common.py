"""What several verbs share: arguments, reading data and ids, output. Nothing heavy is imported at the top."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from nmar.cli.names import DATA_HELP

if TYPE_CHECKING:
    from nmar.data.axis import Axis
    from nmar.data.cells import Cells


def out(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")


# --- arguments ----------------------------------------------------------------------------------------------


def table_arguments(parser: argparse.ArgumentParser, value: bool = True) -> None:
    """How to read a file of cells."""
    group = parser.add_argument_group("reading the file (csv, tsv, parquet; mtx, npz, h5ad need no columns)")
    group.add_argument("--row", help="column with the row ids")
    group.add_argument("--col", help="column with the column ids")
    if value:
        group.add_argument("--value", help="column with the values")
        group.add_argument(
            "--duplicates",
            choices=("error", "last", "mean", "sum"),
            default="error",
            help="cells that occur twice",
        )
    group.add_argument("--delimiter", help="of a text table; default: comma for csv, tab for tsv and txt")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are 0, 1, 2 …")


def model_arguments(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """What to fit."""
    group = parser.add_argument_group("model")
    factors = "components of the missingness pattern"
    if several:
        group.add_argument("--data", action="append", metavar="MODEL", help=f"{DATA_HELP}; may be repeated")
        group.add_argument("--factors", type=int, default=10, metavar="K", help=f"{factors} (10)")
        return
    usual = "factorization:10"
    group.add_argument("--data", default=usual, metavar="MODEL", help=f"{DATA_HELP} ({usual})")
    group.add_argument("--factors", type=_factors, default=10, metavar="K", help=f"{factors}, or auto (10)")


def _factors(text: str) -> int | str:
    return text if text == "auto" else int(text)


def trust_argument(parser: argparse.ArgumentParser, usual: str) -> None:
    """How far the pattern is believed; ``usual`` says what is done where it is not given."""
    text = f"how far the pattern is believed, 0 to 1, or auto; default {usual}"
    parser.add_argument("--trust", metavar="W", help=text)


def run_arguments(parser: argparse.ArgumentParser) -> None:
    """How to fit."""
    group = parser.add_argument_group("fitting")
    group.add_argument("--seed", type=int, default=0, help="seed of everything random (0); random_state in Python")
    group.add_argument("--max-iter", type=int, default=200, metavar="N", help="sweeps at most (200)")
    jobs = "threads, n_jobs in Python; default all; never changes the answer"
    group.add_argument("--jobs", type=int, metavar="N", help=jobs)
    group.add_argument("--backend", default="auto", help="auto, numba or reference (auto)")
    group.add_argument("--quiet", action="store_true", help="no progress bar")


# --- reading ------------------------------------------------------------------------------------------------


def read_cells(path: str, args: argparse.Namespace, text_ids: bool = False) -> Cells:
    """Cells from a file, or from a data set by name."""
    from nmar.data import datasets
    from nmar.data.read import read

    if path in datasets.LOADERS:
        return datasets.load(path)
    options: dict[str, Any] = {
        "delimiter": args.delimiter,
        "header": not args.no_header,
        "text_ids": text_ids,
    }
    return read(path, args.row, args.col, args.value, args.duplicates, **options)


def read_known(path: str, args: argparse.Namespace, rows: Axis, cols: Axis) -> Cells:
    """Cells whose ids are of the same kind as those of a model: text stays text, numbers become numbers."""
    from nmar.data.cells import Cells

    cells = read_cells(path, args, text_ids=is_text(rows) or is_text(cols))
    axes = [_recast(cells.rows, rows), _recast(cells.cols, cols)]
    return Cells(cells.by(0), axes[0], axes[1])


def is_text(axis: Axis) -> bool:
    """Whether ids are strings."""
    return axis.ids.dtype.kind in "UO" and all(isinstance(one, str) for one in axis.ids[:100].tolist())


def _recast(axis: Axis, like: Axis) -> Axis:
    from nmar.data.axis import Axis

    if is_text(axis) == is_text(like):
        return axis
    return Axis.from_ids(cast_ids(axis.ids.tolist(), like))


def cast_ids(ids: list[Any], like: Axis) -> Any:
    """Ids from a command line or a text file in the kind that an axis holds."""
    import numpy as np

    if is_text(like):
        return np.array([str(one) for one in ids], dtype=object)
    found = []
    for one in ids:
        try:
            found.append(int(one))
        except ValueError:
            try:
                found.append(float(one))  # type: ignore[arg-type]
            except ValueError:
                found.append(one)
    return np.array(found) if all(isinstance(one, int | float) for one in found) else np.array(found, dtype=object)
