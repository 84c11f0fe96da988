"""factors="auto": what held-out likelihood chooses, and that nothing of the choice is lost."""

import numpy as np
import pytest

import nmar
from nmar.fit.options import Options
from nmar.fit.search.choose import ranked
from nmar.fit.train import train

FALLING = tuple(np.exp(-2.5 * np.linspace(0.0, 1.0, 15)))
SETTINGS = {"factors": 3, "max_iter": 40, "random_state": 0, "n_jobs": 1}
COUPLED = {**SETTINGS, "linkage": nmar.Free(thinning=16), "factors": "auto"}


@pytest.fixture(scope="module")
def coupled():
    """Cells whose spread falls with their events, s = 8."""
    link = nmar.Free(values=FALLING, thinning=8, learn=False)
    cells, _ = nmar.simulate((160, 100), nmar.Factorization(2), link, density=0.3, seed=1)
    return cells.split(test=0.2, valid=0.0, seed=0)


@pytest.fixture(scope="module")
def at_random():
    """A complete matrix with rows of unequal noise, masked completely at random."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(160, 2)) @ rng.normal(size=(2, 60))
    values += np.exp(0.8 * rng.normal(size=(160, 1))) * rng.normal(size=(160, 60))
    values[rng.random(values.shape) < 0.5] = np.nan
    return nmar.Cells.from_dense(values)


def test_a_plain_fit_has_noise_by_row_and_column_and_couples_counts(coupled):
    model = nmar.CCPF(nmar.Factorization(2), **SETTINGS).fit(coupled[0])
    assert model.linkage_.name == "ignorable" and model.choices_ == ()
    assert len(model.row_noise_.level) == 160 and model.posterior_.state.shared.noise.freedom > 0.0
    assert nmar.CCPF(nmar.PatternOnly(), factors=2, max_iter=2).fit(coupled[0]).linkage_.name == "ignorable"
    counts = coupled[0].with_values(np.round(np.abs(coupled[0].values)))
    poisson = nmar.CCPF(nmar.Factorization(2, family="poisson"), factors=2, max_iter=2).fit(counts)
    assert poisson.linkage_.name == "free" and poisson.linkage_.thinning == 1.0


def test_choosing_counts_as_time(coupled):
    model = nmar.CCPF(nmar.Factorization(2), **COUPLED).fit(coupled[0])
    apart = np.diff(model.seconds_trace_)
    assert model.seconds_trace_[0] > 3.0 * np.median(apart)  # the sweeps of the choice went before


@pytest.mark.slow
def test_resumed_fit_keeps_what_was_chosen(coupled, tmp_path):
    settings = COUPLED
    whole = nmar.CCPF(nmar.Factorization(2), **settings).fit(coupled[0])
    for stop in (True, None):
        called = [] if stop is None else [lambda record: record.iteration == 3]
        part = nmar.CCPF(nmar.Factorization(2), **settings)
        part.fit(coupled[0], checkpoint=tmp_path, every=1, resume=True, callbacks=called)
    assert part.posterior_.law.pattern.factors == whole.posterior_.law.pattern.factors
    np.testing.assert_array_equal(part.bound_trace_, whole.bound_trace_)


@pytest.mark.slow
def test_number_of_factors_by_pattern_and_values(coupled):
    model = nmar.CCPF(nmar.Factorization(2), "free", **{**SETTINGS, "factors": "auto"}).fit(coupled[0])
    assert {c.value for c in model.choices_ if c.setting == "factors"} == {3, 10, 30}
    assert model.posterior_.law.pattern.factors == model.choices_[0].value


@pytest.mark.parametrize(("data", "linkage"), [(nmar.PatternOnly(), None), (nmar.Factorization(2), "two-stage")])
def test_number_of_factors_without_values_and_of_two_stages(coupled, data, linkage):
    model = nmar.CCPF(data, linkage, **{**SETTINGS, "factors": "auto", "max_iter": 5}).fit(coupled[0])
    known = model.posterior_
    assert known.law.pattern.factors == known.state.sides[0].pattern.weights.alpha.shape[1]


def test_stochastic_solvers_refuse_to_choose():
    with pytest.raises(ValueError, match="cannot be chosen by a stochastic solver"):
        Options(solver="minibatch", factors="auto")


def test_all_cells_judge_together_and_ties_have_no_distance():
    scores = {"a": np.array([0.0, 1.0]), "b": np.array([0.5, 0.5]), "c": np.array([-1.0, 0.0])}
    found = {choice.value: choice for choice in ranked("letter", scores)}
    assert found["b"].behind == 0.0 and found["c"].behind == pytest.approx(1.0) and found["c"].se == 0.0


@pytest.mark.slow
def test_choice_is_made_on_cells_that_are_not_fitted_meanwhile(at_random):
    """The judges are hidden from the pattern and take no part in the trials: fits of the whole stay reproducible."""
    options = Options(data=nmar.Factorization(2), linkage=nmar.Free(thinning=8), factors="auto", random_state=0)
    one, two = (train(at_random, options).posterior.state.shared.linkage for _ in range(2))
    assert one == two
