"""Noise by row and column with a Student tail: quadrature, stationarity, a bound that never falls, and recovery."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import gamma, norm
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

import nmar
from nmar.fit.executor import threads
from nmar.fit.problem import begin
from nmar.fit.solvers.twostage import on_pattern, pattern_alone
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.models.shared import update_shared
from nmar.models.state import State
from nmar.posterior.posterior import Posterior
from nmar.prob.factor import GammaFactor

MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "effects": nmar.Effects("both"),
    "mixture": nmar.Mixture(2, restarts=1),
}
LINKAGES = {
    "ignorable": nmar.Ignorable(),
    "linear": nmar.Linear(),
    "free": nmar.Free(levels=4),
    "thinned": nmar.Free(thinning=4.0),
    "geometric": nmar.Geometric(),
}
LAWS = {
    "both and tail": Noise(freedom=6.0, learns_freedom=True),
    "both": Noise(),
    "rows": Noise((True, False)),
    "tail alone": Noise((False, False), freedom=4.0, learns_freedom=True),
}
every_model = pytest.mark.parametrize("model", MODELS)
backends = pytest.mark.parametrize("backend", ["numba", "reference"])


def noisy_table(shape=(40, 30), seed=0, share=0.5, spread=0.8):
    """A low-rank table with noise by row and column, some cells kept at random, and the true log precisions."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    rows, cols = (spread * rng.normal(size=size) for size in shape)
    values = signal + rng.normal(size=shape) * np.exp(-0.5 * (rows[:, None] + cols))
    seen = rng.random(shape) < share
    i, j = np.nonzero(seen)
    return nmar.Cells.from_arrays(i, j, values[i, j], shape), values, seen, rows, cols


def started(model, link, law, cells=None, backend="numba"):
    cells = noisy_table((12, 9), seed=3)[0] if cells is None else cells
    settings = MODELS[model]
    return begin(cells, settings.build(cells), link, Pattern(2), noise=law, seed=1), choose(backend)


def one_half(problem, kernels, state, axis):
    """A half sweep's new side and its sums."""
    with threads(1) as executor:
        side, info, _ = half_sweep(axis, state, Context(problem.observed, problem.law, kernels, executor))
    return side, info


def sweeps(problem, kernels, count):
    """The bound of every state, half sweep by half sweep, and the last state."""
    state, found = problem.state, []
    for half in range(2 * count):
        axis = (problem.law.lead + half) % 2
        side, info = one_half(problem, kernels, state, axis)
        found.append(bound(state, info.log_z, problem.law))
        state = state.with_side(axis, side)
        state = State(state.sides, update_shared(axis, state, info, problem.law))
    return found, state


@backends
@every_model
@pytest.mark.parametrize("law", LAWS)
def test_the_bound_never_falls(model, law, backend):
    problem, kernels = started(model, LINKAGES["ignorable"].start(), LAWS[law], backend=backend)
    found, _ = sweeps(problem, kernels, 12)
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(found))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("link", [name for name in LINKAGES if name != "ignorable"])
@pytest.mark.parametrize("model", ["full", "diagonal"])
def test_the_bound_never_falls_with_linkages(model, link, weighted):
    cells = noisy_table((12, 9), seed=3)[0]
    if weighted:
        cells = cells.with_weights(np.random.default_rng(1).gamma(2.0, 0.5, len(cells)))
    problem, kernels = started(model, LINKAGES[link].start(), Noise(), cells)
    found, _ = sweeps(problem, kernels, 10)
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(found))


@every_model
@pytest.mark.parametrize("law", LAWS)
def test_backends_agree(model, law):
    first, second = (
        sweeps(*started(model, LINKAGES["ignorable"].start(), LAWS[law], backend=b), 5) for b in ("numba", "reference")
    )
    np.testing.assert_allclose(first[0], second[0], rtol=1e-9)
    for mine, theirs in zip(first[1].sides, second[1].sides, strict=True):
        if mine.noise is not None:
            np.testing.assert_allclose(mine.noise.mean, theirs.noise.mean, rtol=1e-7)
    assert first[1].shared.noise.freedom == pytest.approx(second[1].shared.noise.freedom, rel=1e-7)


