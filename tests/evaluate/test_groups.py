"""Tests of two groups: against Student's by hand, Rubin's rules, and simulated variances; and the whole workflow."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control, ttest_ind

import nmar
from nmar.evaluate.groups import shared_variance, squeezed

GROUPS = np.repeat(["a", "b"], [4, 6])


def tables(n, rows=30, seed=0):
    """Completed tables that share most of their values."""
    rng = np.random.default_rng(seed)
    one = rng.normal(size=(rows, len(GROUPS))) + (np.arange(rows) < 5)[:, None] * 3.0 * (GROUPS == "b")
    return one + 0.3 * rng.normal(size=(n, rows, len(GROUPS)))


def test_one_table_without_moderation_is_students_test():
    table = tables(1)[0]
    found = nmar.group_test(table, GROUPS, moderated=False, level=0.9)
    exact = ttest_ind(table[:, GROUPS == "b"], table[:, GROUPS == "a"], axis=1)
    np.testing.assert_allclose(found.p, exact.pvalue, rtol=1e-10)
    np.testing.assert_allclose(found.difference / found.se, exact.statistic, rtol=1e-10)
    ends = exact.confidence_interval(0.9)
    np.testing.assert_allclose([found.low, found.high], [ends.low, ends.high], rtol=1e-10)
    np.testing.assert_array_equal(found.q, false_discovery_control(found.p))
    assert found.groups == ("a", "b") and (found.df == 8.0).all() and found.n == 1


def test_several_tables_are_pooled_by_rubins_rules():
    many = tables(7)
    found = nmar.group_test(many, GROUPS, moderated=False)
    a, b = many[..., GROUPS == "a"], many[..., GROUPS == "b"]
    squares = (3 * a.var(axis=2, ddof=1) + 5 * b.var(axis=2, ddof=1)) / 8
    within = squares.mean(axis=0) * (1 / 4 + 1 / 6)
    pooled = nmar.pool(b.mean(axis=2) - a.mean(axis=2), np.broadcast_to(within, (7, 30)), df=8.0)
    np.testing.assert_allclose(found.se**2, pooled.total)
    np.testing.assert_allclose(found.df, pooled.df)
    np.testing.assert_allclose([found.low, found.high], [pooled.low, pooled.high])
    assert (found.fraction_missing > 0.0).all()


def test_the_variance_that_rows_share_is_recovered():
    """s² of 4 degrees of freedom whose variances are 2 · 9/χ²_9."""
    rng = np.random.default_rng(1)
    truth = 2.0 * 9.0 / rng.chisquare(9.0, 200_000)
    drawn = truth * rng.chisquare(4.0, len(truth)) / 4.0
    freedom, value = shared_variance(drawn, 4.0)
    assert freedom == pytest.approx(9.0, rel=0.05) and value == pytest.approx(2.0, rel=0.02)
    better, df = squeezed(drawn, 4.0, (freedom, value))
    assert df == freedom + 4.0
    assert np.mean(np.log(better / truth) ** 2) < 0.6 * np.mean(np.log(drawn / truth) ** 2)


def test_equal_variances_are_one_variance():
    drawn = np.random.default_rng(2).chisquare(4.0, 500) / 4.0
    drawn = np.sort(drawn)[150:350]  # which spread less than a χ² of one variance would
    freedom, value = shared_variance(drawn, 4.0)
    assert freedom == np.inf
    better, df = squeezed(drawn, 4.0, (freedom, value))
    assert df == np.inf and (better == value).all()
    assert shared_variance(drawn[:2], 4.0) == (0.0, 1.0)
    assert squeezed(drawn, 4.0, (0.0, 1.0))[0] == pytest.approx(drawn)


def test_shares_of_false_alarms_are_the_level():
    rng = np.random.default_rng(3)
    sd = np.sqrt(8.0 / rng.chisquare(8.0, (20_000, 1)))
    found = nmar.group_test(sd * rng.normal(size=(20_000, 10)), GROUPS)
    assert np.mean(found.p < 0.05) == pytest.approx(0.05, abs=0.006)


def test_columns_are_tested_as_rows_are():
    many = tables(3)
    rows = nmar.group_test(many, GROUPS)
    cols = nmar.group_test(many.transpose(0, 2, 1), GROUPS, "cols")
    np.testing.assert_array_equal(rows.p, cols.p)


def test_ids_are_those_of_the_table():
    frame = pd.DataFrame(tables(1)[0], index=[f"p{k}" for k in range(30)])
    found = nmar.group_test(frame, GROUPS)
    assert list(found.ids[:2]) == ["p0", "p1"]
    assert list(found.frame().columns[:3]) == ["id", "difference", "se"] and len(found.frame()) == 30
    text = found.text(rows=3)
    assert len(text.splitlines()) == 4 and "rows differ between a and b" in text and "p" in str(found)
    assert repr(found).startswith("GroupTest(30 rows")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"groups": GROUPS[:5]}, "groups has shape"),
        ({"groups": ["a"] * 10}, "1 different values"),
        ({"completed": np.full((30, 10), np.nan)}, "missing values"),
        ({"completed": np.zeros(10)}, "completed has shape"),
        ({"ids": [1, 2]}, "ids holds 2"),
        ({"axis": "columns"}, "axis"),
    ],
)
def test_what_cannot_be_tested_is_refused(change, told):
    with pytest.raises(ValueError, match=told):
        nmar.group_test(**{"completed": tables(2), "groups": GROUPS, **change})
    with pytest.raises(ValueError, match="at least 3"):
        nmar.group_test(np.zeros((5, 2)), [0, 1])


def limited(seed=0, proteins=150):
    """Two groups of five samples below a detection limit: what is seen, all values, and which proteins change."""
    rng = np.random.default_rng(seed)
    change = (np.arange(proteins) < 30) * 1.5
    full = rng.normal(25.0, 2.0, (proteins, 1)) + 0.4 * rng.normal(size=(proteins, 10))
    full[:, 5:] -= change[:, None]
    return np.where(rng.random(full.shape) < 1.0 / (1.0 + np.exp(1.7 * (24.0 - full))), full, np.nan), full, change


def test_groups_below_a_detection_limit():
    seen, _, change = limited()
    groups = np.repeat([0, 1], 5)
    model = nmar.CCPF(nmar.Factorization(1), mechanism="value", factors=2, max_iter=60)
    found = nmar.compare_groups(seen, groups, model, n=10)
    lowest = nmar.group_test(np.where(np.isnan(seen), np.nanmin(seen, axis=0), seen), groups)
    there = (~np.isnan(seen)).sum(axis=1) >= 3
    powers = [np.mean((one.q < 0.05)[there & (change > 0.0)]) for one in (found, lowest)]
    assert powers[0] > powers[1] + 0.1
    false = np.sum((found.q < 0.05) & (change == 0.0)) / np.sum(found.q < 0.05)
    assert false <= 0.1
    away = np.isnan(seen).mean(axis=1)
    assert found.fraction_missing[away > 0.3].mean() > 3.0 * found.fraction_missing[away == 0.0].mean()
    again = nmar.compare_groups(seen, groups, model, n=10)
    np.testing.assert_array_equal(found.p, again.p)


def test_a_group_without_missing_cells_needs_no_model():
    _, full, _ = limited(1, 40)
    groups = np.repeat(["x", "y"], 5)
    found = nmar.compare_groups(full, groups, n=3)
    np.testing.assert_allclose(found.difference, nmar.group_test(full, groups).difference, rtol=1e-12)
    gap = pd.DataFrame(full, index=[f"p{k}" for k in range(40)])
    gap.iloc[:6, 0] = np.nan
    model = nmar.CCPF(nmar.Effects("both"), factors=2, max_iter=5)
    turned = nmar.compare_groups(gap.T, groups, model, axis="cols", n=3)
    assert list(turned.ids) == list(gap.index)
    np.testing.assert_array_equal(turned.p, nmar.compare_groups(gap, groups, model, n=3).p)


def test_the_volcano_marks_what_differs():
    pytest.importorskip("matplotlib")
    found = nmar.group_test(tables(1)[0], GROUPS)
    ax = nmar.plot.volcano(found)
    rest, sure = ax.lines
    assert len(sure.get_xdata()) == np.sum(found.q < 0.05) > 0
    assert len(rest.get_xdata()) + len(sure.get_xdata()) == 30
    assert sure.get_ydata().min() > -np.log10(0.05)
    with pytest.raises(TypeError, match="group_test"):
        nmar.plot.volcano(found.frame())
