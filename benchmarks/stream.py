"""A stream of simulated cells through the minibatch solver: resident memory stays bounded.

    python -m benchmarks.stream [--cells 5000000] [--rows 2000]

Batches are drawn one after another from a factorization with a fixed column side and are never kept.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np

from nmar import CCPF, Cells, Factorization
from nmar.fit.solvers.schedule import Minibatch

COLUMNS, PER_ROW, RANK = 2000, 100, 5


def batch(number: int, rows: int) -> Cells:
    """Rows with about ``PER_ROW`` cells each, popular columns more often."""
    rng = np.random.default_rng([1, number])
    fixed = np.random.default_rng(0)
    popularity, factors = fixed.gamma(0.7, 1.0, COLUMNS), fixed.normal(size=(COLUMNS, RANK))
    rate = rng.gamma(2.0, 0.5, (rows, 1)) * popularity / popularity.sum() * PER_ROW
    row, col = np.nonzero(rng.random((rows, COLUMNS)) < -np.expm1(-rate))
    lines = rng.normal(size=(rows, RANK)) / np.sqrt(RANK)
    values = np.einsum("pk,pk->p", lines[row], factors[col]) + rng.normal(size=len(row))
    return Cells.from_arrays(row, col, values, (rows, COLUMNS))


def main() -> None:
    """Stream, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    seen = {"cells": 0, "batches": 0}

    def source() -> Iterator[Cells]:
        while seen["cells"] < arguments.cells:
            cells = batch(seen["batches"], arguments.rows)
            seen["cells"] += len(cells)
            seen["batches"] += 1
            yield cells

    began = time.perf_counter()
    model = CCPF(
        Factorization(RANK), linkage="linear", factors=RANK, solver=Minibatch(), noise="constant", random_state=0
    )
    model.fit(source())
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fresh = batch(10**6, 500)
    given, _, held = fresh.split(test=0.3, valid=0.0, seed=0)
    score = model.fold_in(given).log_likelihood(held)
    print(f"{seen['cells']} cells in {seen['batches']} batches, {seconds:.1f} s, peak resident {peak:.0f} MB")
    print(
        f"held-out cells of new rows, folded in: {score:.4f} nats (noise alone: {-0.5 * np.log(2 * np.pi * np.e):.4f})"
    )


if __name__ == "__main__":
    main()
