"""Covariates of mixtures: odds of clusters on the axis that is clustered, means of profiles on the other."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from scipy.special import logsumexp

import nmar
from nmar.fit.executor import Serial
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.cluster_prior import ClusterCoefficients, DesignedAssignment, softmax
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.shared import update_shared
from nmar.models.state import State
from nmar.prob.linkage import linkage

N, J, SEEN = 260, 40, 200  # rows from SEEN on and the last 8 columns have no cells
ODDS = np.array([[1.5, 0.0, 0.0], [-1.5, 0.0, 0.0], [0.0, 1.5, 0.0]])  # (cluster, covariate)
PROFILE = np.array([[1.0, -0.5], [-1.0, 0.6], [0.0, 1.2]])


@pytest.fixture(scope="module")
def problem():
    """Rows in three clusters by their covariates; profiles of the clusters linear in the columns' covariates."""
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(N, 3)), rng.normal(size=(J, 2))
    x, z = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (x, z))
    label = np.array([rng.choice(3, p=p) for p in softmax(x @ ODDS.T)])
    profile = z @ PROFILE.T + 0.4 * rng.normal(size=(J, 3))
    mean = profile[:, label].T
    seen = rng.random((N, J)) < 0.25
    seen[SEEN:], seen[:, J - 8 :] = False, False
    i, j = np.nonzero(seen)
    cells = nmar.Cells.from_arrays(i, j, 3.0 + 2.0 * (mean[i, j] + 0.5 * rng.normal(size=len(i))), (N, J))
    cells = cells.take_rows(np.arange(SEEN)).T.take_rows(np.arange(J - 8)).T
    rows = pandas.DataFrame(x, columns=["a", "b", "c"]).rename_axis("id")
    cols = pandas.DataFrame(z, columns=["d", "e"]).rename_axis("id")
    return cells, 3.0 + 2.0 * mean, label, rows, cols


def fitted(problem, rows=True, cols=True, linkage="ignorable", **more):
    cells, _, _, x, z = problem
    data = nmar.Mixture(3, rows=x if rows else None, cols=z if cols else None, restarts=2)
    settings = {"factors": 2, "random_state": 0, "tol": 0.0, "max_iter": 40, "starts": 1} | more
    return nmar.CCPF(data, linkage, **settings).fit(cells)


def small(axis="rows", family="gaussian", known=("rows", "cols")):
    """A small problem with covariates of either axis."""
    drawn = nmar.Mixture(2, axis, family)
    cells, _ = nmar.simulate((18, 14), drawn, "ignorable", density=0.4, seed=0)
    rng = np.random.default_rng(3)
    x = {"rows": rng.normal(size=(18, 3)), "cols": rng.normal(size=(14, 2))}
    given = {name: x[name] for name in known}
    return cells, nmar.Mixture(3, axis, family, restarts=1, **given)


CASES = [
    ("rows", "gaussian", ("rows", "cols"), "ignorable"),
    ("rows", "gaussian", ("rows", "cols"), nmar.Free(levels=4)),
    ("cols", "gaussian", ("rows", "cols"), "geometric"),
    ("rows", "gaussian", ("cols",), nmar.Free(thinning=4.0)),
    ("cols", "gaussian", ("cols",), "linear"),
    ("rows", "poisson", ("rows",), "exponential"),
    ("cols", "poisson", ("cols",), "ignorable"),
]


@pytest.mark.parametrize(("axis", "family", "known", "link"), CASES, ids=str)
def test_the_bound_never_falls_and_backends_agree(axis, family, known, link):
    """Half sweep by half sweep, each with its M-step; 1e-9 relative."""
    cells, data = small(axis, family, known)
    case, traces = begin(cells, data.build(cells), linkage(link), Pattern(2)), []
    for backend in ("numba", "reference"):
        state, trace = case.state, []
        for step in range(16):
            context = Context(case.observed, case.law, choose(backend), Serial())
            pair, info, size = half_sweep(step % 2, state, context)
            trace.append(bound(state, info.log_z, case.law))
            state = State(state.sides, replace(state.shared, table_size=size)).with_side(step % 2, pair)
            state = State(state.sides, update_shared(step % 2, state, info, case.law))
        traces.append(trace)
        assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    np.testing.assert_allclose(*traces, rtol=1e-7)


