"""Is the verdict true? Real patterns, and masks completely at random, where it must not say "helps".

    python -m benchmarks.verdict real [--names yelp_250k ml_latest_small geuvadis cptac ml_1m coat lastfm lastfm_counts
        pbmc3k] [--seeds 3] [--rows 0] [--linkages free free,s=4]
    python -m benchmarks.verdict masks [--draws 20] [--unequal] [--seeds 1]

Rank 10, factors 10. ``real``: three seeds, each with a split (20 % test, 1 % validation) and a start of its own;
yelp has the authors' split and three starts. Counts (lastfm_counts, pbmc3k) have a Poisson factorization, all others
a Gaussian one; ``--rows`` takes so many rows at random. Prints the table and the verdict of each. ``masks``: complete
matrices (Jester; rows of CPTAC and GEUVADIS without gaps; simulated rows of unequal noise) masked completely at random,
10, 30 and 60 % in turn. ``--unequal``: lines are observed unequally often, log odds of standard deviation 1.5 by row
and 1 by column, whatever their values and noise. Counts how often the verdict says "helps", and prints the gains of
taste over the ignorable model and over shuffled choices, and of the coupled model over its tail-only control.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import nmar
from benchmarks.problems import PROBLEMS, folder, triplets
from nmar import Cells, Factorization

COMPLETE_ROWS = 600  # of a matrix without gaps: enough to show the effect, few enough to fit in seconds
SHARES = (0.1, 0.3, 0.6)
COUNTS = ("lastfm_counts", "pbmc3k")


def whole(name: str) -> Cells:
    """All cells of a problem; compare splits them by its seeds."""
    if name == "geuvadis":
        return geuvadis_cells()
    if name == "lastfm":  # log listening counts
        row, col, value = triplets(folder() / "lastfm_hetrec2k" / "ratings.parquet")
        return from_triplets(row, col, np.log(value))
    files = {
        "ml_1m": "ml_1m/ratings",
        "ml_latest_small": "ml_latest_small_2016/ratings",
        "cptac": "cptac_ucec_protein/values",
        "coat": "coat/train",
        "lastfm_counts": "lastfm_hetrec2k/ratings",
        "pbmc3k": "pbmc3k_counts/counts",
    }
    return from_triplets(*triplets(folder() / f"{files[name]}.parquet"))


def geuvadis_cells() -> Cells:
    """Log expression counts."""
    row, col, value = triplets(folder() / "geuvadis_chr19_transcripts_CEU" / "counts_nonzero.parquet")
    return from_triplets(row, col, np.log(value))


def from_triplets(row: np.ndarray, col: np.ndarray, value: np.ndarray) -> Cells:
    """Cells with ids counted from 0."""
    (rows, row), (cols, col) = (np.unique(ids, return_inverse=True) for ids in (row, col))
    return Cells.from_arrays(row, col, value, (len(rows), len(cols)))


def some_rows(cells: Cells, rows: int) -> Cells:
    """So many rows at random, with the columns that have a cell in them; 0: all."""
    if not 0 < rows < cells.shape[0]:
        return cells
    part = cells.take_rows(np.sort(np.random.default_rng(0).permutation(cells.shape[0])[:rows]))
    return from_triplets(*part.positions(), part.values)


def real(names: list[str], seeds: int, rows: int, linkages: list[str]) -> None:
    """Tables and verdicts of real patterns."""
    for name in names:
        began = time.perf_counter()
        data = Factorization(10, family="poisson" if name in COUNTS else "gaussian")
        if name == "yelp_250k":
            train, valid, test = PROBLEMS[name]()
            parts = {"train": train, "test_cells": test, "valid_cells": valid}
            result = nmar.compare(data=data, linkages=linkages, seeds=seeds, name=name, **parts)
        else:
            result = nmar.compare(some_rows(whole(name), rows), data, linkages, seeds=seeds, name=name)
        print(result.text(color=False), flush=True)
        print(result.paired_test(), "\n", flush=True)
        print(result.verdict, f"\n({time.perf_counter() - began:.0f} s)\n", flush=True)


def complete(cells: Cells, rng: np.random.Generator) -> np.ndarray:
    """Some rows (lines of the longer axis) without gaps, as a dense array."""
    dense = np.full(cells.shape, np.nan)
    dense[cells.positions()] = cells.values
    full = dense[~np.isnan(dense).any(axis=1)]
    return full[rng.permutation(len(full))[:COMPLETE_ROWS]]


def noisy(rng: np.random.Generator) -> np.ndarray:
    """Rank 3 with noise whose standard deviation differs by row."""
    rows, cols = rng.normal(size=(400, 3)), rng.normal(size=(80, 3))
    return rows @ cols.T + np.exp(0.7 * rng.normal(size=(400, 1))) * rng.normal(size=(400, 80))


def chance(rng: np.random.Generator, shape: tuple[int, int], share: float, unequal: bool) -> np.ndarray | float:
    """Probability that a cell is masked: the same for all, or by row and column, about the share of a typical cell."""
    if not unequal:
        return share
    odds = 1.5 * rng.normal(size=(shape[0], 1)) + rng.normal(size=(1, shape[1]))
    return 1.0 / (1.0 + np.exp(odds) * (1.0 - share) / share)


def masked(draws: int, unequal: bool) -> Iterator[tuple[str, Cells]]:
    """Complete matrices in turn, each masked at random, lines equally often or not."""
    jester = np.full((1000, 100), np.nan)
    row, col, value = triplets(next((folder() / "jester_dense1000").glob("*.parquet")))
    jester[np.unique(row, return_inverse=True)[1], np.unique(col, return_inverse=True)[1]] = value
    cptac, transcripts = whole("cptac"), geuvadis_cells()
    for draw in range(draws):
        rng = np.random.default_rng((3000 if unequal else 1000) + draw)
        kind = ("jester", "cptac rows", "geuvadis rows", "row noise")[draw % 4]
        share = SHARES[(draw // 4) % 3]
        source = {"cptac rows": cptac, "geuvadis rows": transcripts}
        if kind == "jester":
            dense = jester.copy()
        else:
            dense = noisy(rng) if kind == "row noise" else complete(source[kind], rng)
        dense[rng.random(dense.shape) < chance(rng, dense.shape, share, unequal)] = np.nan
        kept = dense[~np.isnan(dense).all(axis=1)]
        yield f"{kind}, {100 * np.isnan(kept).mean():.0f} % masked, draw {draw}", Cells.from_dense(kept)


def masks(draws: int, unequal: bool, seeds: int) -> None:
    """How often the verdict says that modelling the missingness helps where it cannot."""
    said = 0
    for name, cells in masked(draws, unequal):
        began = time.perf_counter()
        result = nmar.compare(cells, Factorization(10), seeds=seeds, seed=0, name=name)
        taste, coupled = (next(row for row in result.rows if row.kind == kind) for kind in ("taste", "coupled"))
        said += result.verdict.helps
        gains = [(taste.gain, taste.gain_se), (taste.gain_over_own, taste.gain_over_own_se)]
        gains.append((coupled.gain_over_own, coupled.gain_over_own_se))
        text = "  ".join(f"{mean:+.4f} ± {se:.4f}" for mean, se in gains)
        seconds = time.perf_counter() - began
        print(f"{name:38s} helps {result.verdict.helps!s:5s}  {text}  ({seconds:.0f} s)", flush=True)
    print(f"helps: {said} of {draws}")


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real", "masks"])
    parser.add_argument("--names", nargs="+", default=["geuvadis", "ml_latest_small", "yelp_250k", "cptac"])
    parser.add_argument("--seeds", type=int, help="splits and starts (3; masks: 1)")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--linkages", nargs="+", default=["free", "free,s=4"], help="real: of the coupled models")
    parser.add_argument("--unequal", action="store_true", help="masks: lines are observed unequally often")
    arguments = parser.parse_args()
    if arguments.what == "real":
        real(arguments.names, arguments.seeds or 3, arguments.rows, arguments.linkages)
    else:
        masks(arguments.draws, arguments.unequal, arguments.seeds or 1)


if __name__ == "__main__":
    main()
