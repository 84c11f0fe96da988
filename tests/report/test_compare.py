"""nmar.compare: which fits are made, how gains are paired, and what is said about them."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.report.comparison import Comparison, Entry, Key
from nmar.report.scoring import Scores, average, score


def keys(result: Comparison) -> list[tuple[str, bool]]:
    return [(row.linkage, row.control) for row in result.rows]


def test_all_fits_are_made_in_order(comparison: Comparison) -> None:
    expected = [("ignorable", False), ("two-stage", False)]
    expected += [("linear", False), ("linear", True), ("free", False), ("free", True)]
    assert keys(comparison) == expected
    for row in comparison.rows:
        assert np.isfinite([row.log_likelihood, row.se, row.plugin, row.rmse]).all()
        assert (row.gain is None) == (row.linkage == "ignorable")
        assert (row.gain_over_control is None) == (row.control or row.linkage in ("ignorable", "two-stage"))


def test_gains_are_paired_by_cell(comparison: Comparison) -> None:
    free, base = (comparison.entries[Key("factorization:2", name, False)][0] for name in ("free", "ignorable"))
    difference = free.scores.predictive - base.scores.predictive
    row = next(r for r in comparison.rows if r.linkage == "free" and not r.control)
    assert row.gain == pytest.approx(difference.mean(), rel=1e-12)
    assert row.gain_se == pytest.approx(difference.std(ddof=1) / np.sqrt(len(difference)), rel=1e-12)
    assert row.gain_se < row.se  # pairing is the point


def test_same_seed_same_split_as_by_hand(linked: nmar.Cells, comparison: Comparison) -> None:
    train, valid, test = linked.split(test=0.2, valid=0.01, seed=0)
    data = nmar.Factorization(2)
    model = nmar.CCPF(data, "ignorable", factors=3, max_iter=25, n_jobs=1, random_state=0)
    model.fit(train, valid=valid, hidden=test)
    assert comparison.rows[0].log_likelihood == pytest.approx(model.log_likelihood(test), rel=1e-12)
    assert comparison.rows[0].plugin == pytest.approx(model.log_likelihood(test, plugin=True), rel=1e-12)
    error = np.sqrt(np.mean((test.values - model.predict_entries(*test.pairs())) ** 2))
    assert comparison.rows[0].rmse == pytest.approx(error, rel=1e-12)


def test_several_seeds_average(linked: nmar.Cells) -> None:
    options = {"factors": 3, "max_iter": 4, "control": False, "two_stage": False, "n_jobs": 1}
    both = nmar.compare(linked, nmar.Factorization(2), ["linear"], seeds=2, **options)
    each = [nmar.compare(linked, nmar.Factorization(2), ["linear"], seed=s, **options) for s in (0, 1)]
    mean = np.mean([one.rows[1].log_likelihood for one in each])
    assert both.rows[1].log_likelihood == pytest.approx(mean, rel=1e-12)
    assert len(both.test_cells) == 2


def test_a_cell_tested_twice_counts_once() -> None:
    values, keys = np.random.default_rng(0).normal(size=4000), np.arange(4000)
    once = average([values], [keys])
    twice = average([values, values], [keys, keys])
    fresh = average([values, values[::-1]], [keys, keys + 4000])
    assert twice.se == pytest.approx(once.se, rel=1e-3)
    assert fresh.se == pytest.approx(once.se / np.sqrt(2), rel=1e-3)


def test_se_is_not_below_the_spread_of_the_seeds() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    apart = average([values, values + 10.0], [np.arange(1000), np.arange(1000, 2000)])
    assert apart.se == pytest.approx(5.0, rel=1e-6)


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
        two_stage=False,
    )
    assert len(result.rows) == 1
    assert result.setting.cold >= np.sum(test.row_index >= 100)
    assert np.isfinite(result.rows[0].log_likelihood)


def test_poisson_has_no_two_stage() -> None:
    cells, _ = nmar.simulate((40, 30), nmar.Factorization(2, family="poisson"), "ignorable", 0.4, seed=0)
    data = nmar.Factorization(2, family="poisson")
    result = nmar.compare(cells, data, ["exponential"], factors=3, max_iter=3, n_jobs=1)
    assert keys(result) == [("ignorable", False), ("exponential", False), ("exponential", True)]


def test_labels_keep_settings_apart(linked: nmar.Cells) -> None:
    linkages = [nmar.Linear(), nmar.Linear(0.3), nmar.Free(mean="shift")]
    result = nmar.compare(
        linked,
        nmar.Factorization(2),
        linkages,
        factors=3,
        max_iter=1,
        control=False,
        two_stage=False,
        n_jobs=1,
    )
    assert [row.linkage for row in result.rows] == ["ignorable", "linear", "linear(c=0.3)", "free+shift"]


def test_outputs(comparison: Comparison) -> None:
    frame = comparison.frame()
    assert list(frame["linkage"]) == [row.linkage for row in comparison.rows]
    text = comparison.text()
    assert "free (control)" in text and "★" in text and "vs control" in text
    assert comparison.best().log_likelihood == max(row.log_likelihood for row in comparison.rows)
    assert comparison.verdict() in str(comparison)


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
    ],
)
def test_errors_name_the_argument(linked: nmar.Cells, arguments: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        nmar.compare(linked, **arguments)


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="cells is None"):
        nmar.compare()


# --- what is said ------------------------------------------------------------------------------------------


def made_up(comparison: Comparison, gains: dict[Key, float], noise: float = 0.05) -> Comparison:
    """The same comparison with scores that differ from the ignorable ones by known amounts."""
    rng = np.random.default_rng(0)
    base = rng.normal(-1.3, 1.0, 4000)
    entries = {}
    for key, (entry, *_) in comparison.entries.items():
        found = base + gains.get(key, 0.0) + (noise * rng.normal(size=4000) if key in gains else 0.0)
        entries[key] = [Entry(entry.fitted, Scores(found, found, np.ones(4000)), 1.0)]
    cells = nmar.Cells.from_arrays(np.arange(4000) // 80, np.arange(4000) % 80, base)
    return replace(comparison, entries=entries, test_cells=(cells,))


@pytest.mark.parametrize(
    ("coupled", "control", "begins"),
    [
        (0.05, 0.0, "Modelling the missingness helps"),
        (0.05, 0.05, "Only a heavier tail helps"),
        (0.0, 0.05, "Only a heavier tail helps"),
        (0.0, 0.0, "No evidence"),
        (-0.05, -0.05, "Modelling the missingness hurts"),
        (0.0, -0.05, "No net gain"),
    ],
)
def test_verdict(comparison: Comparison, coupled: float, control: float, begins: str) -> None:
    gains = {Key("factorization:2", name, c): control if c else coupled for name in ("linear", "free") for c in (0, 1)}
    assert made_up(comparison, gains).verdict().startswith(begins)


def test_verdict_does_not_hide_a_better_tail(comparison: Comparison) -> None:
    free, linear = (Key("factorization:2", name, False) for name in ("free", "linear"))
    gains = {linear: 0.02, linear._replace(control=True): 0.0, free: 0.0, free._replace(control=True): 0.06}
    assert made_up(comparison, gains).verdict().startswith("Mixed")


def test_verdict_says_when_the_effect_is_small(comparison: Comparison) -> None:
    gains = {Key("factorization:2", "free", False): 0.003, Key("factorization:2", "linear", False): 0.0}
    text = made_up(comparison, gains, noise=0.01).verdict()
    assert "helps" in text and "small" in text and "two-stage" in text


def test_verdict_without_control_does_not_claim(comparison: Comparison) -> None:
    gains = {Key("factorization:2", "free", False): 0.05}
    found = made_up(comparison, gains)
    kept = {key: value for key, value in found.entries.items() if not key.control}
    assert "cannot tell" in replace(found, entries=kept).verdict()


def test_score_of_extended_posterior_is_finite(comparison: Comparison) -> None:
    posterior = comparison.entries[Key("factorization:2", "free", False)][0].fitted.posterior
    new = nmar.Cells.from_arrays([500, 0], [1, 900], [0.5, -0.5])
    assert np.isfinite(score(posterior, new).predictive).all()
