"""The paper's tables and its figure on the data at hand.

    python -m benchmarks.reproduce table3 --data data --factors 40 -o reproduction
    python -m benchmarks.reproduce all --data data

Exit status: 0; 1 if nothing could be fitted, with the reasons written; 2 after an error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reproduce.pages import markdown, write
from benchmarks.reproduce.paper import TABLES
from benchmarks.reproduce.run import Asked, Reproduction


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduce",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("what", choices=(*TABLES, "all"), help="which of them")
    add("--data", required=True, type=Path, metavar="FOLDER", help="where the data lie (docs/reproduction.md)")
    add("-o", "--output", default=Path("reproduction"), type=Path, metavar="FOLDER", help="results (reproduction)")
    add("--factors", type=int, default=160, metavar="K", help="factors, ranks and clusters (160)")
    add("--max-iter", type=int, default=30, metavar="N", help="largest number of sweeps of a fit (30)")
    add("--seeds", type=int, default=1, metavar="N", help="splits and starts of the tables (1)")
    add("--cells", type=int, default=100_000, metavar="N", help="cells of a data set at most, 0 for all (100000)")
    add("--seed", type=int, default=0, metavar="N", help="seed of splits and starts (0)")
    add("--dtype", choices=("float32", "float64"), default="float32", help="storage of the tables' factors (float32)")
    add("--no-bias", action="store_true", help="factorizations of the tables without biases, as the paper writes them")
    add("--jobs", type=int, metavar="N", help="threads (all processors)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables one after the other; returns the exit status."""
    args = parse(argv)
    if not args.data.is_dir():
        return _failed(f"--data '{args.data}' is not a folder; docs/reproduction.md says what belongs there")
    try:
        asked = Asked(args.factors, args.max_iter, args.seeds, args.cells, args.seed, args.dtype, bias=not args.no_bias)
    except ValueError as error:
        return _failed(str(error))
    maker = Reproduction(args.data, args.output, asked, args.jobs)
    fitted = [_make(maker, table) for table in (TABLES if args.what == "all" else (args.what,))]
    if not any(fitted):
        _note("nothing was fitted; each line above says why")
    return 0 if any(fitted) else 1


def _make(maker: Reproduction, table: str) -> bool:
    """Make one table; returns whether anything was fitted."""
    groups = []
    for rows in maker.records(table):
        groups.append(rows)
        _note(_summary(rows))
    written = write(table, groups, maker.asked, maker.output)
    print(markdown(table, groups, maker.asked))
    _note(f"wrote {', '.join(str(path) for path in written)}")
    return any("error" not in rows[0] for rows in groups)


def _summary(rows: list[dict[str, object]]) -> str:
    """One comparison in a line."""
    one = rows[0]
    name = " ".join(str(one[key]) for key in ("table", "column", "model", "axis") if one[key])
    if "error" in one:
        return f"{name}: {one['error']}"
    return f"{name}: {one['data']}, {one['cells']:,} of {one['available']:,} cells, {len(rows)} fit(s)"


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")


def _failed(text: str) -> int:
    _note(f"error: {text}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
