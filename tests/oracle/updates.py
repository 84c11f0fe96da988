"""One half sweep taken apart into its separate updates, and central differences of the bound with q(n) held.

The library is called through its public functions only; the states in between are put together from the
records it returns, in the order in which the updates are made: pattern weights, activities, data lines (and
the scales of gamma lines), linkage and dispersion, Λ̄ of the control, the data model's shared parameters.
"""

from __future__ import annotations

from dataclasses import replace

import enumeration as oracle
import numpy as np
from problems import step

from nmar.models.product import ProductSide
from nmar.models.state import Side, State

SMALL_STEP = 1e-4  # central differences: truncation and rounding errors are then both near 1e-9 for bounds near 50


def with_pattern(state, axis, **fields):
    """A state with some fields of one side's pattern replaced."""
    side = state.sides[axis]
    return state.with_side(axis, Side(replace(side.pattern, **fields), side.data))


def with_data(state, axis, data):
    """A state with one side of the data model replaced."""
    return state.with_side(axis, Side(state.sides[axis].pattern, data))


def with_shared(state, **fields):
    """A state with some shared parameters replaced."""
    return State(state.sides, replace(state.shared, **fields))


def stages(started, state, axis, backend="numba"):
    """(name of the update, state after it) one by one; the first is the state before any."""
    moved, final, _ = step(started, state, axis, backend)
    pattern, data, shared = moved.sides[axis].pattern, moved.sides[axis].data, final.shared
    found = [("start", state)]

    def then(name, following):
        found.append((name, following))
        return following

    now = then("weights", with_pattern(state, axis, weights=pattern.weights))
    now = then("activity", with_pattern(now, axis, activity=pattern.activity))
    if isinstance(data, ProductSide):
        old = state.sides[axis].data.scale
        now = then("lines", with_data(now, axis, ProductSide(data.weights, old)))
    now = then("data", with_data(now, axis, data))
    now = then("linkage", with_shared(now, linkage=shared.linkage, dispersion=shared.dispersion))
    now = then("rate", with_shared(now, rate=shared.rate))
    then("learn", State(now.sides, shared))
    return found


class Objective:
    """L of a started problem with the E-step of one state held."""

    def __init__(self, started, state, size):
        self.law, self.cells = started.law, started.observed.cells
        hidden = started.observed.hidden
        self.hidden = set() if hidden is None else set(zip(*(a.tolist() for a in hidden.positions()), strict=True))
        self.held = oracle.expectations(self.law, state, self.cells, size)

    def __call__(self, state):
        """The bound with q(n) and the allocations held."""
        return oracle.held_bound(self.law, state, self.cells, self.held, self.hidden)

    def slope(self, changed, size=SMALL_STEP):
        """Derivative at 0 of h → L(changed(h))."""
        return (self(changed(size)) - self(changed(-size))) / (2.0 * size)


def scaled(array, at, h):
    """A copy with one entry multiplied by e^h."""
    copy = np.array(array, float)
    copy[at] *= np.exp(h)
    return copy


def moved(array, at, h):
    """A copy with h added to one entry."""
    copy = np.array(array, float)
    copy[at] += h
    return copy


def gamma_slopes(objective, state, factor, put):
    """Slopes by every log shape and log rate of a gamma factor; ``put(state, factor)`` places it."""
    found = []
    for at in np.ndindex(factor.alpha.shape):
        for name in ("alpha", "beta"):
            entry = getattr(factor, name)
            found.append(
                objective.slope(
                    lambda h, name=name, entry=entry, at=at: put(state, replace(factor, **{name: scaled(entry, at, h)}))
                )
            )
    return np.array(found)


def weights_slopes(objective, state, axis):
    """Slopes by q(u) (or q(v))."""
    factor = state.sides[axis].pattern.weights
    return gamma_slopes(objective, state, factor, lambda s, f: with_pattern(s, axis, weights=f))


def activity_slopes(objective, state, axis):
    """Slopes by q(r) (or q(w))."""
    factor = state.sides[axis].pattern.activity
    return gamma_slopes(objective, state, factor, lambda s, f: with_pattern(s, axis, activity=f))


