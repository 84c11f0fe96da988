"""Predictive checks: silent under the truth, and naming what was made wrong."""

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.prob.factor import GammaFactor


@pytest.fixture(scope="module")
def case():
    cells, truth = nmar.simulate((200, 60), nmar.Factorization(2), nmar.Linear(0.4), density=0.5, seed=0)
    return truth.posterior, cells


def wrong(posterior, **changes):
    """The posterior with something of what all cells share changed."""
    state = posterior.state
    return replace(posterior, state=replace(state, shared=replace(state.shared, **changes)))


def test_nothing_is_found_under_the_truth(case):
    truth, cells = case
    found = nmar.check(truth, cells, cells, replicates=50)
    assert found.misfits == () and found.verdict.startswith("No misfit")
    assert len(found.frame()) == 4 + 1 + 1 + 8
    level = {one.quantity: one.found for one in found.findings}
    assert level["90 % intervals"] == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(("factor", "word"), [(2.0, "too wide"), (0.5, "too narrow")])
def test_a_wrong_dispersion_is_named(case, factor, word):
    truth, cells = case
    found = nmar.check(wrong(truth, dispersion=factor * truth.state.shared.dispersion), cells)
    assert any(word in text for text in found.misfits)
    assert {one.part for one in found.findings} == {"coverage", "probability integral", "spread"}


def test_a_wrong_mean_and_a_spread_left_out_are_named(case):
    truth, cells = case
    assert any("higher than predicted" in text for text in nmar.check(wrong(truth, center=-0.5), cells).misfits)
    flat = nmar.check(wrong(truth, linkage=nmar.Ignorable()), cells)
    assert any("with P(observed)" in text for text in flat.misfits)


def test_a_wrong_pattern_is_named(case):
    truth, cells = case
    rows, _ = truth.state.sides
    weights = rows.pattern.weights
    level = np.sqrt(weights.mean)  # rows are more alike than they are
    flat = replace(rows, pattern=replace(rows.pattern, weights=GammaFactor(weights.alpha, weights.alpha / level)))
    found = nmar.check(replace(truth, state=truth.state.with_side(0, flat)), cells, cells, replicates=50)
    assert any(text.startswith("rows:") for text in found.misfits)


def test_hidden_cells_are_left_out_of_replicates(case):
    truth, cells = case
    train, _, test = cells.split(test=0.4, valid=0.0, seed=0)
    found = {f"{one.part} {one.quantity}": one for one in nmar.check(truth, test, train, replicates=50).findings}
    one = found["rows mean of observed cells"]
    i, j = np.indices(cells.shape).reshape(2, -1)
    chance = -np.expm1(-truth.rates(i, j)).reshape(cells.shape)
    chance[test.positions()] = 0.0
    assert one.expected == pytest.approx(chance.sum() / 200, abs=4.0 * one.error / np.sqrt(50))
    assert one.found == pytest.approx(len(train) / 200)


def test_no_cells_no_check(case):
    truth, cells = case
    with pytest.raises(ValueError, match="empty"):
        nmar.check(truth, cells.select(np.zeros(len(cells), bool)))
