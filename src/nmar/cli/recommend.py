"""``nmar recommend``: the best columns of given rows."""

from __future__ import annotations

import argparse

from nmar.cli.common import cast_ids, note, out, read_known
from nmar.cli.common import table_arguments as table

HELP = "list the best columns of given rows"
EXAMPLE = """\
  nmar recommend m.nmar --rows u1 u2 --n 5
  nmar recommend m.nmar --rows u1 --n 5 --seen ratings.csv --row user --col item --value stars
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("model", metavar="MODEL", help="a file written by nmar fit")
    parser.add_argument("--rows", nargs="+", required=True, metavar="ID", help="row ids")
    parser.add_argument("--n", type=int, default=10, help="columns per row (10)")
    parser.add_argument(
        "--by",
        choices=("value", "observed", "expected"),
        default="value",
        help="E[value], P(observed), or their product",
    )
    parser.add_argument("--seen", metavar="FILE", help="cells to leave out, usually those the model learned from")
    parser.add_argument("-o", "--output", metavar="FILE", help="csv, tsv or parquet instead of the screen")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, rank, print."""
    import numpy as np

    from nmar.estimators.ccpf import load
    from nmar.posterior.recommend import recommend, recommendable

    known = load(args.model).posterior_
    ids = cast_ids(args.rows, known.rows)
    lines = recommendable(known, ids)
    seen = None
    if args.seen:
        cells = read_known(args.seen, args, known.rows, known.cols)
        seen = cells.align(known.rows, known.cols, unknown="drop").by(0)
    which, score = recommend(known, lines, args.n, args.by, seen)
    rows, cols = np.repeat(ids, which.shape[1]), known.cols.ids[which.ravel()]
    kept = which.ravel() >= 0
    table = {"row": rows[kept], "col": cols[kept], "score": score.ravel()[kept]}
    if args.output:
        from nmar.data.read import write_frame

        write_frame(args.output, table)
        note(f"wrote {args.output}")
        return 0
    out("row\tcol\tscore")
    for row, col, value in zip(*table.values(), strict=True):
        out(f"{row}\t{col}\t{value:.4f}")
    if not args.seen:
        note("note: columns already observed are included; --seen FILE leaves them out")
    return 0
