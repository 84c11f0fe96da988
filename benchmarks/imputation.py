"""Do pooled intervals from imputed tables cover? And what happens where values are missing because of what they are?

    python -m benchmarks.imputation              # coverage of pooled 95 % intervals, 200 runs a setting
    python -m benchmarks.imputation detection    # complete CPTAC proteins with a logistic detection limit

Coverage: tables masked at random; intervals of the mean of a column and of its correlation with another one (as
Fisher's z), pooled over 20 completed tables, against the population's. *complete* is the table before cells were
masked; *cell by cell* draws each cell by itself (``sample``); *mean field* draws the lines once for a table
(``impute(sweeps=0)``); *data augmentation* is ``impute`` as it comes.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from time import perf_counter
from typing import NamedTuple

import numpy as np

import nmar
from benchmarks.problems import folder, triplets

ROWS, COLS, TABLES, SEED = 150, 12, 20, 1_700
METHODS = ("complete", "cell by cell", "mean field", "data augmentation")


class Case(NamedTuple):
    """A table before and after masking, what is true of its population, and the model to fit."""

    full: np.ndarray
    masked: np.ndarray
    mean: float
    z: float  # Fisher's z of the correlation
    data: object


def mask(rng: np.random.Generator, full: np.ndarray, driver: np.ndarray | None) -> np.ndarray:
    """40 % of columns 0 and 1 are missing, more where a third column is high; 20 % of the others at random."""
    out = full.copy()
    out[:, 3:][rng.random((len(full), full.shape[1] - 3)) < 0.2] = np.nan
    tilt = 0.0 if driver is None else (driver - driver.mean()) / driver.std()
    for column in (0, 1):
        out[rng.random(len(full)) < 1.0 / (1.0 + np.exp(0.4 - tilt)), column] = np.nan
    return out


def low_rank(rng: np.random.Generator, at_random: bool) -> Case:
    """Two factors and noise, fitted with three."""
    load, center = rng.normal(size=(2, COLS)), rng.normal(size=COLS)
    full = center + rng.normal(size=(ROWS, 2)) @ load / np.sqrt(2.0) + 0.7 * rng.normal(size=(ROWS, COLS))
    spread = load.T @ load / 2.0 + 0.49 * np.eye(COLS)
    correlation = spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1])
    seen = mask(rng, full, full[:, 2] if at_random else None)
    return Case(full, seen, center[0], float(np.arctanh(correlation)), nmar.Factorization(3))


@cache
def jester() -> np.ndarray:
    """1,000 users × 100 jokes, complete."""
    row, col, value = triplets(folder() / "jester_dense1000" / "ratings.parquet")
    full = np.full((1000, 100), np.nan)
    full[np.unique(row, return_inverse=True)[1], np.unique(col, return_inverse=True)[1]] = value
    return full


def users(rng: np.random.Generator) -> Case:
    """150 users of Jester, with replacement, and 20 jokes; the population is all users."""
    jokes = rng.choice(100, 20, replace=False)
    all_users = jester()[:, jokes]
    full = all_users[rng.integers(1000, size=ROWS)]
    z = float(np.arctanh(np.corrcoef(all_users[:, 0], all_users[:, 1])[0, 1]))
    return Case(full, mask(rng, full, full[:, 2]), float(all_users[:, 0].mean()), z, nmar.Factorization(3))


def counts(rng: np.random.Generator) -> Case:
    """Poisson counts with two factors; the truth is that of a sample of 200,000 rows."""
    load = rng.gamma(2.0, 1.0, (2, COLS))
    rates = rng.gamma(1.5, 1.0, (200_000, 2)) @ load
    many = rng.poisson(rates[:, :2])
    full = rng.poisson(rates[:ROWS]).astype(float)
    z = float(np.arctanh(np.corrcoef(many.T)[0, 1]))
    return Case(full, mask(rng, full, full[:, 2]), float(many[:, 0].mean()), z, nmar.Factorization(2, "poisson"))


Draw = Callable[[np.random.Generator], Case]
SETTINGS: dict[str, Draw] = {
    "low rank, at random": partial(low_rank, at_random=True),
    "low rank, completely at random": partial(low_rank, at_random=False),
    "jester, at random": users,
    "counts, at random": counts,
}


def statistics(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of column 0 and Fisher's z of its correlation with column 1, and their variances."""
    table = np.asarray(table)
    n = len(table)
    z = np.arctanh(np.corrcoef(table[:, 0], table[:, 1])[0, 1])
    return np.array([table[:, 0].mean(), z]), np.array([table[:, 0].var(ddof=1) / n, 1.0 / (n - 3.0)])


def pooled(model: nmar.CCPF, case: Case, method: str, k: int) -> tuple[np.ndarray, ...]:
    """Estimate, low and high by one method."""
    if method == "complete":
        from scipy.stats import t

        estimate, variance = statistics(case.full)
        half = t.ppf(0.975, len(case.full) - 1) * np.sqrt(variance)
        return estimate, estimate - half, estimate + half
    if method == "cell by cell":
        i, j = np.nonzero(np.isnan(case.masked))
        found = []
        for values in model.sample(i, j, TABLES, seed=k).T:
            table = case.masked.copy()
            table[i, j] = values
            found.append(statistics(table))
        one = nmar.pool([q for q, _ in found], [u for _, u in found], df=len(case.full) - 1)
    else:
        completed = model.impute(TABLES, seed=k, sweeps=0 if method == "mean field" else None)
        one = completed.pool(statistics, df=len(case.full) - 1)
    return one.estimate, one.low, one.high


