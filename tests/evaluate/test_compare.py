"""nmar.compare: which fits are made, how gains are paired, what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.evaluate import compare as compare_module
from nmar.evaluate.comparison import Comparison, Key
from nmar.evaluate.scoring import score
from nmar.fit.train import train as train_model
from nmar.posterior.posterior import log_density
from nmar.report.html import comparison_page

DATA = "factorization:2"


def keys(result: Comparison) -> list[tuple[str, str]]:
    return [(row.linkage, row.control) for row in result.rows]


def test_all_fits_are_made_in_order(comparison: Comparison) -> None:
    expected = [("ignorable", ""), ("taste", ""), ("taste", "shuffled"), ("two-stage", "")]
    expected += [(name, control) for name in ("linear", "free") for control in ("", "tail")]
    assert keys(comparison) == expected
    for row in comparison.rows:
        assert np.isfinite([row.log_likelihood, row.se, row.plugin, row.rmse]).all()
        assert (row.gain is None) == (row.linkage == "ignorable")
        modelled = not row.control and row.linkage in ("taste", "linear", "free")
        for other in ("own", "two_stage", "control"):
            assert (getattr(row, f"gain_over_{other}") is not None) == modelled
            assert (getattr(row, f"gain_over_{other}_se") is not None) == modelled


def test_gaussian_models_have_noise_by_row_and_column_and_a_tail_where_they_can(comparison: Comparison) -> None:
    for key, (entry, *_) in comparison.entries.items():
        noise = entry.fitted.posterior.state.shared.noise
        assert noise is not None and noise.axes == (True, True)
        assert (noise.freedom > 0.0) == (key.kind in ("ignorable", "taste", "shuffled", "two-stage"))
        assert comparison.options[key].starts == "auto"


def test_gains_are_paired_by_cell(comparison: Comparison) -> None:
    free, base = (comparison.entries[Key(DATA, name)][0] for name in ("free", "ignorable"))
    difference = free.scores.predictive - base.scores.predictive
    row = next(r for r in comparison.rows if (r.linkage, r.control) == ("free", ""))
    assert row.gain == pytest.approx(difference.mean(), rel=1e-12)
    assert row.gain_se is not None and row.gain_se >= difference.std(ddof=1) / np.sqrt(len(difference)) * (1 - 1e-9)
    assert row.gain_se < row.se  # pairing is the point


def moved(result: Comparison, gains: dict[str, float]) -> Comparison:
    """The comparison with this much added to the log densities of fits, by name."""
    entries = {}
    for key, found in result.entries.items():
        by = gains.get(result.name(key), 0.0)
        entries[key] = [replace(e, scores=replace(e.scores, predictive=e.scores.predictive + by)) for e in found]
    return replace(result, entries=entries)


@pytest.mark.parametrize("best", ["ignorable", "two-stage", "linear (tail)", "free (tail)", "taste (shuffled)"])
def test_the_best_control_counts(comparison: Comparison, best: str) -> None:
    """Choices of others are a control of taste alone."""
    found = moved(comparison, {best: 1.0})
    rows = {row.name: row for row in found.rows}
    for name, own in (("linear", "linear (tail)"), ("free", "free (tail)"), ("taste", "taste (shuffled)")):
        row = rows[name]
        assert row.gain_over_own == pytest.approx(row.log_likelihood - rows[own].log_likelihood, rel=1e-9)
        assert (row.best_control == best) == (best != "taste (shuffled)" or name == "taste")
        assert row.best_control is not None
        behind = row.log_likelihood - rows[row.best_control].log_likelihood
        assert row.gain_over_control == pytest.approx(behind, rel=1e-9)


def test_same_seed_same_split_as_by_hand(linked: nmar.Cells, comparison: Comparison) -> None:
    train, _, test = linked.split(test=0.2, valid=0.0, seed=0)
    data = nmar.Factorization(2)
    model = nmar.CCPF(data, "ignorable", factors=3, max_iter=25, n_jobs=1, random_state=0)
    model.fit(train, hidden=test)
    assert comparison.rows[0].log_likelihood == pytest.approx(model.log_likelihood(test), rel=1e-12)
    assert comparison.rows[0].plugin == pytest.approx(model.log_likelihood(test, plugin=True), rel=1e-12)
    error = np.sqrt(np.mean((test.values - model.predict_entries(*test.pairs())) ** 2))
    assert comparison.rows[0].rmse == pytest.approx(error, rel=1e-12)


@pytest.mark.slow
def test_several_seeds_average(linked: nmar.Cells) -> None:
    options = {"factors": 3, "max_iter": 4, "control": False, "two_stage": False, "taste": False, "n_jobs": 1}
    both = nmar.compare(linked, DATA, ["linear"], seeds=2, **options)
    each = [nmar.compare(linked, DATA, ["linear"], seed=s, seeds=1, **options) for s in (0, 1)]
    mean = np.mean([one.rows[1].log_likelihood for one in each])
    assert both.rows[1].log_likelihood == pytest.approx(mean, rel=1e-12)
    assert len(both.test_cells) == 2


def test_own_split_with_unseen_ids(linked: nmar.Cells) -> None:
    train, _, test = linked.split(test=0.2, valid=0.0, seed=3)
    few = train.take_rows(np.arange(100))  # rows 100.. are in the test cells only
    result = nmar.compare(
        data=nmar.Factorization(2),
        linkages=["ignorable"],
        train=few,
        test_cells=test,
        factors=3,
        max_iter=4,
        seeds=1,
        two_stage=False,
        taste=False,
    )
    assert len(result.rows) == 1
    assert result.setting.cold >= np.sum(test.row_index >= 100)
    assert np.isfinite(result.rows[0].log_likelihood)


def test_two_stage_has_a_finished_pattern_and_the_start_of_the_others(linked: nmar.Cells) -> None:
    train, valid, test = linked.split(test=0.2, valid=0.01, seed=0)
    options = {"factors": 3, "max_iter": 25, "tol": 1e-4, "n_jobs": 1, "random_state": 0}
    alone = nmar.CCPF(nmar.PatternOnly(), "ignorable", **options).fit(train, hidden=test.concat(valid))
    seen: list[float] = []
    watch = [lambda record: seen.append(record.validation)]
    for linkage in ("ignorable", "two-stage"):
        model = nmar.CCPF(nmar.Factorization(2), linkage, **(options | {"max_iter": 1}))
        model.fit(train, valid=valid, hidden=test, callbacks=watch)
    assert seen[-1] == pytest.approx(seen[0], abs=0.05)  # one sweep from the same start, with a flat variance
    model = nmar.CCPF(nmar.Factorization(2), "two-stage", **options).fit(train, valid=valid, hidden=test)
    pairs = test.pairs()
    assert np.array_equal(model.observed_probability(*pairs), alone.observed_probability(*pairs))


def test_poisson_has_no_two_stage() -> None:
    cells, _ = nmar.simulate((40, 30), nmar.Factorization(2, family="poisson"), "ignorable", 0.4, seed=0)
    data = nmar.Factorization(2, family="poisson")
    result = nmar.compare(cells, data, ["exponential"], factors=3, max_iter=3, seeds=1, n_jobs=1)
    assert keys(result) == [("ignorable", ""), ("exponential", ""), ("exponential", "tail")]


def test_labels_keep_settings_apart(linked: nmar.Cells) -> None:
    linkages = ["linear", nmar.Linear(0.3), nmar.Free(mean="shift"), "free,s=8", nmar.Free(thinning=4)]
    options = {"factors": 3, "max_iter": 1, "seeds": 1, "control": False, "two_stage": False, "n_jobs": 1}
    result = nmar.compare(linked, DATA, linkages, taste=False, **options)
    names = ["linear", "linear(c=0.3)", "free+shift", "free, s = 8", "free, s = 4"]
    assert [row.name for row in result.rows] == ["ignorable", *names]
    assert [row.linkage for row in result.rows] == ["ignorable", *names]
    assert [row.thinning for row in result.rows] == [1, 1, 1, 1, 8, 4]


def test_models_of_two_stages_share_the_first_one(linked: nmar.Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is fitted once for each split, and every fit is the one that it would be by itself."""
    made: list[int] = []
    first = compare_module.first_stage
    monkeypatch.setattr(compare_module, "first_stage", lambda *a: (made.append(a[1].random_state), first(*a))[1])
    options = {"factors": 2, "max_iter": 3, "seeds": 2, "n_jobs": 1}
    result = nmar.compare(linked, [DATA, "effects"], ["linear"], **options)
    assert made == [0, 1]
    train, _, test = linked.split(0.2, 0.0, 1)
    for key, entries in result.entries.items():
        alone = train_model(train, replace(result.options[key], random_state=1), hidden=test)
        np.testing.assert_array_equal(score(alone.posterior, test).predictive, entries[1].scores.predictive)


