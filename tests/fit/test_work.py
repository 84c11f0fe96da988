"""What a sweep costs, counted: visits of cells and of lines by each loop, and numbers that are allocated.

Nothing is timed. A change that makes a sweep read the cells once more, or makes memory for its lines anew, fails here.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import problems_fit as small
import pytest

from nmar.fit.executor import Serial
from nmar.fit.loop.run import FullSweeps, Progress, run, sweep_batch
from nmar.fit.loop.stop import StopRule
from nmar.kernels.choose import choose
from nmar.models.context import Context

OVER_CELLS = ("expect", "descend", "weigh", "statistics", "add_lines", "moments", "read_levels")
OVER_LINES = ("update_gamma", "tabulate", "solve_normal")


class Counting:
    """The compiled loops, which note how many cells and lines they were given."""

    def __init__(self) -> None:
        self.kernels, self.cells, self.lines = choose("numba"), Counter(), Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.kernels, name)
        if name in OVER_CELLS:
            return self._noting(self.cells, name, found, lambda first: len(first.indices))
        if name in OVER_LINES:
            return self._noting(self.lines, name, found, lambda first: len(getattr(first, "allocated", first)))
        return found

    @staticmethod
    def _noting(count: Counter, name: str, loop: Any, size: Any) -> Any:
        def noted(first: Any, *rest: Any) -> Any:
            count[name] += size(first)
            return loop(first, *rest)

        return noted


class Weighing(FullSweeps):
    """Sweeps; the most bytes that the last of them had allocated at once, over what it began with."""

    def __init__(self, last: int) -> None:
        self.last, self.peak = last, 0

    def advance(self, state: Any, memory: Any, context: Context) -> Any:
        if memory.steps < self.last:
            return sweep_batch(state, memory, context)
        tracemalloc.start()
        try:
            return sweep_batch(state, memory, context)
        finally:
            self.peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()


def counted(name: str, link: str, hide: float, sweeps: int) -> tuple[Counting, int]:
    """The loops after some sweeps, and the number of cells."""
    problem, counting = small.start(name, link, hide=hide), Counting()
    context = Context(problem.observed, problem.law, counting, Serial())
    run(Progress(problem.state), context, StopRule(sweeps, 0.0))
    return counting, len(problem.observed.cells)


def taken(longer: Counter, shorter: Counter) -> dict[str, int]:
    """What the sweep between them took."""
    return {name: count - shorter[name] for name, count in longer.items() if count > shorter[name]}


FULL = {"expect": 2, "statistics": 2}
DIAGONAL = {"descend": 2, "statistics": 1}


@pytest.mark.parametrize(
    ("name", "link", "cells", "lines"),
    [
        ("noise", "ignorable", FULL, {"update_gamma", "solve_normal"}),
        ("full", "free", FULL, {"update_gamma", "solve_normal"}),
        ("noise-diagonal", "ignorable", DIAGONAL, {"update_gamma"}),
        ("poisson", "linear", FULL, {"update_gamma"}),
    ],
)
def test_a_sweep_visits_each_cell_as_often_as_it_must(name, link, cells, lines):
    (shorter, n), (longer, _) = (counted(name, link, 0.0, sweeps) for sweeps in (2, 3))
    assert taken(longer.cells, shorter.cells) == {loop: passes * n for loop, passes in cells.items()}
    assert taken(longer.lines, shorter.lines) == dict.fromkeys(lines, 100)  # 60 rows and 40 columns, each once


def test_hidden_cells_cost_two_visits_and_nothing_else():
    (shorter, n), (longer, _) = (counted("noise", "ignorable", 0.1, sweeps) for sweeps in (2, 3))
    found = taken(longer.cells, shorter.cells)
    hidden = found.pop("add_lines")
    assert found == {loop: passes * n for loop, passes in FULL.items()}
    assert hidden == 2 * len(small.start("noise", "ignorable", hide=0.1).observed.hidden)


@pytest.mark.parametrize("name", ["noise", "noise-diagonal", "poisson"])
def test_a_sweep_writes_its_lines_into_memory_that_it_has(name):
    problem = small.start(name, shape=(6000, 400), density=0.02)
    weighing = Weighing(4)
    run(Progress(problem.state), small.around(problem), StopRule(5, 0.0), schedule=weighing)
    assert weighing.peak < 350 * sum(problem.observed.cells.shape)  # bytes a line; 170 to 260, and 600 to 740 if not
