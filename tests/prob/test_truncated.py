"""A normal value between two ends: quadrature at every width and distance, and symmetry."""

import numpy as np
import pytest

from nmar.prob.truncated import truncated

NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def by_quadrature(low, high):
    """log P, mean, variance and the densities at both ends of a standard normal between two ends."""
    nearest = np.clip(0.0, low, high)
    start, stop = max(low, nearest - 12.0), min(high, nearest + 12.0)
    x, w = start + (stop - start) * (NODES + 1.0) / 2.0, WEIGHTS * (stop - start) / 2.0
    f = np.exp(-0.5 * (x**2 - nearest**2)) * w
    log_mass = np.log(f.sum()) - 0.5 * nearest**2 - 0.5 * np.log(2.0 * np.pi)
    mean = (f @ x) / f.sum()
    ends = [0.0 if np.isinf(e) else np.exp(-0.5 * e**2 - 0.5 * np.log(2 * np.pi) - log_mass) for e in (low, high)]
    return log_mass, mean, (f @ (x - mean) ** 2) / f.sum(), *ends


@pytest.mark.parametrize("width", [1e-4, 0.003, 0.0099, 0.0101, 0.3, 2.0, 9.0, np.inf])
@pytest.mark.parametrize("low", [-30.0, -7.0, -1.0, -0.004, 0.0, 0.5, 6.0, 40.0])
def test_every_number_is_that_of_quadrature(low, width):
    for ends in ((low, low + width), (-low - width, -low)):
        found, exact = truncated(*ends), by_quadrature(*ends)
        np.testing.assert_allclose(
            [found.log_mass, found.mean, found.variance], exact[:3], rtol=1e-11, atol=4e-11 * max(1.0, abs(low))
        )
        np.testing.assert_allclose([found.at_low, found.at_high], exact[3:], rtol=1e-10, atol=1e-12)


def test_without_ends_it_is_the_normal():
    found = truncated(-np.inf, np.inf)
    assert [float(part) for part in found] == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_neighbours_share_all_probability():
    cuts = np.array([-np.inf, -2.0, -1.99999, 0.3, 9.0, np.inf])
    assert np.exp(truncated(cuts[:-1], cuts[1:]).log_mass).sum() == pytest.approx(1.0, abs=1e-14)