def test_further_settings_are_those_of_all_fits(linked: nmar.Cells) -> None:
    options = {"factors": 2, "max_iter": 2, "seeds": 1, "n_jobs": 1, "two_stage": False, "control": False}
    result = nmar.compare(linked, DATA, ["linear"], prior="paper", starts=1, noise="rows", tail=False, **options)
    assert [row.name for row in result.rows] == ["ignorable", "taste", "linear"]
    for key, told in result.options.items():
        assert (told.prior, told.starts) == ("paper", 1)
        noise = result.entries[key][0].fitted.posterior.state.shared.noise
        assert noise.axes == (True, False) and noise.freedom == 0.0
        assert result.line(key).endswith('noise="rows", tail=False).fit(cells)')
    with pytest.raises(TypeError, match="'target' is no argument of compare; further settings are prior, starts"):
        nmar.compare(linked, DATA, target="all", **options)


def test_outputs(comparison: Comparison) -> None:
    frame = comparison.frame()
    assert list(frame["linkage"]) == [row.linkage for row in comparison.rows]
    assert {"gain_over_control", "gain_over_control_se", "best_control"} <= set(frame.columns)
    text = comparison.text()
    for words in ("free (tail)", "taste (shuffled)", "★", "model − control", "counts"):
        assert words in text
    assert comparison.best().log_likelihood == max(row.log_likelihood for row in comparison.rows)
    assert comparison.verdict in str(comparison)


