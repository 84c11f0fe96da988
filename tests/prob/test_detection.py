"""Cells that are seen or not by their value (prob/detection.py): quadrature, enumeration, central differences."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import poisson

from nmar.prob.detection import missing, seen

POINTS = [(eta, s) for eta in (-4.0, -1.0, 0.5, 2.0) for s in (0.0, -0.3, 0.5, 1.0, 2.0)]


def by_quadrature(eta, s, of=lambda x, rate: 1.0):
    """∫ of(x, L) N(x; 0, 1) exp(−L) dx."""

    def at(x):
        rate = np.exp(eta + s * x)
        return of(x, rate) * np.exp(-0.5 * x * x - rate) / np.sqrt(2.0 * np.pi)

    return quad(at, -12.0, 12.0, epsabs=1e-14, epsrel=1e-12, limit=400, points=[-4.0, 0.0, 4.0])[0]


def one(eta, s, nodes=12):
    return [float(part[0]) for part in missing(np.array([eta]), np.array([s]), nodes)]


@pytest.mark.parametrize(("eta", "s"), POINTS)
def test_missing_cells_equal_quadrature(eta, s):
    total = by_quadrature(eta, s)

    def mean(of):
        return by_quadrature(eta, s, of) / total

    rate, rate_x = mean(lambda x, r: r), mean(lambda x, r: r * x)
    exact = [
        np.log(total),
        mean(lambda x, r: x),
        mean(lambda x, r: x * x),
        rate,
        rate - (mean(lambda x, r: r * r) - rate**2),
        rate_x,
        rate_x - (mean(lambda x, r: r * r * x) - rate * rate_x),
        mean(lambda x, r: r * x * x) - (mean(lambda x, r: (r * x) ** 2) - rate_x**2),
    ]
    close = 1e-8 if abs(s) <= 1.0 else 1e-5  # moments of L², which grows fast, converge slowly
    np.testing.assert_allclose(one(eta, s, 100), exact, rtol=close, atol=close)
    # twelve nodes, as fits have them
    assert one(eta, s)[0] == pytest.approx(np.log(total), abs=1e-5 if abs(s) <= 1.0 else 1e-3)


@pytest.mark.parametrize("eta", [-30.0, -3.0, 0.0, 2.0])
def test_probabilities_equal_enumeration_over_counts(eta):
    counts = poisson.pmf(np.arange(200), np.exp(eta))
    assert float(seen(np.array([eta])).log_probability[0]) == pytest.approx(np.log(counts[1:].sum()), abs=1e-10)
    assert one(eta, 0.0)[0] == pytest.approx(np.log(counts[0]), abs=1e-12)


@pytest.mark.parametrize(("eta", "s"), [point for point in POINTS if point[1]])
def test_derivatives_of_missing_cells_equal_central_differences(eta, s):
    step, nodes = 1e-4, 100
    found = missing(np.array([eta]), np.array([s]), nodes)
    up, down = one(eta + step, s, nodes), one(eta - step, s, nodes)
    more, less = one(eta, s + step, nodes), one(eta, s - step, nodes)
    assert float(found.rate[0]) == pytest.approx(-(up[0] - down[0]) / (2 * step), rel=1e-5)
    assert float(found.rate_x[0]) == pytest.approx(-(more[0] - less[0]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information[0]) == pytest.approx((up[3] - down[3]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information_x[0]) == pytest.approx((up[5] - down[5]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information_xx[0]) == pytest.approx((more[5] - less[5]) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("eta", [-14.0, -9.0, -2.0, 0.0, 1.5, 3.0])
def test_derivatives_of_seen_cells_equal_central_differences(eta):
    step = 1e-4
    up, here, down = (seen(np.array([eta + k * step])) for k in (1, 0, -1))
    slope = float(up.log_probability[0] - down.log_probability[0]) / (2 * step)
    assert float(here.score[0]) == pytest.approx(slope, rel=1e-6)
    assert float(here.information[0]) == pytest.approx(-float(up.score[0] - down.score[0]) / (2 * step), rel=1e-4)