def lines_slopes(objective, state, axis):
    """Slopes by the gamma lines of a Poisson product."""
    side = state.sides[axis].data
    return gamma_slopes(objective, state, side.weights, lambda s, f: with_data(s, axis, ProductSide(f, side.scale)))


def scale_slopes(objective, state, axis):
    """Slopes by the scales of those lines."""
    side = state.sides[axis].data
    return gamma_slopes(objective, state, side.scale, lambda s, f: with_data(s, axis, ProductSide(side.weights, f)))


def mean_slopes(objective, state, axis, coordinates=None):
    """Slopes by the means of normal lines, at all free coordinates or the chosen ones."""
    side = state.sides[axis].data
    free = np.flatnonzero(objective.law.data.axes[axis].free) if coordinates is None else coordinates
    return np.array(
        [
            objective.slope(lambda h, at=(line, k): with_data(state, axis, replace(side, mean=moved(side.mean, at, h))))
            for line in range(len(side.mean))
            for k in free
        ]
    )


def spread_slopes(objective, state, axis):
    """Slopes by every free entry of the covariances (packed) or variances, in units of the entry's scale."""
    side, d = state.sides[axis].data, state.sides[axis].data.mean.shape[1]
    free = objective.law.data.axes[axis].free
    if objective.law.data.diagonal:
        pairs = [(a, a, a) for a in range(d) if free[a]]
    else:
        rows, cols = np.triu_indices(d)
        pairs = [(at, a, b) for at, (a, b) in enumerate(zip(rows, cols, strict=True)) if free[a] and free[b]]
    found = []
    for line in range(len(side.mean)):
        variances = np.diag(oracle.covariance(objective.law, side, line))
        for at, a, b in pairs:
            unit = np.sqrt(variances[a] * variances[b])

            def changed(h, at=at, unit=unit, line=line):
                return with_data(state, axis, replace(side, spread=moved(side.spread, (line, at), h * unit)))

            found.append(objective.slope(changed))
    return np.array(found)


def table_slopes(objective, state, name, positive):
    """Slopes by the entries n ≥ 2 of a learned table of the linkage."""
    linkage, found = state.shared.linkage, []
    values = getattr(linkage, name)
    for n in range(1, len(values)):

        def changed(h, n=n):
            table = (scaled if positive else moved)(np.array(values), n, h)
            return with_shared(state, linkage=replace(linkage, **{name: tuple(table)}))

        found.append(objective.slope(changed))
    return np.array(found)


def shared_slopes(objective, state):
    """Slopes by dispersion, c, φ(n), δ(n) and φ1(n), as far as they are learned; a dict by name."""
    shared, linkage = state.shared, state.shared.linkage
    found = {}
    if objective.law.family.learns_dispersion:
        found["dispersion"] = np.array(
            [objective.slope(lambda h: with_shared(state, dispersion=shared.dispersion * np.exp(h)))]
        )
    if linkage.learn and hasattr(linkage, "c"):
        found["c"] = np.array(
            [objective.slope(lambda h: with_shared(state, linkage=replace(linkage, c=linkage.c + h)))]
        )
    if linkage.learn and linkage.name == "free":
        found["spread"] = table_slopes(objective, state, "values", positive=True)
    if linkage.learns_mean:
        found[linkage.mean] = table_slopes(objective, state, linkage.mean, positive=False)
    return found


def rate_slope(objective, state):
    """Slope by log Λ̄ of the control."""
    rate = state.shared.rate
    return objective.slope(lambda h: with_shared(state, rate=rate * np.exp(h)))


def prior_slopes(objective, state, axis, which):
    """Slopes by the logarithms of the chosen prior variances of one axis."""
    priors, found = state.shared.data, []
    for k in which:

        def changed(h, k=k):
            variance = list(priors.variance)
            variance[axis] = scaled(variance[axis], k, h)
            return with_shared(state, data=replace(priors, variance=tuple(variance)))

        found.append(objective.slope(changed))
    return np.array(found)
