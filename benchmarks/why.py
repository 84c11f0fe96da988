"""Why is it missing? Masks imposed on complete tables, and what is recovered of the cells taken out.

    python -m benchmarks.why jester [--seeds 0 1 2] [--only "by value"]
    python -m benchmarks.why cptac
    python -m benchmarks.why slopes [--runs 100]
    python -m benchmarks.why pooled [--runs 20]
    python -m benchmarks.why picture --figure docs/images/detection.png

``jester``: 30 % of 1,000 × 100 ratings are kept: at random, with log odds that rise by so much for each standard
deviation of the column's mean (by popularity), of the value (by value), or of what three factors of the complete
table say beyond its margins (by taste). ``cptac``: 600 complete proteins with a logistic detection limit. Rank 10,
defaults otherwise; errors are those of E[y | missing] on the cells taken out, intervals are 90 %. ``slopes``: tables
drawn from the model itself; how often Γ lies within two standard deviations of its estimate. ``pooled``: 300 of the
complete proteins and 60 samples, drawn anew in each run, below detection 2; how often 95 % intervals of the means of
samples and of correlations of neighbouring samples (Fisher's z), pooled over 20 completed tables, hold those of all
complete proteins.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas
from scipy.optimize import brentq
from scipy.special import expit

import nmar
from benchmarks.imputation import jester
from benchmarks.problems import folder, triplets

FITTED = ("none", "taste", "value")
JESTER = {
    "at random": ("value", 0.0),
    "by popularity": ("popularity", 1.0),
    "by taste": ("taste", 1.0),
    "by value .5": ("value", 0.5),
    "by value 1": ("value", 1.0),
    "by value 2": ("value", 2.0),
}


def driver(full: np.ndarray, by: str) -> np.ndarray:
    """What decides, standardised."""
    if by == "popularity":
        of_columns = full.mean(axis=0)
        return np.broadcast_to((of_columns - of_columns.mean()) / of_columns.std(), full.shape)
    if by == "value":
        return (full - full.mean()) / full.std()
    within = full - full.mean(axis=0) - full.mean(axis=1, keepdims=True) + full.mean()
    left, size, right = np.linalg.svd(within, full_matrices=False)
    taste = (left[:, :3] * size[:3]) @ right[:3]
    return taste / taste.std()


def kept(full: np.ndarray, by: str, strength: float, seed: int, density: float = 0.3) -> np.ndarray:
    """Which cells are seen."""
    z = strength * driver(full, by)
    level = brentq(lambda a: float(expit(a + z).mean()) - density, -30.0, 30.0)
    return np.random.default_rng(seed).random(full.shape) < expit(level + z)


def cells_of(full: np.ndarray, seen: np.ndarray) -> nmar.Cells:
    """The cells that are seen."""
    row, col = np.nonzero(seen)
    return nmar.Cells.from_arrays(row, col, full[row, col], full.shape)


def complete_proteins() -> np.ndarray:
    """The proteins that every sample has."""
    row, col, value = triplets(folder() / "cptac_ucec_protein" / "values.parquet")
    rows, cols = (np.unique(ids, return_inverse=True)[1] for ids in (row, col))
    table = np.full((rows.max() + 1, cols.max() + 1), np.nan)
    table[rows, cols] = value
    return np.asarray(table[~np.isnan(table).any(axis=1)])


def proteins(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """600 complete proteins with a detection limit of four slopes: name, table, which cells are seen."""
    table = complete_proteins()
    table = table[np.random.default_rng(0).permutation(len(table))[:600]]
    z = (table - table.mean()) / table.std()
    for slope in (0, 1, 2, 4):
        yield f"detection {slope}", table, np.random.default_rng(seed + 1).random(table.shape) < expit(1.5 + slope * z)


def recovered(full: np.ndarray, seen: np.ndarray, mechanism: str, seed: int) -> tuple[list[float], nmar.CCPF]:
    """Squared error, bias and coverage on the cells taken out, Γ, seconds; and the model."""
    began = time.perf_counter()
    model = nmar.CCPF(nmar.Factorization(10), mechanism=mechanism, random_state=seed).fit(cells_of(full, seen))  # type: ignore[arg-type]
    seconds, away = time.perf_counter() - began, np.nonzero(~seen)
    off = model.predict_entries(*away, given="missing") - full[away]
    low, high = model.interval(*away, given="missing")
    covered = np.mean((low <= full[away]) & (full[away] <= high))
    return [float(np.mean(off**2)), float(off.mean()), float(covered), model.mechanism_.value, seconds], model


def show(name: str, tables: list[tuple[np.ndarray, np.ndarray]], mechanisms: tuple[str, ...]) -> None:
    """A line for each mechanism, over masks."""
    for mechanism in mechanisms:
        found, kinds = [], []
        for seed, (full, seen) in enumerate(tables):
            numbers, model = recovered(full, seen, mechanism, seed)
            found.append(numbers)
            kinds.append(model.mechanism_.kind)
        error, bias, covered, slope, seconds = np.mean(found, axis=0)
        sd = np.std(found, axis=0, ddof=1)[0] if len(found) > 1 else 0.0
        told = f" {'/'.join(kinds)} |" if mechanism == "auto" else ""
        print(
            f"| {name} | {mechanism} | {error:.4g} ± {sd:.2g} | {bias:+.3f} | {100 * covered:.1f} % | {slope:+.2f} |"
            f" {seconds:.0f} s |{told}",
            flush=True,
        )


def table(rng: np.random.Generator, slope: float, shape: tuple[int, int] = (120, 60)) -> tuple[nmar.Cells, float]:
    """A table of the model with half of its cells seen, and Γ for a value that is higher by 1."""
    mu = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) / 1.4 + 0.7 * rng.normal(size=(shape[0], 1))
    y = mu + 0.6 * rng.normal(size=shape)
    effects = 0.4 * rng.normal(size=(shape[0], 1)) + 0.4 * rng.normal(size=(1, shape[1])) + slope * y / y.std()
    level = brentq(lambda a: float(-np.expm1(-np.exp(a + effects)).mean()) - 0.5, -30.0, 30.0)
    seen = rng.random(shape) < -np.expm1(-np.exp(level + effects))
    return cells_of(y, seen), slope / float(y.std())


def slopes(runs: int) -> None:
    """Coverage of Γ by two standard deviations, for three slopes."""
    for slope in (0.0, 0.5, 1.5):
        off, sds = [], []
        for run in range(runs):
            cells, true = table(np.random.default_rng(1_000 + run), slope)
            found = nmar.CCPF(nmar.Factorization(4), mechanism="value", factors=2, random_state=run).fit(cells)
            off.append(found.mechanism_.value - true * found.posterior_.units.scale)
            sds.append(found.mechanism_.value_sd)
        inside = np.mean(np.abs(off) < 2.0 * np.array(sds))
        print(
            f"| {slope} | {np.mean(off):+.3f} | {np.std(off):.3f} | {np.mean(sds):.3f} | {100 * inside:.0f} % |",
            flush=True,
        )


def statistics(table: pandas.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Means of columns and Fisher's z of neighbouring columns, with their squared errors."""
    full = np.asarray(table)
    n, cols = full.shape
    r = [np.corrcoef(full[:, k], full[:, k + 1])[0, 1] for k in range(cols - 1)]
    errors = [full.var(axis=0, ddof=1) / n, np.full(cols - 1, 1.0 / (n - 3))]
    return np.concatenate([full.mean(axis=0), np.arctanh(r)]), np.concatenate(errors)


