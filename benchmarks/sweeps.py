"""Seconds of 40 sweeps on MovieLens-1M (full covariance, free linkage, rank and factors 10), and peak memory.

    python -m benchmarks.sweeps [--repeats 3] [--linkage free] [--covariance full]

One start, no stopping rule, after compilation. Memory is the peak resident set of the process, data included.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from benchmarks.problems import ml_1m
from nmar import CCPF, Factorization


def main() -> None:
    """Fit several times and print the median and the spread."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--linkage", default="free")
    parser.add_argument("--covariance", default="full")
    parser.add_argument("--jobs", type=int, default=None)
    arguments = parser.parse_args()
    train, _, test = ml_1m()
    settings = {"linkage": arguments.linkage, "factors": 10, "noise": "constant", "tol": 0.0, "random_state": 0}
    data = Factorization(10, covariance=arguments.covariance)
    CCPF(data, max_iter=1, n_jobs=arguments.jobs, **settings).fit(train)  # compiles, builds both orientations
    seconds = []
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        model = CCPF(data, max_iter=40, n_jobs=arguments.jobs, **settings).fit(train)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"40 sweeps, {train.n_observed} cells: {np.median(seconds):.2f} s ({min(seconds):.2f}–{max(seconds):.2f})")
    print(f"peak resident memory {peak:.2f} GB; predictive {model.log_likelihood(test):.4f}")


if __name__ == "__main__":
    main()