def two_stage(model, law, backend="numba"):
    """A problem whose values have a variance by P(observed), in bins that a pattern fitted before them gives."""
    problem, kernels = started(model, LINKAGES["ignorable"].start(), law, backend=backend)
    _, state = sweeps(problem, kernels, 2)
    known = Posterior(problem.law, state, problem.observed.cells.rows, problem.observed.cells.cols)
    state, observed = on_pattern(problem.state, problem.observed, pattern_alone(known))
    link = replace(state.shared.linkage, slope=-0.5, bend=0.2)
    state = State(state.sides, replace(state.shared, linkage=link))
    return replace(problem, law=replace(problem.law, pattern_fixed=True), observed=observed, state=state), kernels


@backends
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("model", ["full", "diagonal"])
def test_the_bound_of_the_two_stage_baseline_never_falls(model, law, backend):
    problem, kernels = two_stage(model, LAWS[law], backend)
    found, _ = sweeps(problem, kernels, 12)
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(found))
    assert found[-1] == pytest.approx(sweeps(*two_stage(model, LAWS[law], "reference"), 12)[0][-1], rel=1e-8)


STAGES = {
    "one bin": lambda backend: started("full", LINKAGES["ignorable"].start(), LAWS["both and tail"], backend=backend),
    "known bins": lambda backend: two_stage("full", LAWS["both and tail"], backend),
}


def cells_of(problem, state):
    """Of each cell: E[(y − μ)²], E[λ] E[ρ], E log λ + E log ρ, and Σ_k exp E log u exp E log v."""
    cells, (rows, cols) = problem.observed.cells, state.sides
    i, j = cells.positions()
    shown = [problem.law.data.features(side.data, axis, state.shared.data) for axis, side in enumerate(state.sides)]
    mean, square = (np.sum(shown[0][k][i] * shown[1][k][j], axis=1) for k in (0, 1))
    residual = (cells.values - mean) ** 2 + square - mean**2
    rate = np.sum(np.exp(rows.pattern.weights.log_mean[i] + cols.pattern.weights.log_mean[j]), axis=1)
    level = rows.noise.mean[i] * cols.noise.mean[j]
    return residual, level, rows.noise.log_mean[i] + cols.noise.log_mean[j], rate


@backends
@pytest.mark.parametrize("link", ["linear", "free", "geometric"])
def test_log_z_of_cells_is_that_of_enumeration_over_the_counts(link, backend):
    """Σ log Z against Σ_n s^n/n! N(y; …, φ(n)) cell by cell, at a state some sweeps on."""
    problem, kernels = started("full", LINKAGES[link].start(), LAWS["both"], backend=backend)
    _, state = sweeps(problem, kernels, 3)
    _, info = one_half(problem, kernels, state, 0)
    residual, level, log_level, rate = (each[:, None] for each in cells_of(problem, state))
    counts = np.arange(1, 81)
    variance = state.shared.dispersion * state.shared.linkage.table(80)
    assert np.ptp(variance) > 1e-3
    normal = 0.5 * log_level - 0.5 * np.log(2.0 * np.pi * variance) - 0.5 * level * residual / variance
    total = logsumexp(counts * np.log(rate) - gammaln(counts + 1.0) + normal, axis=1).sum()
    assert info.log_z == pytest.approx(total, abs=1e-7)


@backends
@pytest.mark.parametrize("stage", STAGES)
def test_log_z_of_cells_is_that_of_quadrature_over_the_tail(stage, backend):
    """Σ log Z against ∫ dω Ga(ω; ν/2, ν/2) N(y; …) cell by cell, at a state some sweeps on."""
    problem, kernels = STAGES[stage](backend)
    _, state = sweeps(problem, kernels, 3)
    _, info = one_half(problem, kernels, state, 0)
    shared, nu, total = state.shared, state.shared.noise.freedom, 0.0
    residual, levels, log_levels, rate = cells_of(problem, state)
    bins = problem.observed.group if stage == "known bins" else np.zeros(len(rate), int)
    dispersion = shared.dispersion * shared.linkage.bin_table()[bins]
    assert (np.ptp(dispersion) > 0.1) == (stage == "known bins")
    for p in range(len(rate)):

        def inside(omega, p=p):
            normal = norm.pdf(0.0, scale=np.sqrt(dispersion[p])) * np.sqrt(omega)
            scale = np.exp(-0.5 * omega * levels[p] * residual[p] / dispersion[p])
            return gamma.pdf(omega, 0.5 * nu, scale=2.0 / nu) * normal * scale

        value, _ = quad(inside, 0.0, np.inf, epsabs=0.0, epsrel=1e-11)
        total += np.log(value) + 0.5 * log_levels[p] + np.log(np.expm1(rate[p]))
    assert info.log_z == pytest.approx(total, abs=1e-7)


