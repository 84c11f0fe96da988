"""The paper's printed forms that are wrong, each beside the form used here (theory 11)."""

from dataclasses import replace

import enumeration as oracle
import numpy as np
import pytest
import updates
from problems import FIXED, FIXED_MEAN, LEARNED, advanced, problem, small_cells
from scipy.special import logsumexp
from updates import Objective

from nmar.fit.executor import Serial
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.product import ProductSide
from nmar.prob.factor import GammaFactor, NormalFactor, pack

COUNTS = 80
FLAT, STEEP = 1e-6, 1e-2


def printed_counts(law, state, cells):
    """q(n) as Algorithm 1 prints it: Λ = Σ_k E[u]E[v] in the place of s = Σ_k exp E[log u] exp E[log v]."""
    tables, found = oracle.table(state.shared.linkage, COUNTS), []
    u, v = (oracle.gamma_mean(side.pattern.weights) for side in state.sides)
    for i, j, y in oracle.triplets(cells):
        moments = oracle.data_moments(law, state, i, j)
        f = oracle.log_density(law.data.family, y, *moments, state.shared.dispersion, tables)
        found.append(oracle.count_posterior(np.log(u[i] @ v[j]), f)[1])
    return np.array(found)


@pytest.mark.parametrize("model", ["full", "poisson"])
@pytest.mark.parametrize("link", ["linear+", "free", "compound"])
def test_f1_rate_inside_the_count_posterior(model, link):
    started = problem(model, FIXED[link], seed=7)
    law, cells, state = started.law, started.observed.cells, advanced(started, 3)
    right = oracle.expectations(law, state, cells, COUNTS)
    wrong = printed_counts(law, state, cells)
    printed = replace(right, counts=wrong, pattern_counts=wrong)
    best = oracle.held_bound(law, state, cells, right)
    assert oracle.held_bound(law, state, cells, printed) < best - 1e-3  # the printed q(n) lowers the bound
    _, info, _ = half_sweep(0, state, Context(started.observed, law, choose("numba"), Serial()))
    assert info.log_z == pytest.approx(right.log_z.sum(), abs=1e-10)
    assert info.stats.mean_count_total == pytest.approx(right.mean.sum(), rel=1e-10)
    assert abs(info.stats.mean_count_total - printed.mean.sum()) > STEEP


def test_f1_printed_sweeps_let_the_bound_fall():
    """One coordinate step from a fitted state, with the printed q(n): the collapsed bound falls."""
    started = problem("full", FIXED["compound"], seed=7)
    law, cells, state = started.law, started.observed.cells, advanced(started, 150)
    reached = oracle.collapsed_bound(law, state, cells, size=COUNTS)
    after = {}
    for name in ("ours", "printed"):
        if name == "ours":
            counts = oracle.expectations(law, state, cells, COUNTS).counts
        else:
            counts = printed_counts(law, state, cells)
        mean, weights = counts @ np.arange(1, COUNTS + 1), state.sides[0].pattern.weights
        shape = np.full(weights.alpha.shape, law.pattern.shape)
        for p, (i, j, _) in enumerate(oracle.triplets(cells)):
            logs = oracle.rate_parts(law, state, i, j)
            shape[i] += mean[p] * np.exp(logs - logsumexp(logs))
        exposed = oracle.gamma_mean(state.sides[1].pattern.weights).sum(axis=0)
        rate = oracle.gamma_mean(state.sides[0].pattern.activity)[:, None] + exposed
        moved = updates.with_pattern(state, 0, weights=GammaFactor(shape, rate))
        after[name] = oracle.collapsed_bound(law, moved, cells, size=COUNTS)
    assert after["ours"] >= reached - 1e-9
    assert after["printed"] < reached - 1e-4


def normal_update(law, state, cells, held, printed):
    """Rows of a Gaussian factorization from dense loops; ``printed``: E[φ1/φ2] in the denominator."""
    tables = oracle.table(state.shared.linkage, COUNTS)
    priors, cols, rows = state.shared.data, state.sides[1].data, state.sides[0].data
    free, fixed = np.flatnonzero(law.data.axes[0].free), np.flatnonzero(~np.array(law.data.axes[0].free))
    n, d = rows.mean.shape
    mean, spread = np.array(rows.mean), np.zeros((n, d, d))
    for line in range(n):
        precision = np.diag(1.0 / priors.variance[0][free])
        right = priors.mean[0][free] / priors.variance[0][free]
        for p, (i, j, y) in enumerate(oracle.triplets(cells)):
            if i != line:
                continue
            target, weight = oracle.crossing_weights(law, state, held, p, y)
            if printed:
                over = tables.scale / (tables.spread * state.shared.dispersion)
                weight = float(held.counts[p] @ over)
            moment = np.outer(cols.mean[j], cols.mean[j]) + oracle.covariance(law, cols, j)
            precision = precision + weight * moment[np.ix_(free, free)]
            right = right + target * cols.mean[j][free]
            right = right - weight * moment[np.ix_(free, fixed)] @ rows.mean[line][fixed]
        covariance = np.linalg.inv(precision)
        mean[line, free] = covariance @ right
        spread[line][np.ix_(free, free)] = covariance
    return NormalFactor(mean, pack(spread), np.zeros(n))


