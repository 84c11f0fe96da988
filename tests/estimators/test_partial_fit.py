"""Fold-in, transform and partial_fit."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar.fit.foldin import fold_in

DATA = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, family="poisson"),
}


@pytest.fixture(scope="module", params=list(DATA))
def fitted(request):
    data = DATA[request.param]
    cells, _ = nmar.simulate(shape=(150, 40), data=data, linkage=nmar.Linear(0.2), density=0.3, seed=0)
    model = nmar.CCPF(data, linkage="linear", factors=3, max_iter=60, tol=1e-7, random_state=0)
    return model.fit(cells), cells


def sides(model, axis=0):
    pair = model.posterior_.state.sides[axis]
    data = pair.data.mean if hasattr(pair.data, "mean") else pair.data.weights.mean
    return pair.pattern.weights.mean, data


def test_a_training_row_folded_in_comes_back_to_itself(fitted):
    model, cells = fitted
    assert model.fold_in(cells).log_likelihood(cells) == pytest.approx(model.log_likelihood(cells), abs=0.02)
    fine = fold_in(model.posterior_, cells, tol=1e-8, max_iter=2000).state.sides[0].pattern.weights.mean
    assert np.corrcoef(fine.ravel(), sides(model)[0].ravel())[0, 1] > 0.99


def test_a_row_does_not_depend_on_what_else_is_folded_in(fitted):
    model, cells = fitted
    some = np.array([3, 17, 99])
    together, alone = model.fold_in(cells), model.fold_in(cells.take_rows(some))
    for a, b in zip(sides(together), sides(alone), strict=True):
        np.testing.assert_allclose(a[some], b, rtol=1e-9, atol=1e-12)
    turned = np.arange(cells.shape[0])[::-1]
    for a, b in zip(sides(together), sides(model.fold_in(cells.take_rows(turned))), strict=True):
        np.testing.assert_allclose(a[turned], b, rtol=1e-9, atol=1e-12)


def test_each_row_has_converged_by_itself(fitted):
    model, cells = fitted
    rough = sides(model.fold_in(cells))
    fine = model.fold_in(cells)
    fine.posterior_ = fold_in(model.posterior_, cells, tol=1e-8, max_iter=2000)
    for a, b in zip(rough, sides(fine), strict=True):
        assert np.abs(a - b).mean() < 0.02 * np.abs(b).mean()


def test_threads_change_no_bit(fitted):
    model, cells = fitted
    found = [fold_in(model.posterior_, cells, n_jobs=jobs).state.sides[0].pattern.weights for jobs in (1, 2)]
    assert np.array_equal(found[0].alpha, found[1].alpha)
    assert np.array_equal(found[0].beta, found[1].beta)


def test_columns_are_folded_in_alike(fitted):
    model, cells = fitted
    new = cells.T.take_rows(np.arange(5, 15)).T
    there = model.fold_in(new, axis="cols")
    assert there.posterior_.cols.size == 10
    assert there.posterior_.rows == model.posterior_.rows
    assert there.log_likelihood(new) == pytest.approx(model.log_likelihood(new), abs=0.05)


def test_transform_gives_the_loadings_of_new_rows(fitted):
    model, cells = fitted
    found = model.transform(cells.take_rows(np.arange(7)))
    assert found.shape == (7, 2)
    data = model.fold_in(cells.take_rows(np.arange(7))).posterior_.state.sides[0].data
    whole = data.mean[:, :2] if hasattr(data, "mean") else data.weights.mean
    np.testing.assert_array_equal(found, whole)


def test_cold_rows_get_the_prior_with_wide_intervals(fitted):
    model, cells = fitted
    warm = cells.take_rows(np.arange(4))
    empty = warm.select(warm.row_index != 2)
    there = model.fold_in(empty)
    cold_mean, cold_sd = there.predict_entries(np.full(40, 2), np.arange(40), return_std=True)
    prior_mean, prior_sd = model.predict_entries(np.full(40, -77), np.arange(40), return_std=True, unknown="prior")
    np.testing.assert_allclose(cold_mean, prior_mean)
    np.testing.assert_allclose(cold_sd, prior_sd)
    _, warm_sd = there.predict_entries(np.full(40, 1), np.arange(40), return_std=True)
    assert cold_sd.mean() > warm_sd.mean()


def test_unknown_columns_are_refused(fitted):
    model, _ = fitted
    with pytest.raises(ValueError, match="cols"):
        model.fold_in(nmar.Cells.from_arrays([0], [77], [1.0], (1, 80)))
    with pytest.raises(ValueError, match="axis='sides'"):
        model.fold_in(nmar.Cells.from_arrays([0], [7], [1.0], (1, 40)), axis="sides")


def test_partial_fit_first_is_a_fit_then_grows_and_forgets_nothing():
    data = DATA["full"]
    cells, _ = nmar.simulate(shape=(200, 60), data=data, linkage=nmar.Linear(0.2), density=0.3, seed=1)
    train, _, test = cells.split(test=0.2, valid=0.0, seed=0)
    settings = dict(data=data, linkage="linear", factors=3, random_state=0)
    whole = nmar.CCPF(**settings).fit(train)
    old = train.take_rows(np.arange(100)).T.take_rows(np.arange(40)).T
    grown = nmar.CCPF(**settings).partial_fit(old)
    same = nmar.CCPF(**settings).fit(old)
    np.testing.assert_array_equal(grown.bound_trace_, same.bound_trace_)
    grown.partial_fit(train.take_rows(np.arange(100)))  # new columns
    assert (grown.posterior_.rows.size, grown.posterior_.cols.size) == (100, 60)
    grown.partial_fit(train.take_rows(np.arange(100, 200)))  # new rows
    assert (grown.posterior_.rows.size, grown.posterior_.cols.size) == (200, 60)
    grown.partial_fit(train)  # known cells again: nothing doubles
    assert grown.training_cells_.n_observed == train.n_observed
    assert grown.log_likelihood(test) > whole.log_likelihood(test) - 0.03
    part = test.take_rows(np.arange(100))
    assert grown.log_likelihood(part) > whole.log_likelihood(part) - 0.05


def test_partial_fit_with_strings_and_corrections():
    rng = np.random.default_rng(0)
    key = rng.permutation(30 * 20)[:200]
    frame = {"u": [f"u{k // 20}" for k in key], "i": [f"i{k % 20}" for k in key], "y": rng.normal(size=200)}
    cells = nmar.Cells.from_frame(frame, "u", "i", "y")
    model = nmar.CCPF(DATA["full"], linkage="linear", factors=2, max_iter=5, random_state=0).partial_fit(cells)
    more = nmar.Cells.from_frame({"u": ["u0", "new"], "i": ["i0", "fresh"], "y": [9.0, 1.0]}, "u", "i", "y")
    model.partial_fit(more)
    assert np.isfinite(model.predict_entries(["new", "u0"], ["i0", "fresh"])).all()
    with pytest.raises(ValueError, match="u0"):
        model.partial_fit(more, duplicates="error")


def test_partial_fit_needs_the_cells(tmp_path):
    cells, _ = nmar.simulate(shape=(30, 20), data=DATA["full"], density=0.3, seed=0)
    model = nmar.CCPF(DATA["full"], factors=2, max_iter=3, random_state=0).fit(cells)
    model.save(tmp_path / "m.nmar")
    with pytest.raises(ValueError, match="cells seen so far"):
        nmar.load(tmp_path / "m.nmar").partial_fit(cells)


def test_scikit_learn_callbacks_are_told_of_every_sweep_and_can_stop():
    pytest.importorskip("sklearn.callback")
    cells, _ = nmar.simulate(shape=(30, 20), data=DATA["full"], density=0.3, seed=0)

    class Three:
        def __init__(self):
            self.told = []

        def setup(self, estimator, context):
            self.told.append("setup")

        def teardown(self, estimator, context):
            self.told.append("teardown")

        def on_fit_task_begin(self, estimator, context, **given):
            pass

        def on_fit_task_end(self, estimator, context, **given):
            self.told.append(context.task_name)
            return self.told.count("sweep") == 3

    callback = Three()
    model = nmar.CCPF(DATA["full"], linkage="linear", factors=2, max_iter=10, tol=0.0, random_state=0)
    model.set_callbacks(callback).fit(cells)
    assert model.n_iter_ == 3
    assert callback.told[0] == "setup"
    assert callback.told[-1] == "teardown"
    assert callback.told.count("sweep") == 3


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_factors_that_were_switched_off_wake_beside_covariates(covariance):
    """Lines keep their covariates when a dead factor is started anew."""
    cells, _ = nmar.simulate((40, 20), nmar.Effects("both"), density=0.4, seed=0)
    known = np.arange(80.0).reshape(40, 2) % 7
    data = nmar.Factorization(4, covariance=covariance, rows=known)
    model = nmar.CCPF(data, "ignorable", factors=2, max_iter=60, tol=0.0, random_state=0).fit(cells)
    asleep = model.posterior_.state.shared.data.variance[1][:4].min()
    model.partial_fit(cells, sweeps=3)
    assert asleep < 1e-3
    assert model.covariate_effects_["rows"].mean.shape[1] == 2
