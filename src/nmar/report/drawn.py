"""The figures of the pages: title, caption, what they show in words, and what draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmar.evaluate import curves
from nmar.evaluate.missingness import Bin
from nmar.evaluate.notes import ZIGZAG
from nmar.posterior.mechanism import learned_mechanism
from nmar.posterior.posterior import Posterior
from nmar.report import figures
from nmar.report.document import Figure

Traces = Sequence[tuple[str, Any, Any]]  # name, bound and validation score by sweep


def linkage_figures(lines: Sequence[curves.LinkageCurve], linear: bool) -> list[Figure]:
    """φ(n), and its mean by P(observed); ``linear``: whether a linear linkage, which zigzags, is among them."""
    table = "; ".join(
        f"{one.name}: φ is {one.phi[0]:.2f} at n = 1 and {one.phi[-1]:.2f} at {one.n[-1]}" for one in lines
    )
    mean = "; ".join(
        f"{one.name}: {_at(one, 0.1):.2f} at P(observed) = 0.1, {_at(one, 0.9):.2f} at 0.9" for one in lines
    )
    caption = "By how much a latent count of n multiplies the dispersion (noise). Dashed: ignorable."
    return [
        Figure(
            "The fitted linkage", f"{caption} {ZIGZAG}" if linear else caption, table, lambda: figures.linkage(lines)
        ),
        Figure(
            "Expected dispersion against P(observed)",
            "The same linkage averaged over the counts of a cell with that chance of being observed.",
            mean,
            lambda: figures.expected_linkage(lines),
        ),
    ]


def _at(one: curves.LinkageCurve, probability: float) -> float:
    return float(np.interp(probability, one.probability, one.expected))


def detection_figure(known: Posterior) -> Figure:
    """P(observed | value) of a model whose values decide whether they are seen."""
    mechanism = learned_mechanism(known)
    ends = curves.value_range(known)
    low, high = mechanism.curve(ends)["observed"]
    return Figure(
        "P(observed | value)",
        "How likely a value is to be observed in a row and column of average detection, with a 90 % band of the slope.",
        f"{low:.0%} at {ends[0]:.3g}, {high:.0%} at {ends[1]:.3g}",
        lambda: figures.detection(mechanism, ends),
    )


def residual_figure(bins: Sequence[Bin]) -> Figure:
    """Variance of held-out residuals by P(observed)."""
    fifth = max(1, len(bins) // 5)

    def ends(name: str) -> str:
        low, high = (np.mean([getattr(b, name) for b in part]) for part in (bins[:fifth], bins[-fifth:]))
        return f"{low:.3g} in the cells least likely to be observed, {high:.3g} in the most likely"

    return Figure(
        "Residual variance against P(observed)",
        "Held-out squared residuals of the ignorable model, in equal-sized bins of cells that were"
        " about equally likely to be observed. The line is the variance that model expects.",
        f"Found: {ends('residual_variance')}. Expected: {ends('expected_variance')}.",
        lambda: figures.heteroscedasticity(bins),
    )


def styles_figure(found: curves.LevelCurves) -> Figure:
    """Cut points of each style."""
    words = "; ".join(
        f"style {k + 1}, {share:.0%}: " + ", ".join(f"{cut:.2f}" for cut in cuts)
        for k, (share, cuts) in enumerate(zip(found.share, found.cuts, strict=True))
    )
    return Figure(
        "Cut points of the levels",
        "Each bar is a style, the most frequent on top. A shade is a level, from its lower to its upper cut point on"
        " the scale of the latent value; levels are named where there is room.",
        words,
        lambda: figures.cut_points(found),
    )


def calibration_figure(found: Sequence[tuple[str, curves.Calibration]]) -> Figure:
    """Coverage of central intervals."""
    words = "; ".join(f"{name}: {100 * covered(one, 0.9):.1f} %" for name, one in found)
    return Figure(
        "Calibration of intervals",
        "How many more (or fewer) held-out values lie inside central prediction intervals than promised."
        " Grey: two standard errors.",
        f"Share of values inside 90 % intervals: {words}",
        lambda: figures.calibration(found),
    )


def covered(one: curves.Calibration, level: float) -> float:
    """Share of cells inside intervals of a level."""
    return float(one.covered[_place(one, level)])


def error_at(one: curves.Calibration, level: float) -> float:
    """Standard error of that share."""
    return float(one.error[_place(one, level)])


def _place(one: curves.Calibration, level: float) -> int:
    return int(np.argmin(np.abs(one.level - level)))


def trace_figure(found: Traces) -> Figure:
    """Validation score or bound by sweep."""
    validated = all(len(valid) for _, _, valid in found)
    caption = (
        "Mean log likelihood of the validation cells by sweep; the dot is the state that was kept."
        if validated
        else "How far the bound is from its last value, by sweep."
    )
    words = "; ".join(f"{name}: {len(bound)} sweeps" for name, bound, _ in found)
    return Figure("Traces of the fits", caption, words, lambda: figures.trace(found))


def activity_figure(sides: tuple[curves.Activity, curves.Activity]) -> Figure:
    """Expected counts of rows and columns."""
    words = "; ".join(
        f"{name}: largest {one.expected[0]:.3g}, middle {float(np.median(one.expected)):.3g}"
        for name, one in zip(("rows", "columns"), sides, strict=True)
    )
    caption = "Expected counts Σ Λ of rows and of columns, by rank: how unevenly they are observed."
    return Figure("Activity and popularity", caption, words, lambda: figures.activity(sides))
