"""Two groups of samples below a detection limit: power and false discoveries of nine ways to treat what is missing.

    python -m benchmarks.proteomics [--runs 10] [--samples 6] [--only nmar] [--shape probit|logistic|cloglog]

500 proteins with levels around 25, in two groups of 6 samples (log2 intensities); two factors that samples share,
noise with a variance of its own for every protein (10 degrees of freedom), a tenth of the proteins up or down by 1 to
1.5. Detection is probit with a midpoint of 24 and a width of 1, and one value in fifty is missing at random; some 30 %
of the table is missing. All but pyproda end in `nmar.group_test`; pyproda (a port of proDA) in its own Wald test.
Printed are means over runs: how many of the changed proteins are among those with q below 5 %, how many of those are
not changed, the mean difference of the changed ones over the truth, and seconds of a run. Proteins seen in fewer than
three samples are left out for all.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import false_discovery_control, norm, truncnorm
from sklearn.impute import KNNImputer

import nmar

RATE = 0.05
MIDPOINT = 24.0
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "probit": lambda z: np.asarray(ndtr(z)),
    "logistic": lambda z: np.asarray(expit(1.7 * z)),
    "cloglog": lambda z: -np.expm1(-np.exp(1.2 * z - 0.37)),
}
Test = Callable[[np.ndarray, np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def drawn(seed: int, samples: int, shape: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Complete table, which values are seen, and true differences."""
    rng = np.random.default_rng(seed)
    proteins, group = 500, np.repeat([0, 1], samples)
    level = rng.normal(25.0, 2.0, (proteins, 1))
    shared = 0.3 * rng.normal(size=(proteins, 2)) @ rng.normal(size=(2, 2 * samples))
    sd = 0.4 * np.sqrt(10.0 / rng.chisquare(10, (proteins, 1)))
    change = np.zeros(proteins)
    which = rng.choice(proteins, proteins // 10, replace=False)
    change[which] = rng.uniform(1.0, 1.5, len(which)) * rng.choice([-1, 1], len(which))
    full = level + shared + sd * rng.normal(size=(proteins, 2 * samples)) + change[:, None] * (group - 0.5)
    seen = (rng.random(full.shape) < SHAPES[shape](full - MIDPOINT)) & (rng.random(full.shape) > 0.02)
    kept = seen.sum(axis=1) >= 3
    return full[kept], seen[kept], change[kept]


def tested(tables: object, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q and difference of each protein."""
    found = nmar.group_test(tables, group)  # type: ignore[arg-type]
    return found.q, found.difference


def complete(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The table before anything went missing: what could be found at best."""
    return tested(full, group)


def minimum(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest value of the sample."""
    return tested(np.where(seen, full, np.where(seen, full, np.inf).min(axis=0)), group)


def quantile_draws(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """QRILC: draws from the lower tail of each sample's normal, fitted to the quantiles of what is seen."""
    rng, out = np.random.default_rng(seed), full.copy()
    for j in range(full.shape[1]):
        away, values = ~seen[:, j], full[seen[:, j], j]
        share = away.mean()
        at = np.linspace(0.001, 0.99, 100)
        slope, center = np.polyfit(norm.ppf(share + at * (1.0 - share)), np.quantile(values, at), 1)
        top = norm.ppf(share + 0.001 * (1.0 - share))
        out[away, j] = truncnorm.rvs(-np.inf, top, center, slope, away.sum(), random_state=rng)
    return tested(out, group)


def neighbours(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of the ten nearest proteins."""
    return tested(KNNImputer(n_neighbors=10).fit_transform(np.where(seen, full, np.nan)), group)


def imputed(mechanism: str) -> Test:
    """Twenty tables of one model of all samples, which knows nothing of their groups."""

    def test(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        data = nmar.Factorization(3)
        model = nmar.CCPF(data, mechanism=mechanism, factors=3, random_state=seed, n_jobs=1)  # type: ignore[arg-type]
        return tested(model.fit(np.where(seen, full, np.nan)).impute(n=20, seed=seed), group)

    return test


def by_group(mechanism: str) -> Test:
    """The workflow: twenty tables of a model for each group, of rank 1 (`nmar.compare_groups`)."""

    def test(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        model = nmar.CCPF(nmar.Factorization(1), mechanism=mechanism, n_jobs=1)  # type: ignore[arg-type]
        found = nmar.compare_groups(np.where(seen, full, np.nan), group, model, random_state=seed)
        return found.q, found.difference

    return test


def proda(full: np.ndarray, seen: np.ndarray, group: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """proDA, ported."""
    import pyproda

    fit = pyproda.proda(np.where(seen, full, np.nan), design=[str(g) for g in group])
    found = pyproda.test_diff(fit, np.array([0.0, 1.0]))
    return false_discovery_control(np.nan_to_num(found["pval"].to_numpy(), nan=1.0)), found["diff"].to_numpy()


WAYS: dict[str, Test] = {
    "complete table": complete,
    "column minimum": minimum,
    "QRILC": quantile_draws,
    "nearest neighbours": neighbours,
    "nmar, none, one model": imputed("none"),
    "nmar, value, one model": imputed("value"),
    "nmar, none": by_group("none"),
    "nmar, value": by_group("value"),
    "pyproda": proda,
}


def score(q: np.ndarray, difference: np.ndarray, change: np.ndarray) -> tuple[float, float, float]:
    """Power, false discoveries among what was found, and how large differences are over the truth."""
    found, changed = q < RATE, change != 0.0
    ratio = float(np.mean((difference * np.sign(change))[changed]) / np.mean(np.abs(change[changed])))
    return float(found[changed].mean()), float(np.sum(found & ~changed) / max(found.sum(), 1)), ratio


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument(
        "--only", nargs="+", default=list(WAYS), metavar="NAME", help="ways by name, or what stands before a comma"
    )
    parser.add_argument("--shape", choices=tuple(SHAPES), default="probit")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    group = np.repeat([0, 1], args.samples)
    for name, test in WAYS.items():
        if name not in args.only:
            continue
        found, began = [], time.perf_counter()
        for run in range(args.runs):
            full, seen, change = drawn(run, args.samples, args.shape)
            found.append((*score(*test(full, seen, group, run), change), 1.0 - seen.mean()))
        seconds = (time.perf_counter() - began) / args.runs
        power, false, ratio, away = np.mean(found, axis=0)
        error = np.std(found, axis=0)[:2] / np.sqrt(args.runs)
        print(
            f"| {name} | {power:.3f} ± {error[0]:.3f} | {false:.3f} ± {error[1]:.3f} | {ratio:.2f} | {seconds:.1f} |"
            f" {away:.0%} missing",
            flush=True,
        )


if __name__ == "__main__":
    main()
