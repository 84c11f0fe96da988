"""mechanism="taste": held-out gain over the same model without it, on real patterns and on masks at random.

    python -m benchmarks.taste real ml_latest_small ml_1m geuvadis yelp_250k cptac [--seeds 0 1 2]
    python -m benchmarks.taste masks [--draws 20]

Rank 10, factors 10, defaults otherwise; test cells are hidden, 20 % of the cells, with a new split and a new start for
each seed. ± has the part of the cells (V_row + V_col − V_cell, or V_cell where that is larger) and, with several
seeds, the spread of their means. ``masks``: complete matrices masked completely at random, every second one with rows
and columns masked unequally often.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import nmar
from benchmarks.noise import problem
from benchmarks.problems import PROBLEMS
from benchmarks.verdict import masked
from nmar import CCPF, Factorization


def variance(gain: np.ndarray, test: nmar.Cells) -> float:
    """Variance of the mean of a gain, dependence within rows and within columns allowed for."""
    away = gain - gain.mean()
    parts = [float(np.sum(np.bincount(where, away) ** 2)) for where in test.positions()]
    cells = float(np.sum(away**2))
    return max(sum(parts) - cells, cells) / len(gain) ** 2


def gains(train: nmar.Cells, test: nmar.Cells, seed: int) -> tuple[np.ndarray, list[float], list[float]]:
    """Gain of each test cell by taste, and nats and RMSE without and with it."""
    found, nats, rmse = [], [], []
    for mechanism in ("none", "taste"):
        model = CCPF(Factorization(10), mechanism=mechanism, random_state=seed).fit(train, hidden=test)  # type: ignore[arg-type]
        found.append(np.asarray(model.log_likelihood(test, per_cell=True)))
        nats.append(float(found[-1].mean()))
        rmse.append(float(np.sqrt(np.mean((model.predict_entries(*test.pairs()) - test.values) ** 2))))
    return found[1] - found[0], nats, rmse


def real(name: str, seeds: list[int]) -> None:
    """One data set, every seed and their mean."""
    means, errors = [], []
    for seed in seeds:
        train, test = problem(name, seed)
        gain, nats, rmse = gains(train, test, seed)
        means.append([gain.mean(), *nats, *rmse])
        errors.append(variance(gain, test))
        print(f"{name:16s} seed {seed}  {_line(means[-1], errors[-1])}", flush=True)
    spread = np.var([m[0] for m in means], ddof=1) / len(seeds) if len(seeds) > 1 else 0.0
    print(f"{name:16s} mean    {_line(np.mean(means, axis=0), np.mean(errors) + spread)}", flush=True)


def _line(numbers: list[float] | np.ndarray, squared: float) -> str:
    gain, before, after, rmse, better = numbers
    error = float(np.sqrt(squared))
    return (
        f"nats {before:.4f} → {after:.4f}, gain {gain:+.4f} ± {error:.4f} ({gain / error:.1f} se),"
        f" rmse {rmse:.4f} → {better:.4f}"
    )


def masks(draws: int) -> None:
    """How often a gain above two standard errors is seen where there is none."""
    found = 0
    sources = zip(masked(range(draws), False), masked(range(draws), True), strict=True)
    for draw, pair in enumerate(sources):
        name, cells = pair[draw % 2]
        train, _, test = cells.split(test=0.2, valid=0.0, seed=draw)
        gain, _, _ = gains(train, test, draw)
        error = float(np.sqrt(variance(gain, test)))
        found += gain.mean() > 2.0 * error
        print(f"{name}{', unequal' if draw % 2 else ''}: {gain.mean():+.5f} ± {error:.5f}", flush=True)
    print(f"above two standard errors: {found} of {draws}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("real", "masks"))
    parser.add_argument("names", nargs="*", choices=[*PROBLEMS, []])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if arguments.what == "masks":
        masks(arguments.draws)
    for name in arguments.names:
        real(name, arguments.seeds)


if __name__ == "__main__":
    main()
