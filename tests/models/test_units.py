"""Units change nothing: the fit of a·y + b is a times the fit of y, plus b."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import nmar

SHAPE = (16, 11)
RNG = np.random.default_rng(5)
ROW_FEATURES, COL_FEATURES = RNG.normal(size=(SHAPE[0], 2)), RNG.normal(size=(SHAPE[1], 2))
MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "plain": nmar.Factorization(1, bias=False),
    "mixture": nmar.Mixture(2, restarts=2),
    "effects": nmar.Effects("both"),
    "regression": nmar.Regression(COL_FEATURES),
    "constant": nmar.Constant("gaussian"),
    "constant-normal": nmar.Constant("gaussian", prior="normal"),
    "regressor": nmar.Regressor(LinearRegression(), ROW_FEATURES, COL_FEATURES),
}
LINKAGES = {
    **{name: name for name in ("ignorable", "linear", "exponential", "geometric", "free", "compound")},
    "free-shift": nmar.Free(mean="shift"),
}
UNITS = [(1e-3, 0.0), (1e3, 5.0), (1.0, 1e6)]


def table(family="gaussian"):
    """Values of a small matrix with effects of both sides, not centred; a seventh part is missing more or less."""
    rng = np.random.default_rng(2)
    seen = rng.random(SHAPE) < 0.55
    level = 1.3 + rng.normal(size=(SHAPE[0], 1)) + 0.7 * rng.normal(size=SHAPE[1])
    noise = rng.normal(size=SHAPE) * rng.choice([0.5, 2.0], SHAPE)
    values = level + noise if family == "gaussian" else np.exp(0.3 * (level + noise))
    return np.where(seen, values, np.nan)


def fit(data, linkage, values, **settings):
    given = {"factors": 2, "max_iter": 5, "tol": 0.0, "starts": 1, "n_jobs": 1, "random_state": 0, **settings}
    return nmar.CCPF(data, linkage, **given).fit(nmar.Cells.from_dense(values))


@cache
def base(model, link):
    return fit(MODELS[model], LINKAGES[link], table())


def same(found, expected, size=1.0):
    """Equal to a millionth of each number, or of the size that such numbers have."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * size)


def agree(moved, model, a, b, values, dispersion_power=2.0):
    """Everything that a person reads of two fits, one of y and one of a·y + b, seen and unseen cells alike."""
    i, j = (part.ravel() for part in np.indices(SHAPE))
    mean, sd = model.predict_entries(i, j, return_std=True)
    found, spread = moved.predict_entries(i, j, return_std=True)
    same((found - b) / a, mean, np.abs(mean).max())
    same(spread / a, sd)
    same(moved.dispersion_, model.dispersion_ * a**dispersion_power)
    for plugin in (False, True):
        log_density = moved.log_density(nmar.Cells.from_dense(a * values + b), plugin)
        same(log_density + np.log(a), model.log_density(nmar.Cells.from_dense(values), plugin))
    cells = int(np.isfinite(values).sum())
    same(moved.bound_trace_ + cells * np.log(a), model.bound_trace_)
    same(moved.observed_probability(i, j), model.observed_probability(i, j))
    if moved.linkage_.shift is not None:
        same(np.array(moved.linkage_.shift) / a, model.linkage_.shift)
        same(moved.linkage_.shift_width / a, model.linkage_.shift_width)


@pytest.mark.parametrize(("a", "b"), UNITS, ids=str)
@pytest.mark.parametrize("link", LINKAGES)
@pytest.mark.parametrize("model", MODELS)
def test_units_of_a_gaussian(model, link, a, b):
    values = table()
    agree(fit(MODELS[model], LINKAGES[link], a * values + b), base(model, link), a, b, values)


@pytest.mark.parametrize("a", [1e-8, 1e8])
@pytest.mark.parametrize("link", ["ignorable", "linear", "geometric", "free", "compound"])
@pytest.mark.parametrize(("family", "power"), [("gamma", 0.0), ("inverse_gaussian", 0.5)])
def test_units_of_a_scale_family(family, power, link, a):
    values, data = table(family), nmar.Constant(family)
    agree(fit(data, link, a * values), fit(data, link, values), a, 0.0, values, power)
