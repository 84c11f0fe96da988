"""Every family through every check."""

import numpy as np
import pytest
from scipy import stats as laws
from scipy.special import gammaln

from nmar.prob.families import FAMILIES, NegativeBinomial, Poisson, family

CONTINUOUS = ("gaussian", "gamma", "inverse_gaussian")
CASES = [
    ("gaussian", 0.4, 1.3),
    ("gaussian", -2.0, 0.2),
    ("gamma", -0.7, 0.6),
    ("gamma", -3.0, 4.5),
    ("inverse_gaussian", -0.5, 1.7),
    ("inverse_gaussian", -2.0, 0.4),
    ("poisson", 0.3, 1.0),
    ("poisson", -1.0, 4.2),
    ("binomial", 0.8, 1.0),
    ("binomial", -0.4, 7.0),
    ("negative_binomial", -0.3, 0.7),
    ("negative_binomial", -1.5, 5.0),
]
every_case = pytest.mark.parametrize(("name", "theta", "x"), CASES)
every_family = pytest.mark.parametrize("name", list(FAMILIES))


def location_log(y, mean, second, phi1, delta, phi2, precision, log_precision):
    """E[log N(y; phi1 mu + delta, phi2 / precision)] of E[mu], E[mu^2], E and E log of the inverse variance."""
    square = (y - delta) ** 2 - 2.0 * (y - delta) * phi1 * mean + np.square(phi1) * second
    return 0.5 * (log_precision - np.log(2 * np.pi * phi2)) - 0.5 * precision / phi2 * square


def reference(name, theta, x):
    """The same law in scipy's parameters."""
    if name == "gaussian":
        return laws.norm(x * theta, np.sqrt(x))
    if name == "gamma":
        return laws.gamma(x, scale=-1 / theta)
    if name == "inverse_gaussian":
        return laws.invgauss(x / np.sqrt(-2 * theta) / x**2, scale=x**2)
    if name == "poisson":
        return laws.poisson(x * np.exp(theta))
    if name == "binomial":
        return laws.binom(int(x), 1 / (1 + np.exp(-theta)))
    return laws.nbinom(x, 1 - np.exp(theta))


def points(name):
    """Values y and weights of a rule that is exact to rounding: trapezoid in y or log y, or a sum."""
    if name == "gaussian":
        y = np.linspace(-60, 60, 40001)
        return y, np.full(y.size, y[1] - y[0])
    if name in CONTINUOUS:
        z = np.linspace(-60, 8, 40001)
        return np.exp(z), np.exp(z) * (z[1] - z[0])
    y = np.arange(0.0, 600)
    return y, np.ones(y.size)


@every_case
def test_density_normalises_with_its_moments(name, theta, x):
    law = family(name)
    y, weight = points(name)
    density = np.exp(law.log_density(y, theta, x)) * weight
    assert density.sum() == pytest.approx(1, rel=1e-10)
    mean = density @ y
    assert law.mean(theta, x) == pytest.approx(mean, rel=1e-10)
    assert law.variance(theta, x) == pytest.approx(density @ (y - mean) ** 2, rel=1e-10)


@every_case
def test_log_density_agrees_with_scipy(name, theta, x):
    law, other = family(name), reference(name, theta, x)
    y = np.array([0.3, 1.0, 2.5, 7.0]) if name in CONTINUOUS else np.arange(0.0, 9)
    expected = other.logpdf(y) if name in CONTINUOUS else other.logpmf(y)
    np.testing.assert_allclose(law.log_density(y, theta, x), expected, rtol=1e-11, atol=1e-12)


@every_case
def test_dispersions_add(name, theta, x):
    """Theorem 1: independent values with dispersions x and x' sum to one with dispersion x + x'."""
    law, other = family(name), 2.0 * x
    for total in (1.0, 3.0):
        if name == "gaussian":
            part, weight = points(name)
        elif name in CONTINUOUS:
            z = np.linspace(-80, 80, 20001)
            share = 1 / (1 + np.exp(-z[np.abs(z) < 36]))
            part, weight = total * share, total * share * (1 - share) * (z[1] - z[0])
        else:
            part = np.arange(0.0, total + 1)
            weight = np.ones(part.size)
        pair = law.log_density(part, theta, x) + law.log_density(total - part, theta, other)
        assert np.exp(pair) @ weight == pytest.approx(np.exp(law.log_density(total, theta, x + other)), rel=1e-8)


@every_case
def test_samples_have_the_moments(name, theta, x):
    law, count = family(name), 200_000
    y = law.sample(np.full(count, theta), np.full(count, x), np.random.default_rng(1))
    mean, variance, excess = (float(v) for v in reference(name, theta, x).stats(moments="mvk"))
    assert abs(y.mean() - mean) < 4.5 * np.sqrt(variance / count)
    assert abs(y.var() - variance) < 4.5 * variance * np.sqrt((excess + 2) / count)


