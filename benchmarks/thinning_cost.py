"""What thinning costs: sweeps with s = 1 and s > 1 in turn, in one process.

    python -m benchmarks.thinning_cost [--problem ml_1m] [--rounds 7] [--thinning 16] [--tail 2]

Two models: full covariance of rank 10 (factors 10, float64) and diagonal of rank 160 (factors 160, float32). Each
starts from a state after a few sweeps. Prints the median seconds of a sweep, with its range, and the median ratio of
neighbouring sweeps to the one with s = 1.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from benchmarks.problems import PROBLEMS, SHAPES, simulated
from nmar import Cells, Factorization, Free
from nmar.fit.executor import threads
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.buffers import LineBuffers
from nmar.models.context import Context
from nmar.models.missingness import Pattern

MODELS = {
    "full, rank 10": (Factorization(10), 10, np.float64),
    "diagonal, rank 160": (Factorization(160, covariance="diagonal"), 160, np.float32),
}


def training_cells(name: str) -> Cells:
    """Training cells of a problem, or a simulated matrix of a well-known size."""
    if name in PROBLEMS:
        return PROBLEMS[name]()[0]
    rows, cols, cells = SHAPES[name]
    return Cells.from_arrays(*simulated(rows, cols, cells), (rows, cols))


def bent(thinning: float, tail: int) -> Free:
    """A falling table, so that all of its bins are in use."""
    levels = Free(thinning=thinning).levels
    return Free(values=tuple(np.exp(-1.2 * np.linspace(0.0, 1.0, levels))), thinning=thinning, tail=tail, learn=True)


def measure(cells: Cells, model: str, linkages: dict[str, Free], rounds: int) -> None:
    """Time the linkages in turn and print."""
    data, factors, dtype = MODELS[model]
    kernels = choose("auto")
    with threads(None) as executor:
        runs = {}
        for name, linkage in linkages.items():
            problem = begin(cells, data.build(cells), linkage, Pattern(factors), dtype=dtype)
            around = Context(problem.observed, problem.law, kernels, executor, LineBuffers(kernels))  # as a run has
            state = problem.state
            for _ in range(3):
                state, _ = sweep(state, around)
            runs[name] = [state, around, []]
        for _ in range(rounds):
            for run in runs.values():
                began = time.perf_counter()
                run[0], _ = sweep(run[0], run[1])
                run[2].append(time.perf_counter() - began)
    base = np.array(next(iter(runs.values()))[2])
    for name, (_, _, seconds) in runs.items():
        took = np.array(seconds)
        ratio = np.median(took / base)
        print(
            f"{model:20s} {name:20s} {np.median(took):7.3f} s [{took.min():.3f}–{took.max():.3f}]  {ratio:.2f} ×",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="ml_1m", choices=[*PROBLEMS, *SHAPES])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--thinning", type=float, nargs="+", default=[8.0, 16.0])
    arguments = parser.parse_args()
    cells = training_cells(arguments.problem)
    linkages = {"s = 1": replace(bent(1.0, 1))}
    for thinning in arguments.thinning:
        linkages[f"s = {thinning:g}"] = bent(thinning, 1)
    linkages[f"s = {thinning:g}, tail of 2"] = bent(thinning, 2)
    for model in arguments.models:
        measure(cells, model, linkages, arguments.rounds)


if __name__ == "__main__":
    main()
