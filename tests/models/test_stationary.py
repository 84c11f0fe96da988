"""Right after each update the bound with q(n) held is flat in what was updated (theory 14).

Slopes are central differences of the bound by enumeration. A monotone bound does not catch a wrong
denominator; a slope does.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import updates
from problems import LEARNED, LEARNED_MEAN, MODELS, THIN_PAIRS, THINNED, advanced, every, problem, sampled, small_cells
from updates import Objective, stages

COUNTS = 60
MANY = 200  # with up to 8 events for each recorded one
# bounds near 40: rounding over a step of 1e-4 leaves 1e-9, curvature of third order about as much
FLAT = 1e-6
# location tables alternate with σ² until the objective gains less than 1e-12 of itself: slopes near √(1e-10)
FLAT_MEAN = 2e-4
CASES = [(model, link, False) for model, link in every(LEARNED, LEARNED_MEAN)]
CASES += [(m, link, True) for m, link in every(LEARNED, LEARNED_MEAN) if m in ("full", "poisson")]
PARTS = [(model, link, False) for model, link in THIN_PAIRS if not link.startswith("ignorable-thin")]
PARTS += [("full", "free-thin8", True), ("poisson", "linear-thin8", True)]
CASES += PARTS


@cache
def around(model, link, control=False, axis=0, hide=False, sweeps=2, backend="numba"):
    """The objective held at a state two sweeps on, and the states after each separate update."""
    cells = small_cells(MODELS[model].family, (3, 3), seed=6)
    hidden = None
    if hide:
        hidden, cells = cells.select(cells.row_index == 1), cells.select(cells.row_index != 1)
    linkage = {**THINNED, **LEARNED, **LEARNED_MEAN}[link]
    started = problem(model, linkage, cells, control=control, hidden=hidden, seed=1)
    if model.startswith("diagonal"):
        started = replace(started, law=replace(started.law, data=replace(started.law.data, steps=8)))
    state = advanced(started, sweeps)
    size = COUNTS if linkage.thinning == 1.0 else MANY
    return started, Objective(started, state, size), dict(stages(started, state, axis, backend))


def flat(slopes, tolerance=FLAT):
    """Whether all slopes vanish."""
    return np.all(np.abs(slopes) < tolerance)


def own_slopes(model, objective, state, axis):
    """Slopes of the bound in a data model's own parameters, by name.

    A diagonal model takes as many steps of conjugate gradients as there are coordinates, and more, and so reaches the
    optimum too.
    """
    if model == "poisson":
        after = {"lines": updates.lines_slopes(objective, state["lines"], axis)}
        return {**after, "scale": updates.scale_slopes(objective, state["data"], axis)}
    after = {"mean": updates.mean_slopes(objective, state["data"], axis)}
    return {**after, "spread": updates.spread_slopes(objective, state["data"], axis)}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("model", "link", "control"), sampled(CASES, 3))
def test_every_update_is_stationary(model, link, control, axis):
    _, objective, after = around(model, link, control, axis)
    assert flat(updates.weights_slopes(objective, after["weights"], axis)), "weights"
    assert flat(updates.activity_slopes(objective, after["activity"], axis)), "activity"
    for name, slopes in own_slopes(model, objective, after, axis).items():
        assert flat(slopes), (name, slopes)
    mean_linkage = after["start"].shared.linkage.mean is not None
    for name, slopes in updates.shared_slopes(objective, after["linkage"]).items():
        assert flat(slopes, FLAT_MEAN if mean_linkage else FLAT), (name, slopes)
    if control:
        assert abs(updates.rate_slope(objective, after["rate"])) < FLAT


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("link", "control"),
    [("linear", False), ("linear", True), ("free-thin8", False)],
)
def test_pattern_update_is_stationary_with_hidden_cells(link, control, axis):
    _, objective, after = around("full", link, control, axis, True)
    assert objective.hidden
    assert flat(updates.weights_slopes(objective, after["weights"], axis))
    assert flat(updates.activity_slopes(objective, after["activity"], axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("model", [m for m in MODELS if m != "poisson"])
def test_prior_variances_are_stationary(model, axis):
    started, objective, after = around(model, "free", False, axis)
    learned = np.flatnonzero(started.law.data.axes[axis].learned)
    if axis == started.law.lead:
        learned = learned[learned >= 2]  # factors of the leading axis keep unit prior variance
    slopes = updates.prior_slopes(objective, after["learn"], axis, learned)
    assert flat(slopes), slopes
    fixed = np.setdiff1d(np.arange(2), learned)
    np.testing.assert_array_equal(after["learn"].shared.data.variance[axis][fixed], 1.0)


@pytest.mark.parametrize("model", ["full", "poisson"])
def test_slopes_see_a_state_that_was_not_updated(model):
    """The counterpart: before their updates the same slopes are far from 0."""
    _, objective, after = around(model, "free")
    assert not flat(updates.weights_slopes(objective, after["start"], 0), 1e-2)
    own = updates.mean_slopes if model == "full" else updates.lines_slopes
    assert not flat(own(objective, after["start"], 0), 1e-2)
    for slopes in updates.shared_slopes(objective, after["start"]).values():
        assert not flat(slopes, 1e-3)
