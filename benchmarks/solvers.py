"""Held-out log likelihood against seconds for the three solvers.

    python -m benchmarks.solvers ml_1m yelp_250k [--entrywise-seconds 600] [--folder docs/experiments]
    python -m benchmarks.solvers simulated

Rank 10, factors 10, seed 0; the batch solver with its default stopping rule and for 40 sweeps. The minibatch solver
runs its default five passes. Entrywise needs a diagonal covariance and a one-parameter linkage, so it has a batch
fit of its own to be compared with. Prints one line per fit and writes a PNG and a JSON of the curves per problem.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import PROBLEMS
from nmar import CCPF, Cells, Factorization, Linear, simulate
from nmar.fit.solvers.entrywise import Entrywise
from nmar.posterior.posterior import Posterior, log_density


def simulated() -> tuple[Cells, Cells, Cells]:
    """400 × 300 at 10 %, rank 5, linear linkage."""
    data = Factorization(5, covariance="diagonal")
    cells, _ = simulate(shape=(400, 300), data=data, linkage=Linear(0.3), density=0.1, seed=0)
    return cells.split(test=0.2, valid=0.05, seed=0)


class Curve:
    """A callback that scores held-out cells after each sweep; its own time is not counted."""

    def __init__(self, law: Any, train: Cells, valid: Cells, test: Cells) -> None:
        self.law, self.train, self.parts = law, train, (valid, test)
        self.points: list[list[float]] = []
        self.spent = 0.0

    def __call__(self, record: Any) -> None:
        """Score and store seconds, sweep, validation, test."""
        began = time.perf_counter()
        known = Posterior(self.law, record.state, self.train.rows, self.train.cols)
        scores = [float(np.mean(log_density(known, *part.positions(), part.values))) for part in self.parts]
        self.points.append([record.seconds - self.spent, record.iteration, *scores])
        self.spent += time.perf_counter() - began


def curve(label: str, parts: tuple[Cells, Cells, Cells], **settings: Any) -> dict[str, Any]:
    """Fit, print the end, return the curve."""
    train, valid, test = parts
    model = CCPF(random_state=0, **settings)
    law = CCPF(random_state=0, **{**settings, "solver": "batch", "max_iter": 1}).fit(train).posterior_.law
    follow = Curve(law, train, valid, test)
    began = time.perf_counter()
    model.fit(train, callbacks=[follow])
    total = time.perf_counter() - began - follow.spent
    # time before the first sweep of the main run (starts) belongs to the curve
    shift = total - follow.points[-1][0]
    points = [[p[0] + shift, *p[1:]] for p in follow.points]
    end = points[-1]
    print(
        f"{label:28s} {model.n_iter_:4d} sweeps {total:7.1f} s  valid {end[2]:.4f}  test {end[3]:.4f}"
        f"  ({model.stop_reason_})",
        flush=True,
    )
    return {"label": label, "points": points}


def draw(curves: list[dict[str, Any]], name: str, folder: Path) -> None:
    """Test log likelihood against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for each in curves:
        points = np.array(each["points"])
        axes.plot(points[:, 0], points[:, 3], marker="o", markersize=3, label=each["label"])
    best = max(p[3] for each in curves for p in each["points"])
    axes.set(xscale="log", xlabel="seconds", ylabel="test log likelihood, nats per cell", title=name)
    axes.set_ylim(best - 0.15, best + 0.01)
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder / f"solvers_{name}.png", dpi=130)


def main() -> None:
    """Fit and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=[*PROBLEMS, "simulated"])
    parser.add_argument("--entrywise-seconds", type=float, default=600.0)
    parser.add_argument("--only", nargs="+", default=["batch", "minibatch", "entrywise"])
    parser.add_argument("--folder", type=Path, default=Path("docs/experiments"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        small = name == "simulated"
        parts = simulated() if small else PROBLEMS[name]()
        rank = 5 if small else 10
        common = {"data": Factorization(rank), "factors": rank, "linkage": "free", "noise": "constant"}
        paper = {**common, "data": Factorization(rank, covariance="diagonal"), "linkage": "linear"}
        solver = Entrywise(visits=2_000_000 if small else 20_000_000)
        print(name)
        curves = []
        if "batch" in arguments.only:
            curves.append(curve("batch, default stop", parts, starts="auto", **common))
            curves.append(curve("batch, 40 sweeps", parts, max_iter=40, tol=0.0, **common))
        if "minibatch" in arguments.only:
            curves.append(curve("minibatch, 5 passes", parts, solver="minibatch", **common))
        if "entrywise" in arguments.only:
            curves.append(curve("batch, linear, diagonal", parts, max_iter=300, tol=1e-6 if small else 1e-5, **paper))
            limits = {"max_iter": 120 if small else 100_000, "max_time": arguments.entrywise_seconds}
            curves.append(curve("entrywise, linear, diagonal", parts, solver=solver, **limits, **paper))
        kept = arguments.folder / f"solvers_{name}.json"
        old = json.loads(kept.read_text()) if kept.exists() else []
        labels = [each["label"] for each in curves]
        curves = [each for each in old if each["label"] not in labels] + curves
        kept.write_text(json.dumps(curves))
        draw(curves, name, arguments.folder)


if __name__ == "__main__":
    main()