@every_family
def test_log_base_is_what_kernels_make_of_it(name):
    """log h(y, x) is a constant and slopes of the bins times functions of the value."""
    law, x = family(name), np.array([1.0, 3.0, 4.0])
    y = np.array([0.3, 1.0, 3.0]) if name in CONTINUOUS else np.array([0.0, 1.0, 3.0])
    if law.location:
        mean, second = np.array([0.2, 1.5, -1.0]), np.array([0.3, 2.5, 1.5])
        found = np.stack(law.statistics(y, mean, second)).T @ law.slopes(x)
        exact = location_log(y[:, None], mean[:, None], second[:, None], 1.0, 0.0, x, 1.0, 0.0)
        np.testing.assert_allclose(found, exact, rtol=1e-13)
        return
    assert law.basis[0] == "cells" and law.basis[-1] == "psi"
    assert len(law.functions(y)) == len(law.basis) - 2 == len(law.slopes(x)) - 2
    np.testing.assert_array_equal(law.slopes(x)[-1], -x)
    parts = [np.outer(f, slope) for f, slope in zip(law.functions(y), law.slopes(x)[1:-1], strict=True)]
    base = law.constant(y)[:, None] + law.slopes(x)[0] + sum(parts)
    exact = 0.0 if law.needs_values else law.log_base(y[:, None], x)
    np.testing.assert_allclose(base, exact, rtol=1e-13, atol=1e-13)


@every_case
def test_expected_log_is_linear_in_its_expectations(name, theta, x):
    law, y = family(name), np.array([1.0, 2.0])
    e_theta, e_psi = theta - 0.2, law.log_partition(theta) + 0.1
    by_hand = law.log_density(y, theta, x) - 0.2 * y - 0.1 * x
    np.testing.assert_allclose(law.expected_log(y, e_theta, e_psi, x), by_hand, rtol=1e-13, atol=1e-13)


@every_family
@pytest.mark.parametrize("y", [0.0, 1.0, 3.0, 40.0, 0.02])
@pytest.mark.parametrize("size", [0.01, 0.3, 2.0])
def test_peak_is_the_maximum(name, y, size):
    law = family(name)
    if (y == 0 and name in ("gamma", "inverse_gaussian")) or (y == 0.02 and name not in CONTINUOUS):
        return
    e_psi = -size if name == "inverse_gaussian" else size
    peak = float(law.peak(y, e_psi))
    grid = np.exp(np.linspace(-25, 12, 20001))
    if name == "binomial":
        grid = grid[grid >= y]
    best = np.max(law.expected_log(y, 0.0, e_psi, grid))
    if peak == 0:
        assert y == 0
        assert best == law.expected_log(y, 0.0, e_psi, grid[0])  # falling from the smallest x on
        return
    value = law.expected_log(y, 0.0, e_psi, peak)
    assert value >= best - 1e-13 * abs(best)
    for nearby in (peak * 1.001, peak / 1.001):
        assert law.expected_log(y, 0.0, e_psi, nearby) < value


def test_peak_of_many_cells_at_once():
    rng = np.random.default_rng(0)
    for name in FAMILIES:
        law = family(name)
        y = rng.integers(1, 50, 200).astype(float)
        e_psi = rng.uniform(0.001, 8, 200) * (-1 if name == "inverse_gaussian" else 1)
        together = law.peak(y, e_psi)
        one_by_one = [float(law.peak(a, b)) for a, b in zip(y, e_psi, strict=True)]
        np.testing.assert_allclose(together, one_by_one, rtol=1e-11)


def test_gamma_peak_inverts_digamma_far_out():
    from scipy.special import digamma

    x = np.array([1e-8, 1e-3, 0.5, 1.0, 30.0, 1e6])
    np.testing.assert_allclose(family("gamma").peak(1.0, -digamma(x)), x, rtol=1e-8)


def collected(name, rng, mean_linkage=False, size=4):
    """A few cells with random q(n); returns the family, its cells and their statistics."""
    law = family(name)
    y = rng.integers(1, 6, 9).astype(float)
    first = rng.normal(size=9)
    second = first**2 + rng.uniform(0.1, 1, 9) if name == "gaussian" else rng.normal(size=9)
    q = rng.dirichlet(np.ones(size), 9)
    return law, y, first, second, q, law.collect(y, first, second, q, np.full(9, 2.0), mean_linkage)


