"""Values on a bounded scale: moments, edges and levels against enumeration."""

import numpy as np
import pytest
from scipy.stats import norm

from nmar.prob.support import Support, support_of

MEAN, SD = np.array([1.1, 3.0, 6.0]), np.array([0.8, 0.5, 2.0])


def cumulative(value):
    return norm.cdf(value, MEAN, SD)


def test_moments_on_levels_are_those_of_the_law_of_the_levels():
    support, levels = Support(1.0, 5.0, 0.5), np.arange(1.0, 5.1, 0.5)
    lower, upper = support.between(levels)
    law = np.array([cumulative(b) - cumulative(a) for a, b in zip(lower, upper, strict=True)]).T
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    mean, variance = support.moments(cumulative)
    np.testing.assert_allclose(mean, law @ levels, rtol=1e-12)
    np.testing.assert_allclose(variance, law @ levels**2 - (law @ levels) ** 2, rtol=1e-9)


def test_moments_of_a_range_are_those_of_a_clipped_normal():
    grid = np.linspace(-12.0, 12.0, 200_001)[:, None] * SD + MEAN
    weight = norm.pdf((grid - MEAN) / SD)
    seen = np.clip(grid, 1.0, 5.0)
    exact = np.sum(weight * seen, axis=0) / weight.sum(axis=0)
    square = np.sum(weight * seen**2, axis=0) / weight.sum(axis=0)
    mean, variance = Support(1.0, 5.0).moments(cumulative)
    np.testing.assert_allclose(mean, exact, rtol=1e-5)
    np.testing.assert_allclose(variance, square - exact**2, rtol=1e-4)


def test_what_is_seen_lies_between_its_edges():
    support, values = Support(0.5, 5.0, 0.5), np.random.default_rng(0).normal(3.0, 3.0, 1000)
    seen = support.seen(values)
    lower, upper = support.between(seen)
    assert np.all((lower <= values) & (values <= upper))
    assert set(np.unique(seen)) <= set(np.arange(0.5, 5.1, 0.5))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 2, 5, 4], Support(1.0, 5.0, 1.0)),
        ([0.5, 1.0, 5.0], Support(0.5, 5.0, 0.5)),
        ([1.0, 1.0], None),
        ([1.0, 2.0, 4.5], None),  # no whole steps
        ([0.0, 1.0, 1000.0], None),  # steps, but far too many levels
        (np.linspace(0.0, 1.0, 40), None),
    ],
)
def test_levels_are_found_where_there_are_few(values, found):
    assert support_of("auto", np.asarray(values, float)) == found


@pytest.mark.parametrize("bounds", ["all", (5, 1), (1, 5, 0.3), (1, 5, 0), (1, np.inf), 3, (1, 4)])
def test_bounds_that_cannot_be_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds="):
        support_of(bounds, np.array([1.0, 5.0]))
