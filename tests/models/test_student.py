"""Student priors of factors: quadrature, stationarity, a bound that never falls, and recovery."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma

import nmar
from nmar import CCPF, Cells, Factorization
from nmar.models.bilinear import Bilinear
from nmar.models.student import reaches
from nmar.prob.factor import NormalFactor, unpack

SETTINGS = {"factors": 2, "random_state": 0, "n_jobs": 1}


def table(shape: float | None, size=(300, 40), rank=3, noise=0.5, seed=0) -> Cells:
    """Values of a rank, half of them missing at random, whose rows reach as far as 1/√ξ with ξ ~ Ga(shape, shape)."""
    rng = np.random.default_rng(seed)
    reach = np.ones(size[0]) if shape is None else rng.gamma(shape, 1.0 / shape, size[0]) ** -0.5
    values = reach[:, None] * (
        rng.normal(size=(size[0], 1)) + rng.normal(size=(size[0], rank)) @ rng.normal(size=(rank, size[1]))
    )
    values += noise * rng.normal(size=size)
    values[rng.random(size) < 0.5] = np.nan
    return Cells.from_dense(values)


def parts(covariance: str):
    """A model, a side of it and what all cells share, a few sweeps on."""
    model = CCPF(Factorization(2, covariance=covariance), **SETTINGS, max_iter=4).fit(table(1.0, (30, 12)))
    state = model.posterior_.state
    return model.posterior_.law.data, state.sides[0].data, replace(state.shared.data, shapes=(1.7, 2.3))


def divergence(data: Bilinear, side: NormalFactor, shared, shape: float, rates: np.ndarray) -> float:
    """KL of q(a) q(ξ), rows, by quadrature over ξ: q(ξ) gamma with a shape and rates."""
    free, total = np.array(data.axes[0].free), 0.0
    variance, prior_shape = shared.variance[0][free], shared.shapes[0]
    for mean, spread, log_det, rate in zip(side.mean, side.spread, side.log_det, rates, strict=True):
        whole = np.diag(spread) if data.diagonal else unpack(spread[None], data.size)[0]
        squares = np.sum((mean[free] ** 2 + np.diag(whole)[free]) / variance)
        size = len(variance)

        def of(kappa: float, squares=squares, rate=rate, size=size, log_det=log_det) -> float:
            normal = 0.5 * (kappa * squares - size * np.log(kappa) + np.sum(np.log(variance)) - log_det - size)
            q, p = gamma(shape, scale=1.0 / rate), gamma(prior_shape, scale=1.0 / prior_shape)
            return q.pdf(kappa) * (normal + q.logpdf(kappa) - p.logpdf(kappa))

        total += quad(of, 0.0, shape / rate, limit=200)[0] + quad(of, shape / rate, 20.0 * shape / rate, limit=200)[0]
    return total


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_divergence_is_that_of_quadrature_and_the_least_there_is(covariance):
    data, side, shared = parts(covariance)
    side = side.take(slice(0, 2))
    free = np.array(data.axes[0].free)
    own = reaches(
        1.7, int(free.sum()), ((side.mean**2 + side.variances)[:, free] / shared.variance[0][free]).sum(axis=1)
    )
    least = divergence(data, side, shared, own.alpha[0], own.beta)
    assert data.divergence(side, 0, shared) == pytest.approx(least, rel=1e-6)
    for much, more in ((1.02, 1.0), (1.0, 0.98), (1.0, 1.02)):
        assert divergence(data, side, shared, much * own.alpha[0], more * own.beta) > least


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_prior_is_stationary(covariance):
    """Learned variances and shape: the divergence with q(ξ) held is flat in both."""
    data, side, shared = parts(covariance)
    axis = 1 - shared.lead
    side = (
        side
        if axis == 0
        else CCPF(Factorization(2, covariance=covariance), **SETTINGS, max_iter=4)
        .fit(table(1.0, (30, 12)))
        .posterior_.state.sides[1]
        .data
    )
    free = np.array(data.axes[axis].free)
    squares = side.mean**2 + side.variances
    held = reaches(shared.shapes[axis], int(free.sum()), (squares[:, free] / shared.variance[axis][free]).sum(axis=1))
    new = data.learn(side, axis, shared)

    def value(variance, shape):
        away = held.mean @ squares
        return side.divergence_at(free, away, variance) + held.divergence(shape, shape, np.log(shape))

    variance, shape = new.variance[axis], new.shapes[axis]
    for k in np.flatnonzero(free):
        ends = []
        for sign in (1.0, -1.0):
            moved = variance.copy()
            moved[k] *= np.exp(sign * 1e-4)
            ends.append(value(moved, shape))
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(0.0, abs=1e-5)
    ends = [value(variance, shape * np.exp(sign * 1e-4)) for sign in (1.0, -1.0)]
    assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("linkage", ["ignorable", "free"])
def test_the_bound_never_falls_and_backends_agree(covariance, linkage):
    cells, data = table(1.0, (30, 12)), Factorization(2, covariance=covariance)
    fits = [
        CCPF(data, linkage, starts=1, max_iter=15, tol=0.0, backend=backend, **SETTINGS).fit(cells).bound_trace_
        for backend in ("numba", "reference")
    ]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(fits[0]))
    np.testing.assert_allclose(*fits, rtol=1e-7)


def test_rows_that_differ_in_reach_are_found_and_predicted_better():
    train, _, test = table(1.0).split(test=0.2, valid=0.0, seed=0)
    fits = [CCPF(Factorization(3, student=each), **SETTINGS).fit(train, hidden=test) for each in (True, False)]
    shapes = fits[0].posterior_.state.shared.data.shapes
    assert 0.7 < shapes[0] < 1.5 and shapes[1] > 3.0
    gain = fits[0].log_likelihood(test, per_cell=True) - fits[1].log_likelihood(test, per_cell=True)
    assert gain.mean() > 4.0 * gain.std() / np.sqrt(len(gain))


def test_rows_that_do_not_differ_lose_nothing():
    train, _, test = table(None).split(test=0.2, valid=0.0, seed=0)
    fits = [CCPF(Factorization(3, student=each), **SETTINGS).fit(train, hidden=test) for each in (True, False)]
    assert min(fits[0].posterior_.state.shared.data.shapes) > 5.0
    gain = fits[0].log_likelihood(test, per_cell=True) - fits[1].log_likelihood(test, per_cell=True)
    assert abs(gain.mean()) < 2.0 * gain.std() / np.sqrt(len(gain)) + 5e-4


def test_the_entrywise_solver_has_a_normal_prior():
    data = Factorization(2, covariance="diagonal")
    model = CCPF(data, "linear", solver=nmar.Entrywise(visits=500), max_iter=2, **SETTINGS).fit(table(1.0, (30, 12)))
    assert model.posterior_.state.shared.data.shapes == (0.0, 0.0) and not model.posterior_.law.data.student