def test_lines_are_stationary(problem):
    """New responsibilities and profiles, at any sums over cells, maximise these less the divergence."""
    model = fitted(problem, max_iter=5).posterior_
    law, shared, rng = model.law.data, model.state.shared.data, np.random.default_rng(0)
    for axis in (0, 1):
        old = model.state.sides[axis].data
        linear, quadratic = rng.normal(size=(len(old.x), 3)), rng.gamma(1.0, size=(len(old.x), 3))
        new = law.update(old, axis, shared, SimpleNamespace(linear=linear, quadratic=quadratic), None)

        def value(side, axis=axis, linear=linear, quadratic=quadratic):
            shown = law.features(side, axis, shared)
            total = np.sum(linear * shown.first - 0.5 * quadratic * shown.second)
            return total - law.divergence(side, axis, shared)

        step = np.zeros((len(old.x), 3))
        step[[0, 3, 7], [0, 1, 2]] = 1e-5
        if axis == 0:
            logs = np.log(new.probability)
            moves = [lambda h, n=new, logs=logs, s=step: replace(n, probability=softmax(logs + h * s))]
        else:
            moves = [
                lambda h, n=new, s=step: replace(n, mean=n.mean + h * s),
                lambda h, n=new, s=step: replace(n, variance=n.variance * np.exp(h * s)),
            ]
        for move in moves:
            assert abs(value(move(1.0)) - value(move(-1.0))) / 2e-5 < 1e-5


@pytest.fixture(scope="module")
def odds():
    """Coefficients of 60 lines that half know their clusters, iterated to the end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    r = softmax(x @ np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 0.0]]) + rng.normal(size=(60, 3)))
    side = DesignedAssignment(r, x)
    found = ClusterCoefficients.start(side, 0.7)
    for _ in range(80):
        found = found.learned(side)
    return side, found


def test_odds_are_at_the_posterior_mode(odds):
    """b and W maximise Σ r·log softmax(b + Wx) − ‖W‖²/2ρ + log Dirichlet: the quadratic bound touches it there."""
    side, found = odds

    def objective(level, mean):
        logits = level + side.x @ mean.T
        prior = 0.7 * np.sum(level - logsumexp(level)) - np.sum(mean**2) / (2.0 * found.ridge)
        return np.sum(side.probability * (logits - logsumexp(logits, axis=1, keepdims=True))) + prior

    for g, f in ((0, 0), (1, 1), (2, 0)):
        step = np.zeros_like(found.mean)
        step[g, f] = 1e-5
        up, down = (objective(found.level, found.mean + sign * step) for sign in (1.0, -1.0))
        assert abs(up - down) / 2e-5 < 1e-5
        up, down = (objective(found.level + sign * step[:, f], found.mean) for sign in (1.0, -1.0))
        assert abs(up - down) / 2e-5 < 1e-5
    np.testing.assert_allclose(found.mean.sum(axis=0), 0.0, atol=1e-10)


def test_odds_are_stationary_and_bounded(odds):
    """Divergence is least at the end, and its log Σ exp lies above what integration over q(W) gives."""
    side, found = odds
    for name in ("spread", "ridge"):
        for factor in (1.01, 1.0 / 1.01):
            assert found.divergence(side) < replace(found, **{name: getattr(found, name) * factor}).divergence(side)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(4000, 3, 2)) * np.sqrt(found.spread)
    drawn = found.mean + (noise - noise.mean(axis=1, keepdims=True)) @ found.basis.T
    logits = found.level + np.einsum("nf,sgf->sng", side.x, drawn)
    exact = np.mean(np.sum(logsumexp(logits, axis=2) - np.sum(side.probability * logits, axis=2), axis=1))
    lines = np.sum(logsumexp(found.logits(side.x), axis=1)) - np.sum(side.probability * found.logits(side.x))
    curved = 0.25 * 2 * float(found.spread @ found.eigenvalues)
    assert lines < exact < lines + curved


@pytest.mark.parametrize("known", [1.0, 2.0, 50.0])
def test_standard_deviations_of_odds_are_those_of_the_posterior(known):
    """Two clusters, one covariate, cells that tell the cluster more or less: curvature at the mode, and integration."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(120, 1))
    label = rng.random(120) < softmax(np.column_stack([0.0 * x, 2.0 * x]))[:, 1]
    log_cells = np.column_stack([np.zeros(120), known * (2.0 * label - 1.0 + rng.normal(size=120))])
    side = DesignedAssignment(softmax(log_cells), x)
    found = ClusterCoefficients.start(side, 1.0)
    for _ in range(150):
        found = found.learned(side)
        side = DesignedAssignment(softmax(found.logits(x) + log_cells), x)

    def log_posterior(contrast):  # W = (−u, u)/√2, u ~ N(0, ρ)
        logits = found.level + np.sqrt(0.5) * contrast[:, None, None] * x * np.array([-1.0, 1.0])
        lines = logsumexp(logits + log_cells, axis=2) - logsumexp(logits, axis=2)
        return lines.sum(axis=1) - 0.5 * contrast**2 / found.ridge

    mode = np.sqrt(2.0) * found.mean[1, 0]
    below, at, above = log_posterior(mode + 1e-3 * np.array([-1.0, 0.0, 1.0]))
    assert abs(above - below) / 2e-3 < 1e-2
    sd = np.sqrt(-1e-6 / (above - 2.0 * at + below))
    np.testing.assert_allclose(found.sd(side)[:, 0], np.sqrt(0.5) * sd, rtol=1e-3)
    if known == 50.0:
        grid = np.linspace(-8.0, 8.0, 801)
        posterior = softmax(log_posterior(grid)[None, :])[0]
        exact = np.sqrt(posterior @ (grid - posterior @ grid) ** 2)
        assert exact == pytest.approx(sd, rel=0.06)
        assert np.sqrt(found.spread[0]) < 0.8 * exact  # q(W) is narrower, as Böhning's curvature is larger


