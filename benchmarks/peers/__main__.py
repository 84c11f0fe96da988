"""Problems × libraries: seconds of a sweep, memory and time to a target, beside other libraries.

    python -m benchmarks.peers both --target --scaling           measure, then write docs/benchmarks.md and its plots
    python -m benchmarks.peers measure --problems ml_1m --factors 10 --repeats 5
    python -m benchmarks.peers report --out docs/benchmarks.jsonl --docs docs

Problems are names in benchmarks/problems.py, or simulated ones written as rows, columns and cells: 2000x500x50000. Each
measurement runs in a process of its own, one after another, and is appended to the file --out; a run that was stopped
goes on from there. Libraries that are not installed are said to be so. Where they live in a virtual environment of
their own, --python gives the interpreter for all (--python /path/python) or for one (--python hpfrec=/path/python);
nmar and what it needs must be installed there too. Memory is measured as Linux counts it.

--scaling adds sweeps against the number of cells (with rows in proportion, and with the same rows and columns) and
against the number of factors, with the largest number of threads. --target adds the error of held-out values against
seconds of fitting, for the libraries that model values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.libraries import LIBRARIES


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["measure", "report", "both"])
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks.jsonl"), help="file of the results")
    _what(parser.add_argument_group("what is measured"))
    _how(parser.add_argument_group("how it is measured"))
    page = parser.add_argument_group("report")
    page.add_argument("--docs", type=Path, default=Path("docs"), help="folder of benchmarks.md and its plots")
    page.add_argument("--rmse", nargs="+", default=[], metavar="PROBLEM=VALUE", help="targets; else what all reach")
    page.add_argument("--slack", type=float, default=0.005, help="share by which a target not given may be missed")
    return parser.parse_args()


def _what(group: argparse._ArgumentGroup) -> None:
    problems = ["yelp_250k", "ml_1m", "ml_20m_half", "ml_20m", "netflix"]
    group.add_argument("--problems", nargs="*", default=problems)
    group.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    group.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    group.add_argument("--factors", nargs="+", type=int, default=[160])
    group.add_argument("--target", action="store_true", help="add time to a target")
    group.add_argument("--target-problems", nargs="+", default=["ml_1m", "yelp_250k"])
    group.add_argument("--target-factors", type=int, default=10)
    group.add_argument("--scaling", action="store_true", help="add time against cells and against factors")
    group.add_argument("--scaling-shape", nargs=2, type=int, default=[480_189, 17_770], metavar=("ROWS", "COLUMNS"))
    cells = [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
    group.add_argument("--scaling-cells", nargs="+", type=int, default=cells)
    group.add_argument("--scaling-cells-factors", type=int, default=40, help="factors of the scaling in cells")
    group.add_argument("--scaling-factors", nargs="+", type=int, default=[10, 20, 40, 80, 160])
    group.add_argument("--scaling-problem", default="ml_20m_half", help="problem of the scaling in factors")


def _how(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--repeats", type=int, default=3)
    group.add_argument("--budget", type=float, default=10.0, help="seconds of sweeps that are timed in a process")
    group.add_argument("--limit", type=float, default=1800.0, help="seconds after which a process is stopped")
    group.add_argument("--memory", type=float, help="GB a process may have; else 85 %% of the machine's")
    group.add_argument("--python", nargs="+", default=[], metavar="[LIBRARY=]PATH", help="interpreters")
    group.add_argument("--cache", type=Path, help="folder of the problems as files; else one for temporary files")
    group.add_argument("--retry", action="store_true", help="try again what could not be measured")


def main() -> None:
    """Measure, report, or both."""
    options = parse()
    if options.action != "report":
        from benchmarks.peers.measure import measure

        measure(options)
    if options.action != "measure":
        from benchmarks.peers.report import write

        write(options)


if __name__ == "__main__":
    main()
