"""``nmar transform``: factors of new rows, given the fitted columns."""

from __future__ import annotations

import argparse

from nmar.cli.common import model_arguments, note, read_known, read_model
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, write_table

HELP = "fold new rows into a model and write their factors"
EXAMPLE = "  nmar transform m.nmar new.csv --row user --col item --value stars -o factors.parquet\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser)
    parser.add_argument("data_file", metavar="DATA", help="observed cells of the rows, on the columns of the model")
    parser.add_argument("-o", "--output", required=True, help="csv, tsv or parquet; - is standard output")
    parser.add_argument("--jobs", dest="n_jobs", type=int, metavar="N", help="number of threads (all processors)")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, fold in, write."""
    check_output(args.output, table=True)
    model = read_model(args)
    known = model.posterior_
    cells = read_known(args.data_file, args, known.rows, known.cols, args.sql)
    factors = model.set_params(n_jobs=args.n_jobs).transform(cells)
    columns = {args.row or "row": cells.row_ids}
    write_table(args.output, columns | {f"factor_{k + 1}": factors[:, k] for k in range(factors.shape[1])})
    note(f"wrote {factors.shape[1]} factors of {len(factors):,} rows to {args.output}")
    return 0
