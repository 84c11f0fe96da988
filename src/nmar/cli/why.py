"""``nmar why``: why are values missing, and what does that mean for them?"""

from __future__ import annotations

import argparse
from pathlib import Path

from nmar.cli.common import note, out, read_cells, setting_arguments, settings_of
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_page, write_table
from nmar.cli.names import DATA_HELP, parse_data

HELP = "judge why values are missing, by held-out cells, observed and missing ones"
EXAMPLE = "  nmar why proteins.csv --wide --index sample -o why.html\n"


SETTINGS = ("factors", "max_iter", "backend", "n_jobs", "random_state")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("data_file", metavar="DATA", help="a file of cells, or the name of a data set: movielens")
    parser.add_argument("--data", default="factorization:10", metavar="MODEL", help=f"{DATA_HELP} (factorization:10)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page with figures (html)")
    parser.add_argument("--csv", metavar="FILE", help="write the table (csv, tsv, parquet)")
    parser.add_argument("--json", action="store_true", help="verdict and table as one JSON object instead of text")
    setting_arguments(parser, SETTINGS)
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, judge, print."""
    check_output(args.output)
    check_output(args.csv, "--csv", table=True)
    check_streams(args.json, {"--output": args.output, "--csv": args.csv})
    data = parse_data(args.data)
    cells = read_cells(args.data_file, args, query=args.sql)
    from nmar.evaluate.why import why_missing

    result = why_missing(cells, data, name=Path(args.data_file).name, **settings_of(args, SETTINGS))
    if args.json:
        import json

        found = {"kind": result.kind, "tied": result.tied, "verdict": result.verdict}
        out(json.dumps(found | {"rows": result.frame().to_dict("records")}, default=float))
    elif "-" not in (args.output, args.csv):
        out(result.text())
    if args.output:
        from nmar.report.why import why_page

        write_page(args.output, why_page(result))
    if args.csv:
        write_table(args.csv, {name: column.to_numpy() for name, column in result.frame().items()})
    for path in filter(None, (args.output, args.csv)):
        note(f"wrote {path}")
    return 0
