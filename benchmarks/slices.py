"""Growth: MovieLens-1M in ten slices through partial_fit, beside one fit on everything.

python -m benchmarks.slices [--slices 10] [--sweeps 20]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.problems import ml_1m
from nmar import CCPF, Cells, Factorization


def main() -> None:
    """Grow, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=20)
    arguments = parser.parse_args()
    train, valid, test = ml_1m()
    part = np.random.default_rng(0).permutation(len(train)) % arguments.slices
    settings = {"data": Factorization(10), "random_state": 0}
    model = CCPF(**settings)
    began = time.perf_counter()
    row, col = train.positions()
    for k in range(arguments.slices):
        chosen = part == k
        # only the ids that occur: rows and columns appear as they are first seen
        frame = {"row": row[chosen], "col": col[chosen], "value": train.values[chosen]}
        model.partial_fit(Cells.from_frame(frame, "row", "col", "value"), sweeps=arguments.sweeps)
        score = model.log_likelihood(test, unknown="prior")
        spent = time.perf_counter() - began
        print(f"slice {k + 1:2d}: {model.posterior_.rows.size} rows, {model.posterior_.cols.size} columns,"
              f" {model.n_iter_} sweeps, test {score:.4f}, {spent:.1f} s", flush=True)  # fmt: skip
    grown = [model.log_likelihood(cells, unknown="prior") for cells in (valid, test)]
    for label, more in (("default stop", {}), ("40 sweeps", {"max_iter": 40, "tol": 0.0, "starts": 1})):
        whole = CCPF(**settings, **more).fit(train)
        full = [whole.log_likelihood(cells) for cells in (valid, test)]
        print(f"one fit, {label}: valid {full[0]:.4f} test {full[1]:.4f};"
              f" slices differ by {grown[0] - full[0]:+.4f} {grown[1] - full[1]:+.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