@pytest.mark.parametrize("link", ["free-scale", "geometric-scale", "compound-scale"])
@pytest.mark.parametrize("model", ["full", "full-plain"])
def test_f2_denominator_of_a_scale_linkage(model, link):
    started = problem(model, FIXED_MEAN[link], seed=7)
    law, cells, state = started.law, started.observed.cells, advanced(started, 2)
    if link != "compound-scale":  # two sweeps have drawn φ1 to 1: set it apart again
        state = updates.with_shared(state, linkage=replace(state.shared.linkage, scale=(1.0, 0.4, 2.0, 1.6)))
    objective = Objective(started, state, COUNTS)
    ours = normal_update(law, state, cells, objective.held, printed=False)
    wrong = normal_update(law, state, cells, objective.held, printed=True)
    pair, _, _ = half_sweep(0, state, Context(started.observed, law, choose("numba"), Serial()))
    np.testing.assert_allclose(pair.data.mean, ours.mean, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(pair.data.spread, ours.spread, rtol=1e-9, atol=1e-10)
    best, printed = (updates.with_data(state, 0, side) for side in (ours, wrong))
    assert np.abs(updates.mean_slopes(objective, best, 0)).max() < FLAT
    assert np.abs(updates.mean_slopes(objective, printed, 0)).max() > STEEP
    assert objective(printed) < objective(best) - 1e-4


def test_f2_does_not_matter_without_a_scale():
    """φ1 = 1: both forms are one, so the test above sees the scale and nothing else."""
    started = problem("full", FIXED["free"], seed=7)
    state = advanced(started, 2)
    held = oracle.expectations(started.law, state, started.observed.cells, COUNTS)
    ours, wrong = (
        normal_update(started.law, state, started.observed.cells, held, printed) for printed in (False, True)
    )
    np.testing.assert_allclose(ours.mean, wrong.mean, rtol=1e-12)


@pytest.mark.parametrize("link", ["linear+", "free", "geometric-"])
def test_f4_exposure_of_the_poisson_is_the_mean_linkage(link):
    started = problem("poisson", FIXED[link], small_cells("poisson", (4, 3), seed=5), seed=7)
    law, cells, state = started.law, started.observed.cells, advanced(started, 2)
    objective = Objective(started, state, COUNTS)
    pair, _, _ = half_sweep(0, state, Context(started.observed, law, choose("numba"), Serial()))
    best = updates.with_data(state, 0, ProductSide(pair.data.weights, state.sides[0].data.scale))
    assert np.abs(updates.lines_slopes(objective, best, 0)).max() < FLAT
    rate = np.tile(oracle.gamma_mean(state.sides[0].data.scale)[:, None], (1, 2))
    column = oracle.gamma_mean(state.sides[1].data.weights)
    for p, (i, j, _) in enumerate(oracle.triplets(cells)):
        rate[i] += objective.held.mean[p] * column[j]  # E[n], as printed
    wrong = ProductSide(GammaFactor(pair.data.weights.alpha, rate), state.sides[0].data.scale)
    printed = updates.with_data(state, 0, wrong)
    assert np.abs(updates.lines_slopes(objective, printed, 0)).max() > STEEP
    assert objective(printed) < objective(best) - 1e-3


@pytest.mark.parametrize("link", ["linear", "exponential"])
def test_statistics_of_before_the_update_are_no_optimum(link):
    """Theory 5: the M-step needs n-vectors taken after the side's own update, q(n) held."""
    started = problem("full", LEARNED[link], seed=7)
    state = advanced(started, 2)
    objective = Objective(started, state, COUNTS)
    after = dict(updates.stages(started, state, 0))
    fresh = updates.shared_slopes(objective, after["linkage"])
    assert max(np.abs(s).max() for s in fresh.values()) < FLAT
    stale = updates.shared_slopes(objective, updates.with_data(after["linkage"], 0, state.sides[0].data))
    assert max(np.abs(s).max() for s in stale.values()) > STEEP
