"""``nmar convert``: cells from one format into another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nmar.cli.common import note, read_cells
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, write_table

HELP = "convert a file of cells (csv, tsv, parquet, npz, mtx; also from h5ad)"
NAMES = {name: name for name in ("row", "col", "value", "weight")}
EXAMPLE = "  nmar convert ratings.csv.gz ratings.parquet --row user --col item --value stars\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("data_file", metavar="IN", help="a file of cells, or the name of a data set: movielens")
    parser.add_argument("output", metavar="OUT", help="csv, tsv (also .gz), parquet, npz, or mtx (drops the ids)")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Read and write."""
    check_output(args.output, "OUT")
    cells = read_cells(args.data_file, args, query=args.sql, used=("row", "col", "value"))  # name columns of the output
    write_cells(args.output, cells, column_names(args))
    note(f"wrote {cells!r} to {args.output}")
    return 0


def column_names(args: argparse.Namespace) -> dict[str, str]:
    """What the columns are called in a table that is written: as in the one that is read."""
    return {name: getattr(args, name) or name for name in NAMES}


def write_cells(path: str, cells: Any, names: dict[str, str] = NAMES) -> None:
    """Write cells in the format that the ending names, whole or not at all; weights where they have some."""
    import numpy as np
    import scipy.io
    import scipy.sparse as sparse

    from nmar.data.atomic import write_with

    kind = Path(path).suffix.lower()
    row, col = cells.pairs()
    columns = {"row": row, "col": col, "value": cells.values}
    if cells.weights is not None:
        columns["weight"] = cells.weights
    if kind == ".mtx":
        if cells.weights is not None:
            raise ValueError(f"OUT {path!r}: mtx has no place for weights; use csv, parquet or npz")
        matrix = sparse.coo_array((cells.values, cells.positions()), shape=cells.shape)

        def write(file: Path) -> None:
            with open(file, "wb") as stream:  # given a path, scipy says nothing of a full disk
                scipy.io.mmwrite(stream, matrix)

        write_with(path, write)
    elif kind == ".npz":
        plain = [np.array(ids.tolist()) if ids.dtype == object else ids for ids in (row, col)]
        if any(ids.dtype == object for ids in plain):
            raise ValueError(f"OUT {path!r}: ids of mixed kinds do not fit npz; use csv or parquet")
        arrays = {**columns, "row": plain[0], "col": plain[1]}
        write_with(path, lambda file: np.savez_compressed(file, **arrays))
    else:
        write_table(path, {names[name]: column for name, column in columns.items()})