def pooled(runs: int) -> None:
    """Coverage of pooled intervals of means and correlations, without a mechanism and with "value"."""
    everything = complete_proteins()
    center, sd = everything.mean(), everything.std()
    inside: dict[str, list[np.ndarray]] = {}
    for run in range(runs):
        rng = np.random.default_rng(run)
        cols = rng.choice(everything.shape[1], 60, replace=False)
        population = everything[:, cols]
        truth = statistics(population)[0]
        full = population[rng.choice(len(population), 300, replace=False)]
        seen = rng.random(full.shape) < expit(1.5 + 2.0 * (full - center) / sd)
        for mechanism in ("none", "value"):
            model = nmar.CCPF(nmar.Factorization(10), mechanism=mechanism, random_state=run)  # type: ignore[arg-type]
            found = model.fit(np.where(seen, full, np.nan)).impute(20, run).pool(statistics, df=299)
            inside.setdefault(mechanism, []).append((found.low <= truth) & (truth <= found.high))
        found = nmar.pool(*zip(*[statistics(full)] * 2, strict=True), 299.0)
        inside.setdefault("complete", []).append((found.low <= truth) & (truth <= found.high))
    for name, each in inside.items():
        share = np.array(each)
        parts = [part.mean(axis=1) for part in (share[:, :60], share[:, 60:])]
        told = " | ".join(f"{100 * one.mean():.1f} ± {100 * one.std() / np.sqrt(runs):.1f} %" for one in parts)
        print(f"| {name} | {told} |", flush=True)


def picture(path: str) -> None:
    """Curves of P(observed | value), and a cell's value before and after it is known whether it was seen."""
    import matplotlib.pyplot as plt
    from scipy.stats import norm

    from nmar.prob.detection import seen

    y = np.linspace(-4.0, 4.0, 400)
    _, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.0), layout="constrained")
    for over in (0.0, 0.4, 1.0, 2.0):
        middle = np.log((2.0**over - 1.0) / over if over else np.log(2.0))  # so that half is seen at 0
        left.plot(y, np.exp(seen(middle + 1.5 * y, over).log_probability), label=f"u = {over:g}")
    left.set(xlabel="value", ylabel="P(observed | value)")
    left.legend(frameon=False)
    chance, density = np.exp(seen(1.5 * y, 1.0).log_probability), norm.pdf(y)
    for label, each in (("any cell", density), ("observed", density * chance), ("missing", density * (1.0 - chance))):
        right.plot(y, each / np.trapezoid(each, y), label=label)
    right.set(xlabel="value of a cell, its row and column known", ylabel="density")
    right.legend(frameon=False)
    plt.savefig(path, dpi=110)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("jester", "cptac", "slopes", "pooled", "picture"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", default="", metavar="TEXT", help="masks whose name starts with this")
    parser.add_argument("--mechanisms", nargs="+", default=FITTED)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--figure", default="detection.png")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    mechanisms = tuple(args.mechanisms)
    if args.what == "picture":
        picture(args.figure)
    elif args.what in ("slopes", "pooled"):
        {"slopes": slopes, "pooled": pooled}[args.what](args.runs)
    elif args.what == "jester":
        full = jester()
        for name, (by, strength) in JESTER.items():
            if name.startswith(args.only):
                show(name, [(full, kept(full, by, strength, seed)) for seed in args.seeds], mechanisms)
    else:
        masks = [list(proteins(seed)) for seed in args.seeds]
        for each in zip(*masks, strict=True):
            if each[0][0].startswith(args.only):
                show(each[0][0], [(full, seen) for _, full, seen in each], mechanisms)


if __name__ == "__main__":
    main()
