"""``nmar predict``: values, intervals and P(observed) of given pairs."""

from __future__ import annotations

import argparse

from nmar.cli.common import model_arguments, note, read_model
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, write_table

HELP = "predict the values of pairs of ids"
EXAMPLE = "  nmar predict m.nmar pairs.csv --row user --col item --level 0.9 -o out.parquet\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser)
    parser.add_argument("pairs", metavar="PAIRS", help="a table with a column of row ids and one of column ids")
    parser.add_argument("-o", "--output", required=True, help="csv, tsv or parquet")
    parser.add_argument("--level", type=float, metavar="P", help="add a central prediction interval of this level")
    parser.add_argument("--unknown", choices=("error", "prior"), default="error", help="ids not seen in training")
    target = "values given that they are observed, or of all cells; default: what the model was fitted for"
    parser.add_argument("--target", choices=("observed", "all"), help=target)
    table(parser, value=False)


def run(args: argparse.Namespace) -> int:
    """Load, predict, write."""
    from nmar.cli.pairs import read_pairs
    from nmar.evaluate.notes import POPULATIONS

    check_output(args.output, table=True)
    model = read_model(args)
    known = model.posterior_
    (row_name, rows), (col_name, cols) = read_pairs(args.pairs, args, known.rows, known.cols)
    asked = {"unknown": args.unknown, "target": args.target}
    mean, std = model.predict_entries(rows, cols, return_std=True, **asked)
    columns = {row_name: rows, col_name: cols, "mean": mean, "std": std}
    if args.level is not None:
        columns["low"], columns["high"] = model.interval(rows, cols, level=args.level, **asked)
    columns["observed_probability"] = model.observed_probability(rows, cols, unknown=args.unknown)
    write_table(args.output, columns)
    note(POPULATIONS[args.target or known.law.target])
    note(f"wrote {len(mean):,} predictions to {args.output}")
    return 0
