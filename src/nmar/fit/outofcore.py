"""Fits of cells that stay on disk: what they can be asked, and how much memory they need.

Sides are in memory, cells are not: a fit holds three sets of lines, a view of one side, and a few blocks of cells.
"""

from __future__ import annotations

from typing import Any

from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.fit.options import Options
from nmar.fit.problem import Problem
from nmar.models.context import Executor
from nmar.models.half_sweep import BLOCK
from nmar.models.settings import Regressor
from nmar.models.state import Side
from nmar.prob.tree import arrays_of

UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
BASE = 350 * 10**6  # bytes of a process that has loaded the library and its compiled loops
PER_CELL = 64  # bytes of a cell of a block under way: position, value, functions, q(n)


def check_settings(cells: Cells, options: Options) -> None:
    """Refuse, by name, settings that need all cells in memory."""
    if cells.in_memory:
        return
    wrong = ""
    if options.linkage in ("auto", "two-stage"):
        wrong = f"linkage={options.linkage!r}"
    elif options.factors == "auto":
        wrong = "factors='auto'"
    elif options.open_rank:
        wrong = "rank='auto'"
    elif options.open_styles:
        wrong = "styles='auto'"
    elif options.method is not None:
        wrong = f"solver={options.solver!r} (give it a stream, dataset.batches)"
    elif options.mechanism != "none":
        wrong = f"mechanism={options.mechanism!r}"
    elif options.target != "observed":
        wrong = f"target={options.target!r}"
    elif isinstance(options.data, Regressor):
        wrong = "data=Regressor(…)"
    if wrong:
        raise ValueError(
            f"{wrong} needs all cells in memory, and a Dataset leaves them on disk; choose it on a sample of the rows,"
            " or load the cells: fit(dataset.to_cells())"
        )


def verify(cells: Cells, executor: Executor) -> None:
    """Compare the files of cells on disk with their checksums, before anything is learned from them."""
    if isinstance(cells, Dataset):
        executor.map(_verify_file, cells, sorted(cells.manifest.files))


def _verify_file(cells: Dataset, name: str) -> None:
    cells.verify(name)


def as_bytes(memory: int | float | str) -> int:
    """A size such as "4GB", "512 MiB" or a number of bytes.

    Examples
    --------
    >>> as_bytes("4GB"), as_bytes("1.5 GiB"), as_bytes(1000)
    (4000000000, 1610612736, 1000)
    """
    if isinstance(memory, int | float) and memory > 0:
        return int(memory)
    text = str(memory).strip().upper()
    number = text.rstrip("BIKMGT ")
    unit = text[len(number) :].strip()
    try:
        return int(float(number) * UNITS["" if unit == "B" else unit])
    except (ValueError, KeyError):
        raise ValueError(f"memory={memory!r}; give a size such as '4GB' or '512MiB'") from None


def line_bytes(side: Side) -> int:
    """Bytes of the lines of a side, with the tables of its pattern."""
    weights = side.pattern.weights.alpha
    tables = 2 * weights.nbytes + 24 * len(weights)
    return tables + _bytes(side.pattern.bare()) + _bytes(side.data)


def _bytes(record: Any) -> int:
    return sum(array.nbytes for array in arrays_of(record))


def needed(problem: Problem, threads: int) -> dict[str, int]:
    """Bytes that a fit holds, by what they hold.

    The lines that the fit began with, those of a sweep and of the one before it, the side that a half sweep reads, as
    the loops read it, line pointers, and a block of cells for each thread.
    """
    sides = [line_bytes(side) for side in problem.state.sides]
    return {
        "program": BASE,
        "factors": 3 * sum(sides),
        "view": max(sides),
        "pointers": 8 * sum(problem.observed.cells.shape),
        "blocks": threads * BLOCK * PER_CELL,
    }


def check_memory(problem: Problem, memory: Any, threads: int) -> None:
    """Refuse a fit that would need more than ``memory``, before it does."""
    if memory is None:
        return
    limit, parts = as_bytes(memory), needed(problem, threads)
    total = sum(parts.values())
    if total > limit:
        told = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in parts.items())
        raise ValueError(
            f"memory={memory!r} does not hold the factors: about {total / 1e9:.2f} GB are needed ({told} GB); fewer"
            " factors or a lower rank, covariance='diagonal' and dtype='float32' need less"
        )
