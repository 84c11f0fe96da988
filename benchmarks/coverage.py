"""Coverage of predictive intervals on held-out cells, for the model that a plain fit selects, and what nmar.check says.

    python -m benchmarks.coverage coat
    python -m benchmarks.coverage ml_1m --cells 100000 --jobs 1
    python -m benchmarks.coverage --simulated --jobs 1

``nmar.CCPF(nmar.Factorization(10), random_state=0).fit(train, hidden=test)``, the plain fit. Ratings
have a second line with ``bounds="auto"``. ``--cells``: rows at random, with all of their cells, until there are as many
(0: all). A fifth of the cells is held out; Coat's test cells are its own, of items drawn at random. ``--simulated``:
90 % intervals of plain fits to tables drawn from models of the library, by fifths of the training cells of their rows.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from time import perf_counter

import numpy as np

import nmar
from benchmarks import problems
from benchmarks.noise import coverage
from benchmarks.problems import folder, triplets
from nmar.prob.support import support_of

DENSITY = 0.3  # of Jester, masked completely at random
RATINGS = ("yelp_250k", "ml_1m", "ml_latest_small_2016", "coat")
Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]


SIMULATED: dict[str, dict] = {  # shape, density, noise, tail, linkage, and what the values are drawn from
    "factors": {"shape": (600, 200), "density": 0.15, "linkage": "ignorable"},
    "short rows": {"shape": (2500, 250), "density": 0.03, "linkage": "ignorable"},
    "noise and tail": {
        "shape": (600, 200),
        "density": 0.15,
        "linkage": "ignorable",
        "noise": "rows+cols",
        "tail": 4.0,
    },
    "linear linkage": {"shape": (600, 200), "density": 0.15, "linkage": nmar.Linear(0.3)},
    "row and column means": {
        "shape": (800, 150),
        "density": 0.1,
        "linkage": "ignorable",
        "data": nmar.Effects("both"),
        "noise": "cols",
    },
}


def yelp() -> Triplets:
    """All three parts of the paper authors' split, put together."""
    parts = [triplets(folder() / "yelp_250k" / f"{name}.parquet") for name in ("train", "val", "test")]
    row, col, value = (np.concatenate(each) for each in zip(*parts, strict=True))
    kept = np.unique(row.astype(np.int64) * (int(col.max()) + 1) + col, return_index=True)[1]
    return row[kept], col[kept], value[kept]


def geuvadis() -> Triplets:
    """Log counts."""
    row, col, value = triplets(folder() / "geuvadis_chr19_transcripts_CEU" / "counts_nonzero.parquet")
    return row, col, np.log(value)


def jester() -> Triplets:
    """Jester, 30 % of whose cells are kept, whatever they are."""
    row, col, value = triplets(folder() / "jester_dense1000" / "ratings.parquet")
    kept = np.random.default_rng(0).random(len(value)) < DENSITY
    return row[kept], col[kept], value[kept]


DATA = {
    "yelp_250k": yelp,
    "ml_1m": lambda: triplets(folder() / "ml_1m" / "ratings.parquet"),
    "ml_latest_small_2016": lambda: triplets(folder() / "ml_latest_small_2016" / "ratings.parquet"),
    "geuvadis": geuvadis,
    "cptac": lambda: triplets(folder() / "cptac_ucec_protein" / "values.parquet"),
    "jester": jester,
}


def some_rows(row: np.ndarray, col: np.ndarray, value: np.ndarray, cells: int) -> Triplets:
    """Rows in random order until there are ``cells`` cells; 0: all."""
    if not cells or cells >= len(row):
        return row, col, value
    line = np.unique(row, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(line.max() + 1)
    enough = np.searchsorted(np.cumsum(np.bincount(line)[order]), cells) + 1
    kept = np.isin(line, order[:enough])
    return row[kept], col[kept], value[kept]


def split(name: str, cells: int) -> tuple[nmar.Cells, nmar.Cells]:
    """Training and held-out cells."""
    if name == "coat":
        return problems.coat()
    row, col, value = some_rows(*DATA[name](), cells)
    numbers = [np.unique(ids, return_inverse=True)[1] for ids in (row, col)]
    train, _, test = nmar.Cells.from_arrays(*numbers, value).split(test=0.2, valid=0, seed=0)
    return train, test


def report(name: str, train: nmar.Cells, test: nmar.Cells, jobs: int | None) -> None:
    """One line of the table, or two; bounds change predictions alone, so that one fit serves both."""
    start = perf_counter()
    model = nmar.CCPF(nmar.Factorization(10), random_state=0, n_jobs=jobs).fit(train, hidden=test)
    seconds = perf_counter() - start
    about = f"{' × '.join(f'{n:,}' for n in train.shape)}, {len(train):,}"
    print(f"| {name} | {about} | {line(nmar.check(model, test))} |", flush=True)
    if name in RATINGS:
        known = model.posterior_
        bounded = replace(known, law=replace(known.law, support=support_of("auto", train.values)))
        print(f'| {name}, `bounds="auto"` | {about} | {line(nmar.check(bounded, test, train))} |', flush=True)
    print(f"{name}: {seconds:.0f} s, {model.n_iter_} sweeps", file=sys.stderr, flush=True)


def by_length(name: str, seeds: list[int], jobs: int | None) -> str:
    """A line of the table of simulated data: how many values 90 % intervals cover, in all and by fifths; means."""
    found = []
    for seed in seeds:
        cells, _ = nmar.simulate(**{"data": nmar.Factorization(5), "seed": seed, **SIMULATED[name]})
        train, _, test = cells.split(test=0.2, valid=0, seed=seed)
        model = nmar.CCPF(nmar.Factorization(10), random_state=seed, n_jobs=jobs).fit(train, hidden=test)
        overall, fifths = coverage(model, train, test)
        found.append([overall, *fifths])
    shares = " | ".join(f"{100 * share:.1f}" for share in np.mean(found, axis=0))
    return f"| {name} | {' × '.join(f'{n:,}' for n in cells.shape)}, {len(train):,} | {shares} |"


def line(found: nmar.Check) -> str:
    """Coverage in per cent with its standard error, and the verdict."""
    covered = [one for one in found.findings if one.part == "coverage"]
    return " | ".join([*(f"{100 * one.found:.1f} ± {100 * one.error:.1f}" for one in covered), found.verdict])


def main() -> None:
    """Print the lines of one data set after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*DATA, 'coat'])}; none: all")
    parser.add_argument("--simulated", action="store_true", help="simulated tables in place of data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of simulated tables (0)")
    parser.add_argument("--cells", type=int, default=0, help="rows until there are this many cells (0: all)")
    parser.add_argument("--jobs", type=int, default=None, help="threads (all)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.simulated:
        print("| drawn from | shape, training cells | all | shortest | 2 | 3 | 4 | longest |\n" + 8 * "|---" + "|")
        for name in args.names or SIMULATED:
            print(by_length(name, args.seeds, args.jobs), flush=True)
        return
    print("| data | shape, training cells | 50 % | 80 % | 90 % | 95 % | nmar.check |\n" + 7 * "|---" + "|")
    for name in args.names or [*DATA, "coat"]:
        train, test = split(name, args.cells)
        report(name, train, test, args.jobs)


if __name__ == "__main__":
    main()
