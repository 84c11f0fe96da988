"""Predictions for all cells: Coat, whose test items were drawn at random, and Jester with values missing by themselves.

    python -m benchmarks.target coat [--covariates] [--pattern] [--seeds 0 1 2]
    python -m benchmarks.target jester [--seeds 0 1 2]

``coat``: every candidate is scored by cross-validated squared error on training cells, weighted by inverse P(observed)
of a pattern that has not seen the cell. The best one, and a mean that is selected by the same error, are then fitted to
all training cells, and only their test errors are printed, beside a plain fit and a factorization shrunk to 0.
``--pattern`` has every candidate twice, with and without covariates of the pattern, and first says how well either
predicts which cells are observed. ``jester``: cells are kept with probability logistic(a + b z) at a density of 0.3, z
the standard score of the value, or of the mean of its column (popularity); the error is that of the cells taken out,
mean and standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas
from scipy.optimize import brentq
from scipy.special import expit

import nmar
from benchmarks.problems import coat, folder, triplets
from nmar import CCPF, Cells, Effects, Factorization, Free, Pattern
from nmar.fit.target import inverse_weights

FOLDS = 5
DENSITY = 0.3
# what the log odds of being kept rise with, and by how much per standard deviation of it
MECHANISMS = {
    "at random": ("value", 0.0),
    "by popularity, 1": ("popularity", 1.0),
    "by value, 0.5": ("value", 0.5),
    "by value, 1": ("value", 1.0),
    "by value, 2": ("value", 2.0),
}


def features() -> dict[str, np.ndarray]:
    """Covariates of Coat's users and items, by position."""
    return {
        axis: np.ascontiguousarray(pandas.read_parquet(folder() / "coat" / f"{name}_features.parquet").to_numpy(float))
        for axis, name in (("rows", "user"), ("cols", "item"))
    }


def levels() -> dict[str, pandas.DataFrame]:
    """The same covariates with one column for each question ("age", "color"), by position: what a pattern takes."""
    found = {}
    for axis, name in (("rows", "user"), ("cols", "item")):
        names = (folder() / "coat" / f"{name}_features_map.txt").read_text().split("\n")
        shown = pandas.DataFrame(features()[axis][:, : len(names)], columns=names)
        questions = dict.fromkeys(name.split(":")[0] for name in names)
        answers = {q: shown[[name for name in names if name.startswith(f"{q}:")]].idxmax(axis=1) for q in questions}
        found[axis] = pandas.DataFrame(answers).rename_axis("id")
    return found


Candidate = tuple[Effects | Factorization, str | Free, Pattern]
CENTERS = (None, 2.0, 1.0)  # what predictions are shrunk to: the mean of the training ratings, 2.61, or less
ROUNDS = 20  # of ensemble selection


def patterns(covariates: bool) -> dict[str, Pattern]:
    """Three factors, as many as are best at predicting which cells of Coat are observed; with covariates if asked."""
    known = levels() if covariates else {}
    found = {"": Pattern(3)}
    return found | {", pattern": Pattern(3, **known)} if known else found


def candidates(covariates: bool, pattern: bool) -> dict[str, Candidate]:
    """Data models, linkages and patterns among which training cells choose."""
    known, found = features() if covariates else {}, {}
    for name, law in patterns(pattern).items():
        for center in CENTERS:
            more = {**known, "center": center}
            for data in (Effects("both", **more), Factorization(2, **more)):
                found[f"{data.describe()}, ignorable{name}"] = data, "ignorable", law
                for s in (4, 16):
                    found[f"{data.describe()}, shift, s = {s}{name}"] = data, Free(thinning=s, mean="shift"), law
    return found


def fit(chosen: Candidate, cells: Cells, seed: int, target: str = "all", **more: object) -> CCPF:
    """One fit."""
    data, linkage, pattern = chosen
    settings = {"noise": "constant", "random_state": seed, "target": target, "n_jobs": 1}
    return CCPF(data, linkage, pattern=pattern, **settings).fit(cells, **more)


def observed_likelihood(train: Cells, pattern: Pattern, seed: int) -> np.ndarray:
    """Mean log probability of whether a cell is observed, of each fifth of all cells, hidden from the fit."""
    seen = np.zeros(train.shape, bool)
    seen[train.positions()] = True
    fold, found = np.random.default_rng(seed).integers(0, FOLDS, train.shape), []
    for k in range(FOLDS):
        parts = (np.nonzero(seen & (fold != k)), np.nonzero(fold == k))
        kept, out = (Cells.from_arrays(i, j, np.zeros(len(i)), train.shape) for i, j in parts)
        model = CCPF(nmar.PatternOnly(), pattern=pattern, random_state=seed, tol=1e-4).fit(kept, hidden=out)
        p, y = model.observed_probability(*out.pairs()), seen[out.pairs()]
        found.append(np.mean(np.where(y, np.log(p), np.log1p(-p))))
    return np.array(found)


