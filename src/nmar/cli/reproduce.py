"""``nmar reproduce``: the paper's tables and its figure, on the data at hand."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmar.cli.common import note, out

HELP = "the paper's tables 2 to 4 and figure 1 on your copies of its data, its numbers beside yours, with controls"
EXAMPLE = """\
  nmar reproduce table3 --data data --factors 40 -o reproduction
  nmar reproduce all --data data
"""

WHAT = ("table2", "table3", "table4", "figure1")
STATUS = "exit status: 0; 1 if nothing could be fitted, with the reasons written; 2 after an error"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = f"{parser.epilog}\n{STATUS}\n"
    parser.add_argument("what", choices=(*WHAT, "all"), help="which of them")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="where the data lie (docs/reproduction.md)")
    parser.add_argument(
        "-o", "--output", default="reproduction", metavar="FOLDER", help="results, and where to resume (reproduction)"
    )
    parser.add_argument("--factors", type=int, default=160, metavar="K", help="factors, ranks and clusters (160)")
    parser.add_argument("--max-iter", type=int, default=30, metavar="N", help="sweeps of a fit at most (30)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="splits and starts of the tables (1)")
    parser.add_argument(
        "--cells", type=int, default=100_000, metavar="N", help="cells of a data set at most, 0 for all (100000)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of splits and starts (0)")
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="of the tables' factors (float32)"
    )
    parser.add_argument(
        "--no-bias", action="store_true", help="tables' factorizations without biases, as the paper writes them"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="threads (all processors)")


def run(args: argparse.Namespace) -> int:
    """Make the tables one after the other."""
    from nmar.report.reproduce.pages import markdown, write
    from nmar.report.reproduce.run import Asked, Reproduction

    folder, output = Path(args.data), Path(args.output)
    if not folder.is_dir():
        raise FileNotFoundError(f"--data {args.data!r} is not a folder; docs/reproduction.md says what belongs there")
    bias = not args.no_bias
    asked = Asked(args.factors, args.max_iter, args.seeds, args.cells, args.seed, args.dtype, bias)
    maker = Reproduction(folder, output, asked, args.jobs)
    fitted = False
    for table in WHAT if args.what == "all" else (args.what,):
        groups = []
        for rows in maker.records(table):
            groups.append(rows)
            fitted |= "error" not in rows[0]
            note(_told(rows))
        written = write(table, groups, asked, output)
        out(markdown(table, groups, asked))
        note(f"wrote {', '.join(str(path) for path in written)}")
    if not fitted:
        note("nothing was fitted; each line above says why")
    return 0 if fitted else 1


def _told(rows: list[dict[str, object]]) -> str:
    """One comparison in a line."""
    one = rows[0]
    name = " ".join(str(one[key]) for key in ("table", "column", "model", "axis") if one[key])
    if "error" in one:
        return f"{name}: {one['error']}"
    return f"{name}: {one['data']}, {one['cells']:,} of {one['available']:,} cells, {len(rows)} fit(s)"
