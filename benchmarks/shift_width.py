"""How wide may a step of the shift δ(n) be? Held-out nats by prior width, in standard deviations of the values.

    python -m benchmarks.shift_width            # prints one line per problem, linkage and width

Training cells are fitted for 30 sweeps with validation cells (a tenth) and test cells hidden. The width is chosen on
validation cells.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import nmar
from benchmarks.problems import ml_latest_small
from nmar import Cells

WIDTHS = (0.1, 0.3, 1.0, 3.0)
STEPS = (0.0, 0.6, 0.9, 1.1)  # a shift in standard deviations of the noise


def simulated(seed: int, steps: tuple[float, ...] = STEPS) -> Cells:
    """A matrix whose frequent cells have larger values."""
    link = nmar.Ignorable(mean="shift", levels=len(steps), shift=steps)
    cells, _ = nmar.simulate((300, 200), nmar.Factorization(3), link, density=0.2, seed=seed)
    return cells


def movielens(seed: int) -> Cells:
    """All ratings of MovieLens small, values doubled."""
    train, valid, test = ml_latest_small(seed)
    return train.concat(valid).concat(test)


PROBLEMS = {
    "simulated": simulated,
    "simulated-flat": lambda seed: simulated(seed, (0.0, 0.0, 0.0, 0.0)),
    "ml_latest_small": movielens,
}
LINKAGES = {"linear": nmar.Linear, "free": nmar.Free}


def scores(cells: Cells, kind: str, width: float, seed: int) -> tuple[float, float, float]:
    """Validation and test nats and δ(2) in standard deviations of the values."""
    train, valid, test = cells.split(test=0.2, valid=0.1, seed=seed)
    spread = float(np.std(train.values))
    link = LINKAGES[kind](mean="shift", shift_width=width * spread)
    settings = {"factors": 10, "starts": "auto", "max_iter": 30, "tol": 0.0, "random_state": seed, "n_jobs": 1}
    model = nmar.CCPF(nmar.Factorization(5), link, **settings)
    model.fit(train, hidden=valid.concat(test))
    return model.log_likelihood(valid), model.log_likelihood(test), model.linkage_.shift[1] / spread


def lines(problems: list[str], seeds: int) -> Iterator[str]:
    """One line of the table for each problem, linkage and width: means over seeds."""
    for name in problems:
        for kind in LINKAGES:
            for width in WIDTHS:
                found = np.array([scores(PROBLEMS[name](seed), kind, width, seed) for seed in range(seeds)])
                valid, test, step = found.mean(axis=0)
                yield f"| {name} | {kind} | {width:g} | {valid:.4f} | {test:.4f} | {step:+.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    print("| data | linkage | width / sd(y) | validation | test | δ(2) / sd(y) |\n|---|---|---|---|---|---|")
    for line in lines(args.problems, args.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
