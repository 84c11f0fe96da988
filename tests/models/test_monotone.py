"""The bound never falls: not in a separate update with q(n) held, not between half sweeps (theory 14)."""

from itertools import pairwise

import pytest
from problems import LEARNED, LEARNED_MEAN, MODELS, THIN_PAIRS, THINNED, every, problem, sampled, small_cells
from updates import Objective, stages

HALF_SWEEPS = 16
COUNTS = 80  # rates stay below 4 here: what lies beyond is below 1e-60
MANY = 200  # with up to 8 events for each recorded one
SLACK = 1e-9  # relative: sums of a few dozen terms in double precision, and open tables cut at 1e-12
CASES = [(model, link, False) for model, link in every(LEARNED, LEARNED_MEAN)]
CASES += [(m, link, True) for m, link in every(LEARNED, LEARNED_MEAN) if m in ("full-plain", "poisson")]
CASES += [(model, link, False) for model, link in THIN_PAIRS if not link.startswith("ignorable-thin")]
CASES += [("full", "free-thin8", True), ("poisson", "linear-thin8", True)]


def rises(before, after):
    """Whether a bound did not fall, up to rounding."""
    return after >= before - SLACK * abs(before)


@pytest.mark.parametrize(("model", "link", "control"), sampled(CASES, 4))
def test_no_update_lowers_the_bound(model, link, control):
    cells = small_cells(MODELS[model].family, (4, 3), seed=4)
    linkage = {**THINNED, **LEARNED, **LEARNED_MEAN}[link]
    started = problem(model, linkage, cells, control=control, seed=2)
    state, collapsed, gained = started.state, None, set()
    for half in range(HALF_SWEEPS):
        axis = (started.law.lead + half) % 2
        objective = Objective(started, state, COUNTS if linkage.thinning == 1.0 else MANY)
        value = objective(state)
        assert collapsed is None or rises(collapsed, value), f"half sweep {half}"
        collapsed = before = value
        for name, state in stages(started, state, axis):  # noqa: B020
            value = objective(state)
            assert rises(before, value), f"half sweep {half}, {name}: {before} fell to {value}"
            if value > before:
                gained.add(name)
            before = value
    learns_prior = {"learn"} if model != "poisson" else {"lines"}
    assert {
        "weights",
        "activity",
        "data",
        *learns_prior,
    } <= gained  # the test looked at updates that do something


HIDDEN = [(model, "linear", backend) for model in MODELS for backend in ("numba", "reference")]
HIDDEN += [("full", "free-thin8", "numba"), ("poisson", "linear-thin8", "reference")]


@pytest.mark.parametrize(("model", "link", "backend"), HIDDEN)
def test_no_update_lowers_the_bound_with_hidden_cells(model, link, backend):
    cells = small_cells(MODELS[model].family, (4, 3), seed=4)
    hide = cells.row_index == 2
    started = problem(model, THINNED[link], cells.select(~hide), hidden=cells.select(hide), seed=2)
    state = started.state
    for half in range(HALF_SWEEPS):
        objective = Objective(started, state, COUNTS if link == "linear" else MANY)
        followed = stages(started, state, (started.law.lead + half) % 2, backend)
        values = [objective(after) for _, after in followed]
        assert all(rises(a, b) for a, b in pairwise(values)), f"half sweep {half}: {values}"
        state = followed[-1][1]