def judges(train: Cells, fold: np.ndarray, seed: int) -> np.ndarray:
    """Weights of the training cells, from patterns that have not seen them."""
    found = np.zeros(len(train))
    for k in range(FOLDS):
        kept, out = train.select(fold != k), train.select(fold == k)
        model = CCPF(nmar.PatternOnly(), "ignorable", factors=3, random_state=seed, tol=1e-4).fit(kept, hidden=out)
        found[fold == k] = model.observed_probability(*out.pairs())
    return inverse_weights(found)


def cross_validated(train: Cells, chosen: Candidate, seed: int, fold: np.ndarray) -> np.ndarray:
    """Prediction of each training cell by a fit that has not seen it."""
    found = np.zeros(len(train))
    for k in range(FOLDS):
        out = train.select(fold == k)
        found[fold == k] = fit(chosen, train.select(fold != k), seed, hidden=out).predict_entries(*out.pairs())
    return found


def selected(predicted: dict[str, np.ndarray], values: np.ndarray, weights: np.ndarray) -> Counter[str]:
    """How often each candidate counts in a mean of ``ROUNDS``: each round adds the one that lowers the error most.

    Ensemble selection (Caruana and others 2004), on weighted errors of cells that the fits have not seen.
    """
    found: Counter[str] = Counter()
    total = np.zeros(len(values))
    for n in range(1, ROUNDS + 1):
        errors = {key: np.average(((total + one) / n - values) ** 2, weights=weights) for key, one in predicted.items()}
        best = min(errors, key=errors.__getitem__)
        found[best] += 1
        total += predicted[best]
    return found


def ridge(cells: Cells, rank: int, penalty: float, seed: int, sweeps: int = 10) -> np.ndarray:
    """Factorization by alternating ridge regressions of the ratings themselves, which shrinks predictions to 0."""
    rng = np.random.default_rng(seed)
    sides = [rng.normal(0.0, 0.1, (n, rank)) + rank**-0.5 for n in cells.shape]
    for _ in range(sweeps):
        for axis in (0, 1):
            lines, other = cells.by(axis), sides[1 - axis]
            for i in range(lines.n):
                one = lines.lines(i, i + 1)
                seen = other[one.indices]
                gram = seen.T @ seen + penalty * np.eye(rank)
                sides[axis][i] = np.linalg.solve(gram, seen.T @ one.values)
    return sides[0] @ sides[1].T


def ridge_chosen(train: Cells, seed: int, fold: np.ndarray) -> tuple[str, np.ndarray]:
    """The ridge factorization whose rank and penalty have the least plain cross-validated error, on all cells."""
    errors = {}
    for rank in (5, 20):
        for penalty in (3.0, 4.0, 5.0, 6.0):
            away = np.zeros(len(train))
            for k in range(FOLDS):
                out = train.select(fold == k)
                away[fold == k] = ridge(train.select(fold != k), rank, penalty, seed)[out.positions()] - out.values
            errors[rank, penalty] = np.mean(away**2)
    rank, penalty = min(errors, key=errors.__getitem__)
    return f"rank {rank}, penalty {penalty:g}", ridge(train, rank, penalty, seed)


