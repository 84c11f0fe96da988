"""Rank chosen by the data: what ``Factorization(rank="auto")`` reaches, beside rank 10 and beside softImpute.

    python -m benchmarks.rank auto cptac geuvadis [--seeds 0 1 2] [--one-split] [--max-iter 60] [--rows 1500]
    python -m benchmarks.rank beside ml_latest_small ml_1m yelp_250k
    python -m benchmarks.rank peer cptac geuvadis
    python -m benchmarks.rank sweeps cptac --rows 1500 --ranks 15 22 --max-iter 60 [--covariance diagonal] [--normal]
    python -m benchmarks.rank null

Factors 10, the split of the floors (20 % test, 1 % validation, which is not used), test cells hidden. Printed are the
rank, held-out nats and RMSE, what was tried, and how long the whole fit took over the final run in it. ``beside`` fits
rank 10 too, and prints what the chosen rank gains over it, ± clustered by row. ``peer`` is softImpute: rows and columns
centred, soft-thresholded singular values, the penalty chosen on a tenth of the training cells, then all of them.
``sweeps`` prints held-out nats after some of the sweeps of given ranks, ``--normal`` with normal priors of factors in
place of Student ones. ``null`` fits values of rank 3 that are masked at random, beside rank 10.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import nmar
from benchmarks.pattern import gain, problem
from benchmarks.problems import PROBLEMS
from nmar import CCPF, Cells, Factorization
from nmar.posterior.places import held_out_score

AT = (8, 12, 16, 20, 30, 40, 60, 100)  # sweeps after which held-out nats are printed
PATH = 0.8  # each penalty over the one before it
WORSE = 3  # penalties that do worse on validation cells than the best one, before the path ends


class Table(NamedTuple):
    """A dense table: values, 0 where there is none, and which cells have one."""

    values: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, cells: Cells) -> Table:
        """The table of some cells."""
        values = np.zeros(cells.shape)
        seen = np.zeros(cells.shape, bool)
        values[cells.positions()], seen[cells.positions()] = cells.values, True
        return cls(values, seen)


def centred(table: Table, turns: int = 20) -> np.ndarray:
    """What rows and columns add up to: their observed means, in turn, until nothing moves (softImpute's biScale)."""
    away = np.zeros(table.values.shape)
    for _ in range(turns):
        for axis in (1, 0):
            rest = np.where(table.seen, table.values - away, 0.0)
            count = np.maximum(table.seen.sum(axis=axis, keepdims=True), 1)
            away += rest.sum(axis=axis, keepdims=True) / count
    return away


def soft_impute(table: Table, penalty: float, start: np.ndarray, most: int = 100, tol: float = 1e-5) -> np.ndarray:
    """The completed table: missing cells are filled and singular values shrunk by the penalty, in turn."""
    found = start
    for _ in range(most):
        filled = np.where(table.seen, table.values, found)
        squares, right = np.linalg.eigh(filled.T @ filled)
        values = np.sqrt(np.maximum(squares, 1e-300))
        new = filled @ (right * (np.maximum(values - penalty, 0.0) / values)) @ right.T
        moved = np.sum((new - found) ** 2) / max(float(np.sum(found**2)), 1e-9)
        found = new
        if moved < tol:
            break
    return found


def peer(train: Cells, test: Cells) -> tuple[float, float, int]:
    """softImpute: RMSE, penalty and rank."""
    inner, _, aside = train.split(test=0.1, valid=0.0, seed=0)
    penalty, scores, found, away = 0.0, [], np.zeros(train.shape), centred(Table.of(inner))
    table = Table(np.where(Table.of(inner).seen, Table.of(inner).values - away, 0.0), Table.of(inner).seen)
    first = float(np.linalg.norm(table.values, 2))
    while len(scores) - int(np.argmin([score for _, score in scores] or [0])) <= WORSE:
        penalty = first * PATH ** (len(scores) + 1)
        found = soft_impute(table, penalty, found)
        scores.append((penalty, error(aside, found + away)))
    best = min(scores, key=lambda pair: pair[1])[0]
    whole = Table.of(train)
    away = centred(whole)
    table, found = Table(np.where(whole.seen, whole.values - away, 0.0), whole.seen), np.zeros(train.shape)
    for penalty in [each for each, _ in scores if each >= best]:
        found = soft_impute(table, penalty, found)
    rank = int(np.sum(np.linalg.svd(found, compute_uv=False) > 1e-6 * penalty))
    return error(test, found + away), best, rank


def error(cells: Cells, predicted: np.ndarray) -> float:
    """RMSE."""
    return float(np.sqrt(np.mean((predicted[cells.positions()] - cells.values) ** 2)))


def fitted(train: Cells, test: Cells, rank: Any, seed: int, most: int) -> tuple[CCPF, np.ndarray, float]:
    """A fit, log density of each test cell, and RMSE."""
    model = CCPF(Factorization(rank), random_state=seed, max_iter=most).fit(train, hidden=test)
    nats = np.asarray(model.log_likelihood(test, per_cell=True))
    away = model.predict_entries(*test.pairs()) - test.values
    return model, nats, float(np.sqrt(np.mean(away**2)))


def measure(name: str, train: Cells, test: Cells, seed: int, most: int = 200, beside: bool = False) -> None:
    """Fit and print."""
    began = time.process_time()
    model, nats, rmse = fitted(train, test, "auto", seed, most)
    seconds = time.process_time() - began
    trace = model.seconds_trace_
    run = trace[-1] - trace[0] + (float(np.median(np.diff(trace))) if len(trace) > 1 else trace[0])
    tried = ", ".join(f"{one.value}: −{one.behind:.4f}" for one in sorted(model.choices_, key=lambda one: one.value))
    print(
        f"{name:16s} seed {seed}  rank {model.posterior_.law.data.rank:3d}  nats {nats.mean():.4f}  rmse {rmse:.4f}"
        f"  {model.n_iter_} sweeps, {seconds:.0f} s of a processor, {trace[-1] / run:.2f} × the final run  [{tried}]",
        flush=True,
    )
    if beside:
        _, plain, plain_rmse = fitted(train, test, 10, seed, most)
        over = gain(nats, plain, test.row_index)
        print(
            f"{name:16s} seed {seed}  rank  10  nats {plain.mean():.4f}  rmse {plain_rmse:.4f}, gain over it {over}",
            flush=True,
        )


def sweeps(name: str, train: Cells, test: Cells, given: argparse.Namespace) -> None:
    """Held-out nats on the way, for each rank."""
    for rank in given.ranks:
        kept: dict[int, Any] = {}
        data = Factorization(rank, covariance=given.covariance, student=not given.normal)
        model = CCPF(data, random_state=given.seeds[0], max_iter=given.max_iter)
        model.fit(train, hidden=test, callbacks=[lambda each, kept=kept: kept.update({each.iteration: each.state})])
        at = [each for each in AT if each < model.n_iter_] + [model.n_iter_]
        nats = [held_out_score(replace(model.posterior_, state=kept[each]), test).mean() for each in at]
        told = ", ".join(f"{each}: {score:.4f}" for each, score in zip(at, nats, strict=True))
        rmse = float(np.sqrt(np.mean((model.predict_entries(*test.pairs()) - test.values) ** 2)))
        print(f"{name:16s} rank {rank:3d}  rmse {rmse:.4f}  nats after sweeps {told}", flush=True)


def some_rows(train: Cells, test: Cells, count: int | None) -> tuple[Cells, Cells]:
    """The cells of some rows, or all of them."""
    if count is None:
        return train, test
    rows = np.sort(np.random.default_rng(0).permutation(train.shape[0])[:count])
    return train.take_rows(rows), test.take_rows(rows)


def null() -> None:
    """Values of rank 3 with a spread that knows nothing of the pattern, masked at random."""
    for shape, density in (((60, 40), 0.4), ((300, 200), 0.2), ((1000, 500), 0.1)):
        for seed in range(3):
            cells, _ = nmar.simulate(shape, Factorization(3), "ignorable", density, seed=seed)
            train, _, test = cells.split(test=0.2, valid=0.0, seed=seed)
            measure(f"{shape[0]} × {shape[1]}", train, test, seed, beside=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("auto", "beside", "peer", "sweeps", "null"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROBLEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--one-split", action="store_true", help="seeds change the start alone, not the split")
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--ranks", type=int, nargs="+", default=[5, 10, 15, 22, 33, 50])
    parser.add_argument("--covariance", choices=("full", "diagonal"), default="full")
    parser.add_argument("--normal", action="store_true", help="normal priors of factors")
    parser.add_argument("--rows", type=int, help="so many rows, drawn at random (seed 0), instead of all")
    arguments = parser.parse_args()
    if arguments.what == "null":
        null()
    for name in arguments.names:
        for seed in arguments.seeds:
            train, test = some_rows(*problem(name, 0 if arguments.one_split else seed), arguments.rows)
            if arguments.what == "sweeps":
                sweeps(name, train, test, arguments)
                continue
            if arguments.what != "peer":
                measure(name, train, test, seed, arguments.max_iter, arguments.what == "beside")
                continue
            rmse, penalty, rank = peer(train, test)
            print(f"{name:16s} seed {seed}  softImpute rmse {rmse:.4f}, penalty {penalty:.1f}, rank {rank}", flush=True)


if __name__ == "__main__":
    main()