def test_frame_without_pandas(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas"):
        comparison.frame()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"test": 0.0}, "test=0.0"),
        ({"train": 1}, "train is a int"),
        ({"data": []}, "at least one data model"),
        ({"linkages": ["cubic"]}, "cubic"),
        ({"data": "cubic:3"}, "data 'cubic:3'; use factorization"),
        ({"data": 3}, "data=3 is not a data model"),
        ({"control": "both"}, "control='both'"),
        ({"test": 0.005}, "too few cells are held out"),
    ],
)
def test_errors_name_the_argument(linked: nmar.Cells, arguments: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        nmar.compare(linked, **arguments)


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="cells is None"):
        nmar.compare()


def test_three_cells_are_too_few() -> None:
    with pytest.raises(ValueError, match="too few cells are held out"):
        nmar.compare(nmar.Cells.from_arrays([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0]))


def test_parts_that_overlap_are_refused(linked: nmar.Cells) -> None:
    with pytest.raises(ValueError, match=rf"train and test_cells have {len(linked):,} of {len(linked):,} cells"):
        nmar.compare(train=linked, test_cells=linked)
    train, valid, test = linked.split(test=0.2, valid=0.1, seed=0)
    with pytest.raises(ValueError, match=rf"train and test_cells have {len(valid):,} of"):
        nmar.compare(train=train.concat(valid), test_cells=test.concat(valid))
    with pytest.raises(ValueError, match=rf"test_cells and valid_cells have {len(valid):,} of"):
        nmar.compare(train=train, test_cells=test.concat(valid), valid_cells=valid)


def test_overlap_is_found_by_id_not_by_position(linked: nmar.Cells) -> None:
    few = linked.take_rows(np.arange(50, 60))
    with pytest.raises(ValueError, match=rf"{len(few):,} of {len(few):,} cells in common"):
        nmar.compare(train=linked, test_cells=few)


def test_progress_says_which_of_how_many(linked: nmar.Cells, caplog: pytest.LogCaptureFixture) -> None:
    options = {"factors": 3, "max_iter": 1, "seeds": 2, "taste": False, "two_stage": False, "n_jobs": 1}
    with caplog.at_level("INFO", logger="nmar"):
        nmar.compare(linked, DATA, ["linear"], **options)
    found = [record.message for record in caplog.records if record.message.startswith("fit ")]
    assert found[0] == "fit 1 of 6: factorization:2 ignorable, seed 0"
    assert found[-2] == "fit 6 of 6: factorization:2 linear (tail), seed 1"


def test_score_of_unknown_ids_is_that_of_the_prior_line(comparison: Comparison) -> None:
    posterior = comparison.entries[Key(DATA, "free")][0].fitted.posterior
    new = nmar.Cells.from_arrays([500, 0], [1, 900], [0.5, -0.5])
    law = posterior.extended()  # its last row and column are those of ids never seen
    known = np.array([-0.5, 0.5])  # by rows
    rows, cols = np.array([0, posterior.rows.size]), np.array([posterior.cols.size, 1])
    np.testing.assert_allclose(score(posterior, new).predictive, log_density(law, rows, cols, known), rtol=1e-12)


def test_all_fits_have_the_pattern_that_is_given(linked: nmar.Cells) -> None:
    known = np.arange(linked.shape[0])[:, None] % 3
    pattern = nmar.Pattern(2, rows=known)
    found = nmar.compare(linked, "effects:rows", ["linear"], seeds=1, max_iter=2, pattern=pattern)
    for entries in found.entries.values():
        law = entries[0].fitted.posterior.law.pattern
        assert law.factors == 2 and law.designs[0].x.shape[1] == 3
    assert found.setting.factors == 2
    assert "pattern=nmar.Pattern(2, rows=…)" in found.verdict.line
    with pytest.raises(ValueError, match="factors=3 and pattern="):
        nmar.compare(linked, "effects:rows", ["linear"], factors=3, pattern=pattern)


def test_effects_with_and_without_covariates_are_two_models(linked: nmar.Cells) -> None:
    known = np.arange(2.0 * linked.shape[0]).reshape(-1, 2) % 5
    models = [nmar.Effects("rows"), nmar.Effects("rows", rows=known)]
    found = nmar.compare(linked, models, ["linear"], False, False, seeds=1, factors=2, max_iter=2)
    assert {row.data for row in found.rows} == {"effects:rows", "effects:rows+covariates"}
    assert {row.data for row in found.rows if row.kind == "taste"} == {"effects:rows"}  # covariates are taken there


def test_the_star_is_at_the_model_that_the_verdict_recommends(comparison: Comparison) -> None:
    """Not at the highest likelihood, which here is that of a control that is never recommended."""
    result = moved(comparison, {"taste (shuffled)": 1.0})
    used = result.recommended()
    assert used.name == result.verdict.recommended != result.best().name
    starred = [line for line in result.text().splitlines() if line.strip().startswith("★")]
    assert [line.split()[1] for line in starred] == [used.name]
    page = comparison_page(result)
    assert page.count('class="badge">') == 1 and "best</span>" not in page
