"""Covariates of rows and columns: prior means of lines are linear in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas
import pytest

import nmar
from nmar.data.axis import Axis
from nmar.data.covariates import design

N, J = 160, 50
ROWS, COLS = np.array([0.9, -0.6, 0.0]), np.array([0.7, 0.0])


@pytest.fixture(scope="module")
def problem():
    """Values whose levels and factors follow covariates; the last 40 rows have no cells."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(N, 3)), rng.normal(size=(J, 2))
    x, z = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (x, z))
    a = x @ rng.normal(size=(3, 2)) * 0.6 + 0.4 * rng.normal(size=(N, 2))
    b = z @ rng.normal(size=(2, 2)) * 0.6 + 0.4 * rng.normal(size=(J, 2))
    rows, cols = x @ ROWS + 0.3 * rng.normal(size=N), z @ COLS + 0.3 * rng.normal(size=J)
    mean = rows[:, None] + cols + a @ b.T
    seen = rng.random((N, J)) < 0.25
    seen[120:] = False
    i, j = np.nonzero(seen)
    cells = nmar.Cells.from_arrays(i, j, mean[i, j] + 0.5 * rng.normal(size=len(i)), (N, J))
    frames = [pandas.DataFrame(each, columns=list("abc")[: each.shape[1]]).rename_axis("id") for each in (x, z)]
    return cells.take_rows(np.arange(120)), mean, seen, frames


def fitted(problem, linkage="ignorable", covariance="full", known=(True, True), student=False, **more):
    cells, _, _, (rows, cols) = problem
    given = {"rows": rows if known[0] else None, "cols": cols if known[1] else None}
    data = nmar.Factorization(2, covariance=covariance, student=student, **given)
    settings = {"factors": 2, "random_state": 0, "tol": 0.0, "max_iter": 40} | more
    return nmar.CCPF(data, linkage, **settings).fit(cells)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("linkage", ["ignorable", nmar.Free(levels=4), nmar.Free(thinning=4.0)], ids=str)
def test_the_bound_never_falls_and_backends_agree(problem, linkage, covariance):
    student = linkage == "ignorable"
    fast = fitted(problem, linkage, covariance, student=student, starts=1, max_iter=12)
    slow = fitted(problem, linkage, covariance, student=student, starts=1, max_iter=12, backend="reference")
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(fast.bound_trace_))
    np.testing.assert_allclose(fast.bound_trace_, slow.bound_trace_, rtol=1e-7)


def test_updates_are_stationary(problem):
    """W, given its ridge, and then the ridge stand where the divergence, all else held, is flat."""
    model = fitted(problem).posterior_
    law, shared, side = model.law.data, model.state.shared.data, model.state.sides[0].data
    old = shared.coefficients[0]
    new = old.learned(side, shared.variance[0], np.array(law.axes[0].free))

    def cost(coefficients):
        return law.divergence(side, 0, replace(shared, coefficients=(coefficients, shared.coefficients[1])))

    at_ridge = replace(new, ridge=old.ridge)
    for k, f in ((0, 1), (1, 2), (2, 0)):
        step = np.zeros_like(new.mean)
        step[k, f] = 1e-5
        up, down = (cost(replace(at_ridge, mean=new.mean + sign * step)) for sign in (1.0, -1.0))
        assert abs(up - down) / 2e-5 < 2e-4
        wide = np.ones_like(new.spread)
        wide[k, f] = np.exp(1e-4)
        up, down = (cost(replace(at_ridge, spread=new.spread * wide**sign)) for sign in (1.0, -1.0))
        assert abs(up - down) / 2e-4 < 1e-4
    assert cost(new) <= cost(at_ridge) <= cost(old)
    for factor in (1.01, 1.0 / 1.01):
        assert cost(replace(new, ridge=new.ridge * factor)) > cost(new)


def test_truth_is_recovered_and_named(problem):
    model = fitted(problem)
    effects = model.covariate_effects_
    rows, cols = effects["rows"], effects["cols"]
    assert rows.names == ("a", "b", "c") and cols.names == ("a", "b")
    assert rows.ids.tolist() == ["factor 1", "factor 2", "bias"]
    np.testing.assert_allclose(rows.mean[-1], ROWS, atol=0.15)
    np.testing.assert_allclose(cols.mean[-1], COLS, atol=0.2)
    assert np.all(rows.sd > 0.0)
    with pytest.raises(AttributeError, match="data models with covariates"):
        _ = fitted(problem, known=(False, False)).covariate_effects_


