"""What the evidence lower bound adds to a sweep of the pattern alone, where it weighs most.

    python -m benchmarks.bound [--problem ml_20m_half] [--factors 160] [--sweeps 8]

Its terms come out of the sweep itself: Σ log Z over cells, and per line Σ E[log q], Σ E[log u] and Σ E[u]. Timed apart
and given as shares of a sweep, all with one thread: the sums over lines (the table of both sides with them, less
without), the logarithms of cells, and the function that puts them together.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.problems import SHAPES, simulated
from nmar import CCPF, Cells, PatternOnly
from nmar.kernels.numba.base import entry
from nmar.kernels.numba.gamma import gamma_moments, tabulate_lines
from nmar.kernels.numba.math import storage_exp, storage_log, sum_of_logs
from nmar.kernels.numba.workspace import gamma_workspace


@entry
def without_sums(shape, rate, table, room):
    """As ``tabulate_lines`` without what only the bound reads."""
    (log_mean, geometric, _), (moments, stored) = table, room
    for i in range(shape.shape[0]):
        for k in range(shape.shape[1]):
            _, moments[0, k], moments[1, k], _, _ = gamma_moments(np.float64(shape[i, k]), np.float64(rate[i, k]))
        for k in range(shape.shape[1]):
            stored[0, k], stored[1, k] = moments[0, k], moments[1, k]
        for k in range(shape.shape[1]):
            log_mean[i, k] = storage_log(stored[0, k]) + stored[1, k]
        for k in range(shape.shape[1]):
            geometric[i, k] = storage_exp(log_mean[i, k])


def seconds(task: Callable[[], Any], repeats: int = 5) -> float:
    """Median of several runs, after one that compiles."""
    found = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        task()
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])


def main() -> None:
    """Fit, time the parts, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="ml_20m_half", choices=list(SHAPES))
    parser.add_argument("--factors", type=int, default=160)
    parser.add_argument("--sweeps", type=int, default=8)
    given = parser.parse_args()
    n_rows, n_cols, n_cells = SHAPES[given.problem]
    cells = Cells.from_arrays(*simulated(n_rows, n_cols, n_cells), (n_rows, n_cols))
    model = CCPF(PatternOnly(), "ignorable", factors=given.factors, max_iter=given.sweeps, tol=0.0, n_jobs=1,
                 dtype="float32", starts=1, random_state=0)  # fmt: skip
    model.fit(cells)
    sweep = statistics.median(np.diff(model.seconds_trace_)[1:])
    sides = [side.pattern for side in model.posterior_.state.sides]
    parts = {
        "sums over lines": _sums(sides),
        "logarithms of cells": _logs(2 * n_cells),
        "put together": _together(sides),
    }
    print(f"a sweep {sweep:.3f} s, one thread")
    for name, found in parts.items():
        print(f"{name} {found:.4f} s, {found / sweep:.1%} of it")
    print(f"the bound {sum(parts.values()) / sweep:.1%} of a sweep")


def _sums(sides: list[Any]) -> float:
    """The table of both sides with the sums, less without."""
    total = 0.0
    for side in sides:
        shape, rate = side.weights.alpha, side.weights.beta
        n, K = shape.shape
        log_mean, geometric = np.empty_like(shape), np.empty_like(shape)
        table, room = (log_mean, geometric, np.empty((n, 3))), gamma_workspace(K, shape.dtype)

        def whole(a=shape, b=rate, table=table, room=room) -> None:
            tabulate_lines(a, b, table, room)

        def less(a=shape, b=rate, table=table, room=room) -> None:
            without_sums(a, b, table, room)

        total += seconds(whole) - seconds(less)
    return total


def _logs(cells: int, tile: int = 128) -> float:
    """Σ log of a number per cell, a tile at a time."""
    numbers = np.random.default_rng(0).uniform(0.01, 1.0, tile)
    return seconds(lambda: _many(numbers, cells // tile))


@entry
def _many(numbers, times):
    total = 0.0
    for each in range(times):
        numbers[each % numbers.shape[0]] *= 0.999999  # or the compiler would do it once
        total += sum_of_logs(numbers)
    return total


def _together(sides: list[Any]) -> float:
    """KL of all lines from their sums."""
    from nmar.models.missingness import Pattern
    from nmar.prob.factor import gamma_divergence

    law = Pattern(sides[0].weights.alpha.shape[1])
    totals = [side.weights.totals for side in sides]

    def task() -> None:
        for side, total in zip(sides, totals, strict=True):
            active = side.activity
            gamma_divergence(total, law.factors, law.shape, active.mean, active.log_mean)
            active.divergence(law.activity_shape, law.activity_rate, float(np.log(law.activity_rate)))

    return seconds(task)


if __name__ == "__main__":
    main()
