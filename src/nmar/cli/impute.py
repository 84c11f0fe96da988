"""``nmar impute``: several joint draws of the missing cells."""

from __future__ import annotations

import argparse

from nmar.cli.common import cast_ids, model_arguments, note, read_model
from nmar.cli.files import check_output, write_table

HELP = "complete a table several times by joint draws of its missing cells"
EXAMPLE = "  nmar impute m.nmar -n 20 -o draws.parquet    (a model of nmar fit --keep-seen)\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser, "nmar fit --keep-seen")
    parser.add_argument("-o", "--output", required=True, help="csv, tsv or parquet; - is standard output")
    parser.add_argument("-n", type=int, default=20, metavar="N", help="completed tables (20)")
    rows = "ids of rows whose missing cells are drawn (all rows); blocks with one seed belong to the same draws"
    parser.add_argument("--rows", nargs="+", metavar="ID", help=rows)
    parser.add_argument("--seed", type=int, default=0, help="seed (0)")
    target = "values given that they are observed, or of all cells; default: what the model was fitted for"
    parser.add_argument("--target", choices=("observed", "all"), help=target)


def run(args: argparse.Namespace) -> int:
    """Load, draw, write one line for each missing cell."""
    check_output(args.output, table=True)
    model = read_model(args)
    if model.training_cells_ is None:
        raise ValueError(
            f"{args.model!r} does not hold its training cells and cannot tell which are missing; fit with --keep-seen"
        )
    rows = None if args.rows is None else cast_ids(args.rows, model.posterior_.rows)
    found = model.impute(args.n, args.seed, rows=rows, target=args.target)
    columns = {"row": found.rows.ids[found.row], "col": found.cols.ids[found.col]}
    write_table(args.output, columns | {f"draw_{k + 1}": found.values[:, k] for k in range(found.n)})
    note(found.text())
    note(f"wrote {found.n} draws of {len(found.row):,} cells to {args.output}")
    return 0
