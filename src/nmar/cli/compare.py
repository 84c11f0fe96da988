"""``nmar compare``: is the missingness worth modelling?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from nmar.cli.common import (
    note,
    note_ratings,
    out,
    quiet_argument,
    read_cells,
    read_known,
    setting_arguments,
    settings_of,
    used_by,
)
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_page, write_table
from nmar.cli.names import DATA_HELP, LINKAGE_HELP, parse_data, parse_linkage

HELP = "fit with and without a model of the missingness, print what it is worth, write a report"
EXAMPLE = """\
  nmar compare movielens
  nmar compare ratings.csv --row user --col item --value stars --linkage free,s=4 -o report.html
"""


SETTINGS = ("factors", "max_iter", "tol", "backend", "n_jobs", "random_state")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("data_file", metavar="DATA", help="a file of cells, or the name of a data set: movielens")
    parser.add_argument("-o", "--output", metavar="FILE", help="the report (report.html; none with --json)")
    parser.add_argument("--csv", metavar="FILE", help="write the table too (csv, tsv, parquet)")
    parser.add_argument(
        "--data", action="append", metavar="MODEL", help=f"{DATA_HELP}; may be repeated (factorization:10)"
    )
    parser.add_argument(
        "--linkage",
        action="append",
        metavar="NAME",
        help=f"coupled {LINKAGE_HELP}; may be repeated (free)",
    )
    parser.add_argument("--no-control", action="store_true", help="leave out the controls")
    parser.add_argument("--no-taste", action="store_true", help="leave out mechanism 'taste'")
    parser.add_argument("--no-two-stage", action="store_true", help="leave out the two-stage baseline")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="repetitions, each a new split and start (3)")
    parser.add_argument("--test", type=float, default=0.2, help="share of the cells held out (0.2)")
    parser.add_argument("--valid", type=float, default=0.0, help="share of the cells to stop on (0: by the bound)")
    parser.add_argument("--test-file", metavar="FILE", help="cells to judge on, instead of a random split")
    parser.add_argument("--json", action="store_true", help="table and verdict as one JSON object instead of text")
    setting_arguments(parser, SETTINGS)
    quiet_argument(parser)
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, print, write."""
    models = [parse_data(text) for text in args.data or ["factorization:10"]]
    linkages = [parse_linkage(text) for text in args.linkage] if args.linkage else None
    page = args.output or (None if args.json else "report.html")
    check_output(page)
    check_output(args.csv, "--csv", table=True)
    check_streams(args.json, {"--output": args.output, "--csv": args.csv})
    used = used_by(args.data_file, args.test_file)
    cells = read_cells(args.data_file, args, query=args.sql, used=used)
    held_out = read_known(args.test_file, args, cells.rows, cells.cols, used=used) if args.test_file else None
    from nmar.evaluate.compare import compare
    from nmar.report.html import comparison_page
    from nmar.report.text import wrapped

    note_ratings(cells, models)
    settings = settings_of(args, SETTINGS)
    result = compare(
        None if held_out is not None else cells,
        models,
        linkages,
        control=not args.no_control,
        two_stage=not args.no_two_stage,
        taste=not args.no_taste,
        seeds=args.seeds,
        test=args.test,
        valid=args.valid,
        verbose=0 if args.quiet else 1,
        seed=settings.pop("random_state"),
        **settings,
        train=None if held_out is None else cells,
        test_cells=held_out,
        name=Path(args.data_file).name,
    )
    if args.json:
        out(_json(result))
    elif "-" not in (page, args.csv):
        out(result.text(color=sys.stdout.isatty()))
        out("")
        out(wrapped(result.verdict))
    if page is not None:
        write_page(page, comparison_page(result))
    if args.csv:
        _write_table(args.csv, result)
    note(f"wrote {' and '.join(path for path in (page, args.csv) if path)}" if page or args.csv else "wrote no report")
    return 0


def _json(result: Any) -> str:
    """Rows and verdict, for programs."""
    import json
    from dataclasses import asdict

    return json.dumps({"rows": [asdict(row) for row in result.rows], "verdict": str(result.verdict)}, default=float)


def _write_table(path: str, result: object) -> None:
    from dataclasses import asdict

    records = [asdict(row) for row in result.rows]  # type: ignore[attr-defined]
    columns = {k: [float("nan") if r[k] is None else r[k] for r in records] for k in records[0]}
    write_table(path, columns)
