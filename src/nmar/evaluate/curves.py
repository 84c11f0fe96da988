"""The numbers behind the figures: plain arrays, whatever draws them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.evaluate.gains import Judges, share_error
from nmar.evaluate.scoring import coverage, probability_integral
from nmar.posterior.learned import level_styles, scale_of
from nmar.posterior.posterior import Posterior

LEVELS = np.concatenate([np.linspace(0.05, 0.95, 19), [0.98, 0.99]])


class LinkageCurve(NamedTuple):
    """A fitted linkage."""

    name: str
    n: Array  # 1, 2, …
    phi: Array  # φ(n)
    probability: Array  # P(observed), a grid
    expected: Array  # E[φ(n) | observed] at that probability


class Calibration(NamedTuple):
    """Nominal levels of central intervals and the share of cells they hold."""

    level: Array
    covered: Array
    cells: int
    error: Array  # standard errors of the shares; at least those of independent cells under the model


class LevelCurves(NamedTuple):
    """Cut points of each style of using the levels, the most frequent style first."""

    levels: Array
    cuts: Array  # (styles, levels − 1)
    share: Array  # (styles,)


class Activity(NamedTuple):
    """Expected counts of the lines of one side, and their numbers of observed cells where cells are given."""

    expected: Array
    observed: Array | None


def posterior_of(model: Any) -> Posterior:
    """The posterior of an estimator, of a fit, or itself."""
    for name in ("posterior_", "posterior"):
        if hasattr(model, name):
            return getattr(model, name)
    if isinstance(model, Posterior):
        return model
    raise TypeError(f"model is a {type(model).__name__}; pass a fitted nmar.CCPF or its posterior_")


def level_curves(model: Any) -> LevelCurves:
    """Cut points by style."""
    known = posterior_of(model)
    styles = level_styles(known)
    order = np.argsort(-styles.share, kind="stable")
    return LevelCurves(np.array(scale_of(known).values), styles.cuts[order], styles.share[order])


def trace_of(model: Any) -> tuple[Array, Array]:
    """Bound and validation score after each sweep."""
    if hasattr(model, "bound_trace_"):
        return np.asarray(model.bound_trace_, float), np.asarray(model.valid_trace_, float)
    if hasattr(model, "trace"):
        return np.asarray(model.trace.bound, float), np.asarray(model.trace.valid, float)
    raise TypeError(f"model is a {type(model).__name__}, which has no trace; pass a fitted nmar.CCPF")


def linkage_curve(model: Any, levels: int = 12) -> LinkageCurve:
    """φ(n) and its mean given P(observed) = 1 − exp(−Λ)."""
    found = posterior_of(model).state.shared.linkage
    if found.bins == "known":
        raise ValueError("the two-stage baseline has no latent count, hence no linkage to draw")
    size = max(levels, found.levels, found.starts[-1] if found.starts else 0)  # to the last bin
    probability = np.linspace(0.001, 0.999, 400)
    return LinkageCurve(
        found.name,
        np.arange(1, size + 1),
        found.table(size),
        probability,
        found.expected(-np.log1p(-probability)),
    )


def calibration(model: Any, cells: Cells, random_state: Any = 0) -> Calibration:
    """Coverage of central prediction intervals on cells (held-out ones, to mean anything).

    ``random_state`` seeds the randomised probability integrals of counts.
    """
    found = probability_integral(posterior_of(model), cells, random_state)
    judges = Judges.of([cells])
    errors = [share_error(judges, np.abs(found - 0.5) <= 0.5 * level, level) for level in LEVELS]
    return Calibration(LEVELS, coverage(found, LEVELS), len(found), np.array(errors))


def activity(model: Any, cells: Cells | None = None) -> tuple[Activity, Activity]:
    """Σ_j E[Λ_ij] of each row and Σ_i E[Λ_ij] of each column, largest first."""
    known = posterior_of(model)
    weights = [side.pattern.weights.mean.astype(np.float64) for side in known.state.sides]
    aligned = None if cells is None else cells.align(known.rows, known.cols, unknown="drop")
    sides = []
    for axis in (0, 1):
        expected = weights[axis] @ weights[1 - axis].sum(axis=0)
        order = np.argsort(-expected, kind="stable")
        degree = None if aligned is None else np.diff(aligned.by(axis).indptr)[order]  # type: ignore[arg-type]
        sides.append(Activity(expected[order], degree))
    return sides[0], sides[1]


def value_range(known: Posterior) -> Array:
    """Three standard deviations of the training values on either side of their center."""
    return np.asarray(known.units.to_user(np.array([-3.0, 3.0])))
