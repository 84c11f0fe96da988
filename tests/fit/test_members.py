"""A pattern averaged over several fits: its rates are the means of theirs."""

import numpy as np
import pytest

import nmar

SETTINGS = {"random_state": 0, "tol": 0.0, "max_iter": 15, "n_jobs": 1}
PLACES = np.divmod(np.arange(60 * 40), 40)


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((60, 40), nmar.Factorization(2), density=0.3, seed=0)[0]


def fitted(cells, pattern, seed=0, **more):
    model = nmar.CCPF(nmar.PatternOnly(), pattern=pattern, **{**SETTINGS, "random_state": seed})
    return model.fit(cells, **more)


@pytest.fixture(scope="module")
def averaged(cells):
    return fitted(cells, nmar.Pattern(3, members=3))


def test_rates_are_means_of_the_members(cells, averaged):
    seeds = [0, *(int(one.generate_state(1)[0]) for one in np.random.SeedSequence(0).spawn(2))]
    each = [fitted(cells, nmar.Pattern(3), seed).posterior_.rates(*PLACES) for seed in seeds]
    np.testing.assert_allclose(averaged.posterior_.rates(*PLACES), np.mean(each, axis=0), rtol=1e-12)
    assert len({one[0] for one in each}) == 3


def test_a_file_and_a_checkpoint_hold_all_members(cells, averaged, tmp_path):
    averaged.save(tmp_path / "m.nmar")
    kept = {"checkpoint": tmp_path / "run", "every": 5}
    fitted(cells, nmar.Pattern(3, members=3), **kept)
    for other in (
        nmar.load(tmp_path / "m.nmar"),
        fitted(cells, nmar.Pattern(3, members=3), resume=True, **kept),
    ):
        np.testing.assert_array_equal(other.posterior_.rates(*PLACES), averaged.posterior_.rates(*PLACES))


def test_a_fit_that_goes_on_has_the_factors_of_all_members(cells):
    model = fitted(cells, nmar.Pattern(3, members=3)).set_params(warm_start=True, max_iter=2)
    before = model.posterior_.rates(*PLACES)
    after = model.fit(cells).posterior_
    assert after.law.pattern.factors == 9
    assert 0.99 < np.corrcoef(after.rates(*PLACES), before)[0, 1] < 1.0


def test_weights_for_all_cells_come_from_the_average(cells, averaged):
    options = {**SETTINGS, "target": "all"}
    model = nmar.CCPF(nmar.Effects("both"), pattern=nmar.Pattern(3, members=3), **options).fit(cells)
    chance = averaged.observed_probability(*cells.pairs())
    other = nmar.CCPF(nmar.Effects("both"), factors=3, propensity=chance, **options).fit(cells)
    pairs = (model.posterior_.rows.ids[PLACES[0]], model.posterior_.cols.ids[PLACES[1]])
    np.testing.assert_array_equal(model.predict_entries(*pairs), other.predict_entries(*pairs))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": nmar.Effects("both")}, "members=2 of the pattern need a pattern that is fitted alone"),
        ({"pattern": nmar.Pattern("auto", members=2)}, "a number of factors"),
        ({"pattern": nmar.Pattern(2, members=2, rows=np.zeros((60, 1)))}, "where the pattern has covariates"),
        ({"solver": "minibatch"}, "need solver='batch'"),
    ],
)
def test_what_cannot_be_averaged_is_refused(cells, settings, said):
    settings = {"data": nmar.PatternOnly(), "pattern": nmar.Pattern(2, members=2), **settings}
    with pytest.raises(ValueError, match=said):
        nmar.CCPF(**settings).fit(cells)
    with pytest.raises(ValueError, match="members=0; give a whole number of at least 1"):
        nmar.Pattern(2, members=0)