@backends
@pytest.mark.parametrize("axis", [0, 1])
@every_model
def test_the_update_of_noise_levels_is_stationary(model, axis, backend):
    """The bound with new levels and old lines does not change when a level's shape or rate does."""
    problem, kernels = started(model, LINKAGES["ignorable"].start(), Noise(), backend=backend)
    _, state = sweeps(problem, kernels, 2)
    side, _ = one_half(problem, kernels, state, axis)

    def value(levels):
        there = state.with_side(axis, replace(state.sides[axis], noise=levels))
        return bound(there, one_half(problem, kernels, there, axis)[1].log_z, problem.law)

    for name in ("alpha", "beta"):
        for line in (0, 3):
            slopes = []
            for levels in (side.noise, state.sides[axis].noise):
                numbers = getattr(levels, name)
                ends = []
                for h in (1e-4, -1e-4):
                    moved = numbers.copy()
                    moved[line] *= np.exp(h)
                    ends.append(value(replace(levels, **{name: moved})))
                slopes.append((ends[0] - ends[1]) / 2e-4)
            assert abs(slopes[0]) < 1e-6
            assert abs(slopes[1]) > 1e-4, "the test looks at an update that does something"


def test_the_prior_shape_is_stationary():
    levels = GammaFactor(np.array([3.0, 5.0, 2.5]), np.array([2.0, 6.0, 4.0]))
    law = Noise().learned(0, levels)

    def value(shape):
        return replace(law, shapes=(shape, 1.0)).divergence(0, levels)

    best = law.shapes[0]
    assert value(best * 1.01) > value(best) < value(best * 0.99)
    assert np.log(best) - digamma(best) == pytest.approx(-1.0 - np.mean(levels.log_mean - levels.mean))


@pytest.mark.parametrize("freedom", [1.5, 8.0, 300.0])
def test_the_tail_is_learned_by_a_step_that_rises_and_stands_still_at_the_best(freedom):
    """Σ log p(y) of Student values rises with every step, and no ν is better where the steps end."""
    rng = np.random.default_rng(4)
    x = rng.standard_t(5.0, 3000) ** 2
    weight = rng.uniform(0.5, 2.0, 3000)

    def likelihood(nu):
        return float(np.sum(weight * student.logpdf(np.sqrt(x), nu)))

    law = Noise(freedom=freedom, learns_freedom=True)
    found = [likelihood(freedom)]
    for _ in range(200):
        nu = law.freedom
        mean = (nu + 1.0) / (nu + x)
        log_mean = digamma(0.5 * (nu + 1.0)) - np.log(0.5 * (nu + x))
        squares = float(np.sum(weight * mean * x))
        law = law.with_tail(float(np.sum(weight * (log_mean - mean))), float(weight.sum()), squares, squares)
        found.append(likelihood(law.freedom))
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(found))
    assert found[-1] > found[0]
    assert likelihood(law.freedom * 1.01) < found[-1] > likelihood(law.freedom / 1.01)


def test_true_noise_levels_are_recovered():
    cells, _, _, rows, cols = noisy_table((300, 200), seed=5, share=0.4)
    model = nmar.CCPF(nmar.Factorization(2), factors=2, random_state=0).fit(cells)
    for noise, truth in ((model.row_noise_, rows), (model.col_noise_, cols)):
        found = -2.0 * np.log(noise.level)
        slope, _ = np.polyfit(truth, found, 1)
        assert np.corrcoef(truth, found)[0, 1] > 0.95
        assert 0.9 < slope < 1.1


