"""Statistics are additive over sets of cells."""

import numpy as np
import pytest

from nmar.prob.families import FAMILIES
from nmar.prob.statistics import Statistics


@pytest.mark.parametrize("law", FAMILIES.values(), ids=list(FAMILIES))
def test_parts_add_to_the_whole(law):
    rng = np.random.default_rng(0)
    y, first, q = rng.integers(1, 5, 20).astype(float), rng.normal(size=20), rng.dirichlet(np.ones(5), 20)
    second, counts = first**2 + 1, rng.uniform(1, 3, 20)
    q_short = q.copy()
    q_short[:8, 3:] = 0
    whole = law.collect(y, first, second, q_short, counts)
    parts = law.collect(y[:8], first[:8], second[:8], q_short[:8, :3], counts[:8])
    parts = parts + law.collect(y[8:], first[8:], second[8:], q_short[8:], counts[8:])
    np.testing.assert_allclose(parts.vectors, whole.vectors, rtol=1e-13, atol=1e-14)
    assert parts.mean_count_total == pytest.approx(whole.mean_count_total, rel=1e-14)
    x = np.full(5, 6.0)
    np.testing.assert_allclose(law.objective(parts, x), law.objective(whole, x), rtol=1e-12)
    np.testing.assert_allclose(law.objective(whole.scale(3), x), 3 * law.objective(whole, x), rtol=1e-13)
    assert whole.scale(3).mean_count_total == pytest.approx(3 * counts.sum(), rel=1e-14)
    if law.needs_values:
        np.testing.assert_array_equal(parts.distinct, np.unique(y))


def test_unlike_statistics_are_refused():
    gamma, poisson = (FAMILIES[n].collect([1.0], 0.0, 1.0, [[1.0]]) for n in ("gamma", "poisson"))
    with pytest.raises(ValueError, match="collect both alike"):
        gamma + poisson
    with pytest.raises(ValueError, match="vectors"):
        Statistics(("cells",), np.ones((2, 3)))
