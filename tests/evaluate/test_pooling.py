"""Rubin's rules against their formulas, worked out by hand."""

import numpy as np
import pandas
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


# chl ~ bmi + hyp in five completed tables, mice(nhanes, m = 5, maxit = 5, seed = 123): coefficients and vcov of lm.
NAMES = ["(Intercept)", "bmi", "hyp"]
COEFFICIENTS = [
    [130.527654089, 0.958848657736, 34.5063251755],
    [80.6932086479, 3.02263145059, 25.0919447542],
    [67.7808811993, 3.16240459756, 30.8880439079],
    [32.0465347465, 4.63449223081, 23.8709881767],
    [97.0989404413, 2.44998807857, 31.5925652716],
]
VCOV = [  # variances in the order of the names, then covariances (1, 2), (1, 3), (2, 3)
    [3515.48672499, 3.59752868216, 350.971742505, -102.415961273, -512.777222011, 2.82121986127],
    [2454.78722743, 2.77949475324, 326.294895264, -73.2952766429, -381.598224419, -0.375231791687],
    [4459.75628678, 4.99858136407, 414.582338336, -137.860874021, -610.346778879, 4.24879415946],
    [2816.95434217, 3.2949180278, 260.363899554, -87.7755702549, -309.630507611, -0.876029793106],
    [2530.81928732, 2.95407779547, 365.479208208, -76.6899696261, -386.183776795, -1.42428750853],
]


def as_mice_had_them():
    """Estimates as named Series and covariance matrices."""
    matrices = []
    for a, b, c, ab, ac, bc in VCOV:
        matrices.append(np.array([[a, ab, ac], [ab, b, bc], [ac, bc, c]]))
    return [pandas.Series(row, NAMES) for row in COEFFICIENTS], matrices


def test_golden_numbers_of_mice():
    """summary(pool(fit), conf.int = TRUE) and pool(fit)$pooled of mice 3.15.0, R 4.2.2; 22 degrees of freedom."""
    found = nmar.pool(*as_mice_had_them(), df=22)
    frame = found.frame()
    assert frame.index.tolist() == NAMES and found.text().count("bmi: ") == 1
    golden = {
        "estimate": [81.62944382486, 2.84567300305, 29.18997345718],
        "se": [68.84765856775, 2.37473664915, 19.18697203196],
        "df": [9.78961893861, 8.75731097171, 18.49738318138],
        "low": [-72.22073086660, -2.54913401286, -11.04280436231],
        "high": [235.47961851632, 8.24048001897, 69.42275127668],
        "fraction_missing": [0.334269891635, 0.374944802557, 0.066826440887],  # lambda
    }
    for name, wanted in golden.items():
        np.testing.assert_allclose(frame[name], wanted, rtol=1e-8)
    np.testing.assert_allclose(found.within, [3155.56077373803, 3.52492012455, 343.53841677324], rtol=1e-9)
    np.testing.assert_allclose(found.between, [1320.36609710312, 1.76204502357, 20.50123248484], rtol=1e-9)
    np.testing.assert_allclose(np.diag(found.covariance), found.total, rtol=1e-12)


@pytest.mark.parametrize(
    ("df", "second", "p"), [(None, 45.0349606482, 0.187426384764), (22, 11.1626104091, 0.220204495147)]
)
def test_golden_numbers_of_joint_tests(df, second, p):
    """D1(fit, fit0) of mice 3.15.0 against lm(chl ~ 1), and testConstraints(…, method = "D1") of mitml 0.4.4."""
    found = nmar.pool(*as_mice_had_them(), df=df).test(which=["bmi", "hyp"])
    assert found.statistic == pytest.approx(1.73819312916, rel=1e-9)
    assert found.riv == pytest.approx(0.340456156954, rel=1e-9)
    assert found.df == (2, pytest.approx(second, rel=1e-7)) and found.p_value == pytest.approx(p, rel=1e-7)


def test_a_joint_test_of_one_estimate_is_its_own():
    """D1 of one estimate is the square of its t."""
    found = nmar.pool(*as_mice_had_them())
    for place, name in enumerate(NAMES):
        one = found.test(null=1.0, which=[name])
        assert one.statistic == pytest.approx((found.estimate[place] - 1.0) ** 2 / found.total[place], rel=1e-9)
    with pytest.raises(ValueError, match=r"which names 'age'; the estimates are \['\(Intercept\)', 'bmi', 'hyp'\]"):
        found.test(which=["age"])
    with pytest.raises(ValueError, match="pool covariance matrices"):
        nmar.pool([1.0, 2.0], [1.0, 1.0]).test()