def test_rows_without_cells_are_predicted_from_their_covariates(problem):
    """Better than the prior by about what the covariates explain."""
    _, mean, _, _ = problem
    model, plain = fitted(problem), fitted(problem, known=(False, False))
    i, j = (each.ravel() for each in np.meshgrid(np.arange(120, N), np.arange(J), indexing="ij"))
    error = model.predict_entries(i, j) - mean[i, j]
    prior = plain.predict_entries(i, j, unknown="prior") - mean[i, j]
    assert np.mean(error**2) < 0.45 * np.mean(prior**2)
    _, sd = model.predict_entries(i, j, return_std=True)
    away = error + 0.5 * np.random.default_rng(1).normal(size=len(i))
    assert np.mean(np.abs(away) < 1.645 * sd) == pytest.approx(0.9, abs=0.04)
    with pytest.raises(ValueError, match="999"):
        model.predict_entries([999], [0])
    assert np.isfinite(model.predict_entries([999], [0], unknown="prior")).all()


def test_folded_rows_have_their_covariates(problem):
    cells, mean, _, _ = problem
    rng = np.random.default_rng(3)
    row = np.repeat(np.arange(120, N), 2)
    col = np.concatenate([rng.choice(J, 2, replace=False) for _ in range(N - 120)])
    new = nmar.Cells.from_frame({"r": row, "c": col, "v": mean[row, col]}, row="r", col="c", value="v", cols=cells.cols)
    known, plain = (fitted(problem, known=(k, k)).fold_in(new) for k in (True, False))
    i, j = (each.ravel() for each in np.meshgrid(np.arange(120, N), np.arange(J), indexing="ij"))
    errors = [np.mean((m.predict_entries(i, j) - mean[i, j]) ** 2) for m in (known, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_covariates_that_are_noise_change_next_to_nothing(problem):
    cells, mean, seen, _ = problem
    rng = np.random.default_rng(5)
    noise = pandas.DataFrame(rng.normal(size=(N, 6))).rename_axis("id")
    noise.columns = [f"n{k}" for k in range(6)]
    settings = {"factors": 2, "random_state": 0, "max_iter": 60}
    with_noise = nmar.CCPF(nmar.Factorization(2, rows=noise), "ignorable", **settings).fit(cells)
    plain = nmar.CCPF(nmar.Factorization(2), "ignorable", **settings).fit(cells)
    i, j = np.nonzero(~seen[:120])
    errors = [(m.predict_entries(i, j) - mean[i, j]) ** 2 for m in (with_noise, plain)]
    gap = errors[0] - errors[1]
    assert gap.mean() < 0.05 * errors[1].mean()


def test_minibatches_saving_and_growing(problem, tmp_path):
    _, mean, _, _ = problem
    parts = fitted(problem, solver=nmar.Minibatch(batch_size=40, passes=20))
    assert np.isfinite(parts.bound_trace_).all()
    model = fitted(problem)
    model.save(tmp_path / "m")
    again = nmar.load(tmp_path / "m")
    i, j = np.arange(100, 140), np.arange(40)
    np.testing.assert_array_equal(again.predict_entries(i, j), model.predict_entries(i, j))
    more = nmar.Cells.from_arrays([130, 131], [0, 1], [mean[130, 0], mean[131, 1]], (N, J)).take_rows([130, 131])
    grown = fitted(problem).partial_fit(more, sweeps=5)
    assert grown.posterior_.rows.size == 122 and np.isfinite(grown.score(more))


def level_problem(degrees):
    """Rows of few cells, whose levels are linear in two covariates; two more rows have covariates only."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(len(degrees) + 2, 2))
    x -= x.mean(axis=0)
    level = x @ np.array([0.8, -0.5]) + 0.7 * rng.normal(size=len(x))
    row = np.repeat(np.arange(len(degrees)), degrees)
    col = np.concatenate([rng.choice(9, d, replace=False) for d in degrees])
    cells = nmar.Cells.from_arrays(row, col, level[row] + rng.normal(size=len(row)), (len(degrees), 9))
    return cells, pandas.DataFrame(x, columns=["a", "b"]).rename_axis("id")


@pytest.mark.parametrize(("degrees", "exact"), [(np.full(30, 2), 1e-6), (np.arange(30) % 5 + 1, 0.05)])
def test_standard_deviations_are_those_of_the_exact_posterior(degrees, exact):
    """Row effects are jointly normal with their coefficients, given the variances: nothing need be factorised."""
    cells, frame = level_problem(degrees)
    data = nmar.Effects("rows", rows=frame)
    settings = {"noise": "constant", "factors": 1, "random_state": 0, "tol": 0.0, "max_iter": 300}
    model = nmar.CCPF(data, "ignorable", **settings).fit(cells)
    state, n = model.posterior_.state, len(degrees)
    shared, side = state.shared.data, state.sides[0].data
    ridge, tau, noise = shared.coefficients[0].ridge[0], shared.variance[0][0], state.shared.dispersion
    scaled = (frame - frame.mean()) / frame.std(ddof=0)
    x, new = scaled.to_numpy()[:n], scaled.to_numpy()[n:]
    np.testing.assert_allclose(side.x, x)
    weight = 1.0 / (tau + noise / degrees)  # of a row's mean about W x
    covariance = np.linalg.inv(np.eye(2) / ridge + x.T @ (weight[:, None] * x))
    effects = model.covariate_effects_["rows"]
    scale = model.posterior_.units.scale
    np.testing.assert_allclose(effects.sd[0], scale * np.sqrt(np.diag(covariance)), rtol=exact)
    assert np.all(scale * shared.coefficients[0].sd[0] < 0.9 * effects.sd[0])  # q(W) takes the rows for known
    _, sd = model.predict_entries([n, n + 1], [0, 0], return_std=True)
    variance = noise + tau + np.einsum("nf,fg,ng->n", new, covariance, new)
    np.testing.assert_allclose(sd, scale * np.sqrt(variance), rtol=exact)


def test_coefficients_of_a_grown_model_are_on_all_lines(problem):
    """X'X is that of the lines there are, so that the bound goes on rising with twice as many."""
    cells, mean, _, _ = problem
    model = fitted(problem).partial_fit(cells, sweeps=1)
    row, col = (each.ravel() for each in np.meshgrid(np.arange(120, N), np.arange(12), indexing="ij"))
    more = nmar.Cells.from_frame({"r": row, "c": col, "v": mean[row, col]}, row="r", col="c", value="v")
    model.partial_fit(more, sweeps=10)
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(model.bound_trace_))
    known, side = model.posterior_.state.shared.data.coefficients[0], model.posterior_.state.sides[0].data
    np.testing.assert_allclose(known.basis * known.eigenvalues @ known.basis.T, side.x.T @ side.x, atol=1e-8)


def test_rows_known_by_covariates_alone_have_recommendations(problem):
    model = fitted(problem)
    ids, scores = model.recommend([0, 130, 131], n=4)
    for row, its, score in zip((0, 130, 131), ids, scores, strict=True):
        np.testing.assert_allclose(score, model.predict_entries(np.full(4, row), its), rtol=1e-9)
    assert not np.isin(ids[0], problem[0].by(0).indices[: problem[0].by(0).indptr[1]]).any()
    everything = model.predict_entries(np.full(J, 130), np.arange(J))
    np.testing.assert_allclose(scores[1], np.sort(everything)[::-1][:4])
    with pytest.raises(ValueError, match="fold_in"):
        model.recommend([130, 999])


def test_entrywise_refuses_covariates(problem):
    with pytest.raises(ValueError, match="without covariates"):
        fitted(problem, "linear", "diagonal", solver="entrywise")


FRAME = {
    "id": ["u", "v", "w", "x"],
    "age": [20.0, 30.0, None, 50.0],
    "town": ["a", "b", "a", "c"],
    "sex": ["f", "m", "m", "f"],
    "same": [1, 1, 1, 1],
}


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "arrow"])
def test_frames_by_id(kind):
    axis = Axis.from_ids(np.array(["w", "u", "x"], object))
    frame = pandas.DataFrame(FRAME)
    if kind == "index":
        frame = frame.set_index("id")
    elif kind == "polars":
        frame = pytest.importorskip("polars").DataFrame(FRAME)
    elif kind == "arrow":
        frame = pytest.importorskip("pyarrow").table(FRAME)
    made = design(frame, axis, "rows")
    assert made.names == ("age", "age missing", "town=a", "town=b", "town=c", "sex=m")
    lines = made.lines(axis, "rows")
    mean, sd = np.mean([20, 30, 50]), np.std([20, 30, 50])
    np.testing.assert_allclose(lines[:, 0], [0.0, (20 - mean) / sd, (50 - mean) / sd])
    np.testing.assert_allclose(lines[:, 2], [0.5, 0.5, -0.5])
    np.testing.assert_allclose(made.x.mean(axis=0), 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [1.0, 2.0], "b": ["p", "q"]}, "one column must hold every id of the matrix once, and none of"),
        ({"id": [0, 1], "again": [1, 0], "x": [0.1, 0.2]}, "all do"),
        ({"id": [0, 1], "x": [np.inf, 0.2]}, "column 'x' holds an infinite number"),
        ({"id": [0, 1], "x": [1, 1]}, "has no column that differs"),
        ([[1.0, 2.0]], "of type list is not a table"),
    ],
)
def test_strange_frames_are_refused(frame, message):
    given = pandas.DataFrame(frame) if isinstance(frame, dict) else frame
    with pytest.raises(ValueError, match=message):
        design(given, Axis.range(2), "rows")


def test_ids_without_covariates_are_named():
    made = design(pandas.DataFrame({"id": [0, 1], "x": [0.1, 0.2]}), Axis.range(2), "rows")
    with pytest.warns(UserWarning, match="rows has no line for 1 of 3 ids, 2"):
        assert made.lines(Axis.range(3), "rows")[2].tolist() == [0.0]
    with pytest.raises(ValueError, match="covariates are for family='gaussian'"):
        nmar.Factorization(2, family="poisson", rows=np.ones((3, 1)))
    with pytest.raises(ValueError, match="has no effects of the other axis"):
        nmar.Effects("rows", cols=np.ones((3, 1)))