def test_lines_that_do_not_differ_stay_alike():
    cells, values, seen, *_ = noisy_table((300, 200), seed=6, share=0.4, spread=0.0)
    plain = nmar.CCPF(nmar.Factorization(2), factors=2, noise="constant", random_state=0).fit(cells)
    noisy = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=150, tol=0.0, random_state=0).fit(cells)
    shared = noisy.posterior_.state.shared.noise
    assert min(shared.shapes) > 50.0
    assert shared.freedom > 500.0
    i, j = np.nonzero(~seen)
    scores = [m.log_density(nmar.Cells.from_arrays(i, j, values[i, j], cells.shape)) for m in (plain, noisy)]
    apart = np.asarray(scores[1]) - np.asarray(scores[0])
    assert abs(apart.mean()) < 2.0 * apart.std() / np.sqrt(len(apart)) + 1e-3


def covered_by_length(seed):
    """Whether 90 % intervals hold each missing value, where rows differ in noise, and the fifth of its row's length."""
    rng = np.random.default_rng(seed)
    shape = (400, 80)
    rows = 0.8 * rng.normal(size=shape[0])
    values = rng.normal(size=(shape[0], 1)) + rng.normal(size=shape[1])
    values = values + rng.normal(size=shape) * np.exp(-0.5 * rows[:, None])
    seen = rng.random(shape) < rng.uniform(0.05, 0.6, shape[0])[:, None]
    i, j = np.nonzero(seen)
    model = nmar.CCPF(nmar.Effects("both"), factors=2, random_state=0)
    model.fit(nmar.Cells.from_arrays(i, j, values[seen], shape))
    i, j = np.nonzero(~seen)
    low, high = model.interval(i, j, level=0.9)
    length = seen.sum(axis=1)[i]
    return (low <= values[i, j]) & (values[i, j] <= high), np.searchsorted(np.quantile(length, CUTS), length)


CUTS = [0.2, 0.4, 0.6, 0.8]


def test_intervals_cover_in_short_and_in_long_rows():
    """In 240 rows of each fifth: rows differ in noise, so that the cells of one are covered or not together."""
    inside, fifth = (np.concatenate(part) for part in zip(*map(covered_by_length, (8, 9, 10)), strict=True))
    assert all(0.88 < inside[fifth == k].mean() < 0.92 for k in range(5))


@pytest.fixture(scope="module")
def fitted():
    cells = noisy_table((60, 40), seed=2)[0]
    return nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=15, tol=0.0, random_state=0).fit(cells), cells


def test_predictions_are_student_laws(fitted):
    model, _ = fitted
    state = model.posterior_.state
    i, j, y = np.array([3]), np.array([4]), 0.7
    rows, cols = (side.noise for side in state.sides)
    found = model.posterior_.cells(i, j)
    inverse = 0.5 / rows.alpha[3] + 0.5 / cols.alpha[4] + 1.0 / state.shared.noise.freedom
    scale = found.variance[0, 0] + state.shared.dispersion / (rows.mean[3] * cols.mean[4])
    law = student(1.0 / inverse, found.mean[0, 0], np.sqrt(scale))
    cell = nmar.Cells.from_arrays([3], [4], [y], (60, 40))
    units = model.posterior_.units
    expected = law.logpdf(units.to_model(y)) - np.log(units.scale)
    assert model.log_density(cell)[0] == pytest.approx(expected)
    low, high = model.interval([3], [4], level=0.8)
    np.testing.assert_allclose([low[0], high[0]], units.to_user(law.ppf([0.1, 0.9])), rtol=1e-6)
    drawn = model.sample([3], [4], n=20000, seed=0)[0]
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.9]), [low[0], high[0]], atol=0.05 * (high[0] - low[0]))


def test_files_keep_the_noise(fitted, tmp_path):
    model, cells = fitted
    model.save(tmp_path / "m.nmar")
    again = nmar.load(tmp_path / "m.nmar")
    np.testing.assert_array_equal(again.log_density(cells), model.log_density(cells))
    np.testing.assert_array_equal(again.row_noise_.level, model.row_noise_.level)


