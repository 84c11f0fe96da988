"""mechanism="taste": what rows and columns choose tells about their values, where it does."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar.fit.foldin import fold_in

SETTINGS = {"factors": 3, "random_state": 0, "max_iter": 60, "tol": 1e-5}
MODELS = {
    "factorization": nmar.Factorization(3),
    "diagonal": nmar.Factorization(3, covariance="diagonal"),
    "effects": nmar.Effects("both"),
    "row effects": nmar.Effects("rows"),
    "mixture": nmar.Mixture(3, restarts=1),
}


def table(informative, shape=(200, 120), seed=0):
    """Three kinds of rows and columns that choose each other; values are higher, or not, where kinds agree."""
    rng = np.random.default_rng(seed)
    kinds = [rng.integers(0, 3, size) for size in shape]
    agree = kinds[0][:, None] == kinds[1]
    seen = rng.random(shape) < np.where(agree, 0.3, 0.04)
    values = rng.normal(size=shape) + 0.5 * rng.normal(size=(shape[0], 1))
    values += 1.5 * agree if informative else 0.0
    cells = nmar.Cells.from_arrays(*np.nonzero(seen), values[seen], shape)
    train, _, test = cells.split(test=0.3, valid=0.0, seed=1)
    return train, test


def gain(train, test, data, **more):
    """Mean gain of held-out log likelihood, and its error clustered by row."""
    plain, taste = (
        np.asarray(nmar.CCPF(data, mechanism=m, **SETTINGS, **more).fit(train, hidden=test).log_density(test))
        for m in ("none", "taste")
    )
    apart = taste - plain
    by_row = np.bincount(test.positions()[0], apart - apart.mean())
    return apart.mean(), np.sqrt(np.sum(by_row**2)) / len(apart)


def test_choices_tell_about_values_where_they_do():
    found, error = gain(*table(True), MODELS["factorization"])
    assert found > 0.02
    assert found > 4.0 * error


def test_choices_of_others_tell_nothing():
    """The control has the same covariates, but on other lines: what is gained over it is due to the choices."""
    train, test = table(True)
    fits = {
        name: nmar.CCPF(MODELS["factorization"], control=control, mechanism=mechanism, **SETTINGS).fit(
            train, hidden=test
        )
        for name, control, mechanism in (
            ("plain", False, "none"),
            ("taste", False, "taste"),
            ("shuffled", "shuffled", "taste"),
        )
    }
    scores = {name: np.asarray(model.log_density(test)) for name, model in fits.items()}
    apart = scores["shuffled"] - scores["plain"]
    assert abs(apart.mean()) < max(2.0 * apart.std() / np.sqrt(len(apart)), 0.003)
    assert (scores["taste"] - scores["shuffled"]).mean() > 0.02
    lines = [fits[name].posterior_.state.sides[0].data.x for name in ("taste", "shuffled")]
    assert not np.array_equal(*lines)
    order = [np.lexsort(x.T) for x in lines]
    np.testing.assert_allclose(lines[0][order[0]], lines[1][order[1]])  # the same rows, in another order


def test_the_shuffle_is_that_of_the_seed():
    train, _ = table(True, (60, 40))
    settings = {**SETTINGS, "max_iter": 3, "mechanism": "taste", "control": "shuffled"}
    bounds = [
        nmar.CCPF(MODELS["effects"], **{**settings, "random_state": seed}).fit(train).bound_trace_ for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(bounds[0], bounds[1])
    assert bounds[0][-1] != bounds[2][-1]


@pytest.mark.parametrize("seed", [0, 1])
def test_choices_tell_nothing_where_they_cannot(seed):
    found, error = gain(*table(False, seed=seed), MODELS["factorization"])
    assert abs(found) < max(2.0 * error, 0.003)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_with_covariates_takes_it(name, tmp_path):
    train, test = table(True, (60, 40))
    model = nmar.CCPF(MODELS[name], mechanism="taste", **SETTINGS).fit(train, hidden=test)
    assert np.all(np.diff(model.bound_trace_) >= -1e-9 * np.abs(model.bound_trace_[1:]))
    model.save(tmp_path / "m.nmar")
    again = nmar.load(tmp_path / "m.nmar")
    np.testing.assert_array_equal(again.log_density(test), model.log_density(test))
    assert again.mechanism == "taste"


@pytest.mark.parametrize("name", MODELS)
def test_new_rows_are_known_by_what_they_choose(name):
    train, test = table(True)
    model = nmar.CCPF(MODELS[name], mechanism="taste", **SETTINGS).fit(train, hidden=test)
    folded = fold_in(model.posterior_, train)
    i, j = test.positions()
    known = [np.asarray(p.cells(i, j).moments(p.table(None))[0])[:, 0] for p in (model.posterior_, folded)]
    assert np.corrcoef(*known)[0, 1] > 0.98


def test_effects_have_the_names_of_the_components():
    train, _ = table(True, (60, 40))
    model = nmar.CCPF(MODELS["factorization"], mechanism="taste", **SETTINGS).fit(train)
    assert model.covariate_effects_["rows"].names == ("component 1", "component 2", "component 3", "activity")


def test_the_same_seed_and_any_threads_give_the_same_bits():
    train, _ = table(True, (60, 40))
    first, second = (
        nmar.CCPF(MODELS["factorization"], mechanism="taste", n_jobs=jobs, **SETTINGS).fit(train) for jobs in (1, 2)
    )
    np.testing.assert_array_equal(first.bound_trace_, second.bound_trace_)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": nmar.Constant("gaussian")}, "mechanism='taste' needs a data model that takes covariates"),
        ({"data": nmar.Factorization(2, family="poisson")}, "mechanism='taste' is about the means of gaussian values"),
        ({"solver": "minibatch"}, "solver='batch'"),
        ({"data": nmar.Factorization(2, rows=np.ones((60, 1)))}, "mechanism='taste' and covariates"),
        ({"mechanism": "choice"}, "mechanism='choice'"),
        ({"mechanism": "none", "control": "shuffled"}, "control='shuffled' is the control of mechanism='taste'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings, words):
    train, _ = table(True, (60, 40))
    with pytest.raises(ValueError, match=words):
        nmar.CCPF(**{"data": nmar.Factorization(2), "mechanism": "taste", "factors": 2, **settings}).fit(train)


def test_going_on_is_refused_by_name():
    train, test = table(True, (60, 40))
    model = nmar.CCPF(MODELS["factorization"], mechanism="taste", **SETTINGS).fit(train)
    with pytest.raises(ValueError, match="mechanism='taste'"):
        model.partial_fit(test)
