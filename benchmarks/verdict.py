"""Is the verdict true? Real patterns, and masks completely at random, where it must not say "helps".

    python -m benchmarks.verdict table [--names …] [--seeds 0 1 2] [--linkages linear free free,s=4 free,s=16]
        [--max-iter 200]
    python -m benchmarks.verdict real [--names yelp_250k ml_latest_small geuvadis cptac ml_1m coat lastfm_counts
        pbmc3k_counts] [--seeds 0 1 2] [--rows 0] [--linkages free free,s=4]
    python -m benchmarks.verdict masks [--draws 20] [--unequal] [--seeds 0]

Rank 10, factors 10. Each seed is a split (20 % test) and a start; yelp has the authors' split and other starts. Counts
(lastfm_counts, pbmc3k_counts) have a Poisson factorization, all others a Gaussian one. ``table``: what linkages of the
spread, the two-stage baseline and a fit without a tail gain over the ignorable fit, in single runs; noise by row and
column on all sides. Jester and the tag genome are complete: cells are seen with log odds of 1.5 times the standardised
value. ``real``: the table and the verdict of ``nmar.compare``; ``--rows`` takes so many rows at random. ``masks``:
complete matrices (Jester; rows of CPTAC and GEUVADIS without gaps; simulated rows of unequal noise) masked completely
at random, 10, 30 and 60 % in turn. ``--unequal``: lines are observed unequally often, log odds of standard deviation
1.5 by row and 1 by column, whatever their values and noise. Counts how often the verdict says "helps", and prints the
gains of taste over the ignorable model and over shuffled choices, and of the coupled model over its tail-only control.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

import nmar
from benchmarks.problems import PROBLEMS, folder, triplets
from nmar import Cells, Factorization
from nmar.evaluate.gains import Judges
from nmar.fit.names import linkage_named

COMPLETE_ROWS = 600  # of a matrix without gaps: enough to show the effect, few enough to fit in seconds
SHARES = (0.1, 0.3, 0.6)
COUNTS = ("lastfm_counts", "pbmc3k_counts")
TABLES = (
    *("ml_latest_small", "ml_1m", "yelp_250k", "coat", "geuvadis", "cptac", "pbmc3k", "lastfm", "jester", "tag_genome"),
    *COUNTS,
)


def whole(name: str) -> Cells:
    """All cells of a problem; compare splits them by its seeds."""
    if name == "geuvadis":
        return geuvadis_cells()
    if name in ("lastfm", "pbmc3k"):  # logarithms of counts
        row, col, value = triplets(folder() / FILES[name])
        return from_triplets(row, col, np.log(value))
    if name == "jester":
        return seen_by_value(from_triplets(*triplets(folder() / FILES[name])))
    if name == "tag_genome":
        wide = parquet.read_table(folder() / "tag_genome_partial" / "genome_scores_wide.parquet").drop(["movieId"])
        return seen_by_value(Cells.from_dense(np.stack([column.to_numpy() for column in wide.columns], axis=1)))
    return from_triplets(*triplets(folder() / FILES[name]))


FILES = {
    "ml_1m": "ml_1m/ratings.parquet",
    "ml_latest_small": "ml_latest_small_2016/ratings.parquet",
    "cptac": "cptac_ucec_protein/values.parquet",
    "coat": "coat/train.parquet",
    "lastfm": "lastfm_hetrec2k/ratings.parquet",
    "lastfm_counts": "lastfm_hetrec2k/ratings.parquet",
    "pbmc3k": "pbmc3k_counts/counts.parquet",
    "pbmc3k_counts": "pbmc3k_counts/counts.parquet",
    "jester": "jester_dense1000/ratings.parquet",
}


def seen_by_value(cells: Cells) -> Cells:
    """Some cells of a complete table: log odds of 1.5 times the standardised value."""
    values = (cells.values - cells.values.mean()) / cells.values.std()
    return cells.select(np.random.default_rng(0).random(len(cells)) < 1.0 / (1.0 + np.exp(-1.5 * values)))


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


def real(names: list[str], seeds: list[int], rows: int, linkages: list[str]) -> None:
    """Tables and verdicts of real patterns."""
    for name in names:
        began = time.perf_counter()
        data = Factorization(10, family="poisson" if name in COUNTS else "gaussian")
        if name == "yelp_250k":
            train, valid, test = PROBLEMS[name]()
            parts = {"train": train, "test_cells": test, "valid_cells": valid}
            result = nmar.compare(data=data, linkages=linkages, seeds=len(seeds), seed=seeds[0], name=name, **parts)
        else:
            result = nmar.compare(
                some_rows(whole(name), rows), data, linkages, seeds=len(seeds), seed=seeds[0], name=name
            )
        print(result.text(color=False), flush=True)
        print(result.paired_test(), "\n", flush=True)
        print(result.verdict, f"\n({time.perf_counter() - began:.0f} s)\n", flush=True)


def split(name: str, seed: int) -> tuple[Cells, Cells]:
    """Training and test cells of a problem."""
    if name == "yelp_250k":
        train, _, test = PROBLEMS[name]()
        return train, test
    train, _, test = whole(name).split(0.2, 0.0, seed)
    return train, test


def table(names: list[str], seeds: list[int], linkages: list[str], max_iter: int) -> None:
    """Gains over the ignorable fit, errors over cells, rows, columns and fits."""
    for name in names:
        began = time.perf_counter()
        family = "poisson" if name in COUNTS else "gaussian"
        fits: dict[str, dict[str, Any]] = {
            "ignorable": {},
            **{link: {"linkage": linkage_named(link, "linkages")} for link in linkages},
        }
        if family == "gaussian":
            fits |= {"no tail": {"tail": False}, "two-stage": {"linkage": "two-stage"}}
        parts = [split(name, seed) for seed in seeds]
        found: dict[str, list[np.ndarray]] = {label: [] for label in fits}
        for seed, (train, test) in zip(seeds, parts, strict=True):
            for label, settings in fits.items():
                asked = {"linkage": "ignorable", "max_iter": max_iter, "random_state": seed, **settings}
                model = nmar.CCPF(Factorization(10, family=family), **asked).fit(train, hidden=test)  # type: ignore[arg-type]
                found[label].append(np.asarray(model.log_likelihood(test, per_cell=True)))
        judges, base = Judges.of([test for _, test in parts]), found.pop("ignorable")
        print(f"{name:16s} ignorable {np.mean([one.mean() for one in base]):.4f}", flush=True)
        for label, each in found.items():
            gain = judges.average([a - b for a, b in zip(each, base, strict=True)])
            print(f"{name:16s} {label:10s} {gain}", flush=True)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)


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


def masks(draws: int, unequal: bool, seeds: list[int]) -> None:
    """How often the verdict says that modelling the missingness helps where it cannot."""
    said = 0
    for name, cells in masked(draws, unequal):
        began = time.perf_counter()
        result = nmar.compare(cells, Factorization(10), seeds=len(seeds), seed=seeds[0], name=name)
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
    parser.add_argument("what", choices=["table", "real", "masks"])
    parser.add_argument("--names", nargs="+", choices=TABLES, help="default: all; real: four of them")
    parser.add_argument("--seeds", type=int, nargs="+", help="splits and starts, one after the other (0 1 2; masks: 0)")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--linkages", nargs="+", help="of the coupled models")
    parser.add_argument("--max-iter", type=int, default=200, help="table: sweeps of each fit, at most")
    parser.add_argument("--unequal", action="store_true", help="masks: lines are observed unequally often")
    arguments = parser.parse_args()
    if arguments.what == "table":
        links = arguments.linkages or ["linear", "free", "free,s=4", "free,s=16"]
        table(arguments.names or list(TABLES), arguments.seeds or [0, 1, 2], links, arguments.max_iter)
    elif arguments.what == "real":
        names = arguments.names or ["geuvadis", "ml_latest_small", "yelp_250k", "cptac"]
        real(names, arguments.seeds or [0, 1, 2], arguments.rows, arguments.linkages or ["free", "free,s=4"])
    else:
        masks(arguments.draws, arguments.unequal, arguments.seeds or [0])


if __name__ == "__main__":
    main()
