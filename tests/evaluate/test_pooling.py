"""Rubin's rules against their formulas, worked out by hand."""

import numpy as np
import pytest
from scipy.stats import t as student

import nmar


def test_the_formulas():
    found = nmar.pool([1.0, 2.0, 3.0, 6.0], [0.5, 1.0, 1.5, 1.0])
    assert found.estimate == 3.0 and found.within == 1.0
    between = (4.0 + 1.0 + 0.0 + 9.0) / 3.0
    total = 1.0 + 1.25 * between
    share = 1.25 * between / total
    assert found.between == pytest.approx(between) and found.total == pytest.approx(total)
    assert found.fraction_missing == pytest.approx(share) and found.df == pytest.approx(3.0 / share**2)
    half = student.ppf(0.975, 3.0 / share**2) * np.sqrt(total)
    assert (found.low, found.high) == pytest.approx((3.0 - half, 3.0 + half))
    assert found.se == pytest.approx(np.sqrt(total)) and found.n == 4


def test_degrees_of_freedom_never_exceed_those_of_the_complete_data():
    """Barnard and Rubin: 1/ν = 1/ν_old + 1/ν_obs, ν_obs = (ν + 1)/(ν + 3) ν (1 − λ)."""
    rubin, small = (nmar.pool([1.0, 1.1, 0.9], [1.0, 1.0, 1.0], df=df) for df in (None, 9.0))
    assert rubin.df > 100.0
    seen = 10.0 / 12.0 * 9.0 * (1.0 - small.fraction_missing)
    assert small.df == pytest.approx(1.0 / (1.0 / rubin.df + 1.0 / seen))
    same = nmar.pool([1.0, 1.0], [1.0, 1.0], df=9.0)
    assert same.df == pytest.approx(10.0 / 12.0 * 9.0) and same.between == 0.0


def test_infinite_degrees_of_freedom_are_normal_theory():
    given = [1.0, 1.1, 0.9], [1.0, 1.0, 1.0]
    plain, normal, many = (nmar.pool(*given, df=df) for df in (None, np.inf, 1e12))
    assert (normal.low, normal.high, normal.df) == (plain.low, plain.high, plain.df)
    assert many.high == pytest.approx(normal.high)
    with pytest.raises(ValueError, match="df=nan"):
        nmar.pool(*given, df=np.nan)


def test_arrays_are_pooled_one_by_one():
    q, u = np.array([[1.0, 5.0], [3.0, 5.5]]), np.array([[1.0, 2.0], [1.0, 2.0]])
    both = nmar.pool(q, u, df=20.0)
    for k in (0, 1):
        one = nmar.pool(q[:, k], u[:, k], df=20.0)
        assert (both.estimate[k], both.total[k], both.df[k]) == (one.estimate, one.total, one.df)
    assert len(both.text().splitlines()) == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([1.0], [1.0]), "at least 2"),
        (([1.0, 2.0], [1.0]), "one variance"),
        (([1.0, 2.0], [1.0, -1.0]), "-1.0"),
        (([1.0, 2.0], [1.0, 1.0], -3.0), "df=-3.0"),
        (([1.0, 2.0], [1.0, 1.0], None, 95), "level=95"),
    ],
)
def test_errors_name_what_is_wrong(given, says):
    with pytest.raises(ValueError, match=says):
        nmar.pool(*given)


def test_an_estimate_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="estimates holds nan"):
        nmar.pool([1.0, np.nan], [1.0, 1.0])
    with pytest.raises(ValueError, match="variances holds nan"):
        nmar.pool([1.0, 2.0], [1.0, np.nan])
