"""rank="auto": what held-out values choose, that a fit with the chosen rank is the same fit, and what it may cost."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar import CCPF, Cells, Factorization
from nmar.fit.names import data_named
from nmar.fit.options import Options
from nmar.fit.search.choose import RANKS, SHORT
from nmar.fit.train import train

SETTINGS = {"factors": 2, "random_state": 0, "n_jobs": 1, "max_iter": 20}
HASTY = {**SETTINGS, "max_iter": 2}


def low_rank(rank: int, shape: tuple[int, int] = (100, 50), noise: float = 0.2, seed: int = 0) -> Cells:
    """Values of a rank, with noise, a third of them missing completely at random."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) / np.sqrt(rank)
    values += noise * rng.normal(size=shape)
    values[rng.random(shape) < 1.0 / 3.0] = np.nan
    return Cells.from_dense(values)


def chosen(model: CCPF) -> int:
    return model.posterior_.law.data.rank


@pytest.fixture(scope="module")
def cells():
    return low_rank(9)


@pytest.fixture(scope="module")
def fit(cells):
    """A model and the phases that its callbacks were told of."""
    phases = []
    model = CCPF(Factorization("auto"), **SETTINGS)
    return model.fit(cells, callbacks=[lambda each: phases.append(each.phase)]), phases


def test_the_rank_is_found_and_what_was_tried_is_kept(fit):
    tried = {choice.value: choice for choice in fit[0].choices_}
    assert chosen(fit[0]) == 10 and set(tried) == {5, 10, 15}
    assert {choice.setting for choice in tried.values()} == {"rank"}
    assert fit[0].choices_[0].value == 10 and tried[10].behind == 0.0
    assert tried[5].behind > 3.0 * tried[5].se  # rank 9 does not fit into 5


def test_short_runs_are_a_search_and_their_time_counts(fit):
    assert fit[1].count("search") == 3 * SHORT and fit[1][-1] == "fit"
    seconds = fit[0].seconds_trace_
    assert seconds[0] > 3.0 * np.median(np.diff(seconds))


def test_it_is_the_fit_with_that_rank(cells, fit):
    plain = CCPF(Factorization(chosen(fit[0])), **SETTINGS).fit(cells)
    np.testing.assert_array_equal(fit[0].bound_trace_, plain.bound_trace_)
    np.testing.assert_array_equal(fit[0].predict_entries(*cells.pairs()), plain.predict_entries(*cells.pairs()))


def test_values_without_factors_choose_the_smallest():
    assert chosen(CCPF(Factorization("auto"), **SETTINGS).fit(low_rank(1, noise=3.0))) == RANKS[0]


def test_short_runs_obey_max_iter_and_progress_says_what_is_tried(cells):
    said = []
    options = Options(data=Factorization("auto"), **HASTY)
    fitted = train(cells, options, watch=lambda trace, state, trying="": said.append(trying))
    doing = [f"trying rank {each}" for each in sorted(choice.value for choice in fitted.choices)]
    assert list(dict.fromkeys(said)) == [*doing, ""] and all(said.count(each) == 2 for each in (*doing, ""))


def test_choosing_stops_at_max_time(cells):
    model = CCPF(Factorization("auto"), max_time=0.0, **SETTINGS).fit(cells)
    assert model.n_iter_ == 1 and chosen(model) == RANKS[0] and model.choices_ == ()


@pytest.mark.parametrize("family", ["poisson", "levels"])
def test_other_families(family):
    counts = np.random.default_rng(0).poisson(2.0, (40, 30)).clip(0, 4).astype(float)
    counts[::3, ::2] = np.nan
    model = CCPF(Factorization("auto", family=family), **HASTY).fit(Cells.from_dense(counts))
    assert chosen(model) == model.choices_[0].value in RANKS


def test_a_stopped_fit_goes_on_with_the_rank_it_had(cells, fit, tmp_path):
    def third(record):
        return record.phase == "fit" and record.iteration == 3

    part = CCPF(Factorization("auto"), **SETTINGS).fit(cells, checkpoint=tmp_path, every=1, callbacks=[third])
    again = CCPF(Factorization("auto"), **SETTINGS).fit(cells, checkpoint=tmp_path, every=1, resume=True)
    assert part.n_iter_ == 3 and again.choices_ == ()
    np.testing.assert_array_equal(again.bound_trace_, fit[0].bound_trace_)


def test_growth_keeps_the_rank(cells):
    model = CCPF(Factorization("auto"), **HASTY).fit(cells)
    rank = chosen(model)
    model.partial_fit(Cells.from_arrays([100, 100], [0, 1], [0.3, -0.2], (101, 50)), sweeps=1)
    assert chosen(model) == rank and model.posterior_.rows.ids[-1] == 100


def test_a_small_matrix_has_a_small_rank():
    assert chosen(CCPF(Factorization("auto"), **HASTY).fit(low_rank(1, (5, 4)))) == 1


def test_every_fit_of_a_split_has_the_rank_that_the_ignorable_model_chose(cells):
    result = nmar.compare(
        cells, "factorization:auto", ["linear"], factors=2, max_iter=2, seeds=1, n_jobs=1, taste=False, starts=1
    )
    ranks = [result.chosen_ranks(key) for key in result.entries]
    assert len(ranks) == 4 and all(each == ranks[0] for each in ranks)
    assert f"factorization:auto: rank {ranks[0][0]}, by split." in result.text()
    assert [bool(found[0].fitted.choices) for found in result.entries.values()] == [True, False, False, False]


def test_where_it_cannot_be_chosen_it_is_refused_by_name(cells):
    with pytest.raises(ValueError, match="rank='auto' cannot be chosen by a stochastic solver"):
        Options(data=Factorization("auto"), solver="minibatch")
    with pytest.raises(ValueError, match="rank='auto' is not chosen for the two-stage baseline"):
        CCPF(Factorization("auto"), "two-stage").fit(cells)
    with pytest.raises(ValueError, match="rank='auto' is chosen from cells in a fit"):
        nmar.simulate((20, 10), Factorization("auto"))
    with pytest.raises(ValueError, match="rank='most'"):
        Factorization("most")


def test_its_name():
    assert data_named("factorization:auto") == Factorization("auto")
    assert data_named("factorization:auto:diagonal").describe() == "factorization:auto:diagonal"
