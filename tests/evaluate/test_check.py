"""Predictive checks: silent under the truth, and naming what was made wrong."""

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.evaluate.check import LEVELS, coverage_finding
from nmar.evaluate.gains import Judges
from nmar.prob.factor import GammaFactor


@pytest.fixture(scope="module")
def case():
    cells, truth = nmar.simulate((200, 60), nmar.Factorization(2), nmar.Linear(0.4), density=0.5, seed=0)
    return truth.posterior, cells


def wrong(posterior, **changes):
    """The posterior with something of what all cells share changed."""
    state = posterior.state
    return replace(posterior, state=replace(state, shared=replace(state.shared, **changes)))


@pytest.fixture(scope="module")
def parts(case):
    """Training cells and few held-out ones: the truth does not know that cells were taken out, as a fit would."""
    train, _, test = case[1].split(test=0.05, valid=0.0, seed=1)
    return train, test


def test_nothing_is_found_under_the_truth(case, parts):
    (truth, cells), (train, test) = case, parts
    for found, lines in ((nmar.check(truth, cells), 0), (nmar.check(truth, test, train, replicates=50), 8)):
        assert found.misfits == () and found.verdict.startswith("No misfit")
        assert len(found.frame()) == 4 + 1 + 1 + lines
    level = {one.quantity: one.found for one in nmar.check(truth, cells).findings}
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


def test_a_wrong_pattern_is_named(case, parts):
    truth, (train, test) = case[0], parts
    rows, _ = truth.state.sides
    weights = rows.pattern.weights
    level = np.sqrt(weights.mean)  # rows are more alike than they are
    flat = replace(rows, pattern=replace(rows.pattern, weights=GammaFactor(weights.alpha, weights.alpha / level)))
    found = nmar.check(replace(truth, state=truth.state.with_side(0, flat)), test, train, replicates=50)
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


def apart(n):
    """Cells that share no row and no column."""
    return Judges.at(np.arange(n), np.arange(n))


@pytest.mark.parametrize("n", [10, 20, 40, 400])
def test_coverage_of_the_truth_is_seldom_a_misfit(n):
    """Exact uniforms, cells independent: at most about 5 % are flagged at each level, few cells or many."""
    rng, times = np.random.default_rng(n), 1000
    flagged = np.zeros(len(LEVELS))
    for integrals in rng.random((times, n)):
        flagged += [bool(coverage_finding(integrals, apart(n), level).misfit) for level in LEVELS]
    assert flagged.max() / times < 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / times)


def test_coverage_has_an_error_and_a_p_value_where_all_cells_are_inside():
    one = coverage_finding(np.full(20, 0.5), apart(20), 0.5)
    assert one.error == pytest.approx(np.sqrt(0.25 / 20)) and 2.0 * 0.5**20 <= one.p_value < 1e-4
    assert "too wide" in one.misfit


@pytest.mark.parametrize("axis", [0, 1])
def test_cells_of_a_line_that_go_together_are_no_misfit(axis):
    """All cells of a line are inside or outside: 3 of 8 lines say little, 24 of 64 cells would say much."""
    places = np.divmod(np.arange(64), 8)
    inside = np.where(places[axis] < 3, 0.5, 0.99)
    assert (
        coverage_finding(inside, apart(64), 0.6).misfit and not coverage_finding(inside, Judges.at(*places), 0.6).misfit
    )


@pytest.fixture(scope="module")
def fitted(case):
    """A model with cells to stop on and others that were hidden from it."""
    train, valid, rest = case[1].split(test=0.4, valid=0.2, seed=0)
    test, _, away = rest.split(test=0.5, valid=0.0, seed=0)
    model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, max_iter=5, n_jobs=1, random_state=0)
    return model.fit(train, valid=valid, hidden=away.concat(test)), train, test


def test_cells_hidden_from_the_fit_are_not_missing_in_replicates(fitted):
    """A fifth of the cells stopped the fit and a fifth was hidden, and neither is passed to the check."""
    model, train, test = fitted
    found = {f"{one.part} {one.quantity}": one for one in nmar.check(model, test, replicates=50).findings}
    one = found["rows mean of observed cells"]
    assert one.found == pytest.approx(len(train) / 200)
    assert one.expected == pytest.approx(one.found, rel=0.05)


def test_training_cells_are_refused(case, fitted):
    model, train, test = fitted
    with pytest.raises(ValueError, match=r"cells and the training cells have 12 of .* take them out of cells"):
        nmar.check(model, train[np.arange(12)].concat(test))
    with pytest.raises(ValueError, match="in common"):
        nmar.check(case[0], test, case[1])


def test_the_verdict_claims_only_what_was_checked(case, parts, fitted):
    truth, (train, test) = case[0], parts
    whole, alone = nmar.check(truth, test, train, replicates=50), nmar.check(truth, test)
    assert "intervals cover as they promise" in whole.verdict and "Not checked" not in whole.verdict
    assert "replicated patterns look like the observed one" in whole.verdict
    assert "replicated patterns" not in alone.verdict
    assert alone.verdict.endswith("Not checked: rows and columns of the pattern.")
    few = nmar.check(truth, test[np.arange(9)], train, replicates=50)
    assert "coverage" not in {one.part for one in few.findings} and "intervals cover" not in few.verdict
    pattern = nmar.CCPF(nmar.PatternOnly(), factors=2, max_iter=5, n_jobs=1, random_state=0).fit(train, hidden=test)
    only = nmar.check(pattern, test, replicates=50)
    assert "intervals cover" not in only.verdict and "Not checked: intervals, values" in only.verdict
    with pytest.raises(ValueError, match=r"nothing to check: .* train="):
        nmar.check(pattern.posterior_, test)


def test_fewer_replicates_than_can_show_a_misfit_are_refused(case):
    truth, cells = case
    with pytest.raises(ValueError, match="replicates=49; give a whole number of at least 50"):
        nmar.check(truth, cells, replicates=49)


def test_no_cells_no_check(case):
    truth, cells = case
    with pytest.raises(ValueError, match="empty"):
        nmar.check(truth, cells.select(np.zeros(len(cells), bool)))
