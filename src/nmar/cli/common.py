"""What several verbs share: arguments, reading data and ids, output. Nothing heavy is imported at the top."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from nmar.fit.parameters import PARAMETERS

if TYPE_CHECKING:
    from nmar.data.axis import Axis
    from nmar.data.cells import Cells
    from nmar.estimators.ccpf import CCPF


TRUSTED = "a type that a scikit-learn estimator in a file may be made of; may be repeated"
# Of files alone.
FILE_OPTIONS = ("row", "col", "value", "weight", "duplicates", "layer", "delimiter", "no_header", "text_ids",
                "wide", "index")  # fmt: skip


def out(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")


def note_ratings(cells: Cells, models: list[Any]) -> None:
    """Say on standard error where values that look like ratings are taken for numbers."""
    from nmar.fit.notice import ratings_taken_for_numbers

    said = [text for model in models if (text := ratings_taken_for_numbers(cells, model)) is not None]
    if said:
        note(f"{said[0]}: --data levels-factorization:10")


# --- arguments ----------------------------------------------------------------------------------------------


def model_arguments(parser: argparse.ArgumentParser, written_by: str = "nmar fit") -> None:
    """Which model, and what its file may hold."""
    parser.add_argument("model", metavar="MODEL", help=f"a file written by {written_by}")
    parser.add_argument("--trusted", action="append", default=[], metavar="TYPE", help=TRUSTED)


def table_arguments(parser: argparse.ArgumentParser, value: bool = True) -> None:
    """How to read a file of cells."""
    group = parser.add_argument_group("reading the file (csv, tsv, parquet; mtx, npz, h5ad need no columns)")
    group.add_argument("--row", help="column with the row ids")
    group.add_argument("--col", help="column with the column ids")
    if value:
        group.add_argument("--value", help="column with the values")
        group.add_argument("--weight", help="column that says how often each value counts")
        group.add_argument(
            "--duplicates",
            choices=("error", "last", "mean", "sum"),
            default="error",
            help="cells that occur twice",
        )
        group.add_argument("--sql", metavar="QUERY", help="cells of DATA by a query (duckdb): SELECT … FROM data …")
        group.add_argument("--layer", help="layer of an h5ad file; default: X")
        written = "ids of a text table as they are written: 007 and 7 are two ids; default: numbers where possible"
        wide = "one line for each row of the matrix, one column for each of its columns; empty fields are missing"
        group.add_argument("--wide", action="store_true", help=wide)
        group.add_argument("--index", metavar="COLUMN", help="of a wide table: column with the row ids")
        group.add_argument("--text-ids", action="store_true", help=written)
    group.add_argument("--delimiter", help="of a text table; default: comma for csv, tab for tsv and txt")
    group.add_argument("--no-header", action="store_true", help="the first line is data; columns are 0, 1, 2 …")


def setting_arguments(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    """Options of settings that :class:`nmar.CCPF` has too, described where it describes them."""
    group = parser.add_argument_group("settings of the fit")
    for name in names:
        one = PARAMETERS[name]
        shown = None if one.choices else "N" if one.read is int else "X"
        group.add_argument(one.flag, dest=name, type=one.read, choices=one.choices, metavar=shown, help=one.help)


def settings_of(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """The settings among ``names`` that were given; the others keep their defaults. A seed is always given."""
    found = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return {"random_state": 0, **found}


def quiet_argument(parser: argparse.ArgumentParser) -> None:
    """Whether progress is shown."""
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


# --- reading ------------------------------------------------------------------------------------------------


def read_model(args: argparse.Namespace) -> CCPF:
    """The model that a verb was given."""
    from nmar.estimators.ccpf import load

    return load(args.model, args.trusted)


def read_cells(
    path: str,
    args: argparse.Namespace,
    text_ids: bool = False,
    query: str | None = None,
    used: tuple[str, ...] = (),
) -> Cells:
    """Cells from a file, from standard input (``-``), by a query, or from a data set by name.

    Parameters
    ----------
    path : str
        File, or name of a data set.
    args : Namespace
        Options, those of :func:`table_arguments` among them, which are refused for a data set.
    text_ids : bool, default=False
        Whether ids of a text table stay texts, whether or not the option is given.
    query : str or None, default=None
        SQL query of the file.
    used : tuple of str, default=()
        Options that are not refused, because the verb has another use for them.
    """
    from nmar.cli.files import named
    from nmar.data import datasets
    from nmar.data.read import read

    if path in datasets.LOADERS:
        _refuse_options(path, args, query, used)
        return datasets.load(path)
    options: dict[str, Any] = {
        "delimiter": args.delimiter,
        "header": not args.no_header,
        "text_ids": text_ids or args.text_ids,
        "weight": getattr(args, "weight", None),
        "layer": getattr(args, "layer", None),
        "wide": args.wide,
        "index": args.index,
    }
    with named(path) as file:
        if query is not None:
            from nmar.data.sql import read_sql

            if args.wide or args.index:
                raise ValueError("--wide and --index: of a query, its SQL says what cells are; leave them out")
            if args.text_ids:
                raise ValueError("--text-ids: of a query, its SQL says what ids are; leave it out, and cast them there")
            return read_sql(query, file, args.row, args.col, args.value, args.duplicates, args.weight)
        return read(file, args.row, args.col, args.value, args.duplicates, **options)


def used_by(*paths: str | None) -> tuple[str, ...]:
    """The options of files, where one of the paths is that of a file: they say how to read it."""
    from nmar.data import datasets

    return FILE_OPTIONS if any(path is not None and path not in datasets.LOADERS for path in paths) else ()


def _refuse_options(name: str, args: argparse.Namespace, query: str | None, used: tuple[str, ...]) -> None:
    """Raise if options of files were given for a data set by name, where they would be ignored."""
    asked = {one: getattr(args, one, None) for one in (*FILE_OPTIONS, "time") if one not in used} | {"sql": query}
    usual = {"duplicates": "error", "no_header": False, "text_ids": False, "wide": False}
    given = [
        f"--{one.replace('_', '-')}" + ("" if value is True else f" {value!r}")
        for one, value in asked.items()
        if value not in (None, usual.get(one))
    ]
    if given:
        raise ValueError(
            f"{', '.join(given)}: {name!r} is a data set by name, and says itself how it is read; leave out what is of"
            f" files (a file of that name is {'./' + name!r})"
        )


def read_known(
    path: str,
    args: argparse.Namespace,
    rows: Axis,
    cols: Axis,
    query: str | None = None,
    used: tuple[str, ...] = (),
) -> Cells:
    """Cells whose ids are of the same kind as those of a model: text stays text, numbers become numbers."""
    from nmar.data.cells import Cells

    cells = read_cells(path, args, is_text(rows) or is_text(cols), query, used)
    axes = [_recast(cells.rows, rows), _recast(cells.cols, cols)]
    return Cells(cells.by(0), axes[0], axes[1], cells.weights)


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
