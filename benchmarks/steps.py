"""Sweeps and seconds to convergence of a diagonal factorization, against the steps of conjugate gradients per update.

python -m benchmarks.steps [--problem ml_1m] [--ranks 20 80] [--steps 1 2 3 8]

Each fit ends by the default rule. One start, float32, linear linkage.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks import problems
from nmar import CCPF, Factorization


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="ml_1m", choices=["ml_1m", "yelp_250k", "ml_latest_small"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[20, 80])
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 3, 8])
    given = parser.parse_args()
    train, _, test = getattr(problems, given.problem)()
    print("| rank | steps | sweeps | seconds a sweep | bound a cell | held-out log likelihood |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rank in given.ranks:
        built = Factorization(rank, covariance="diagonal").build(train)
        for steps in given.steps:
            settings = {"factors": 20, "noise": "constant", "dtype": "float32", "random_state": 0}
            model = CCPF(replace(built, steps=steps), "linear", **settings)
            model.fit(train)
            seconds, bounds = model.seconds_trace_, model.bound_trace_
            each = (seconds[-1] - seconds[1]) / (len(seconds) - 2)  # the first two sweeps compile and touch new memory
            found = bounds[-1] / train.n_observed, model.score(test)
            print(f"| {rank} | {steps} | {len(bounds)} | {each:.3f} | {found[0]:.4f} | {found[1]:.4f} |", flush=True)


if __name__ == "__main__":
    main()
