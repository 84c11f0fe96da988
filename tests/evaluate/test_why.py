"""Mechanisms judged on held-out cells of both kinds: the cells, the scores, the decision, and what is said of it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import nmar
from nmar.cli.main import main
from nmar.evaluate.mechanisms import Chances, Judged, differences, hold_out, missing_at
from nmar.evaluate.why import decide, that_matter, with_chosen_mechanism
from nmar.fit.options import Options
from nmar.report.why import missing_by_mean, value_histograms, why_page

QUICK = {"factors": 2, "max_iter": 25, "random_state": 0}


def table(slope, shape=(100, 40), level=-1.0):
    """Values of row and column effects, seen with log odds of ``level`` plus ``slope`` times the value."""
    rng = np.random.default_rng(0)
    full = rng.normal(size=(shape[0], 1)) + rng.normal(size=(1, shape[1])) + 0.5 * rng.normal(size=shape)
    seen = rng.random(shape) < 1.0 / (1.0 + np.exp(-level - slope * full))
    return np.where(seen, full, np.nan), full, seen


def test_missing_cells_are_drawn_among_the_missing_ones():
    known = np.array([0, 1, 5, 6, 7, 11])
    rest = np.setdiff1d(np.arange(12), known)
    row, col = missing_at(known, (3, 4), len(rest), np.random.default_rng(0))
    np.testing.assert_array_equal(row * 4 + col, rest)
    draws = [missing_at(known, (3, 4), 2, np.random.default_rng(seed)) for seed in range(600)]
    times = np.bincount(np.concatenate([row * 4 + col for row, col in draws]), minlength=12)
    assert not times[known].any() and (abs(times[rest] - 200) < 60).all()


def test_cells_of_both_kinds_are_taken_out(monkeypatch):
    values, _, seen = table(1.0)
    cells = nmar.Cells.from_dense(values)
    away = nmar.Cells.from_arrays(*(place[:50] for place in np.nonzero(~seen)), np.zeros(50), cells.shape)
    held = hold_out(cells, 3, hidden=away)
    assert len(held.seen) == round(0.1 * len(cells)) and len(held.train) + len(held.seen) == len(cells)
    assert len(held.row) == round(0.1 * (np.sum(~seen) - 50)) and held.times == 1.0
    assert not cells.contains(held.row, held.col).any() and not away.contains(held.row, held.col).any()
    assert len(held.hidden(away)) == len(held.seen) + len(held.row) + 50
    monkeypatch.setattr("nmar.evaluate.mechanisms.JUDGES", 30)
    few = hold_out(cells, 3)
    assert len(few.row) == max(30, len(few.seen)) and few.times * len(few.row) == round(0.1 * np.sum(~seen))
    with pytest.raises(ValueError, match="too little to judge"):
        hold_out(nmar.Cells.from_dense(values[:10, :10]), 0)
    with pytest.raises(ValueError, match="no cell is missing"):
        hold_out(nmar.Cells.from_dense(np.ones((20, 20))), 0)


def made_up(held, seed, kind, values=0.0, pattern=0.0):
    """A mechanism that is better by so much in values and in pattern, with noise that all of them share."""
    rng, own = np.random.default_rng(0), np.random.default_rng(seed)
    scores = rng.normal(-1.0, 0.3, len(held.seen)) + values + 0.05 * own.normal(size=len(held.seen))
    seen, missing = (rng.normal(-0.7, 0.1, n) for n in (len(held.seen), len(held.row)))
    return Judged(kind, False, None, scores, Chances(seen + pattern, missing))


@pytest.mark.parametrize(
    ("taste", "value", "chosen", "tied", "refused"),
    [
        ((0.0, 0.0), (0.0, 0.0), "none", None, False),
        ((0.2, 0.0), (0.0, 0.0), "taste", None, False),
        ((0.0, 0.0), (0.1, 0.1), "value", None, False),
        ((0.2, 0.0), (0.1, 0.1), "taste", "value", False),  # the same in the whole; values alone are no loss over none
        ((0.0, 0.0), (-0.2, 0.5), "none", None, True),
        ((0.2, 0.0), (-0.2, 0.9), "taste", None, True),
    ],
)
def test_the_decision(taste, value, chosen, tied, refused):
    values, _, _ = table(1.0)
    held = hold_out(nmar.Cells.from_dense(values), 0)
    if tied:
        value = (taste[0] - 0.003, 0.003)
    made = decide(
        [made_up(held, 1, "none"), made_up(held, 2, "taste", *taste), made_up(held, 3, "value", *value)], held
    )
    assert (made.chosen.kind, made.tied and made.tied.kind, made.refused is not None) == (chosen, tied, refused)


def test_a_slight_slope_is_none(monkeypatch):
    slopes = {"a": 0.09, "b": -0.3}
    monkeypatch.setattr("nmar.evaluate.why.learned_mechanism", lambda one: SimpleNamespace(value=slopes[one]))
    made = [Judged(kind, False, one, None, None) for kind, one in (("none", "a"), ("value", "a"), ("value", "b"))]
    assert [one.posterior for one in that_matter(made)] == ["a", "b"]


def test_parts_add_up_and_missing_cells_stand_for_others(monkeypatch):
    monkeypatch.setattr("nmar.evaluate.mechanisms.JUDGES", 30)
    values, _, _ = table(1.0)
    held = hold_out(nmar.Cells.from_dense(values), 0)
    one, other = made_up(held, 1, "value", 0.1, 0.2), made_up(held, 2, "none")
    parts, n = one.parts(held), len(held.seen)
    np.testing.assert_allclose(parts["whole"], parts["value"] + parts["pattern"])
    total = one.values.sum() + one.chances.seen.sum() + held.times * one.chances.missing.sum()
    assert parts["whole"].mean() == pytest.approx(total / n)
    gained = differences(one, other, held)
    assert gained["pattern"].mean == pytest.approx(0.2)
    assert gained["value"].mean == pytest.approx((one.values - other.values).mean())
    assert gained["value"].se >= (one.values - other.values).std(ddof=1) / np.sqrt(n) * 0.99


@pytest.fixture(scope="module")
def found():
    return nmar.why_missing(table(3.0)[0], nmar.Effects("both"), name="a <table>", **QUICK)


def test_values_that_decide_are_told(found):
    _, full, seen = table(3.0)
    assert found.kind == "value" and found.verdict.startswith("Values decide whether they are seen: low values")
    frame = found.frame().set_index("mechanism")
    assert list(frame.index) == ["none", "none + pattern", "taste", "taste + pattern", "value", "value + pattern"]
    away = full[~seen].mean()
    assert abs(frame.loc["value", "mean_missing"] - away) < 0.3 * abs(frame.loc["none", "mean_missing"] - away)
    np.testing.assert_allclose(frame["whole"], frame["value"] + frame["pattern"])
    assert (frame.loc["none", ["whole_gain", "whole_gain_se"]] == 0.0).all()
    assert found.verdict in found.text() and "value + pattern" in found.text()


def test_the_page_shows_curve_share_and_histograms(found, tmp_path):
    text = why_page(found)
    assert text.count("<svg") == 3 and "a &lt;table&gt;" in text and "P(observed | value)" in text
    found.to_html(tmp_path / "why.html")
    assert (tmp_path / "why.html").read_text(encoding="utf-8") == text
    assert [one.get_label() for one in missing_by_mean(found.curves).lines] == [
        "missing",
        "expected by 'none'",
        "expected by 'value'",
    ]
    assert value_histograms(found.curves).get_xlabel() == "value"
    points, line = (one.get_ydata() for one in missing_by_mean(found.curves).lines[:2])
    share = found.curves.missing.mean()
    assert points.mean() == pytest.approx(share, abs=0.05) and line.mean() == pytest.approx(share, abs=0.05)


def test_auto_takes_value_only_on_evidence():
    by_value = nmar.CCPF(nmar.Effects("both"), mechanism="auto", **QUICK).fit(table(3.0)[0])
    assert by_value.mechanism_.kind == "value" and by_value.choices_[0].value == "value"
    assert {choice.value for choice in by_value.choices_} == {"none", "taste", "value"}
    assert all(choice.behind >= 0.0 for choice in by_value.choices_)
    at_random = nmar.CCPF(nmar.Effects("both"), mechanism="auto", **QUICK).fit(table(0.0)[0])
    assert at_random.mechanism_.kind == "none"


def test_auto_looks_at_no_held_out_cell():
    values, full, seen = table(3.0)
    hidden = nmar.Cells.from_arrays(*np.nonzero(~seen), full[~seen], full.shape)
    part = hidden.split(test=0.5, valid=0.0, seed=0)[2]
    model = nmar.CCPF(nmar.Effects("both"), mechanism="auto", factors=2, max_iter=3, random_state=0)
    model.fit(values, hidden=part)
    assert model.hidden_cells_ == (part,) and model.choices_


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"solver": "minibatch"}, "needs solver='batch'"),
        ({"control": "tail"}, "name the mechanism"),
        ({"mechanism": "maybe"}, "'auto'"),
    ],
)
def test_what_auto_cannot_judge_is_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        nmar.CCPF(nmar.Effects("both"), **{"mechanism": "auto", **settings}).fit(table(1.0)[0])


def test_auto_of_counts_has_no_mechanism():
    counts = nmar.Cells.from_dense(np.where(np.isnan(table(1.0)[0]), np.nan, 1.0))
    options = Options(data=nmar.Constant("poisson"), mechanism="auto")
    assert with_chosen_mechanism(counts, options) == (replace(options, mechanism="none"), ())
    with pytest.raises(ValueError, match="takes no mechanism"):
        nmar.why_missing(counts, nmar.Constant("poisson"))


def test_the_command_line(tmp_path, capsys):
    values, _, seen = table(2.0, (40, 20))
    row, col = np.nonzero(seen)
    lines = "\n".join(f"r{i},c{j},{values[i, j]:.6f}" for i, j in zip(row, col, strict=True))
    (tmp_path / "cells.csv").write_text(f"row,col,value\n{lines}\n")
    asked = ["why", str(tmp_path / "cells.csv"), "--data", "effects:both", "--factors", "2", "--max-iter", "3"]
    assert main([*asked, "--json", "-o", str(tmp_path / "w.html"), "--csv", str(tmp_path / "w.csv")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] in ("none", "taste", "value") and len(told["rows"]) == 6
    assert "</html>" in (tmp_path / "w.html").read_text() and (tmp_path / "w.csv").read_text().startswith("mechanism,")
