"""``nmar report``: a page about a single model."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmar.cli.common import model_arguments, note, read_known, read_model
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, write_page

HELP = "write a self-contained page about a fitted model"
EXAMPLE = "  nmar report m.nmar --test test.csv --row user --col item --value stars --col-labels films.csv\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser)
    parser.add_argument("--test", metavar="FILE", help="held-out cells: adds scores and calibration")
    for axis, what in (("row", "rows"), ("col", "columns")):
        named = f"names of {what} by id: a table whose first two columns are ids and names (or movielens)"
        parser.add_argument(f"--{axis}-labels", metavar="FILE", help=named)
    parser.add_argument("-o", "--output", help="the page; default: the model's name with .html")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, draw, write."""
    from nmar.cli.pairs import read_labels
    from nmar.report.html import model_page

    target = args.output or str(Path(args.model).with_suffix(".html"))
    check_output(target)
    model = read_model(args)
    known = model.posterior_
    cells = read_known(args.test, args, known.rows, known.cols, args.sql) if args.test else None
    labels = [
        None if path is None else read_labels(path, args, axis)
        for path, axis in ((args.row_labels, known.rows), (args.col_labels, known.cols))
    ]
    columns = {name: getattr(args, name) for name in ("row", "col", "value")}
    write_page(target, model_page(model, cells, Path(args.model).name, columns, *labels))
    note(f"wrote {target}")
    return 0
