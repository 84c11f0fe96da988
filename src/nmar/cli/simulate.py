"""``nmar simulate``: cells drawn from the model itself."""

from __future__ import annotations

import argparse

from nmar.cli.common import note
from nmar.cli.files import check_output
from nmar.cli.names import parse_data, parse_linkage

HELP = "draw a matrix from the coupled model"
EXAMPLE = "  nmar simulate --shape 1000 500 --density 0.05 --data factorization:5 --linkage linear:0.3 -o sim.csv\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("-o", "--output", required=True, help="csv, tsv, parquet, npz or mtx")
    parser.add_argument("--shape", type=int, nargs=2, default=(1000, 500), metavar=("ROWS", "COLS"), help="1000 500")
    parser.add_argument("--density", type=float, default=0.05, help="expected share of observed cells (0.05)")
    parser.add_argument("--data", default="factorization:5", metavar="MODEL", help="data model (factorization:5)")
    parser.add_argument("--linkage", default="linear:0.3", metavar="NAME[:C]", help="linkage and its c (linear:0.3)")
    parser.add_argument("--seed", type=int, default=0, help="seed (0)")


def run(args: argparse.Namespace) -> int:
    """Draw and write."""
    from nmar.cli.convert import write_cells
    from nmar.fit.simulate import simulate

    check_output(args.output)
    link = parse_linkage(args.linkage)
    cells, _ = simulate(tuple(args.shape), parse_data(args.data), link, density=args.density, seed=args.seed)
    write_cells(args.output, cells)
    note(f"wrote {cells!r} to {args.output}")
    return 0