@every_family
def test_objective_is_the_weighted_sum_over_cells(name):
    rng = np.random.default_rng(2)
    law, y, first, second, q, stats = collected(name, rng)

    def directly(x):
        if name == "gaussian":
            each = location_log(y[:, None], first[:, None], second[:, None], 1, 0, x, 1, 0)
        else:
            each = law.expected_log(y[:, None], first[:, None], second[:, None], x)
        return (q * each).sum(axis=0)

    near, far = np.array([5.0, 6.0, 8.0, 11.0]), np.array([9.0, 5.0, 30.0, 7.0])
    change = law.objective(stats, near) - law.objective(stats, far)
    np.testing.assert_allclose(change, directly(near) - directly(far), rtol=1e-11)
    assert stats.mean_count_total == 18 and stats.cells == pytest.approx(9, rel=1e-14)


@every_family
def test_derivatives_of_the_objective(name):
    law, *_, stats = collected(name, np.random.default_rng(3))
    x, h = np.array([6.0, 7.5, 9.0, 20.0]), 1e-4
    up, middle, down = (law.objective(stats, x + k * h) for k in (1, 0, -1))
    slope, bend = law.derivatives(stats, x)
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(bend, (up - 2 * middle + down) / h**2, rtol=1e-4, atol=1e-6)


@every_family
def test_bins_without_mass_contribute_nothing(name):
    law, y, first, second, q, _ = collected(name, np.random.default_rng(4))
    q = np.column_stack([q, np.zeros(len(q))])
    stats = law.collect(y, first, second, q)
    assert law.objective(stats, np.array([6.0, 6.0, 6.0, 6.0, 0.05]))[-1] == 0
    assert all(part[-1] == 0 for part in law.derivatives(stats, np.full(5, 6.0)))


def test_residual_from_six_vectors():
    rng = np.random.default_rng(5)
    law, y, mu, mu2, q, stats = collected("gaussian", rng, mean_linkage=True)
    scale, shift = rng.uniform(0.5, 2, 4), rng.normal(size=4)
    target = y[:, None] - shift
    square = target**2 - 2 * scale * target * mu[:, None] + scale**2 * mu2[:, None]
    reduced = law.reduced(stats, scale, shift)
    np.testing.assert_allclose(reduced.vector("residual"), (q * square).sum(axis=0), rtol=1e-12)
    assert stats.names == law.statistic_names(mean_linkage=True)
    plain = law.collect(y, mu, mu2, q)
    unlinked = law.reduced(stats, np.ones(4), np.zeros(4))
    np.testing.assert_allclose(unlinked.vectors, plain.vectors, rtol=1e-12)


def test_off_support():
    assert family("binomial").log_base(3.0, 2.0) == -np.inf
    assert family("binomial").log_base(2.0, 2.0) == pytest.approx(0, abs=1e-14)
    for name in ("poisson", "negative_binomial", "binomial"):
        np.testing.assert_array_equal(family(name).log_base(np.array([-1.0, 0.5]), 4.0), -np.inf)
    for name in ("gamma", "inverse_gaussian"):
        np.testing.assert_array_equal(family(name).log_base(np.array([-1.0, 0.0]), 4.0), -np.inf)
    stats = family("binomial").collect([3.0], 0.0, 0.5, [[1.0, 0.0]])
    assert family("binomial").objective(stats, np.array([2.0, 2.0])).tolist() == [-np.inf, 0.0]


def test_log_base_does_not_cancel_at_large_dispersion():
    # log C(y + x - 1, y) -> y log x - log y! (1 + y (y - 1) / 2x + ...)
    y, x = 3.0, 1e9
    expected = y * np.log(x) - gammaln(y + 1) + y * (y - 1) / (2 * x)
    assert NegativeBinomial().log_base(y, x) == pytest.approx(expected, rel=1e-14)


@every_family
def test_natural_is_the_inverse_of_the_mean(name):
    law = family(name)
    for theta in (-1.3, -0.2):
        assert law.natural(float(law.mean(theta, 1.0))) == pytest.approx(theta, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("gaussian", np.nan, "nan.*finite"),
        ("gamma", 0.0, "contains 0.*above zero"),
        ("gamma", -1.5, "-1.5.*above zero"),
        ("inverse_gaussian", 0.0, "above zero"),
        ("poisson", -2.0, "-2.*counts"),
        ("poisson", 1.5, "1.5.*integers"),
        ("binomial", 0.5, "integers"),
        ("negative_binomial", np.inf, "inf.*finite"),
    ],
)
def test_values_are_refused_by_name(name, value, words):
    with pytest.raises(ValueError, match=f"values.*{words}"):
        family(name).check_values([1.0, value])


@every_family
def test_good_values_pass(name):
    family(name).check_values([1.0, 2.0])


def test_resolver():
    assert family("poisson") == Poisson() and family(Poisson()) == Poisson()
    with pytest.raises(ValueError, match=r"'normal'.*gaussian, gamma, inverse_gaussian, poisson, binomial"):
        family("normal")
