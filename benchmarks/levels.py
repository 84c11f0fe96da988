"""Ratings as levels: held-out log probability of the level that was given, beside other laws of ratings.

    python -m benchmarks.levels scores ml_latest_small ml_1m yelp_250k coat [--seeds 0 1 2] [--myfm PYTHON]
    python -m benchmarks.levels scores ml_1m --ways levels taste
    python -m benchmarks.levels cost ml_1m

Rank 10, factors 10, the split of the floors (20 % test, 1 % validation, which is not used; yelp_250k and coat have a
split of their own), test cells hidden. Ways to a law on the levels:

    items       frequencies of the levels of each column, drawn towards those of all as Dirichlet prior says
    ignorable   a Gaussian with one noise for all cells, its distribution function cut half way between levels
    gaussian    a plain Gaussian fit, with noise by row and column and a tail, cut likewise
    levels      learned cut points, one style
    styles      learned cut points, with ``styles="auto"``
    taste       the same with ``mechanism="taste"``
    myfm        the ordered probit of the package myfm (Gibbs sampling, rank 10), run by another interpreter

``myfm`` needs ``--myfm PYTHON``, an interpreter that has the package. Printed are the mean log probability of held-out
levels, the error of the mean level, and how far P(level) is from the share of cells that have the level: the largest
gap over ten bins of equally many pairs of cell and level, and over tenths of the probability that have 1000 of them.
``cost`` compares the processor time of a sweep with that of a plain Gaussian, in turn, and times whole plain fits.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from benchmarks.pattern import problem
from benchmarks.problems import coat
from nmar import CCPF, Cells, Factorization
from nmar.posterior.mixing import mixtures

NAMES = ("ml_latest_small", "ml_1m", "yelp_250k", "coat")
LEAST = 1e-12
FEW = 1000  # pairs of cell and level below which a tenth of the probability is not judged
STYLES = "auto"


class Law(NamedTuple):
    """P(level) of the test cells, how the fit went, and in how many seconds."""

    chance: np.ndarray
    mean: np.ndarray
    about: str


class Task(NamedTuple):
    """Training and test cells, and the levels."""

    train: Cells
    test: Cells
    levels: np.ndarray
    seed: int


def task(name: str, seed: int) -> Task:
    """The split of a data set."""
    train, test = coat() if name == "coat" else problem(name, seed)
    return Task(train, test, np.unique(np.concatenate([train.values, test.values])), seed)


def items(given: Task) -> Law:
    """Frequencies by column under a Dirichlet prior, whose weight has the highest likelihood of the training cells."""
    train, many = given.train, len(given.levels)
    place = np.searchsorted(given.levels, train.values)
    counts = np.zeros((train.shape[1], many))
    np.add.at(counts, (train.col_index, place), 1.0)
    share = (counts.sum(axis=0) + 0.5) / (counts.sum() + 0.5 * many)

    def evidence(weight: float) -> float:
        alpha, total = weight * share, counts.sum(axis=1)
        each = gammaln(counts + alpha).sum(axis=1) - gammaln(alpha).sum() - gammaln(total + weight) + gammaln(weight)
        return float(each.sum())

    weight = max(np.geomspace(0.5, 500.0, 40), key=evidence)
    chance = (counts + weight * share)[given.test.positions()[1]]
    chance /= chance.sum(axis=1, keepdims=True)
    return Law(chance, chance @ given.levels, f"prior of {weight:.1f} cells")


def rounded(given: Task, **settings: object) -> Law:
    """A Gaussian whose distribution function is cut half way between levels."""
    model, about = fitted(given, Factorization(10), **settings)
    posterior, middles = model.posterior_, 0.5 * (given.levels[1:] + given.levels[:-1])
    below = np.zeros((len(given.test), len(given.levels) + 1))
    below[:, -1] = 1.0
    for part in mixtures(posterior, *given.test.positions()):
        for k, edge in enumerate(middles, 1):
            below[part.where, k] = part.cumulative(np.full(len(part.where), posterior.units.to_model(edge)))
    return Law(np.maximum(np.diff(below), 0.0), model.predict_entries(*given.test.pairs()), about)


def leveled(given: Task, styles: int | str, **settings: object) -> Law:
    """Cut points that are learned."""
    data = Factorization(10, family="levels", levels=given.levels, styles=styles)  # type: ignore[arg-type]
    model, about = fitted(given, data, **settings)
    chance = model.predict_levels(*given.test.pairs())
    return Law(
        chance,
        model.predict_entries(*given.test.pairs()),
        about + f", {model.posterior_.state.shared.reader.styles} styles",
    )


def fitted(given: Task, data: Factorization, **settings: object) -> tuple[CCPF, str]:
    """A fit with the test cells hidden."""
    began = time.perf_counter()
    model = CCPF(data, random_state=given.seed, **settings).fit(given.train, hidden=given.test)  # type: ignore[arg-type]
    return model, f"{model.n_iter_} sweeps, {time.perf_counter() - began:.1f} s"


def myfm(given: Task, python: str) -> Law:
    """The ordered probit of myfm, in a process of its own."""
    script = Path(__file__).parent / "peers" / "ordered_probit.py"
    with tempfile.TemporaryDirectory() as folder:
        sent, back = Path(folder) / "cells.npz", Path(folder) / "law.npz"
        train, test = given.train, given.test
        (i, j), (a, b) = train.positions(), test.positions()
        place = np.searchsorted(given.levels, train.values)
        np.savez(sent, i=i, j=j, level=place, a=a, b=b, shape=train.shape, levels=len(given.levels), seed=given.seed)
        began = time.perf_counter()
        subprocess.run([python, str(script), str(sent), str(back)], check=True)
        chance = np.load(back)["chance"]
    return Law(chance, chance @ given.levels, f"{time.perf_counter() - began:.1f} s")


WAYS: dict[str, Callable[[Task], Law]] = {
    "items": items,
    "ignorable": lambda given: rounded(given, noise="constant", tail=False),
    "gaussian": rounded,
    "levels": lambda given: leveled(given, 1),
    "styles": lambda given: leveled(given, STYLES),
    "taste": lambda given: leveled(given, STYLES, mechanism="taste"),
}


def calibration(chance: np.ndarray, place: np.ndarray) -> tuple[float, float]:
    """Largest gap between P(level) and the share of cells that have it: by deciles, and by tenths of P."""
    p, has = chance.ravel(), (place[:, None] == np.arange(chance.shape[1])).ravel()
    order = np.argsort(p, kind="stable")
    by_rank = [abs(p[k].mean() - has[k].mean()) for k in np.array_split(order, 10)]
    tenth = np.minimum((10.0 * p).astype(int), 9)
    parts = [tenth == k for k in range(10)]
    by_size = [abs(p[k].mean() - has[k].mean()) for k in parts if k.sum() >= FEW]
    return float(max(by_rank)), float(max(by_size))


def scores(name: str, seeds: list[int], ways: list[str], python: str | None) -> None:
    """Print the scores of each way and seed, and their means."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in seeds:
        given = task(name, seed)
        place = np.searchsorted(given.levels, given.test.values)
        for way in ways:
            if way == "myfm" and python is None:
                continue
            law = myfm(given, python) if way == "myfm" and python is not None else WAYS[way](given)
            nats = float(np.log(np.maximum(law.chance[np.arange(len(place)), place], LEAST)).mean())
            rmse = float(np.sqrt(np.mean((law.mean - given.test.values) ** 2)))
            found.setdefault(way, []).append((nats, rmse, *calibration(law.chance, place)))
            show(name, f"seed {seed}", way, found[way][-1], law.about)
    for way, each in found.items():
        show(name, "mean", way, tuple(np.mean(each, axis=0)), "")


