"""Thinned counts from outside: simulation, the control, fold-in, growth, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems_fit import SETTINGS, cells_of, same
from scipy.special import gammaln

import nmar
from nmar.fit.executor import Serial
from nmar.fit.foldin import fold_in
from nmar.fit.problem import observe
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep

FALLING = tuple(np.geomspace(1.0, 0.2, 12).tolist())
FITS = {
    "thinned": dict(data=SETTINGS["full"], linkage=nmar.Free(thinning=8.0), starts=1),
    "control": dict(data=SETTINGS["full"], linkage=nmar.Linear(thinning=8.0), control="tail"),
    "diagonal": dict(data=SETTINGS["diagonal"], linkage=nmar.Linear(thinning=8.0)),
    "poisson": dict(data=SETTINGS["poisson"], linkage=nmar.Linear(thinning=1.5)),
}
COMMON = dict(factors=3, random_state=0)


@pytest.fixture(scope="module", params=list(FITS))
def fitted(request):
    given = FITS[request.param]
    cells = cells_of(given["data"], (150, 40), 0.3)
    return nmar.CCPF(**given, **COMMON, max_iter=60, tol=1e-7).fit(cells), cells


def sides(posterior, axis=0):
    pair = posterior.state.sides[axis]
    data = pair.data.mean if hasattr(pair.data, "mean") else pair.data.weights.mean
    return pair.pattern.weights.mean, data


# --- simulation -------------------------------------------------------------------------------------------------


def test_simulated_counts_are_recorded_and_unrecorded_events():
    """Each cell's e has its own rate: frequencies over all of them, and the values' spread by bin."""
    link = nmar.Free(values=FALLING, thinning=8.0)
    cells, truth = nmar.simulate((400, 200), nmar.Factorization(2), link, density=0.4, seed=3, dispersion=0.7)
    i, j = cells.positions()
    rate, e = truth.posterior.rates(i, j), truth.counts
    assert len(e) == cells.n_observed > 25_000
    counts = np.arange(1, 41)
    logs = counts * np.log(8.0 * rate[:, None]) - gammaln(counts + 1.0) - 8.0 * rate[:, None]
    chance = np.exp(logs) * (1.0 - 0.875**counts) / -np.expm1(-rate)[:, None]
    often = chance.sum(axis=0) > 50.0
    seen = (e[:, None] == counts).sum(axis=0)
    z = (seen - chance.sum(axis=0)) / np.sqrt((chance * (1.0 - chance)).sum(axis=0))
    assert often.sum() > 25
    assert np.all(np.abs(z[often]) < 4.0), z
    mean = rate / -np.expm1(-rate) + 7.0 * rate
    spread = np.sqrt(np.sum(rate * 7.0 + rate / -np.expm1(-rate)))  # at least that of e
    assert abs(e.sum() - mean.sum()) < 4.0 * spread
    away = cells.values - truth.posterior.cells(i, j).mean[:, 0]
    for first, end, phi in zip(link.starts, (*link.starts[1:], np.inf), FALLING, strict=True):
        inside = away[(e >= first) & (e < end)]
        assert np.mean(inside**2) == pytest.approx(0.7 * phi, rel=4.5 * np.sqrt(2.0 / len(inside)))


def test_thinning_leaves_the_simulated_pattern_alone():
    one, two = (nmar.simulate((80, 60), linkage=nmar.Linear(0.3, thinning=s), density=0.2, seed=1) for s in (1.0, 8.0))
    for a, b in zip(one[0].positions(), two[0].positions(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.all(two[1].counts >= one[1].counts) and two[1].counts.mean() > one[1].counts.mean()


@pytest.mark.slow
def test_a_thinned_linkage_is_found_again():
    """Data of eight events for each recorded one: the table falls as it should, and s = 8 predicts better than 1."""
    drawn = nmar.Free(values=FALLING, thinning=8.0)
    cells, _ = nmar.simulate((300, 150), nmar.Factorization(2), drawn, density=0.3, seed=0)
    train, _, test = cells.split(test=0.2, valid=0.0, seed=0)
    fits = [
        nmar.CCPF(SETTINGS["full"], nmar.Free(thinning=s), max_iter=40, **COMMON).fit(train, hidden=test)
        for s in (8.0, 1.0)
    ]
    gap = fits[0].log_likelihood(test, per_cell=True) - fits[1].log_likelihood(test, per_cell=True)
    assert gap.mean() > 2.0 * gap.std(ddof=1) / np.sqrt(len(gap))
    found, truth = fits[0].linkage_.table(30), drawn.table(30)
    assert np.mean(np.abs(np.log(found / truth))) < 0.35


# --- the control ------------------------------------------------------------------------------------------------


def test_tail_is_the_control():
    train = cells_of(SETTINGS["full"])
    given = dict(data=SETTINGS["full"], linkage=nmar.Linear(thinning=8.0), max_iter=4, **COMMON)
    coupled, tail, true = (nmar.CCPF(**given, control=c).fit(train).posterior_ for c in (False, "tail", True))
    assert same(tail.state, true.state) and not same(tail.state, coupled.state)
    assert tail.law.control and not coupled.law.control


@pytest.mark.parametrize("name", ["blnd", "blind"])
def test_other_controls_are_refused(name):
    with pytest.raises(ValueError, match=f"control='{name}'.*tail"):
        nmar.CCPF(SETTINGS["full"], control=name).fit(cells_of(SETTINGS["full"]))


# --- new lines and more cells -----------------------------------------------------------------------------------


def test_a_training_row_folded_in_comes_back_to_itself(fitted):
    model, cells = fitted
    assert model.fold_in(cells).log_likelihood(cells) == pytest.approx(model.log_likelihood(cells), abs=0.02)


@pytest.mark.parametrize("name", ["thinned", "poisson"])
@pytest.mark.parametrize("axis", [0, 1])
def test_fitted_lines_and_lines_folded_in_end_at_one_optimum(name, axis):
    """With one factor a line has one optimum given the other side: from the fit and from the prior alike."""
    given = {**FITS[name], "factors": 1, "random_state": 0}
    cells = cells_of(given["data"], (50, 40), 0.3)
    known = nmar.CCPF(**given, max_iter=8).fit(cells).posterior_
    observed = observe(cells, known.law, None, known.state.shared.units, np.float64)
    state, surroundings = known.state, Context(observed, known.law, choose("numba"), Serial())
    rounds = 1500 if name == "poisson" else 300  # its lines creep
    for _ in range(rounds):
        pair, _, _ = half_sweep(axis, state, surroundings, learns=False)
        state = state.with_side(axis, pair)
    found = fold_in(known, cells, axis, tol=1e-12, max_iter=rounds)
    busy = np.diff(cells.by(axis).indptr) > 0  # one without cells keeps the prior
    for a, b in zip(sides(found, axis), sides(replace(known, state=state), axis), strict=True):
        np.testing.assert_allclose(a[busy], b[busy], rtol=1e-4 if name == "poisson" else 1e-6)


def test_a_row_folded_in_depends_on_nothing_else(fitted):
    model, cells = fitted
    some = np.array([3, 17, 99])
    together, alone = model.fold_in(cells).posterior_, model.fold_in(cells.take_rows(some)).posterior_
    for a, b in zip(sides(together), sides(alone), strict=True):
        np.testing.assert_allclose(a[some], b, rtol=1e-9, atol=1e-12)
    found = [fold_in(model.posterior_, cells, n_jobs=jobs).state.sides[0].pattern.weights for jobs in (1, 2)]
    assert same(found[0], found[1])


def test_files_keep_thinning_and_control(fitted, tmp_path):
    model, cells = fitted
    model.save(tmp_path / "m.nmar")
    again = nmar.load(tmp_path / "m.nmar")
    assert again.get_params()["control"] == model.control
    assert again.posterior_.law.control == model.posterior_.law.control
    assert again.linkage_ == model.linkage_ and again.linkage_.thinning > 1.0
    np.testing.assert_array_equal(again.log_density(cells), model.log_density(cells))
    part = cells.take_rows(np.arange(9))
    assert same(again.fold_in(part).posterior_.state, model.fold_in(part).posterior_.state)


@pytest.mark.parametrize("name", ["thinned", "control"])
def test_partial_fit_grows(name):
    train, _, test = cells_of(FITS[name]["data"], (150, 50), 0.3, seed=1).split(test=0.2, valid=0.0, seed=0)
    given = {**FITS[name], **COMMON, "max_iter": 60}
    whole = nmar.CCPF(**given).fit(train)
    grown = nmar.CCPF(**given).partial_fit(train.take_rows(np.arange(90)))
    grown.partial_fit(train.take_rows(np.arange(90, 150)))
    assert grown.linkage_.thinning == whole.linkage_.thinning
    assert grown.log_likelihood(test) > whole.log_likelihood(test) - 0.05
