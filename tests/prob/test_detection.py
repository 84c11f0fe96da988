"""Cells that are seen or not by their value (prob/detection.py): quadrature, enumeration, central differences."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import nbinom, poisson

from nmar.kernels.choose import choose
from nmar.prob.detection import log_missing, missing, seen

POINTS = [(eta, s) for eta in (-4.0, -1.0, 0.5, 2.0) for s in (0.0, -0.3, 0.5, 1.0, 2.0)]
OVERS = (0.0, 1e-5, 0.4, 1.0, 2.5)  # Poisson, a power series, between, logistic, beyond


def log_away(rate, over):
    """log P(missing) of a rate."""
    return -np.log1p(over * rate) / over if over else -rate


def by_quadrature(eta, s, over, of=lambda x, rate: 1.0):
    """∫ of(x, L) N(x; 0, 1) P(missing | L) dx."""

    def at(x):
        rate = np.exp(eta + s * x)
        return of(x, rate) * np.exp(-0.5 * x * x + log_away(rate, over)) / np.sqrt(2.0 * np.pi)

    return quad(at, -12.0, 12.0, epsabs=1e-14, epsrel=1e-12, limit=400, points=[-4.0, 0.0, 4.0])[0]


def one(eta, s, over=0.0, nodes=12):
    return [float(part[0]) for part in missing(np.array([eta]), np.array([s]), over, nodes)]


@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize(("eta", "s"), POINTS)
def test_missing_cells_equal_quadrature(eta, s, over):
    total = by_quadrature(eta, s, over)

    def mean(of):
        return by_quadrature(eta, s, over, of) / total

    def fall(r):
        return r / (1.0 + over * r)

    def bend(r):
        return r / (1.0 + over * r) ** 2

    step = 1e-5
    rate, rate_x = mean(lambda x, r: fall(r)), mean(lambda x, r: fall(r) * x)
    exact = [
        np.log(total),
        mean(lambda x, r: x),
        mean(lambda x, r: x * x),
        rate,
        mean(lambda x, r: bend(r)) - (mean(lambda x, r: fall(r) ** 2) - rate**2),
        rate_x,
        mean(lambda x, r: bend(r) * x) - (mean(lambda x, r: fall(r) ** 2 * x) - rate * rate_x),
        mean(lambda x, r: bend(r) * x * x) - (mean(lambda x, r: (fall(r) * x) ** 2) - rate_x**2),
    ]
    close = 1e-8 if abs(s) <= 1.0 else 1e-5  # moments of L², which grows fast, converge slowly
    np.testing.assert_allclose(one(eta, s, over, 100)[:8], exact, rtol=close, atol=close)
    # twelve nodes, as fits have them
    assert one(eta, s, over)[0] == pytest.approx(np.log(total), abs=1e-5 if abs(s) <= 1.0 else 1e-3)
    if over >= 2.0 * step:
        ends = [np.log(by_quadrature(eta, s, over + sign * step)) for sign in (1, -1)]
        assert one(eta, s, over, 100)[8] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("over", OVERS)
def test_the_compiled_moments_are_those_of_the_reference(over):
    eta, s = (np.ravel(part) for part in np.meshgrid(np.linspace(-20.0, 8.0, 57), np.linspace(-2.5, 2.5, 21)))
    compiled, reference = (choose(name).moments_of_missing(eta, s, over) for name in ("numba", "reference"))
    np.testing.assert_allclose(compiled, reference, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("eta", [-30.0, -3.0, 0.0, 2.0])
def test_probabilities_equal_enumeration_over_counts(eta):
    counts = poisson.pmf(np.arange(200), np.exp(eta))
    assert float(seen(np.array([eta])).log_probability[0]) == pytest.approx(np.log(counts[1:].sum()), abs=1e-10)
    assert one(eta, 0.0)[0] == pytest.approx(np.log(counts[0]), abs=1e-12)
    for over in OVERS[2:] if eta > -10.0 else ():  # beyond, the sum over counts is not that precise
        counts = nbinom.pmf(np.arange(5000), 1.0 / over, 1.0 / (1.0 + over * np.exp(eta)))
        assert float(seen(np.array([eta]), over).log_probability[0]) == pytest.approx(
            np.log(counts[1:].sum()), abs=1e-9
        )
        assert one(eta, 0.0, over)[0] == pytest.approx(np.log(counts[0]), abs=1e-12)
    logistic = seen(np.array([eta]), 1.0).log_probability[0]
    assert float(logistic) == pytest.approx(-np.log1p(np.exp(-eta)), abs=1e-12)


@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize(("eta", "s"), [point for point in POINTS if point[1]])
def test_derivatives_of_missing_cells_equal_central_differences(eta, s, over):
    step, nodes = 1e-4, 100
    found = missing(np.array([eta]), np.array([s]), over, nodes)
    up, down = one(eta + step, s, over, nodes), one(eta - step, s, over, nodes)
    more, less = one(eta, s + step, over, nodes), one(eta, s - step, over, nodes)
    assert float(found.rate[0]) == pytest.approx(-(up[0] - down[0]) / (2 * step), rel=1e-5)
    assert float(found.rate_x[0]) == pytest.approx(-(more[0] - less[0]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information[0]) == pytest.approx((up[3] - down[3]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information_x[0]) == pytest.approx((up[5] - down[5]) / (2 * step), rel=1e-5, abs=1e-7)
    assert float(found.information_xx[0]) == pytest.approx((more[5] - less[5]) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize("eta", [-14.0, -9.0, -2.0, 0.0, 1.5, 3.0])
def test_derivatives_of_seen_cells_equal_central_differences(eta, over):
    step = 1e-4
    up, here, down = (seen(np.array([eta + k * step]), over) for k in (1, 0, -1))
    slope = float(up.log_probability[0] - down.log_probability[0]) / (2 * step)
    assert float(here.score[0]) == pytest.approx(slope, rel=1e-6)
    assert float(here.information[0]) == pytest.approx(-float(up.score[0] - down.score[0]) / (2 * step), rel=1e-4)
    if over >= 2e-4:
        more, less = (seen(np.array([eta]), over + sign * step).log_probability[0] for sign in (1, -1))
        assert float(here.over[0]) == pytest.approx(float(more - less) / (2 * step), rel=1e-4)


def test_the_power_series_meets_the_logarithm():
    rate = np.array([0.1, 3.0, 40.0])
    np.testing.assert_allclose(log_missing(rate, 1e-3 / rate[2]), -np.log1p(1e-3 / 40 * rate) / (1e-3 / 40), rtol=1e-9)
