"""Doubly robust fits of Coat beside weighted ones: imputation by a model, corrected by weighted residuals.

    python -m benchmarks.robust [--covariates] [--seeds 0 1 2]

Stage 1 imputes every cell, f. Stage 2 is either a model of the doubly robust pseudo-values f + o (y − f)/P of *all*
cells (o: observed; the same fit minimises Σ_all (f − μ)² + Σ_observed [(y − μ)² − (f − μ)²]/P), or a model of the
residuals y − f of observed cells, weighted by 1/P, that is added to f. Every candidate, and every weighted fit of
``benchmarks.target``, is scored by cross-validated squared error on training cells, weighted by inverse P(observed) of
a pattern that has not seen the cell. The best of each kind is fitted to all training cells and meets the test cells.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import nmar
from benchmarks.problems import coat
from benchmarks.target import FOLDS, candidates, features, fit, judges
from nmar import CCPF, Cells, Effects, Factorization, Free, Pattern
from nmar.fit.target import CLIP

Predictor = Callable[[np.ndarray, np.ndarray], np.ndarray]
KINDS = ("weighted", "pseudo-values", "residuals")


def inverse_probability(cells: Cells, seed: int, **more: object) -> np.ndarray:
    """1/P(observed) of the cells, cut at the same quantile as in the library, whose sum is the number of all cells."""
    pattern = CCPF(nmar.PatternOnly(), "ignorable", factors=3, random_state=seed, tol=1e-4).fit(cells, **more)
    inverse = 1.0 / pattern.observed_probability(*cells.pairs())
    inverse = np.minimum(inverse, np.quantile(inverse, CLIP))
    return inverse * (np.prod(cells.shape) / inverse.sum())


def pseudo_values(cells: Cells, imputed: np.ndarray, inverse: np.ndarray) -> Cells:
    """All cells of the matrix with their doubly robust values."""
    pairs = cells.positions()
    made = imputed.copy()
    made[pairs] += inverse * (cells.values - imputed[pairs])
    rows, cols = np.indices(cells.shape).reshape(2, -1)
    return Cells.from_arrays(rows, cols, made.ravel(), cells.shape)


def models(known: dict[str, np.ndarray]) -> list[object]:
    """Data models of either stage."""
    return [Effects("both", **known), Factorization(2, **known), Factorization(5, **known)]


def first_stages(known: dict[str, np.ndarray]) -> Iterator[tuple[str, object, object, str]]:
    """What imputes: unweighted or weighted, and one shift linkage that says itself what was not chosen."""
    for data in models(known):
        yield f"{data.describe()}", data, "ignorable", "observed"
        yield f"{data.describe()} weighted", data, "ignorable", "all"
    data = Factorization(2, **known)
    yield f"{data.describe()} weighted, shift, s = 4", data, Free(thinning=4, mean="shift"), "all"


def fitted(cells: Cells, seed: int, covariates: bool, **more: object) -> Iterator[tuple[str, str, Predictor]]:
    """Every candidate on these cells: its kind, its name and what it predicts."""
    known = features() if covariates else {}
    for name, chosen in candidates(covariates, pattern=False).items():
        yield "weighted", name, fit(chosen, cells, seed, **more).predict_entries
    inverse = inverse_probability(cells, seed, **more)
    for first, data, linkage, target in first_stages(known):
        model = fit((data, linkage, Pattern(3)), cells, seed, target, **more)
        everywhere = np.indices(cells.shape).reshape(2, -1)
        imputed = model.predict_entries(*everywhere).reshape(cells.shape)
        made = pseudo_values(cells, imputed, inverse)
        left = cells.with_values(cells.values - imputed[cells.positions()])
        for second in models(known):
            whole = CCPF(second, "ignorable", factors=1, noise="constant", random_state=seed).fit(made)
            yield "pseudo-values", f"{first} → {second.describe()}", whole.predict_entries
            rest = fit((second, "ignorable", Pattern(3)), left, seed, **more)
            yield "residuals", f"{first} → {second.describe()}", _sum_of(imputed, rest)


def _sum_of(imputed: np.ndarray, rest: CCPF) -> Predictor:
    return lambda i, j: imputed[i, j] + rest.predict_entries(i, j)


def cross_validated(train: Cells, seed: int, covariates: bool) -> dict[tuple[str, str], float]:
    """Weighted squared error of every candidate on training cells that it has not seen."""
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(train))
    weights, errors = judges(train, fold, seed), {}
    for k in range(FOLDS):
        kept, out = train.select(fold != k), train.select(fold == k)
        for kind, name, predict in fitted(kept, seed, covariates, hidden=out):
            error = errors.setdefault((kind, name), np.zeros(len(train)))
            error[fold == k] = (predict(*out.pairs()) - out.values) ** 2
    return {key: float(np.average(error, weights=weights)) for key, error in errors.items()}


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--covariates", action="store_true", help="of Coat's users and items")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    train, test = coat()
    for seed in args.seeds:
        scores = cross_validated(train, seed, args.covariates)
        for (kind, name), score in sorted(scores.items(), key=lambda item: item[1]):
            print(f"  seed {seed}  {kind:14s} {name:70s} cross-validated squared error {score:.4f}", flush=True)
        best = {kind: min((k for k in scores if k[0] == kind), key=scores.__getitem__) for kind in KINDS}
        for kind, name, predict in fitted(train, seed, args.covariates):
            if best[kind] == (kind, name):  # only the chosen ones meet the test cells
                error = float(np.mean((predict(*test.pairs()) - test.values) ** 2))
                print(f"seed {seed}  {kind:14s} {name:70s} {scores[kind, name]:.4f} → test {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
