"""What float32 storage costs: the same fits in float64 and float32, and both beside the NumPy reference.

    python -m benchmarks.precision [--sweeps 20] [--problems yelp_250k ml_1m]

First table: fits of real data, one start, so many sweeps; bound per cell, predictive log likelihood of the test cells,
parameters of the linkage and the dispersion. Second: one sweep of the reference kernels in float64 against the
compiled ones in both types, on a simulated table with enough factors for several groups of coordinates.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.problems import PROBLEMS
from nmar import CCPF, Cells, Factorization

MODELS = {
    "full, free": {"data": Factorization(10), "linkage": "free"},
    "diagonal, linear": {"data": Factorization(10, covariance="diagonal"), "linkage": "linear"},
}


def fits(problem: str, sweeps: int) -> None:
    """Print a line for each model and type."""
    train, _, test = PROBLEMS[problem]()
    for name, given in MODELS.items():
        rows = []
        for dtype in ("float64", "float32"):
            common = {"noise": "constant", "max_iter": sweeps, "tol": 0.0, "random_state": 0}
            model = CCPF(**given, **common, dtype=dtype).fit(train)
            bound = model.bound_trace_[-1] / train.n_observed
            rows.append((bound, model.log_likelihood(test), model.dispersion_))
        wide, narrow = np.array(rows)
        shown = " | ".join(f"{a:.6f} | {b - a:+.1e}" for a, b in zip(wide, narrow, strict=True))
        print(f"| {problem} | {name} | {shown} |", flush=True)


def against_reference() -> None:
    """Largest differences from the reference after one sweep."""
    rng = np.random.default_rng(0)
    shape, rank = (120, 90), 40
    at = np.flatnonzero(rng.random(shape[0] * shape[1]) < 0.3)
    cells = Cells.from_arrays(at // shape[1], at % shape[1], rng.normal(3.0, 1.0, len(at)), shape)
    for name, given in {
        "full, free, rank 5": {"data": Factorization(5), "linkage": "free"},
        "diagonal, linear, rank 40": {"data": Factorization(rank, covariance="diagonal"), "linkage": "linear"},
    }.items():
        for dtype in ("float64", "float32"):
            states = []
            for backend, kept in (("numba", dtype), ("reference", "float64")):
                options = {"noise": "constant", "max_iter": 1, "tol": 0.0, "random_state": 0, "factors": rank}
                model = CCPF(**given, **options, backend=backend, dtype=kept).fit(cells)
                side = model.posterior_.state.sides[0]
                states.append((side.pattern.weights.mean, side.data.mean, model.bound_trace_[-1:]))
            worst = [np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-2)) for a, b in zip(*states, strict=True)]
            print(f"| {name} | {dtype} | " + " | ".join(f"{value:.1e}" for value in worst) + " |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--problems", nargs="+", default=["yelp_250k", "ml_1m"])
    arguments = parser.parse_args()
    print("| data | model | bound per cell | float32 | log likelihood | float32 | dispersion | float32 |")
    print("|---|---|---|---|---|---|---|---|")
    for problem in arguments.problems:
        fits(problem, arguments.sweeps)
    print("\n| one sweep | type | pattern weights | data means | bound |\n|---|---|---|---|---|")
    against_reference()


if __name__ == "__main__":
    main()