def test_truth_is_recovered_and_named(problem):
    _, _, label, _, _ = problem
    model = fitted(problem)
    effects = model.covariate_effects_
    counts = np.array([np.bincount(model.labels_[label[:SEEN] == g], minlength=3) for g in range(3)])
    order = counts.argmax(axis=1)
    assert sorted(order.tolist()) == [0, 1, 2] and counts.max(axis=1).sum() > 0.95 * SEEN
    rows, cols = effects["rows"], effects["cols"]
    assert rows.ids.tolist() == cols.ids.tolist() == ["cluster 1", "cluster 2", "cluster 3"]
    assert rows.names == ("a", "b", "c") and cols.names == ("d", "e")
    away = (rows.mean[order] - (ODDS - ODDS.mean(axis=0))) / rows.sd[order]
    assert np.abs(away).max() < 3.0 and rows.sd.max() < 0.4
    away = (cols.mean[order] - 2.0 * PROFILE) / cols.sd[order]  # in units of the values
    assert np.abs(away).max() < 3.0 and cols.sd.max() < 0.4


def squared(model, mean, i, j):
    return np.mean((model.predict_entries(i, j, unknown="prior") - mean[i, j]) ** 2)


def test_lines_without_cells_are_predicted_from_their_covariates(problem):
    """Rows by the odds of their clusters, columns by the profiles' means; better than the prior, with honest sd."""
    _, mean, _, _, _ = problem
    known, plain = fitted(problem), fitted(problem, False, False)
    old, new, old_cols, new_cols = np.arange(SEEN), np.arange(SEEN, N), np.arange(J - 8), np.arange(J - 8, J)
    for rows, cols, share in ((new, old_cols, 0.85), (old, new_cols, 0.35), (new, new_cols, 0.7)):
        i, j = (each.ravel() for each in np.meshgrid(rows, cols, indexing="ij"))
        assert squared(known, mean, i, j) < share * squared(plain, mean, i, j)
        predicted, sd = known.predict_entries(i, j, return_std=True)
        away = predicted - mean[i, j] + np.random.default_rng(1).normal(size=len(i))
        assert np.mean((away / sd) ** 2) == pytest.approx(1.0, abs=0.25)
    chance = known.posterior_.extended(new).state.sides[0].data.probability[SEEN:-1]
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert chance.max() > 0.9  # some rows are nearly sure of their cluster
    ids, scores = known.recommend([0, SEEN, SEEN + 1], n=3)  # by covariates alone, beside a row with cells
    assert ids.shape == (3, 3)
    np.testing.assert_allclose(scores[1], known.predict_entries(np.full(3, SEEN), ids[1]), rtol=1e-6)
    with pytest.raises(ValueError, match="fold_in"):
        known.recommend([999])
    with pytest.raises(ValueError, match="999"):
        known.predict_entries([999], [0])
    assert np.isfinite(known.predict_entries([999], [0], unknown="prior")).all()


def test_folded_rows_have_their_covariates(problem):
    cells, mean, _, _, _ = problem
    rng = np.random.default_rng(3)
    row, col = np.arange(SEEN, N), rng.integers(0, J - 8, N - SEEN)
    new = nmar.Cells.from_frame({"r": row, "c": col, "v": mean[row, col]}, row="r", col="c", value="v", cols=cells.cols)
    i, j = (each.ravel() for each in np.meshgrid(row, np.arange(J - 8), indexing="ij"))
    errors = [squared(fitted(problem, known, known).fold_in(new), mean, i, j) for known in (True, False)]
    assert errors[0] < 0.85 * errors[1]