def run(task: tuple[str, int]) -> np.ndarray:
    """(methods, statistics, 3): covered, error, width."""
    name, k = task
    warnings.simplefilter("ignore")
    case = SETTINGS[name](np.random.default_rng([SEED, list(SETTINGS).index(name), k]))
    settings = {"factors": 2, "noise": "constant", "random_state": 0, "n_jobs": 1, "tol": 1e-5}
    model = nmar.CCPF(case.data, "ignorable", **settings).fit(nmar.Cells.from_dense(case.masked))
    truth, found = np.array([case.mean, case.z]), []
    for method in METHODS:
        estimate, low, high = pooled(model, case, method, k)
        found.append(np.stack([(low <= truth) & (truth <= high), estimate - truth, high - low], axis=1))
    return np.array(found, float)


def coverage(runs: int, jobs: int, only: str) -> None:
    """Print the table."""
    print("| setting | method | mean: covered, % | error (sd) | width | correlation: covered, % | error (sd) | width |")
    print("|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for name in SETTINGS:
            if not name.startswith(only):
                continue
            start = perf_counter()
            found = np.array(list(pool.map(run, [(name, k) for k in range(runs)], chunksize=2)))
            for m, method in enumerate(METHODS):
                cells = []
                for s in (0, 1):
                    covered, error, width = found[:, m, s].T
                    cells += [f"{100 * covered.mean():.1f}", f"{error.mean():+.3f} ({error.std():.3f})"]
                    cells += [f"{width.mean():.3f}"]
                print(f"| {name} | {method} | {' | '.join(cells)} |", flush=True)
            print(f"<!-- {runs} runs, {perf_counter() - start:.0f} s -->", flush=True)


# --- values missing because of what they are ------------------------------------------------------------------


def detection(proteins: int, figure: str) -> None:
    """Complete proteins of CPTAC: cells are missing more often the lower they are."""
    row, col, value = triplets(folder() / "cptac_ucec_protein" / "values.parquet")
    names, row = np.unique(row, return_inverse=True)
    full = np.full((len(names), len(np.unique(col))), np.nan)
    full[row, np.unique(col, return_inverse=True)[1]] = value
    full = full[~np.isnan(full).any(axis=1)]
    full = full[np.random.default_rng(0).choice(len(full), proteins, replace=False)]
    print("| detection | missing | linkage | masked cells: bias | in sd of the noise | 90 % interval covers |")
    print("|---|---|---|---|---|---|")
    shown = None
    for slope in (0.0, 1.0, 2.0, 4.0):
        rng = np.random.default_rng(1)
        scaled = (full - full.mean()) / full.std()
        seen = rng.random(full.shape) < 1.0 / (1.0 + np.exp(-1.5 - slope * scaled))
        cells = nmar.Cells.from_dense(np.where(seen, full, np.nan))
        i, j = np.nonzero(~seen)
        for linkage in ("ignorable", nmar.Free(thinning=16)):
            settings = {"noise": "constant", "random_state": 0, "max_iter": 60}
            model = nmar.CCPF(nmar.Factorization(10), linkage, **settings).fit(cells)
            low, high = model.interval(i, j)
            off = model.predict_entries(i, j) - full[~seen]
            noise = model.impute(1, seed=0, cells=(i, j), sweeps=0).noise
            covered = np.mean((low <= full[~seen]) & (full[~seen] <= high))
            label = linkage if isinstance(linkage, str) else "thinned"
            bias, share = off.mean(), 100 * len(i) / full.size
            print(
                f"| {slope:g} | {share:.0f} % | {label} | {bias:+.3f} | {bias / noise:+.2f} | {100 * covered:.1f} % |",
                flush=True,
            )
            if slope == 2.0 and label == "ignorable":
                shown = model, float(full.mean())
    if figure and shown is not None:
        model, exact = shown
        deltas = np.linspace(-3.0, 1.0, 9)
        found = model.sensitivity(deltas, lambda table: (table.to_numpy().mean(), 0.0), n=3)
        ax = nmar.plot.sensitivity(found)
        ax.axhline(exact, color="black", lw=1, ls=":", label="all cells, known here")
        ax.set_ylabel("mean of all cells")
        ax.legend()
        ax.figure.savefig(figure, dpi=130)


def main() -> None:
    """Coverage, or detection."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("coverage", "detection"), default="coverage")
    parser.add_argument("--runs", type=int, default=200, help="tables of each setting (200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="settings whose name starts with this")
    parser.add_argument("--proteins", type=int, default=600, help="complete proteins (600)")
    parser.add_argument("--figure", default="", metavar="PNG", help="write the sensitivity figure of `detection`")
    args = parser.parse_args()
    if args.what == "detection":
        detection(args.proteins, args.figure)
        return
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # read by the processes when they start
    coverage(args.runs, args.jobs, args.only)


if __name__ == "__main__":
    main()
