"""The test of residual variance against P(observed): quiet without a link, loud with one."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar.report.missingness import score_test

SETTINGS = {"factors": 3, "rank": 2, "max_iter": 40, "n_jobs": 1}


def p_values(linkage: nmar.Ignorable, seeds: range) -> list[tuple[float, float]]:
    found = []
    for seed in seeds:
        cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), linkage, density=0.3, seed=seed)
        result = nmar.missingness_test(cells, random_state=seed, **SETTINGS)
        found.append((result.p_value, result.clustered_p_value))
    return found


def test_quiet_without_a_link() -> None:
    plain, clustered = zip(*p_values(nmar.Ignorable(), range(6)), strict=True)
    assert min(plain) > 0.01 and np.median(plain) > 0.1
    assert all(c >= p for p, c in zip(plain, clustered, strict=True))


def test_loud_with_a_link() -> None:
    plain, clustered = zip(*p_values(nmar.Geometric(-0.8), range(3)), strict=True)
    assert max(plain) < 1e-4 and max(clustered) < 1e-2


def test_result(linked: nmar.Cells) -> None:
    cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), nmar.Geometric(-0.8), density=0.3, seed=0)
    result = nmar.missingness_test(cells, bins=20, **SETTINGS)
    assert len(result.bins) == 20 and sum(b.cells for b in result.bins) == result.n_test
    probability = [b.observed_probability for b in result.bins]
    assert probability == sorted(probability) and probability[0] > 0 and probability[-1] < 1
    assert result.df == 1 and result.slope < 0
    assert "falls" in result.text() and "no proof of a cause" in str(result)
    assert nmar.missingness_test(linked, degree=2, **SETTINGS).df == 2


def test_score_test_has_the_right_size() -> None:
    rng = np.random.default_rng(0)
    low = 0
    for _ in range(400):
        x = rng.random((500, 1)) - 0.5
        ratio = rng.normal(size=500) ** 2
        groups = (rng.integers(50, size=500),)
        low += score_test(ratio, x, np.ones((500, 1)), groups)[2] < 0.05
    assert 0.02 < low / 400 < 0.09


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"degree": 3}, "degree=3"), ({"bins": 1}, "bins=1"), ({"test": 0.001}, "too few")],
)
def test_errors(linked: nmar.Cells, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nmar.missingness_test(linked, **{**SETTINGS, **arguments})