def test_covariates_that_are_noise_change_next_to_nothing(problem):
    """Numbers, and categories, which a model of the covariates themselves would cluster by."""
    cells, mean, _, _, _ = problem
    rng = np.random.default_rng(5)
    rows = pandas.DataFrame({"n0": rng.normal(size=N), "kind": rng.choice(list("pqr"), N)}).rename_axis("id")
    cols = pandas.DataFrame({"n1": rng.normal(size=J), "kind": rng.choice(list("st"), J)}).rename_axis("id")
    noisy = fitted((cells, mean, None, rows, cols))
    plain = fitted(problem, False, False)
    i, j = np.divmod(np.arange(SEEN * (J - 8)), J - 8)
    errors = [(m.predict_entries(i, j) - mean[i, j]) ** 2 for m in (noisy, plain)]
    gap = errors[0] - errors[1]
    assert abs(gap.mean()) < 0.02 * errors[1].mean() + 2.0 * gap.std() / np.sqrt(len(gap))
    effects = noisy.covariate_effects_["rows"]
    assert np.abs(effects.mean / effects.sd).max() < 3.0


def test_saving_and_growing(problem, tmp_path):
    _, mean, _, _, _ = problem
    model = fitted(problem)
    model.save(tmp_path / "m")
    again = nmar.load(tmp_path / "m")
    i, j = np.arange(SEEN - 20, SEEN + 20), np.arange(40) % J
    np.testing.assert_array_equal(again.predict_entries(i, j), model.predict_entries(i, j))
    for name in ("rows", "cols"):
        np.testing.assert_array_equal(again.covariate_effects_[name].sd, model.covariate_effects_[name].sd)
    row = np.repeat(np.arange(SEEN, N), 4)
    col = np.tile(np.arange(4), N - SEEN) + J - 10  # two new columns among them
    more = nmar.Cells.from_frame({"r": row, "c": col, "v": mean[row, col]}, row="r", col="c", value="v")
    model.partial_fit(more, sweeps=12)
    assert (model.posterior_.rows.size, model.posterior_.cols.size) == (N, J - 6)
    assert np.all(np.diff(model.bound_trace_) >= -1e-9 * np.abs(model.bound_trace_[1:]))
    shared, sides = model.posterior_.state.shared.data, model.posterior_.state.sides
    for known, side in ((shared.odds, sides[0].data), (shared.profile, sides[1].data)):
        np.testing.assert_allclose(known.basis * known.eigenvalues @ known.basis.T, side.x.T @ side.x, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nmar.Mixture(2, family="poisson", cols=np.ones((3, 1))), "cols must be None with family='poisson'"),
        (lambda: nmar.Mixture(2, "cols", "poisson", rows=np.ones((3, 1))), "rows must be None with family='poisson'"),
        (lambda: nmar.Mixture(1, rows=np.ones((3, 1))), "clusters=1"),
        (lambda: nmar.simulate((9, 8), nmar.Mixture(2, rows=np.ones((9, 1)))), "cannot be simulated"),
        (lambda: refused(rows={"id": [0, 1], "age": [np.inf, 0.2]}), "rows: column 'age' holds an infinite number"),
        (lambda: refused(cols={"a": [1.0, 2.0]}), "cols: one column must hold every id"),
        (lambda: refused(cols=np.ones((5, 1)) * np.arange(5.0)[:, None]), "cols has 5 lines, but there are 2"),
    ],
)
def test_errors_name_the_argument_and_the_column(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def refused(**given):
    given = {name: pandas.DataFrame(x) if isinstance(x, dict) else x for name, x in given.items()}
    cells = nmar.Cells.from_arrays([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0], (2, 2))
    nmar.CCPF(nmar.Mixture(2, **given), "ignorable", factors=1, random_state=0).fit(cells)


@pytest.mark.parametrize("sweeps", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("known", [("rows",), ("cols",), ("rows", "cols")])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_joint_draws_of_mixtures_keep_their_covariates(family, known, sweeps):
    if family == "poisson" and "cols" in known:
        return  # refused: gamma profiles
    plain = nmar.Mixture(2, family=family)
    cells, _ = nmar.simulate((30, 12), plain, "ignorable", density=0.6, seed=0)
    given = {"rows": np.arange(30.0)[:, None] % 7, "cols": np.arange(12.0)[:, None] % 5}
    data = nmar.Mixture(2, family=family, **{name: given[name] for name in known})
    model = nmar.CCPF(data, "linear", factors=2, max_iter=5, tol=0.0, random_state=0, n_jobs=1).fit(cells)
    assert np.isfinite(model.impute(2, seed=0, sweeps=sweeps).values).all()
