"""``nmar recommend``: the best columns of some rows, or of all."""

from __future__ import annotations

import argparse
from typing import Any

from nmar.cli.common import cast_ids, model_arguments, note, out, read_known, read_model
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_table

HELP = "list the best columns of some rows, or of all"
EXAMPLE = """\
  nmar recommend m.nmar --rows u1 u2 --n 5
  nmar recommend m.nmar --rows u1 --n 5 --seen ratings.csv --row user --col item --value stars
  nmar recommend m.nmar --labels movies.csv -o lists.parquet
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser)
    parser.add_argument("--rows", nargs="+", metavar="ID", help="row ids; all rows where there is --output or --json")
    parser.add_argument("--n", type=int, default=10, help="columns per row (10)")
    parser.add_argument(
        "--by",
        choices=("value", "observed", "expected", "regression"),
        default="value",
        help="E[value], P(observed), their product, or P(observed) with a regression on what the row has",
    )
    labels = "names of columns by id: a table whose first two columns are ids and names (or movielens)"
    parser.add_argument("--labels", metavar="FILE", help=labels)
    parser.add_argument("--seen", metavar="FILE", help="cells to leave out (those kept by fit --keep-seen)")
    parser.add_argument("--candidates", nargs="+", metavar="ID", help="columns that may be listed (all)")
    parser.add_argument("-o", "--output", metavar="FILE", help="csv, tsv or parquet instead of the screen")
    parser.add_argument("--json", action="store_true", help="a JSON list of objects on standard output")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, rank, print."""
    from nmar.cli.pairs import read_labels
    from nmar.estimators.ranking import in_lines

    check_output(args.output, table=True)
    check_streams(args.json, {"--output": args.output})
    if args.rows is None and not (args.output or args.json):
        raise ValueError("lists of all rows are long: name a file with --output, or rows with --rows")
    model = read_model(args)
    known = model.posterior_
    ids = known.rows.ids if args.rows is None else cast_ids(args.rows, known.rows)
    labels = read_labels(args.labels, args, known.cols) if args.labels else None
    seen = read_known(args.seen, args, known.rows, known.cols, args.sql) if args.seen else None
    has_seen = seen is not None or model.training_cells_ is not None
    among = None if args.candidates is None else cast_ids(args.candidates, known.cols)
    found = model.recommend(ids, args.n, has_seen, args.by, seen, candidates=among)
    table = in_lines(ids, *found, labels)
    if args.json:
        import json

        out(json.dumps([dict(zip(table, line, strict=True)) for line in zip(*_plain(table), strict=True)]))
        return 0
    if args.output:
        write_table(args.output, table)
        note(f"wrote lists of {len(ids):,} rows to {args.output}")
        return 0
    del table["rank"]
    out("\t".join(table))
    for *line, value in zip(*table.values(), strict=True):
        out("\t".join([*map(str, line), f"{value:.4f}"]))
    if not has_seen:
        note("note: columns already observed are included; --seen FILE leaves them out, as does nmar fit --keep-seen")
    return 0


def _plain(table: dict[str, Any]) -> list[list[Any]]:
    """Columns as lists of numbers and texts."""
    return [column.tolist() for column in table.values()]
