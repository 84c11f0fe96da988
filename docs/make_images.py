"""Make the pictures of the documentation: ``python docs/make_images.py [name …]``; needs the extras demo and report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import nmar
from nmar.data import movielens
from nmar.evaluate import curves
from nmar.prob import counts
from nmar.report import figures

FOLDER = Path(__file__).parent / "images"


COLORS = ("#4c6a92", "#c46a2b", "#3f8f5f")


def page(height: float) -> tuple[Any, Any, Any]:
    """A picture of two halves."""
    with rc_context({**figures.STYLE, "figure.facecolor": "white"}):
        found = Figure(figsize=(9.2, height), layout="constrained")
        left, right = found.subplots(1, 2)
    return found, left, right


def ratings() -> None:
    """Residual variance against P(observed) on MovieLens-small, and the fitted linkage beside it."""
    cells = movielens()
    train, valid, test = cells.split(test=0.2, valid=0.01, seed=0)
    linkage = nmar.Free(thinning=16)
    model = nmar.CCPF(linkage=linkage, noise="constant", random_state=0).fit(train, valid=valid, hidden=test)
    result = nmar.missingness_test(cells, random_state=0, bins=60)
    found, left, right = page(3.4)
    figures.heteroscedasticity(result.bins, left)
    left.set_title("MovieLens-small: spread against P(observed)", loc="left", fontsize=11)
    figures.expected_linkage([curves.linkage_curve(model)], right)
    right.set_title("The fitted linkage", loc="left", fontsize=11)
    found.savefig(FOLDER / "movielens.png", dpi=110)


def thinning() -> None:
    """The law of an observed cell's events, without and with thinning."""
    found, *halves = page(3.0)
    for axes, thinning, most in zip(halves, (1.0, 16.0), (8, 60), strict=True):
        events = np.arange(1, most + 1)
        for rate, color in zip((0.05, 0.5, 2.0), COLORS, strict=True):
            log_weight, _ = counts.log_weights(np.log([rate]), "open", most, thinning)
            chance = np.exp(log_weight[0] - counts.log_truncation(np.array(rate), thinning))
            observed = 100 * -np.expm1(-rate)
            axes.plot(
                events, chance, color=color, marker="o", markersize=3, label=f"Λ = {rate:g}, observed {observed:.0f} %"
            )
        axes.set_xlabel("events e of an observed cell")
        axes.set_title(f"s = {thinning:g}", loc="left", fontsize=11)
    halves[0].set_ylabel("probability")
    halves[0].legend(frameon=False, fontsize=9)
    found.savefig(FOLDER / "thinning.png", dpi=110)


CHOICES: dict[str, dict[str, Any]] = {
    "ratings alone": {},
    "and choices of other people (control)": {"mechanism": "taste", "control": "shuffled"},
    "and what people chose to rate": {"mechanism": "taste"},
}
FILMS = ((0, 0), (1, 2), (3, 5), (6, 11), (12, 24), (25, 49), (50, 99), (100, 10_000))  # ratings in training


def choices() -> None:
    """Errors of held-out ratings with and without what people chose, by how many ratings the film has."""
    cells, found = movielens(), []
    for seed in range(3):
        train, _, test = cells.split(test=0.2, valid=0, seed=seed)
        rated = np.bincount(train.col_index, minlength=train.shape[1])[test.col_index]
        for name, how in CHOICES.items():
            model = nmar.CCPF("factorization:10", random_state=seed, **how).fit(train, hidden=test)
            found.append((name, rated, (model.predict(test) - test.values) ** 2))
    with rc_context({**figures.STYLE, "figure.facecolor": "white"}):
        made = Figure(figsize=(7.4, 3.4), layout="constrained")
        axes = made.subplots()
    for name, color, mark in zip(CHOICES, ("#8a8f98", "#4c6a92", "#c46a2b"), ("o", "x", "o"), strict=True):
        rated, squared = (np.concatenate([one[k] for one in found if one[0] == name]) for k in (1, 2))
        error = [np.sqrt(squared[(low <= rated) & (rated <= high)].mean()) for low, high in FILMS]
        axes.plot(error, color=color, marker=mark, linestyle=":" if mark == "x" else "-", label=name)
        print(name, np.round(error, 3), f"all: {np.sqrt(squared.mean()):.4f}")
    names = ["none", *(f"{low}–{high}" for low, high in FILMS[1:-1]), "100 or more"]
    axes.set_xticks(range(len(FILMS)), names)
    axes.set_xlabel("ratings of the film that the model has seen")
    axes.set_ylabel("error in stars (RMSE)")
    axes.set_title("Held-out ratings, predicted from …", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    made.savefig(FOLDER / "choices.png", dpi=130)


PICTURES = {"choices": choices, "movielens": ratings, "thinning": thinning}


def main() -> None:
    """Make the pictures named, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()


if __name__ == "__main__":
    main()
