"""The bound of whole states against enumeration, and its two forms against each other (2, 14, 20, 23)."""

import enumeration as oracle
import numpy as np
import pytest
from problems import (
    FIXED,
    FIXED_MEAN,
    LEARNED,
    LEARNED_MEAN,
    MODELS,
    THIN_PAIRS,
    THINNED,
    advanced,
    every,
    problem,
    sampled,
    small_cells,
)

from nmar.data.cells import Cells
from nmar.fit.executor import Serial
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep

EXACT = 1e-10
PAIRS = every(FIXED, FIXED_MEAN)
STARTS = {"2x2": (2, 2), "3x3": (3, 3)}


def bounds_of(started, state, backend="numba"):
    """The library's bound of one state, its E-step done by rows and by columns."""
    found = []
    for axis in (0, 1):
        _, info, _ = half_sweep(axis, state, Context(started.observed, started.law, choose(backend), Serial()))
        found.append(bound(state, info.log_z, started.law))
    return found


@pytest.mark.parametrize("control", [False, True], ids=["coupled", "control"])
@pytest.mark.parametrize(("model", "link"), sampled(PAIRS, 3))
def test_bound_equals_enumeration(model, link, control):
    linkage = {**FIXED, **FIXED_MEAN}[link]
    started = problem(model, linkage, control=control, seed=3)
    state = advanced(started, 2)
    exact = oracle.collapsed_bound(started.law, state, started.observed.cells)
    np.testing.assert_allclose(bounds_of(started, state), exact, rtol=EXACT)
    held = oracle.expectations(started.law, state, started.observed.cells)
    assert oracle.held_bound(started.law, state, started.observed.cells, held) == pytest.approx(exact, rel=EXACT)


@pytest.mark.parametrize(("model", "link"), sampled(every(LEARNED, LEARNED_MEAN), 3))
def test_bound_counts_the_priors_of_learned_linkages(model, link):
    started = problem(model, {**LEARNED, **LEARNED_MEAN}[link], small_cells(MODELS[model].family, (2, 2)), seed=1)
    state = advanced(started, 3)
    exact = oracle.collapsed_bound(started.law, state, started.observed.cells)
    np.testing.assert_allclose(bounds_of(started, state), exact, rtol=EXACT)


@pytest.mark.parametrize(("model", "link"), THIN_PAIRS)
def test_bound_of_thinned_counts(model, link):
    started = problem(model, THINNED[link], seed=3)
    state, cells = advanced(started, 2), started.observed.cells
    exact = oracle.collapsed_bound(started.law, state, cells)
    for backend in ("numba", "reference"):
        np.testing.assert_allclose(bounds_of(started, state, backend), exact, rtol=EXACT)
    held = oracle.expectations(started.law, state, cells)
    assert oracle.held_bound(started.law, state, cells, held) == pytest.approx(exact, rel=EXACT)
    missing, observed = oracle.exposures(started.law, state)
    assert (missing == observed == 1.0) is link.startswith("ignorable-thin")  # the others pay for something more


@pytest.mark.parametrize(("model", "link"), [("full", "free-thin8"), ("poisson", "linear-thin8")])
def test_control_of_thinned_counts(model, link):
    """The tail-only control thins the counts of the values; its pattern is fitted as if ignorable."""
    started = problem(model, THINNED[link], control=True, seed=3)
    state = advanced(started, 2)
    exact = oracle.collapsed_bound(started.law, state, started.observed.cells)
    np.testing.assert_allclose(bounds_of(started, state), exact, rtol=EXACT)


HIDDEN = [(model, "linear+", control) for model in ("full", "diagonal", "poisson") for control in (False, True)]
HIDDEN += [("full", "free-thin8", False), ("diagonal", "geometric-thin8", False), ("poisson", "linear-thin8", False)]


@pytest.mark.parametrize(("model", "link", "control"), HIDDEN)
def test_hidden_cells_leave_both_sums(model, link, control):
    cells = small_cells(MODELS[model].family, (4, 3), seed=2)
    absent = [(0, 1), (2, 2) if (2, 2) not in list(zip(*cells.positions(), strict=True)) else (0, 1)]
    absent = sorted(set(absent))
    hidden = Cells.from_arrays(*zip(*absent, strict=True), np.ones(len(absent)), shape=cells.shape)
    started = problem(model, {**FIXED, **THINNED}[link], cells, control=control, hidden=hidden)
    state = advanced(started, 2)
    exact = oracle.collapsed_bound(started.law, state, started.observed.cells, hidden=set(absent))
    np.testing.assert_allclose(bounds_of(started, state), exact, rtol=EXACT)
    counted = oracle.collapsed_bound(started.law, state, started.observed.cells)
    assert abs(exact - counted) > 1e-3  # the test would see it


@pytest.mark.parametrize("link", ["linear+", "free", "geometric+"])
def test_zero_is_observed(link):
    """A stored 0 counts as observed: dropping it changes the bound as the oracle says."""
    cells = small_cells("gaussian")
    assert 0.0 in cells.values
    for kept in (cells, cells.select(cells.values != 0.0)):
        started = problem("full", FIXED[link], kept)
        exact = oracle.collapsed_bound(started.law, started.state, started.observed.cells)
        np.testing.assert_allclose(bounds_of(started, started.state, "reference"), exact, rtol=EXACT)


@pytest.mark.parametrize("model", ["full", "poisson"])
def test_fresh_expectations_are_the_best(model):
    """Any other q(n), ϕ or split gives a smaller L: the oracle's two forms belong together."""
    started = problem(model, FIXED["free"])
    state, cells, rng = advanced(started, 1), started.observed.cells, np.random.default_rng(0)
    held = oracle.expectations(started.law, state, cells, 60)
    best = oracle.held_bound(started.law, state, cells, held)
    for field in ("counts", "share", "split"):
        old = getattr(held, field)
        if not old.size:
            continue
        moved = old * np.exp(0.1 * rng.normal(size=old.shape))
        moved = moved / moved.sum(axis=1, keepdims=True)
        changes = {field: moved, **({"pattern_counts": moved} if field == "counts" else {})}
        changed = oracle.Held(**{**vars(held), **changes})
        assert oracle.held_bound(started.law, state, cells, changed) < best - 1e-5
