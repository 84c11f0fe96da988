"""The value that predictions are shrunk to, where the mean of the values is the wrong one."""

import numpy as np
import pytest

import nmar

SETTINGS = {"factors": 2, "random_state": 0, "max_iter": 30, "n_jobs": 1}


@pytest.fixture(scope="module")
def cells():
    found = nmar.simulate((50, 30), nmar.Factorization(2), density=0.2, seed=0)[0]
    return found.with_values(found.values + 3.0)


@pytest.mark.parametrize("make", [nmar.Factorization, lambda **more: nmar.Effects("both", **more)])
def test_unknown_lines_are_predicted_at_the_center(cells, make):
    for center, expected in ((None, cells.values.mean()), (0.0, 0.0), (2, 2.0)):
        model = nmar.CCPF(make(center=center), **SETTINGS).fit(cells)
        assert model.predict_entries([99], [99], unknown="prior") == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_a_center_moves_with_the_values(cells):
    one = nmar.CCPF(nmar.Factorization(2, center=1.0), **SETTINGS).fit(cells)
    other = nmar.CCPF(nmar.Factorization(2, center=11.0), **SETTINGS).fit(cells.with_values(cells.values + 10.0))
    pairs = cells.pairs()
    np.testing.assert_allclose(other.predict_entries(*pairs), one.predict_entries(*pairs) + 10.0, rtol=1e-8)


def test_a_center_at_the_mean_is_the_default(cells):
    mean = nmar.CCPF(nmar.Effects("both"), **SETTINGS).fit(cells)
    told = nmar.CCPF(nmar.Effects("both", center=mean.posterior_.units.center), **SETTINGS).fit(cells)
    np.testing.assert_array_equal(told.predict_entries(*cells.pairs()), mean.predict_entries(*cells.pairs()))


def test_what_has_no_center_refuses_one(cells):
    with pytest.raises(ValueError, match=r"center=1.0 is for family='gaussian', not 'poisson'"):
        nmar.Factorization(2, family="poisson", center=1.0)
    with pytest.raises(ValueError, match="center=nan; give a finite number"):
        nmar.Effects(center=float("nan"))
    with pytest.raises(ValueError, match=r"center=1.0 of the data model and a linkage of the mean by a factor"):
        nmar.CCPF(nmar.Factorization(2, center=1.0), nmar.Free(mean="scale"), **SETTINGS).fit(cells)
    assert nmar.Factorization(2, center=1.5).describe() == "factorization:2:center-1.5"
