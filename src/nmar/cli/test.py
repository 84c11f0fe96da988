"""``nmar test``: does the spread of the values depend on how likely they were to be observed?"""

from __future__ import annotations

import argparse

from nmar.cli.common import note, out, quiet_argument, read_cells, setting_arguments, settings_of
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_table

HELP = "test whether the residual variance is linked to P(observed)"
EXAMPLE = "  nmar test ratings.csv --row user --col item --value stars\n"


SETTINGS = ("factors", "max_iter", "backend", "n_jobs", "random_state")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("data_file", metavar="DATA", help="a file of cells, or the name of a data set: movielens")
    parser.add_argument("--rank", type=int, default=10, help="rank of the factorization of the values (10)")
    parser.add_argument("--bins", type=int, default=100, help="bins of P(observed) (100)")
    parser.add_argument("--degree", type=int, choices=(1, 2), default=1, help="1: a trend, 2: a trend and a bend")
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="parts into which the cells are dealt (5)")
    parser.add_argument("--tested", type=int, metavar="N", help="parts held out and tested, a fit each (3, or all)")
    parser.add_argument(
        "--paired", action="store_true", help="also test the best model of the missingness against its best control"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the bins (csv, tsv, parquet)")
    parser.add_argument("--json", action="store_true", help="statistic and p-value as one JSON object instead of text")
    setting_arguments(parser, SETTINGS)
    quiet_argument(parser)
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, test, print."""
    check_output(args.output, table=True)
    check_streams(args.json, {"--output": args.output})
    cells = read_cells(args.data_file, args, query=args.sql)
    from nmar.evaluate.missingness import missingness_test

    result = missingness_test(
        cells,
        bins=args.bins,
        rank=args.rank,
        degree=args.degree,
        folds=args.folds,
        tested=args.tested,
        paired=args.paired,
        verbose=0 if args.quiet else 1,
        **settings_of(args, SETTINGS),
    )
    if args.json:
        import json

        found = {name: getattr(result, name) for name in ("statistic", "p_value")}
        if result.paired is not None:
            found |= {f"paired_{name}": getattr(result.paired, name) for name in ("gain", "se", "p_value")}
        out(json.dumps(found, default=float))
    elif args.output != "-":
        out(result.text())
    if args.output:
        from dataclasses import asdict

        records = [asdict(one) for one in result.bins]
        write_table(args.output, {k: [r[k] for r in records] for k in records[0]})
        note(f"wrote {args.output}")
    return 0
