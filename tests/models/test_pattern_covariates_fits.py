"""Fits whose P(observed) depends on covariates: recovery, noise, ids without cells, solvers, growth, files, errors."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import nmar
from nmar.data.axis import Axis
from nmar.data.levels import level_design

N, J, NEW = 240, 100, 40
RATES = np.array([[0.03, 0.45], [0.15, 0.15], [0.4, 0.03]])


@pytest.fixture(scope="module")
def problem():
    """Cells observed by group of row and kind of column; the last rows have no cells."""
    rng = np.random.default_rng(0)
    group, kind = rng.integers(0, 3, N), rng.integers(0, 2, J)
    rows = pandas.DataFrame({"user": [f"u{k}" for k in range(N)], "group": np.array(["a", "b", "c"])[group]})
    cols = pandas.DataFrame({"film": [f"f{k}" for k in range(J)], "kind": np.array(["p", "q"])[kind]})
    rate = RATES[group][:, kind]
    seen = rng.poisson(rate) > 0
    return rows, cols, rate, seen, cells_of(seen[:-NEW], rows, cols)


def cells_of(seen, rows, cols):
    """The observed cells, with values that are noise."""
    i, j = np.nonzero(seen)
    frame = {"user": rows["user"].to_numpy()[i], "film": cols["film"].to_numpy()[j]}
    values = np.random.default_rng(1).normal(size=len(i))
    return nmar.Cells.from_frame(pandas.DataFrame(frame | {"v": values}), row="user", col="film", value="v")


def fitted(problem, rows=True, cols=True, cells=None, factors=1, data=None, linkage=None, **more):
    settings = {"random_state": 0, "max_iter": 60} | more
    pattern = nmar.Pattern(factors, rows=problem[0] if rows else None, cols=problem[1] if cols else None)
    data = nmar.PatternOnly() if data is None else data
    return nmar.CCPF(data, linkage, pattern=pattern, **settings).fit(problem[4] if cells is None else cells)


@pytest.fixture(scope="module")
def both(problem):
    return fitted(problem)


def asked(problem, lines):
    """Ids of all cells of some rows, and whether they are observed."""
    rows, cols, _, seen, _ = problem
    i, j = (each.ravel() for each in np.meshgrid(lines, np.arange(J), indexing="ij"))
    return rows["user"].to_numpy()[i], cols["film"].to_numpy()[j], seen[i, j]


def log_likelihood(p, seen):
    return np.where(seen, np.log(p), np.log1p(-p))


def test_truth_is_recovered_and_named(problem, both):
    effects = both.pattern_effects_["products"]
    assert effects.ids.tolist() == ["group=a", "group=b", "group=c"] and effects.names == ("kind=p", "kind=q")
    np.testing.assert_allclose(effects.mean, RATES, atol=0.03)
    assert np.all(effects.sd > 0.0) and effects.sd.max() < 0.02
    for name, lines in (("rows", J), ("cols", N - NEW)):
        assert both.pattern_effects_[name].mean.shape == (lines, {"rows": 3, "cols": 2}[name])
        assert both.pattern_effects_[name].mean.max() < 0.1  # rows and columns have no tastes of their own
    with pytest.raises(AttributeError, match="patterns with covariates"):
        _ = fitted(problem, False, False, max_iter=2).pattern_effects_


def test_rows_without_cells_are_known_by_their_covariates(problem, both):
    """Nearly as well as by the truth, and far better than by the prior."""
    rows, cols, seen = asked(problem, np.arange(N - NEW, N))
    plain = fitted(problem, False, False, factors=2)
    p, prior = both.observed_probability(rows, cols), plain.observed_probability(rows, cols, unknown="prior")
    truth = -np.expm1(-problem[2][N - NEW :].ravel())
    scores = [float(log_likelihood(each, seen).mean()) for each in (p, prior, truth)]
    assert scores[0] > scores[1] + 0.04
    assert scores[0] > scores[2] - 0.005
    ids, found = both.recommend([f"u{N - 1}"], n=5, by="observed")
    each = both.observed_probability([f"u{N - 1}"] * J, problem[1]["film"])
    np.testing.assert_allclose(found[0], np.sort(each)[::-1][:5])
    kind = problem[1].set_index("film")["kind"]
    group = problem[0]["group"].iloc[-1]
    assert set(kind[ids[0]]) == {"a": {"q"}, "b": {"p", "q"}, "c": {"p"}}[group] or group == "b"
    with pytest.raises(ValueError, match="nobody"):
        both.recommend(["nobody"], n=5, by="observed")
    assert np.isfinite(both.recommend(["nobody"], n=5, by="observed", unknown="prior")[1]).all()
    with pytest.raises(ValueError, match="nobody"):
        both.observed_probability(["nobody"], ["f0"])


def test_values_of_rows_that_only_the_pattern_knows_are_refused(problem):
    model = fitted(problem, data=nmar.Factorization(1), linkage="ignorable", max_iter=3)
    with pytest.raises(ValueError, match=f"u{N - 1}"):
        model.predict_entries([f"u{N - 1}"], ["f0"])
    assert np.isfinite(model.predict_entries([f"u{N - 1}"], ["f0"], unknown="prior")).all()
    assert model.observed_probability([f"u{N - 1}"], ["f0"]).shape == (1,)


def test_covariates_that_are_noise_do_no_harm(problem):
    """Held-out log probabilities of a quarter of the cells, rows as clusters."""
    rng = np.random.default_rng(3)
    seen = problem[3][:-NEW]
    names = {"x": lambda n: rng.normal(size=n), "y": lambda n: rng.choice(list("abcd"), n)}
    noise = [pandas.DataFrame({k: f(n) for k, f in names.items()}).rename_axis("id") for n in seen.shape]
    out = rng.random(seen.shape) < 0.25
    (i, j), (a, b) = np.nonzero(seen & ~out), np.nonzero(out)
    kept, hidden = (nmar.Cells.from_arrays(*pair, np.zeros(len(pair[0])), seen.shape) for pair in ((i, j), (a, b)))
    scores = []
    for known in ({}, {"rows": noise[0], "cols": noise[1]}):
        model = nmar.CCPF(nmar.PatternOnly(), pattern=nmar.Pattern(3, **known), random_state=0).fit(kept, hidden=hidden)
        scores.append(log_likelihood(model.observed_probability(a, b), seen[a, b]))
    gap = np.bincount(a, scores[1] - scores[0]) / np.bincount(a)
    assert gap.mean() > -2.0 * gap.std() / np.sqrt(len(gap))


@pytest.mark.parametrize(
    ("solver", "near", "nearly"),
    [
        (nmar.Minibatch(passes=30, remember=True), 0.01, 0.03),
        (nmar.Minibatch(batch_size=50, passes=60, remember=False), 0.03, 0.15),
    ],
    ids=["remembered", "plain steps"],
)
def test_minibatches_find_the_truth(problem, solver, near, nearly):
    """P(observed) of every pair of levels; plain steps have not yet taken all of it from the factors."""
    model = fitted(problem, data=nmar.Effects("both"), linkage="ignorable", solver=solver)
    rows, cols, seen = asked(problem, np.arange(N - NEW))
    group, kind = problem[0].set_index("user")["group"][rows], problem[1].set_index("film")["kind"][cols]
    pairs = pandas.DataFrame({"p": model.observed_probability(rows, cols), "seen": seen})
    means = pairs.groupby([group.to_numpy(), kind.to_numpy()]).mean()
    np.testing.assert_allclose(means["p"], means["seen"], atol=near)
    np.testing.assert_allclose(model.pattern_effects_["products"].mean, RATES, atol=nearly)
    law, state = model.posterior_.law, model.posterior_.state
    for axis, known in enumerate(law.pattern.lines(problem[4])):  # which do not move
        place = law.pattern_of(state.shared, axis).blocks.own
        np.testing.assert_array_equal(state.sides[axis].pattern.weights.mean[:, place], known)


def test_streams_know_rows_by_id(problem):
    cells = problem[4]
    parts = [cells.take_rows(np.arange(k, k + 50)) for k in range(0, N - NEW, 50)]
    solver = nmar.Minibatch(passes=20)
    model = nmar.CCPF(nmar.Factorization(1), "ignorable", solver=solver, random_state=0)
    model.set_params(pattern=nmar.Pattern(1, rows=problem[0], cols=problem[1])).fit(parts)
    np.testing.assert_allclose(model.pattern_effects_["products"].mean, RATES, atol=0.08)
    with pytest.raises(ValueError, match="rows of a stream need covariates by id"):
        model.set_params(pattern=nmar.Pattern(1, rows=np.arange(50.0)[:, None])).fit(parts)


def test_folding_growing_and_files(problem, both, tmp_path):
    rows, cols, _, seen, cells = problem
    new = cells_of(np.where((np.arange(N) >= N - NEW)[:, None] & (np.arange(J) < 8), seen, False), rows, cols)
    new = new.align(cols=cells.cols)
    folded, ids = both.fold_in(new), new.row_ids
    known = folded.posterior_.state.sides[0].pattern.weights.mean[:, 1:4]
    group = rows.set_index("user")["group"][ids].to_numpy()
    np.testing.assert_array_equal(known, (group[:, None] == np.array(["a", "b", "c"])).astype(float))
    both.save(tmp_path / "m")
    again = nmar.load(tmp_path / "m")
    lines = asked(problem, np.arange(N - 60, N))[:2]
    np.testing.assert_array_equal(again.observed_probability(*lines), both.observed_probability(*lines))
    pair = ids[:1], cols["film"].to_numpy()[:1]
    np.testing.assert_array_equal(again.fold_in(new).observed_probability(*pair), folded.observed_probability(*pair))
    grown = fitted(problem, max_iter=20).partial_fit(new, sweeps=3)
    assert grown.posterior_.rows.size == N - NEW + new.shape[0]
    design = grown.posterior_.law.pattern.designs[0]
    weights = grown.posterior_.state.sides[0].pattern.weights.mean[:, 1:4]
    np.testing.assert_array_equal(weights, design.lines(grown.posterior_.rows, "rows"))
    strange = rows.assign(group=np.where(rows.index == N - 1, "d", rows["group"]))
    grown.set_params(pattern=nmar.Pattern(1, rows=strange, cols=cols))
    with pytest.raises(ValueError, match="pattern rows: column 'group' has the unknown level 'd'"):
        grown.partial_fit(new, sweeps=1)
    grown.set_params(pattern=nmar.Pattern(1, cols=cols))
    with pytest.raises(ValueError, match="other covariates than the model was fitted with"):
        grown.partial_fit(new, sweeps=1)


def test_checkpoints_belong_to_their_covariates(problem, tmp_path):
    cells = problem[4]

    def resumed(rows, sweeps):
        model = nmar.CCPF(
            nmar.PatternOnly(), pattern=nmar.Pattern(1, rows=rows), random_state=0, tol=0.0, max_iter=sweeps
        )
        return model.fit(cells, checkpoint=tmp_path, every=2, resume=True)

    first, other = problem[0], problem[0].assign(group=problem[0]["group"].to_numpy()[::-1])
    resumed(first, 4)
    whole = nmar.CCPF(nmar.PatternOnly(), pattern=nmar.Pattern(1, rows=first), random_state=0, tol=0.0, max_iter=8)
    np.testing.assert_array_equal(resumed(first, 8).bound_trace_, whole.fit(cells).bound_trace_)
    with pytest.raises(ValueError, match="belongs to a fit with other options"):
        resumed(other, 8)


def test_weights_for_all_cells_know_the_covariates(problem):
    """Training cells count by the inverse of the P(observed) that covariates tell."""
    model = fitted(problem, data=nmar.Effects("both"), linkage="ignorable", target="all", max_iter=20)
    assert model.effective_cells_ < 0.8 * len(problem[4])
    assert model.pattern_effects_["products"].mean.shape == (3, 2)


def test_transposed_matrices_give_the_transposed_answer(problem, both):
    turned = nmar.CCPF(nmar.PatternOnly(), random_state=0, max_iter=60)
    turned.set_params(pattern=nmar.Pattern(1, rows=problem[1], cols=problem[0])).fit(problem[4].transpose())
    np.testing.assert_allclose(turned.bound_trace_, both.bound_trace_, rtol=1e-14)
    np.testing.assert_array_equal(turned.pattern_effects_["products"].mean, both.pattern_effects_["products"].mean.T)


def test_factors_are_said_once(problem):
    frame = nmar.Pattern(2, rows=problem[0])
    with pytest.raises(ValueError, match=r"factors=5 and pattern=.* are both given"):
        nmar.CCPF(factors=5, pattern=frame).fit(problem[4])
    with pytest.raises(ValueError, match=r"use nmar\.Pattern"):
        nmar.CCPF(pattern=3).fit(problem[4])
    with pytest.raises(ValueError, match="no updates for covariates of the pattern"):
        data = nmar.Factorization(2, covariance="diagonal")
        nmar.CCPF(data, "linear", pattern=frame, solver="entrywise").fit(problem[4])
    plain, short = (nmar.CCPF(nmar.PatternOnly(), random_state=0, max_iter=5, **how).fit(problem[4]) for how in
                    ({"pattern": nmar.Pattern(3)}, {"factors": 3}))  # fmt: skip
    np.testing.assert_array_equal(plain.bound_trace_, short.bound_trace_)


def test_simulations_know_no_covariates(problem):
    with pytest.raises(ValueError, match="a pattern with covariates cannot be simulated"):
        nmar.simulate(shape=(N, J), pattern=nmar.Pattern(2, rows=problem[0]))


FRAME = {
    "id": ["u", "v", "w", "x", "y", "z"],
    "age": [20.0, 30.0, None, 50.0, 60.0, 70.0],
    "height": [1.5, 1.6, 1.7, 1.8, 1.9, 2.0],
    "town": ["a", "b", "a", None, "b", "a"],
    "same": [1, 1, 1, 1, 1, 1],
}


@pytest.mark.parametrize("kind", ["pandas", "index", "polars", "arrow"])
def test_frames_become_levels(kind):
    frame = pandas.DataFrame(FRAME)
    if kind == "index":
        frame = frame.set_index("id")
    elif kind == "polars":
        frame = pytest.importorskip("polars").DataFrame(FRAME)
    elif kind == "arrow":
        frame = pytest.importorskip("pyarrow").table(FRAME)
    axis = Axis.from_ids(np.array(["w", "u", "x"], object))
    made = level_design(frame, axis, "rows")
    ages = ("age=20", "age=30", "age=50", "age=60", "age=70", "age missing")
    bins = ("height<=1.6", "1.6<height<=1.7", "1.7<height<=1.8", "1.8<height<=1.9", "height>1.9")
    assert made.names == (*ages, *bins, "town=a", "town=b", "town missing")
    lines = made.lines(axis, "rows")
    assert [np.flatnonzero(line).tolist() for line in lines] == [[5, 7, 11], [0, 6, 11], [2, 8, 13]]
    np.testing.assert_allclose(made.typical[-3:], [0.5, 1.0 / 3.0, 1.0 / 6.0])
    with pytest.warns(UserWarning, match="rows has no line for 1 of 1 ids, 'nobody'"):
        nobody = made.lines(Axis.from_ids(np.array(["nobody"], object)), "rows")
    np.testing.assert_array_equal(nobody[0], made.typical)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"id": [0, 1, 2], "x": [np.inf, 0.2, 1.0]}, "pattern rows: column 'x' holds an infinite number"),
        ({"id": [0, 1, 2], "x": [1, 1, 1]}, "pattern rows has no column that differs"),
        ({"a": [1.0, 2.0, 2.0]}, "pattern rows: one column must hold every id of the matrix once"),
        (np.ones((2, 2)) * [[1.0, 2.0], [3.0, 4.0]], "pattern rows has 2 lines, but there are 3"),
        (np.ones(3), r"pattern rows has shape \(3,\)"),
    ],
)
def test_strange_covariates_are_refused(known, message):
    cells = nmar.Cells.from_arrays([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0], (3, 2))
    given = pandas.DataFrame(known) if isinstance(known, dict) else known
    with pytest.raises(ValueError, match=message):
        nmar.CCPF(nmar.PatternOnly(), pattern=nmar.Pattern(1, rows=given)).fit(cells)


def test_a_draw_of_the_pattern_leaves_covariates_as_they_are(both):
    """Levels stay, factors and effects are drawn, and a product of levels is the same for all lines that have them."""
    known = both.posterior_
    for axis, side in enumerate(known.state.sides):
        law = known.law.pattern_of(known.state.shared, axis)
        at, found = law.blocks, law.drawn(side.pattern, np.random.default_rng(0)).weights.mean
        levels = side.pattern.weights.alpha[:, at.own]
        np.testing.assert_array_equal(found[:, at.own], levels)
        assert not np.isclose(found[:, at.factors], side.pattern.weights.mean[:, at.factors], rtol=1e-6, atol=0.0).any()
        if law.leads:
            np.testing.assert_array_equal(found[:, at.cross], levels)
        else:
            for level in np.unique(levels, axis=0):
                lines = found[(levels == level).all(axis=1)][:, at.cross]
                assert len(lines) > 1 and np.ptp(lines, axis=0).max() == 0.0 and lines.min() > 0.0


def test_draws_of_the_pattern_have_the_moments_of_the_posterior(both):
    known, n = both.posterior_, 400
    rng = np.random.default_rng(1)
    laws = [known.law.pattern_of(known.state.shared, axis) for axis in (0, 1)]
    drawn = [
        [law.drawn(s.pattern, rng).weights.mean for law, s in zip(laws, known.state.sides, strict=True)]
        for _ in range(n)
    ]
    rates = np.array([np.sum(u[:5] * v[:5], axis=1) for u, v in drawn])
    exact, variance = known.rate_moments(np.arange(5), np.arange(5))
    np.testing.assert_allclose(known.rates(np.arange(5), np.arange(5)), exact, rtol=1e-12)
    assert np.all(np.abs(rates.mean(axis=0) - exact) < 4.5 * rates.std(axis=0) / np.sqrt(n))
    square = (rates - exact) ** 2
    assert np.all(np.abs(square.mean(axis=0) - variance) < 4.5 * square.std(axis=0) / np.sqrt(n))


def test_a_check_finds_no_misfit_in_a_pattern_of_covariates(problem, both):
    rows, cols, _, seen, _ = problem
    others = cells_of(seen[-NEW:], rows[-NEW:], cols)
    found = nmar.check(both, others, replicates=50)
    assert found.misfits == ()


def test_factors_of_the_pattern_are_those_that_were_asked_for(both):
    for found in (both.row_pattern_, both.col_pattern_):
        assert found.names == ("factor 1",) and found.mean.shape[1] == 1


@pytest.mark.parametrize("linkage", ["ignorable", "linear"])
def test_imputations_of_a_model_with_covariates_of_the_pattern(problem, linkage):
    model = fitted(problem, data=nmar.Effects("both"), linkage=linkage, max_iter=5, tol=0.0)
    assert np.isfinite(model.impute(2, seed=0, rows=["u0", "u1"]).values).all()