def run_coat(seeds: list[int], covariates: bool = False, pattern: bool = False) -> None:
    """Choose on training cells, then look at the test cells once."""
    (train, test), whole = coat(), coat(whole=True)[1]
    errors = []
    for name, law in patterns(pattern).items() if pattern else ():
        each = observed_likelihood(train, law, seeds[0])
        print(f"which cells are observed{name or ', no covariates'}: {each.mean():.4f} nats, folds {each.round(4)}")
    for seed in seeds:
        fold = np.random.default_rng(seed).integers(0, FOLDS, len(train))
        weights, tried, found = judges(train, fold, seed), candidates(covariates, pattern), {}
        for name, chosen in tried.items():
            found[name] = cross_validated(train, chosen, seed, fold)
            error = np.average((found[name] - train.values) ** 2, weights=weights)
            print(f"  seed {seed}  {name:56s} cross-validated, weighted: {error:.4f}", flush=True)
        best = min(found, key=lambda name: np.average((found[name] - train.values) ** 2, weights=weights))
        counts = selected(found, train.values, weights)
        fits = {name: fit(tried[name], train, seed) for name in {best, *counts}}
        plain = CCPF(Factorization(10), factors=3, random_state=seed).fit(train)
        mine = [
            report(f"seed {seed}  plain", plain.predict_entries, test, whole),
            report(f"seed {seed}  best of all ({best})", fits[best].predict_entries, test, whole),
            report(f"seed {seed}  mean of {dict(counts)}", _mean_of(fits, counts), test, whole),
        ]
        if not covariates:
            name, made = ridge_chosen(train, seed, fold)
            mine.append(report(f"seed {seed}  ridge to 0 ({name})", lambda i, j, made=made: made[i, j], test, whole))
        errors.append(mine)
    for name, (new, every) in zip(("plain", "best", "mean", "ridge to 0"), np.mean(errors, axis=0), strict=False):
        print(f"mean over seeds, {name}: {new:.4f}, of all 4,640 {every:.4f}")


Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _mean_of(fits: dict[str, CCPF], counts: Counter[str]) -> Predict:
    def predict(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return sum(n * fits[name].predict_entries(i, j) for name, n in counts.items()) / ROUNDS

    return predict


def report(name: str, predict: Predict, test: Cells, whole: Cells) -> tuple[float, float]:
    """Print and return the squared error on the new test cells, and on all of them."""
    new, every = (float(np.mean((predict(*part.pairs()) - part.values) ** 2)) for part in (test, whole))
    print(f"{name}: squared error {new:.4f}, of all 4,640 {every:.4f}", flush=True)
    return new, every


def masked(mechanism: str, seed: int) -> tuple[Cells, Cells]:
    """Jester's cells that are kept, and those taken out."""
    row, col, value = triplets(folder() / "jester_dense1000" / "ratings.parquet")
    rows, cols = (np.unique(ids, return_inverse=True)[1] for ids in (row, col))
    column_mean = (np.bincount(cols, weights=value) / np.bincount(cols))[cols]
    by, strength = MECHANISMS[mechanism]
    chosen = column_mean if by == "popularity" else value
    z = strength * (chosen - chosen.mean()) / chosen.std()
    level = brentq(lambda a: float(expit(a + z).mean()) - DENSITY, -20.0, 20.0)
    kept = np.random.default_rng(seed).random(len(z)) < expit(level + z)
    shape = (int(rows.max()) + 1, int(cols.max()) + 1)
    return tuple(Cells.from_arrays(rows[m], cols[m], value[m], shape) for m in (kept, ~kept))  # type: ignore[return-value]


def run_jester(seeds: list[int], jobs: int | None, only: str = "") -> None:
    """Errors on the cells that were taken out, where the truth is known."""
    shift = Free(thinning=16, mean="shift")
    print("| mechanism | model | MSE | bias | log likelihood |\n" + 5 * "|---" + "|")
    for mechanism in (one for one in MECHANISMS if one.startswith(only)):
        for name, linkage, target in (
            ("ignorable", "ignorable", "observed"),
            ("free, s = 16", Free(thinning=16), "observed"),
            ("shift, s = 16", shift, "observed"),
            ('ignorable, target="all"', "ignorable", "all"),
            ('shift, s = 16, target="all"', shift, "all"),
        ):
            found = []
            for seed in seeds:
                train, hidden = masked(mechanism, seed)
                settings = {"noise": "constant", "starts": "auto", "random_state": seed, "target": target}
                model = CCPF(Factorization(5), linkage, factors=3, n_jobs=jobs, **settings)
                away = model.fit(train).predict_entries(*hidden.pairs()) - hidden.values
                found.append((np.mean(away**2), away.mean(), model.log_likelihood(hidden)))
            (error, bias, density), sd = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
            shown = (f"{error:.2f} ± {sd[0]:.2f}", f"{bias:+.2f} ± {sd[1]:.2f}", f"{density:.3f} ± {sd[2]:.3f}")
            print(f"| {mechanism} | {name} | {' | '.join(shown)} |", flush=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["coat", "jester"])
    parser.add_argument("--covariates", action="store_true", help="of Coat's users and items")
    parser.add_argument("--pattern", action="store_true", help="covariates of the pattern too")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=None, help="threads, of jester (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="mechanisms of jester whose name starts with this")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.what == "coat":
        run_coat(args.seeds, args.covariates, args.pattern)
    else:
        run_jester(args.seeds, args.jobs, args.only)


if __name__ == "__main__":
    main()