def test_new_rows_find_their_noise(fitted):
    model, cells = fitted
    folded = model.transform(cells)
    assert folded.shape[0] == 60
    from nmar.fit.foldin import fold_in

    quiet = fold_in(model.posterior_, cells)
    levels = [np.log(p.state.sides[0].noise.mean) for p in (model.posterior_, quiet)]
    assert np.corrcoef(*levels)[0, 1] > 0.99


def test_more_cells_go_on_with_the_noise():
    more = noisy_table((70, 40), seed=2)[0]
    grown = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=15, tol=1e-3, random_state=0)
    grown.fit(noisy_table((60, 40), seed=2)[0])
    grown.partial_fit(more.select(more.row_index >= 60))
    assert len(grown.row_noise_.level) == 70
    assert np.isfinite(grown.log_likelihood(more))


def test_ids_never_seen_have_the_noise_of_the_prior(fitted):
    model, _ = fitted
    mean, sd = model.predict_entries([999], [4], unknown="prior", return_std=True)
    assert np.isfinite(mean[0])
    assert sd[0] > 0.0


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_change_no_bit(fitted, jobs):
    model, cells = fitted
    again = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=15, tol=0.0, random_state=0, n_jobs=jobs).fit(cells)
    np.testing.assert_array_equal(again.bound_trace_, model.bound_trace_)


@pytest.mark.parametrize("scale", [1e-3, 50.0])
def test_units_change_nothing(fitted, scale):
    model, cells = fitted
    other = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=15, tol=0.0, random_state=0)
    other.fit(cells.with_values(scale * cells.values + 7.0))
    np.testing.assert_allclose(other.row_noise_.level, scale * model.row_noise_.level, rtol=1e-4)


def test_weights_of_one_change_no_bit(fitted):
    model, cells = fitted
    ones = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=15, tol=0.0, random_state=0)
    ones.fit(cells.with_weights(np.ones(len(cells))))
    np.testing.assert_allclose(ones.bound_trace_, model.bound_trace_, rtol=1e-12)


def test_a_plain_fit_is_one_run(fitted):
    _, cells = fitted
    seen = []
    plain = nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        plain.fit(cells, callbacks=[lambda record: seen.append(record.phase)])
    assert plain.n_iter_ == 3
    assert seen == ["fit"] * 3
    assert plain.choices_ == ()


def test_the_pattern_of_a_plain_fit_is_a_pattern():
    """P(observed) ranks observed cells as the pattern fitted alone does: values do not move it."""
    cells = nmar.simulate((120, 90), nmar.Factorization(2), "ignorable", 0.2, seed=0)[0]
    plain = nmar.CCPF(nmar.Factorization(2), factors=3, max_iter=40, tol=0.0, random_state=0).fit(cells)
    alone = nmar.CCPF(nmar.PatternOnly(), factors=3, max_iter=40, tol=0.0, random_state=0).fit(cells)
    i, j = np.divmod(np.arange(0, 120 * 90, 7), 90)
    np.testing.assert_allclose(plain.observed_probability(i, j), alone.observed_probability(i, j), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(data=nmar.Factorization(2, family="poisson"), noise="rows"), "noise='rows'.*poisson"),
        (dict(linkage="free", tail=True), "tail=True.*ignorable.*free"),
        (dict(linkage=nmar.Free(mean="shift"), noise="cols"), "mean='shift'"),
        (dict(solver="entrywise", noise="rows+cols"), "solver='entrywise' learns one"),
        (dict(noise="lines"), "noise='lines'"),
        (dict(tail=-1.0), "tail=-1.0"),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings, words):
    rng = np.random.default_rng(0)
    cells = (
        nmar.Cells.from_arrays(*np.nonzero(rng.random((9, 8)) < 0.6), np.ones(1)) if False else noisy_table((9, 8))[0]
    )
    cells = cells.with_values(np.round(np.abs(cells.values)))
    with pytest.raises(ValueError, match=words):
        nmar.CCPF(**{"data": nmar.Factorization(2), "factors": 2, "max_iter": 2, **settings}).fit(cells)


def test_the_two_stage_baseline_and_all_cells_can_have_noise():
    cells = noisy_table((30, 25), seed=4)[0]
    for settings in ({"linkage": "two-stage"}, {"linkage": "ignorable", "target": "all"}):
        model = nmar.CCPF(nmar.Factorization(2), noise="rows+cols", factors=2, max_iter=30, random_state=0, **settings)
        assert np.isfinite(model.fit(cells).log_likelihood(cells))
        assert len(model.row_noise_.level) == 30


