"""Units of values: what they are, and that they come along when the values are moved and stretched."""

import numpy as np
import pytest

from nmar.prob import units
from nmar.prob.units import Units

NORMAL = np.random.default_rng(0).normal(3.0, 2.0, 20_000)


def test_there_and_back():
    found = Units(5.0, 2.0)
    np.testing.assert_allclose(found.to_user(found.to_model(NORMAL)), NORMAL, rtol=1e-15, atol=1e-15)
    copy = NORMAL.copy()
    assert found.to_model(copy, out=copy) is copy
    np.testing.assert_array_equal(copy, found.to_model(NORMAL))
    assert found.log_jacobian(3) == pytest.approx(-3 * np.log(2.0))


def test_of_a_normal_they_are_mean_and_standard_deviation():
    found = Units.of_real(NORMAL)
    assert found.center == pytest.approx(NORMAL.mean(), rel=1e-12)
    assert found.scale == pytest.approx(NORMAL.std(), rel=0.02)
    assert Units.of_real(NORMAL, center=0.0) == Units(0.0, found.scale)


@pytest.mark.parametrize(("a", "b"), [(1e-3, 0.0), (1e3, 5.0), (1.0, 1e6), (1e-150, 0.0), (1e150, 0.0)])
def test_they_come_along(a, b):
    found, moved = Units.of_real(NORMAL), Units.of_real(a * NORMAL + b)
    assert moved.center == pytest.approx(a * found.center + b, rel=1e-14)
    assert moved.scale == pytest.approx(a * found.scale, rel=1e-9)


def test_outliers_change_them_little():
    found, outlying = Units.of_real(NORMAL), Units.of_real(np.concatenate([NORMAL, [1e30, -1e20, 1e15]]))
    assert outlying.scale == pytest.approx(found.scale, rel=1e-3)
    assert outlying.center == pytest.approx(found.center, abs=0.02 * found.scale)


def test_values_without_spread():
    mostly = np.array([1.0] * 95 + [3.0] * 5)
    assert Units.of_real(mostly) == Units(pytest.approx(1.1), pytest.approx(mostly.std(), rel=0.1))
    assert Units.of_real(np.full(7, 0.1)) == Units(0.1, 0.1)
    assert Units.of_real(np.full(7, -4.0)) == Units(-4.0, 4.0)
    assert Units.of_real(np.zeros(7)) == Units(0.0, 1.0)


def test_positive_values_have_their_median():
    values = np.exp(NORMAL)
    assert Units.of_positive(values) == Units(0.0, pytest.approx(np.median(values)))


def test_long_arrays_are_sampled_out_of_step_with_their_lines(monkeypatch):
    """Lines of 50 cells with one scale per place: a regular stride of 50 would see a single place."""
    monkeypatch.setattr(units, "SAMPLE", 400)
    values = (NORMAL.reshape(400, 50) * np.linspace(0.1, 10.0, 50)).ravel()
    sampled, (low, high) = Units.of_real(values), np.quantile(values, (0.1, 0.9))
    assert sampled.scale == pytest.approx((high - low) / units.WIDTH, rel=0.2)
