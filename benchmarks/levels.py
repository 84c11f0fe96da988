"""Ratings on a few levels: which way of keeping predictions inside the range has the best held-out log probability?

    python -m benchmarks.levels
    python -m benchmarks.levels --names ml_1m --cells 200000

A Gaussian model gives each held-out cell a distribution function F of a continuous value. Ways to a law on the levels:

    rounded     P(level) = F(upper middle) − F(lower middle), the two ends open
    truncated   F restricted to [lowest, highest], cut at the same middles, so that the ends have half a step
    wide        F restricted to half a step beyond both ends, cut at the middles
    density     P(level) proportional to the density at the level
"""

from __future__ import annotations

import argparse

import numpy as np

import nmar
from benchmarks import problems
from nmar.posterior.mixing import mixtures

NAMES = ("ml_latest_small", "ml_1m")


def laws(posterior, cells, levels) -> dict[str, np.ndarray]:
    """P(level) of each cell by every way, (cells, levels)."""
    half = 0.5 * (levels[1] - levels[0])
    edges = np.concatenate([[levels[0] - half], levels + half])
    found = np.empty((len(cells), len(edges)))
    ends = np.empty((len(cells), 2))
    density = np.empty((len(cells), len(levels)))
    to_model = posterior.units.to_model
    for m in mixtures(posterior, *cells.positions()):
        for k, edge in enumerate(edges):
            found[m.where, k] = m.cumulative(np.full(len(m.where), to_model(edge)))
        for k in (0, -1):
            ends[m.where, k] = m.cumulative(np.full(len(m.where), to_model(levels[k])))
        for k, level in enumerate(levels):
            density[m.where, k] = np.exp(m.log_density(np.full(len(m.where), to_model(level)), False))
    opened, cut = found.copy(), found.copy()
    opened[:, 0], opened[:, -1] = 0.0, 1.0
    cut[:, 0], cut[:, -1] = ends[:, 0], ends[:, 1]
    parts = {"rounded": np.diff(opened), "truncated": np.diff(cut), "wide": np.diff(found), "density": density}
    return {name: np.maximum(p, 1e-12) / np.maximum(p, 1e-12).sum(axis=1, keepdims=True) for name, p in parts.items()}


def central(law: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the levels between which a central interval lies."""
    total = np.cumsum(law, axis=1)
    low = np.sum(total < 0.5 - level / 2 - 1e-12, axis=1)
    return low, np.minimum(np.sum(total < 0.5 + level / 2 - 1e-12, axis=1), law.shape[1] - 1)


def report(name: str, linkage, most: int) -> None:
    """Rows of the table for one data set and linkage."""
    train, valid, test = getattr(problems, name)()
    if most and len(train) > most:  # fewer rows, all their cells
        keep = np.cumsum(np.diff(train.by(0).indptr)) <= most
        train, valid, test = (part.take_rows(keep) for part in (train, valid, test))
    settings = {"factors": 10, "noise": "constant", "max_iter": 60, "random_state": 0}
    model = nmar.CCPF(nmar.Factorization(10), linkage, **settings)
    model.fit(train, valid=valid, hidden=test)
    y, levels = test.values, np.unique(train.values)
    truth = np.searchsorted(levels, y)
    low, high = model.interval(test.row_ids[test.row_index], test.col_ids[test.col_index])
    mean = model.predict_entries(test.row_ids[test.row_index], test.col_ids[test.col_index])
    out = np.mean((low < levels[0]) | (high > levels[-1]))
    inside, rmse = np.mean((low <= y) & (y <= high)), np.sqrt(np.mean((mean - y) ** 2))
    label = linkage if isinstance(linkage, str) else "thinned"
    print(
        f"| {name} | {label} | none | | {rmse:.4f} | {100 * inside:.1f} | {np.mean(high - low):.2f} | {100 * out:.0f} |"
    )
    clipped = np.sqrt(np.mean((np.clip(mean, levels[0], levels[-1]) - y) ** 2))
    print(f"| {name} | {label} | clipped | | {clipped:.4f} | {100 * inside:.1f} | | 0 |")
    for way, law in laws(model.posterior_, test, levels).items():
        score = np.log(law[np.arange(len(y)), truth])
        at = law @ levels
        first, last = central(law, 0.9)
        covered = np.mean((first <= truth) & (truth <= last))
        width = np.mean(levels[last] - levels[first])
        print(
            f"| {name} | {label} | {way} | {score.mean():.4f} ± {score.std() / np.sqrt(len(y)):.4f}"
            f" | {np.sqrt(np.mean((at - y) ** 2)):.4f} | {100 * covered:.1f} | {width:.2f} | 0 |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--cells", type=int, default=200_000, help="training cells at most, of the first rows (200000)")
    args = parser.parse_args()
    print("| data | linkage | way | log P(level) | RMSE | 90 % interval covers, % | width | outside, % |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.names:
        for linkage in ("ignorable", nmar.Free(thinning=16)):
            report(name, linkage, args.cells)


if __name__ == "__main__":
    main()