def test_noise_waits_for_the_factors():
    """While it waits nothing of the noise moves, and the bound rises all the same; then it is learned."""
    problem, kernels = started("full", LINKAGES["ignorable"].start(), replace(LAWS["both and tail"], waits=4))
    found, state = sweeps(problem, kernels, 2)
    assert (state.shared.noise.waits, state.shared.noise.shapes) == (0, Noise().shapes)
    assert state.shared.noise.freedom == LAWS["both and tail"].freedom
    for side, start in zip(state.sides, problem.state.sides, strict=True):
        np.testing.assert_array_equal(side.noise.alpha, start.noise.alpha)
    problem = replace(problem, state=state)
    more, state = sweeps(problem, kernels, 6)
    assert np.ptp(state.sides[0].noise.mean) > 0.1
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(found + more))


@pytest.mark.parametrize("seed", [0, 1])
def test_small_tables_whose_lines_do_not_differ_lose_nothing(seed):
    """Factors not found yet look like noise: lines that differ from the first sweep on lost 0.1 nats here."""
    cells = nmar.simulate((60, 40), nmar.Factorization(3), "ignorable", 0.4, seed=seed)[0]
    train, _, test = cells.split(test=0.2, valid=0.0, seed=seed)
    plain, constant = (
        nmar.CCPF(nmar.Factorization(5), random_state=seed, **settings).fit(train, hidden=test)
        for settings in ({}, {"noise": "constant"})
    )
    assert plain.log_likelihood(test) > constant.log_likelihood(test) - 0.01


def test_simulated_noise_is_what_was_asked_for():
    """Levels of mean 1, and values in units of their noise with the tail that was asked for."""
    cells, truth = nmar.simulate((400, 300), nmar.Effects(), "ignorable", 0.3, seed=1, noise="rows+cols", tail=6.0)
    rows, cols = truth.noise
    assert (len(rows), len(cols)) == (400, 300)
    assert abs(rows.mean() - 1.0) < 5.0 * rows.std() / 20.0
    i, j = cells.positions()
    mean = truth.posterior.cells(i, j).mean[:, 0]
    u = student.cdf((cells.values - mean) * np.sqrt(rows[i] * cols[j] / truth.dispersion), 6.0)
    assert abs(u.mean() - 0.5) < 4.0 * np.sqrt(1 / 12 / len(u))
    assert abs(np.mean(np.abs(u - 0.5) < 0.45) - 0.9) < 4.0 * np.sqrt(0.09 / len(u))
    plain = nmar.simulate((40, 30), nmar.Effects(), "ignorable", 0.3, seed=1)
    assert plain[1].noise == (None, None)


def test_simulated_noise_is_recovered():
    """log λ̂ shrinks towards 0 as a posterior mean does: the truth given the estimate has slope 1."""
    cells, truth = nmar.simulate(
        (400, 300), nmar.Factorization(2), "ignorable", 0.3, seed=2, noise="rows+cols", tail=6.0
    )
    model = nmar.CCPF(nmar.Factorization(2), factors=2, random_state=0).fit(cells)
    assert 4.0 < model.posterior_.state.shared.noise.freedom < 12.0
    for noise, level in zip((model.row_noise_, model.col_noise_), truth.noise, strict=True):
        found, true = -2.0 * np.log(noise.level), np.log(level)
        assert np.corrcoef(found, true)[0, 1] > 0.85
        assert 0.9 < np.polyfit(found, true, 1)[0] < 1.1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(data=nmar.Factorization(2, family="poisson"), noise="rows"), "noise='rows'.*poisson"),
        (dict(linkage="linear", tail=3.0), "tail=3.0.*ignorable.*linear"),
        (dict(linkage=nmar.Free(mean="shift"), noise="cols"), "mean='shift'"),
        (dict(linkage="ignorable", tail=True), "tail=True"),
        (dict(noise="lines"), "noise='lines'"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(settings, words):
    with pytest.raises(ValueError, match=words):
        nmar.simulate((9, 8), density=0.5, **settings)
