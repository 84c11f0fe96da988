"""``nmar split``: cells to learn from and cells to judge by, as two files."""

from __future__ import annotations

import argparse

from nmar.cli.common import note, read_cells
from nmar.cli.common import table_arguments as table
from nmar.cli.convert import column_names, write_cells
from nmar.cli.files import check_output

HELP = "hold out cells: write a file to learn from and one to judge by"
EXAMPLE = """\
  nmar split movielens train.csv test.csv
  nmar split ratings.csv train.csv test.csv --row user --col item --value stars --test 0.1
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("data_file", metavar="DATA", help="a file of cells, or the name of a data set: movielens")
    parser.add_argument("train_file", metavar="TRAIN", help="cells to learn from: csv, tsv (also .gz), parquet, npz")
    parser.add_argument("test_file", metavar="TEST", help="cells that are held out")
    parser.add_argument("--test", type=float, default=0.2, help="share of the cells held out (0.2)")
    parser.add_argument("--by", choices=("cells", "rows"), default="cells", help="single cells or whole rows (cells)")
    parser.add_argument("--time", metavar="COLUMN", help="column with times: hold out the latest cells instead")
    parser.add_argument("--seed", type=int, default=0, help="seed (0)")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Read, split, write both parts."""
    for path, name in ((args.train_file, "TRAIN"), (args.test_file, "TEST")):
        check_output(path, name)
        if path.endswith(".mtx"):
            raise ValueError(f"{name} {path!r}: mtx has no ids, by which the parts belong together; use csv or parquet")
    cells = read_cells(args.data_file, args, query=args.sql, used=("row", "col", "value"))  # name columns of the output
    by, time = args.by, None
    if args.time is not None:
        by = "time"
        time = read_cells(args.data_file, argparse.Namespace(**{**vars(args), "value": args.time}), query=args.sql)
    train, _, test = cells.split(args.test, 0.0, args.seed, by, time)
    for path, part in ((args.train_file, train), (args.test_file, test)):
        write_cells(path, part, column_names(args))
        note(f"wrote {len(part):,} cells to {path}")
    return 0
