"""Noise by row and column: what a plain fit reaches, and what linkages of the spread add to it.

    python -m benchmarks.noise plain yelp_250k ml_1m ml_latest_small geuvadis cptac [--seeds 0 1 2] [--one-split]
    python -m benchmarks.noise linkages ml_latest_small geuvadis [--seeds 0]
    python -m benchmarks.noise cost ml_1m
    python -m benchmarks.noise null

Rank 10, factors 10, the split of the floors (20 % test, 1 % validation, which is not used), test cells hidden. Printed
are held-out nats and RMSE, how many values 90 % intervals cover in all and by fifths of row length, the area under the
curve of P(observed) of test cells against random missing pairs, sweeps, seconds. ``linkages`` compares linkages under
noise by row and column without a tail with the same model without a linkage, cell by cell, errors clustered by row.
``null`` simulates values of rank 3 whose lines do not differ and that have no tail, and fits them with rank 5.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import nmar
from benchmarks.pattern import LINKAGES, area, problem
from benchmarks.problems import PROBLEMS
from nmar import CCPF, Factorization


def coverage(model: CCPF, train: nmar.Cells, test: nmar.Cells) -> tuple[float, list[float]]:
    """Share of test values within 90 % intervals, in all and by fifths of their row's length."""
    low, high = model.interval(*test.pairs(), level=0.9)
    inside = (low <= test.values) & (test.values <= high)
    length = np.diff(train.by(0).indptr)[test.positions()[0]]
    fifth = np.searchsorted(np.quantile(length, [0.2, 0.4, 0.6, 0.8]), length)
    return float(inside.mean()), [float(inside[fifth == k].mean()) for k in np.unique(fifth)]


def plain(name: str, seed: int, split: int) -> tuple[float, float]:
    """Fit, print and return nats and RMSE."""
    train, test = problem(name, split)
    began = time.perf_counter()
    model = CCPF(Factorization(10), random_state=seed).fit(train, hidden=test)
    seconds = time.perf_counter() - began
    nats = model.log_likelihood(test)
    rmse = float(np.sqrt(np.mean((model.predict_entries(*test.pairs()) - test.values) ** 2)))
    inside, fifths = coverage(model, train, test)
    print(
        f"{name:16s} seed {seed}  nats {nats:.4f}  rmse {rmse:.4f}  covered {inside:.3f}"
        f" ({', '.join(f'{x:.3f}' for x in fifths)})  area {area(model, train, test):.3f}"
        f"  {model.n_iter_} sweeps, {seconds:.1f} s",
        flush=True,
    )
    return nats, rmse


def linkages(name: str, seed: int) -> None:
    """What each linkage adds to noise by row and column, and what the tail does."""
    train, test = problem(name, seed)

    def fitted(linkage: object, tail: bool) -> np.ndarray:
        model = CCPF(Factorization(10), linkage, noise="rows+cols", tail=tail, random_state=seed)  # type: ignore[arg-type]
        return np.asarray(model.fit(train, hidden=test).log_likelihood(test, per_cell=True))

    base, rows = fitted("ignorable", False), test.positions()[0]
    print(f"{name:16s} seed {seed}  noise by row and column alone {base.mean():.4f}", flush=True)
    for label, (linkage, tail) in {"tail": ("ignorable", True), **{k: (v, False) for k, v in LINKAGES.items()}}.items():
        gain = fitted(linkage, tail) - base
        by_row = np.bincount(rows, gain - gain.mean(), minlength=train.shape[0])
        error = np.sqrt(np.sum(by_row**2)) / len(gain)
        print(f"{name:16s} seed {seed}  + {label:12s} {gain.mean():+.4f} ± {error:.4f}", flush=True)


def cost(name: str) -> None:
    """Seconds of a sweep with noise and tail over one without, in turn; medians of four runs."""
    train, _ = problem(name, 0)
    for covariance, rank, sweeps in (("full", 10, 12), ("diagonal", 160, 4)):
        found: dict[str | None, list[float]] = {"constant": [], None: []}
        for noise in [*found] * 4:
            data = Factorization(rank, covariance=covariance)  # type: ignore[arg-type]
            tail = False if noise else None
            model = CCPF(data, factors=rank, noise=noise, tail=tail, max_iter=sweeps, tol=0.0, random_state=0)  # type: ignore[arg-type]
            found[noise].append(float(np.median(np.diff(model.fit(train).seconds_trace_))))
        before, after = (float(np.median(found[noise])) for noise in found)
        print(f"{name} {covariance} {rank}: {before:.4f} s, with noise and tail {after:.4f} s, {after / before:.3f} ×")


def null() -> None:
    """What noise by row and column and a tail lose where values have neither."""
    for shape, density in (((60, 40), 0.4), ((300, 200), 0.2), ((1000, 500), 0.1)):
        for seed in range(3):
            train, _, test = nmar.simulate(shape, Factorization(3), "ignorable", density, seed=seed)[0].split(
                test=0.2, valid=0.0, seed=seed
            )
            told = []
            for settings in ({"noise": "constant"}, {"tail": False}, {}, {"noise": "constant", "tail": True}):
                model = CCPF(Factorization(5), random_state=seed, **settings).fit(train, hidden=test)  # type: ignore[arg-type]
                noise = model.posterior_.state.shared.noise
                freedom = f" (freedom {noise.freedom:.0f})" if noise is not None and noise.freedom else ""
                told.append(f"{model.log_likelihood(test):.4f}{freedom}")
            names = ("constant", "lines", "lines and tail", "tail")
            told = [f"{name} {each}" for name, each in zip(names, told, strict=True)]
            print(f"{shape} seed {seed}  " + ", ".join(told), flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plain", "linkages", "cost", "null"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--one-split", action="store_true", help="seeds change the start alone, not the split")
    arguments = parser.parse_args()
    if arguments.what == "null":
        null()
    for name in arguments.names:
        if arguments.what == "cost":
            cost(name)
            continue
        if arguments.what == "linkages":
            for seed in arguments.seeds:
                linkages(name, seed)
            continue
        found = [plain(name, seed, 0 if arguments.one_split else seed) for seed in arguments.seeds]
        nats, rmse = np.mean(found, axis=0)
        print(f"{name:16s} mean    nats {nats:.4f}  rmse {rmse:.4f}", flush=True)


if __name__ == "__main__":
    main()
