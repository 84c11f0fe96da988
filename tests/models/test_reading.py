"""Readers (models/reading.py): one that reads values as they are is the plain model, for every way to update lines."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import small_cells

from nmar.fit.executor import Serial
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.models.reading import Reading
from nmar.models.settings import Effects, Factorization, Mixture
from nmar.prob.linkage import Ignorable

MODELS = {
    "full": Factorization(2),
    "diagonal": Factorization(2, covariance="diagonal"),
    "effects": Effects(),
    "mixture": Mixture(2),
}


@dataclass(frozen=True)
class AsTheyAre:
    """Values that are observed themselves."""

    alternates = False
    scale_is_known = False

    def start(self, axis, n):
        return None

    def read(self, given):
        weight = given.cells.weight if given.cells.weight.size else 1.0
        y = given.cells.values.astype(np.float64)
        square = (y - given.mean) ** 2 + given.variance
        log_z = -0.5 * np.sum(weight * (np.log(2.0 * np.pi * given.noise) + square / given.noise))
        return Reading(y, np.zeros(len(y)), float(log_z))

    def learned(self, sums, scaled):
        return self

    def log_prior(self):
        return 0.0

    def divergence(self, axis, lines):
        return 0.0


def bounds_and_state(started, sweeps):
    state, bounds = started.state, []
    for _ in range(sweeps):
        state, bound = sweep(state, Context(started.observed, started.law, choose("numba"), Serial()))
        bounds.append(bound)
    return bounds, state


@pytest.mark.parametrize("noise", [None, Noise()], ids=["constant", "by-line"])
@pytest.mark.parametrize("model", MODELS)
def test_values_read_as_they_are(model, noise):
    cells = small_cells("gaussian", (7, 5))
    cells = cells.with_weights(np.linspace(0.5, 2.0, cells.n_observed))
    plain = begin(cells, MODELS[model].build(cells), Ignorable(), Pattern(2), noise=noise)
    shared = replace(plain.state.shared, reader=AsTheyAre())
    read = replace(plain, state=replace(plain.state, shared=shared))
    expected, one = bounds_and_state(plain, 6)
    found, other = bounds_and_state(read, 6)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert other.shared.dispersion == pytest.approx(one.shared.dispersion, rel=1e-9)