def show(name: str, which: str, way: str, figures: tuple[float, ...], about: str) -> None:
    """One line."""
    nats, rmse, rank, size = figures
    gaps = f"gaps {100 * rank:.2f} %, {100 * size:.2f} %"
    print(f"{name:16s} {which:7s} {way:10s} log P {nats:.4f}  rmse {rmse:.4f}  {gaps}  {about}", flush=True)


def cost(name: str, runs: int = 3, sweeps: int = 6) -> None:
    """Processor seconds of a sweep in one thread, in turn with a plain Gaussian, and of whole plain fits."""
    given = task(name, 0)
    models = {"gaussian": Factorization(10), "one style": Factorization(10, family="levels")}
    models["two styles"] = Factorization(10, family="levels", styles=2)
    spent: dict[str, list[float]] = {way: [] for way in models}
    for way in [*models] * runs:
        clock: list[float] = []
        model = CCPF(models[way], max_iter=sweeps, tol=0.0, random_state=0, n_jobs=1)
        model.fit(given.train, callbacks=[lambda _, clock=clock: clock.append(time.process_time())])
        spent[way].append(float(np.median(np.diff(clock))))
    base = float(np.median(spent["gaussian"]))
    for way, each in spent.items():
        print(
            f"{name} {way:10s} {np.median(each):.3f} processor s a sweep, {np.median(each) / base:.2f} × the Gaussian's"
        )
    for way in ("gaussian", "one style"):
        began = time.process_time()
        _, about = fitted(given, models[way])
        print(f"{name} {way:10s} whole fit: {about}, {time.process_time() - began:.1f} processor s", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("scores", "cost"))
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "myfm"], default=[*WAYS, "myfm"])
    parser.add_argument("--myfm", metavar="PYTHON", help="an interpreter that has the package myfm")
    arguments = parser.parse_args()
    for name in arguments.names:
        if arguments.what == "cost":
            cost(name)
        else:
            scores(name, arguments.seeds, arguments.ways, arguments.myfm)


if __name__ == "__main__":
    main()
