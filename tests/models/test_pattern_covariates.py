"""Covariates of the missingness pattern: known coordinates beside the learned ones, products of levels (theory 25)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import enumeration as oracle
import numpy as np
import pytest
import updates
from problems import FIXED, MODELS, THINNED, small_cells
from updates import Objective

from nmar.fit.executor import Serial
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.shared import update_shared
from nmar.models.state import State

SHAPE = (4, 3)
ROWS = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 1.0], [0.0, 2.0]])
COLS = np.array([[0.0], [1.0], [0.0]])
KNOWN = {"rows": {"rows": ROWS}, "cols": {"cols": COLS}, "both": {"rows": ROWS, "cols": COLS}}
LINKS = {**FIXED, **THINNED}
FLAT = 1e-6
# model, linkage, settings of the problem
CASES = {
    "plain": ("full", "linear+", {}),
    "thinned": ("full", "free-thin8", {}),
    "diagonal": ("diagonal", "linear", {}),
    "control": ("full", "free", {"control": True}),
    "poisson": ("poisson", "linear+", {}),
}
LED = [*((case, 0) for case in CASES), ("thinned", 1)]  # which axis leads


def started(case, known="both", lead=None, hide=True):
    """A tiny problem with covariates about to start; one cell is hidden."""
    model, link, settings = CASES[case]
    cells, hidden = small_cells(MODELS[model].family, SHAPE, seed=6), None
    if hide:
        away = np.arange(len(cells)) == 2
        hidden, cells = cells.select(away), cells.select(~away)
    pattern = Pattern(2, **KNOWN[known]).built(cells)
    return begin(cells, MODELS[model].build(cells), LINKS[link], pattern, hidden=hidden, lead=lead, seed=1, **settings)


def context(problem, backend="numba"):
    """What a sweep of it reads."""
    return Context(problem.observed, problem.law, choose(backend), Serial())


def advanced(problem, sweeps, backend="numba"):
    """The state after some sweeps."""
    state = problem.state
    for _ in range(sweeps):
        state, _ = sweep(state, context(problem, backend))
    return state


def hidden_pairs(problem):
    """Hidden cells as pairs."""
    hidden = problem.observed.hidden
    return set() if hidden is None else set(zip(*(each.tolist() for each in hidden.positions()), strict=True))


@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("case", CASES)
def test_bound_equals_enumeration(case, known, lead):
    """Every term of the rate by itself, products level by level, from the levels as they were given."""
    problem = started(case, known, lead)
    for sweeps in (0, 2):
        state = advanced(problem, sweeps)
        exact = oracle.collapsed_bound(problem.law, state, problem.observed.cells, hidden_pairs(problem))
        for backend in ("numba", "reference"):
            for axis in (0, 1):
                _, info, _ = half_sweep(axis, state, context(problem, backend))
                assert bound(state, info.log_z, problem.law) == pytest.approx(exact, rel=1e-10)


@cache
def around(case, axis, lead):
    """The objective held at a state two sweeps on, the state after lines were updated, and after effects settled."""
    problem = started(case, lead=lead)
    if case == "diagonal":
        problem = replace(problem, law=replace(problem.law, data=replace(problem.law.data, steps=8)))
    state = advanced(problem, 2)
    side, info, _ = half_sweep(axis, state, context(problem))
    lines = updates.with_pattern(state, axis, weights=side.pattern.weights)
    shared = update_shared(axis, state.with_side(axis, side), info, problem.law)
    last = state.with_side(axis, replace(state.sides[axis], pattern=side.pattern))
    last = State(last.sides, replace(state.shared, effects=shared.effects))
    last = problem.law.settled(axis, last, state.shared, choose("numba"))
    return problem, Objective(problem, state, 200), state, lines, last


def with_effects(state, **fields):
    """A state with some of the shared effects replaced."""
    return State(state.sides, replace(state.shared, effects=replace(state.shared.effects, **fields)))


def learned_slopes(objective, state, axis, places):
    """Slopes by the log shapes and log rates of some coordinates of the lines of an axis."""
    factor, found = state.sides[axis].pattern.weights, []
    for line in range(len(factor.alpha)):
        for place in places:
            for name in ("alpha", "beta"):

                def changed(h, name=name, at=(line, place)):
                    moved = replace(factor, **{name: updates.scaled(getattr(factor, name), at, h)})
                    return updates.with_pattern(state, axis, weights=moved)

                found.append(objective.slope(changed))
    return np.array(found)


QUICK = ("plain", "thinned")
STATIONARY = [pytest.param(*one, marks=() if one[0] in QUICK else pytest.mark.slow) for one in LED]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("case", "lead"), STATIONARY)
def test_updates_are_stationary(case, axis, lead):
    problem, objective, start, lines, last = around(case, axis, lead)
    law = problem.law.pattern_of(start.shared, axis)
    factors, effects = (range(*place.indices(99)) for place in (law.blocks.factors, law.blocks.effects))
    assert np.all(np.abs(learned_slopes(objective, lines, axis, [*factors, *effects])) < FLAT)
    assert np.abs(learned_slopes(objective, start, axis, effects)).max() > 1e-4  # and not before
    assert np.all(np.abs(learned_slopes(objective, last, axis, effects)) < FLAT)
    levels = last.shared.effects.levels
    for f in range(len(levels[axis])):

        def changed(h, f=f):
            mine = updates.scaled(levels[axis], f, h)
            return with_effects(last, levels=(mine, levels[1]) if axis == 0 else (levels[0], mine))

        slope = objective.slope(changed)
        capped = levels[axis][f] < 1e-3  # as small as it may be: it would go on falling
        assert -1.0 < slope < FLAT if capped else abs(slope) < FLAT


@pytest.mark.parametrize(("case", "lead"), LED)
def test_products_are_stationary(case, lead):
    """q(ω) given its prior mean, and then the prior mean; the leading axis leaves both alone."""
    _, objective, start, _, last = around(case, 1 - lead, lead)
    at_prior = with_effects(last, cross_level=start.shared.effects.cross_level)
    for state, is_flat in ((at_prior, True), (start, False)):
        cross = state.shared.effects.cross
        slopes = updates.gamma_slopes(objective, state, cross, lambda s, f: with_effects(s, cross=f))
        assert bool(np.abs(slopes).max() < FLAT) is is_flat
    level = last.shared.effects.cross_level
    assert abs(objective.slope(lambda h: with_effects(last, cross_level=level * np.exp(h)))) < FLAT
    untouched = around(case, lead, lead)[4].shared.effects
    np.testing.assert_array_equal(untouched.cross.alpha, start.shared.effects.cross.alpha)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("case", CASES)
def test_the_bound_never_falls_and_backends_agree(case, known):
    problem, traces = started(case, known), {}
    for backend in ("numba", "reference"):
        state, values = problem.state, []
        for _ in range(15):
            state, value = sweep(state, context(problem, backend))
            values.append(value)
        traces[backend] = values
        assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(values))
    np.testing.assert_allclose(traces["numba"], traces["reference"], rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_known_coordinates_are_what_they_were(dtype):
    """As mean and as geometric weight, zeros too, after any sweeps; products follow ω."""
    cells = small_cells("gaussian", SHAPE, seed=6)
    pattern = Pattern(2, rows=ROWS, cols=COLS).built(cells)
    problem = begin(cells, MODELS["full"].build(cells), LINKS["linear+"], pattern, seed=1, dtype=dtype)
    state = advanced(problem, 5)
    for axis, (side, x) in enumerate(zip(state.sides, pattern.lines(cells), strict=True)):
        law = problem.law.pattern_of(state.shared, axis)
        table, at = side.pattern, law.blocks
        products = [x, x]
        if not law.leads:
            cross = law.effects.cross
            products = [np.einsum("ng,fg->nf", x, each) for each in (cross.mean, np.exp(cross.log_mean))]
        for place, means, weights in ((at.own, x, x), (at.cross, *products)):
            np.testing.assert_array_equal(table.weights.mean[:, place], means.astype(dtype))
            np.testing.assert_array_equal(table.geometric[:, place], weights.astype(dtype))
        assert np.all(np.isfinite(table.log_weights))
    assert 0.0 in ROWS and problem.law.pattern.designs[0].x.min() == 0.0
