"""Is P(observed) that of a pattern fitted to what is observed, under every linkage? And the rate that predictions read.

    python -m benchmarks.pattern ml_latest_small cptac geuvadis yelp_250k [--seeds 0 1 2] [--fits plain linear free]

Rank 10, factors 10, the split of the floors (20 % test, 1 % validation, which is not used), test cells hidden. Printed
are the area under the curve of P(observed), test cells against random missing pairs, beside that of the shares of seen
cells of rows and of columns; NDCG@100 of lists by P(observed) and by expected value times P(observed), all test cells
being relevant; and held-out nats with what reading E[Λ | observed] in place of E Λ adds to them, ± clustered by row.
"plain" is a fit that is told nothing; linkages have noise by row and column without a tail.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import replace

import numpy as np

import nmar
from benchmarks.problems import PROBLEMS
from nmar import CCPF, Cells, Factorization, metrics
from nmar.models.state import State
from nmar.prob.factor import SURE, GammaFactor

LINKAGES = {
    "linear": "linear",
    "free": "free",
    "free, s=4": nmar.Free(thinning=4),
    "free, s=16": nmar.Free(thinning=16),
    "two-stage": "two-stage",
}
LISTED = 100


def problem(name: str, seed: int) -> tuple[Cells, Cells]:
    """Training and test cells; MovieLens ratings as they were given, 0.5 to 5."""
    train, _, test = PROBLEMS[name](seed)
    if name == "ml_latest_small":
        train, test = (part.with_values(part.values / 2.0) for part in (train, test))
    return train, test


def seen_and_missing(train: Cells, test: Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of test cells and of random pairs that are not observed, and which are test cells."""
    rng, (i, j) = np.random.default_rng(0), test.positions()
    a, b = (rng.integers(0, size, 2 * len(i)) for size in train.shape)
    away = ~(train.contains(a, b) | test.contains(a, b))
    a, b = a[away], b[away]
    return np.append(i, a), np.append(j, b), np.arange(len(i) + len(a)) < len(i)


def area(model: CCPF, train: Cells, test: Cells) -> float:
    """Probability that a test cell has a larger P(observed) than a random pair that is not observed."""
    i, j, seen = seen_and_missing(train, test)
    return metrics.auc(seen, model.observed_probability(train.rows.ids[i], train.cols.ids[j]))


def areas_of_shares(train: Cells, test: Cells) -> tuple[float, ...]:
    """The same of the share of seen cells of a cell's row, and of its column."""
    *places, seen = seen_and_missing(train, test)
    return tuple(metrics.auc(seen, np.diff(train.by(axis).indptr)[at]) for axis, at in enumerate(places))


def ndcg(model: CCPF, train: Cells, test: Cells, by: str) -> float:
    """NDCG@100 of the lists of all rows that have a test cell."""
    rows = train.rows.ids[np.unique(test.row_index)]
    return metrics.ndcg(model.recommend(rows, n=LISTED, by=by)[0], rows, test, LISTED)  # type: ignore[arg-type]


def at_mean_rates(model: CCPF) -> CCPF:
    """A copy that reads E Λ in every cell: the same pattern without doubt about it."""
    known, sides = model.posterior_, []
    for side in known.state.sides:
        mean = side.pattern.weights.mean.astype(np.float64)
        sure = GammaFactor(np.full(mean.shape, SURE), SURE / np.maximum(mean, 1e-290))
        sides.append(replace(side, pattern=replace(side.pattern.bare(), weights=sure)))
    model = copy.copy(model)
    model.posterior_ = replace(known, state=State((sides[0], sides[1]), known.state.shared))
    return model


def gain(mine: np.ndarray, other: np.ndarray, rows: np.ndarray) -> str:
    """Mean difference and its standard error, clustered by row."""
    each = mine - other
    by_row = np.bincount(rows, each - each.mean())
    return f"{each.mean():+.5f} ± {np.sqrt(np.sum(by_row**2)) / len(each):.5f}"


def measure(name: str, seed: int, label: str) -> None:
    """Fit and print."""
    train, test = problem(name, seed)
    known = {} if label == "plain" else {"linkage": LINKAGES[label], "tail": False}
    model = CCPF(Factorization(10), random_state=seed, **known).fit(train, hidden=test)  # type: ignore[arg-type]
    nats = model.log_likelihood(test, per_cell=True)
    text = f"{name:16s} seed {seed} {label:11s} area {area(model, train, test):.4f}"
    if train.shape[1] > 2 * LISTED:
        text += "  NDCG " + ", ".join(f"{by} {ndcg(model, train, test, by):.4f}" for by in ("observed", "expected"))
    text += f"  nats {nats.mean():.4f}"
    if label != "plain":
        mean = at_mean_rates(model).log_likelihood(test, per_cell=True)
        text += f", by the rate {gain(nats, mean, test.row_index)}"
    print(text, flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--fits", nargs="+", choices=["plain", *LINKAGES], default=["plain", *LINKAGES])
    arguments = parser.parse_args()
    for name in arguments.names:
        for seed in arguments.seeds:
            rows, cols = areas_of_shares(*problem(name, seed))
            print(f"{name:16s} seed {seed} shares      area {rows:.4f} of rows, {cols:.4f} of columns", flush=True)
            for label in arguments.fits:
                measure(name, seed, label)


if __name__ == "__main__":
    main()
