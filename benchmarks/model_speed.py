"""Seconds of a sweep of every data model beside the Gaussian factorization of the same rank, on MovieLens-1M.

python -m benchmarks.model_speed
"""

from __future__ import annotations

import time

import numpy as np

import nmar
from benchmarks.problems import ml_1m

X = np.random.default_rng(0).normal(size=(3706, 9))
MODELS = (
    nmar.Factorization(10),
    nmar.Factorization(10, covariance="diagonal"),
    nmar.Factorization(10, family="poisson"),
    nmar.Constant("gaussian"),
    nmar.Effects("both"),
    nmar.Mixture(10, restarts=1),
    nmar.Mixture(10, family="poisson", restarts=1),
    nmar.Regression(X),
)


def main() -> None:
    """Fit two and seven sweeps; the difference is five sweeps."""
    train, _, _ = ml_1m()
    first = None
    for data in MODELS:
        seconds = []
        for sweeps in (2, 2, 7):
            start = time.perf_counter()
            nmar.CCPF(data, "linear", noise="constant", max_iter=sweeps, tol=0.0, random_state=0).fit(train)
            seconds.append(time.perf_counter() - start)
        per_sweep = (seconds[2] - seconds[1]) / 5
        first = first or per_sweep
        print(
            f"{data.describe():28s} {per_sweep:.3f} s a sweep, {per_sweep / first:.2f} of the factorization", flush=True
        )


if __name__ == "__main__":
    main()
