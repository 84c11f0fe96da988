"""Weights of cells: how often a value counts, in every model and solver; the pattern counts each cell once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from problems import CONSTANTS, functions_of
from test_kernels import CASES, Case, agree, block_of, crossing_of, tolerance_of

import nmar
from nmar.kernels.choose import choose

MODELS = {
    "full": (nmar.Factorization(2), nmar.Free(levels=4)),
    "thinned": (nmar.Factorization(2), nmar.Free(thinning=4.0)),
    "diagonal": (nmar.Factorization(2, covariance="diagonal"), "linear"),
    "poisson": (nmar.Factorization(2, family="poisson"), "geometric"),
    "mixture": (nmar.Mixture(2, restarts=1), "exponential"),
    "effects": (nmar.Effects("both"), nmar.Free(levels=4, mean="shift")),
    "negative binomial": (nmar.Constant("negative_binomial"), "free"),
    "normal-gamma": (nmar.Constant("gaussian"), "free"),
}
SOLVERS = {"batch": "batch", "minibatch": nmar.Minibatch(batch_size=15, passes=4)}
every_model = pytest.mark.parametrize("name", MODELS)


def cells_of(name, shape=(40, 30)):
    return nmar.simulate(shape, MODELS[name][0], nmar.Linear(0.3), 0.4, seed=0)[0]


def model_of(name, **more):
    data, link = MODELS[name]
    return nmar.CCPF(data, link, factors=2, starts=1, max_iter=8, tol=0.0, random_state=0, **more)


def drawn(cells, seed=1):
    return np.random.default_rng(seed).gamma(2.0, 0.5, len(cells))


@every_model
@pytest.mark.parametrize("solver", SOLVERS)
def test_ones_change_no_bit(name, solver):
    if solver == "minibatch" and name not in ("full", "thinned", "diagonal", "poisson"):
        pytest.skip("the model does not stream")
    cells, how = cells_of(name), SOLVERS[solver]
    plain = model_of(name, solver=how).fit(cells)
    ones = model_of(name, solver=how).fit(cells.with_weights(np.ones(len(cells))))
    np.testing.assert_array_equal(plain.bound_trace_, ones.bound_trace_)
    np.testing.assert_array_equal(plain.predict_entries(*cells.pairs()), ones.predict_entries(*cells.pairs()))


@pytest.mark.slow
@every_model
def test_the_bound_never_falls_and_backends_agree(name):
    cells = cells_of(name)
    cells = cells.with_weights(drawn(cells))
    fast, slow = (model_of(name, backend=backend).fit(cells) for backend in ("numba", "reference"))
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(fast.bound_trace_))
    np.testing.assert_allclose(fast.bound_trace_, slow.bound_trace_, rtol=1e-7)
    plain = model_of(name).fit(cells.with_weights(None))
    assert not np.allclose(plain.bound_trace_, fast.bound_trace_, rtol=1e-4)


@pytest.mark.parametrize("case", [c for c in CASES if not c.separate and not c.offset], ids=str)
def test_kernels_agree(case):
    block, law = block_of(case), crossing_of(case)
    weight = np.random.default_rng(3).gamma(2.0, 0.5, len(block.lines.values))
    weight[4] = 0.0
    given = (block.lines._replace(weight=weight), *block.views()[1:])
    found = {name: choose(name).expect(*given, law) for name in ("reference", "numba")}
    agree(found["numba"], found["reference"], tolerance_of(law, np.float64))
    exact, vectors = (choose(name).statistics(*given, law, held) for name, held in found.items())
    for ours, theirs in zip(vectors, exact, strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance_of(law, np.float64))
    weighed = [choose(name).weigh(*given, law).cellwise for name in ("numba", "reference")]
    np.testing.assert_allclose(*weighed, **tolerance_of(law, np.float64))


@pytest.mark.parametrize("family", ["gaussian", "gamma", "negative_binomial"])
def test_a_weight_is_a_power_of_the_density(family):
    """q(n) ∝ g^n/n! exp(w f(n)): f from two kernels' runs without weights, at two dispersions of the rate."""
    case = Case(family, "tail", "full" if family == "gaussian" else "plain")
    block, law = block_of(case), crossing_of(case)
    kernels = choose("reference")
    heavy = block.lines._replace(weight=np.full(len(block.lines.values), 2.0))
    twice = kernels.expect(heavy, *block.views()[1:], law)
    doubled = law._replace(slopes=2.0 * law.slopes, by_value=2.0 * law.by_value)
    lines = block.lines
    if family != "gaussian":  # y E[θ] is no part of the slopes
        moments = kernels.moments(*block.views(), law)[0]
        same = kernels.expect(lines, *block.views()[1:], doubled)
        expected = same.log_z + float(lines.values @ moments)
    else:
        expected = kernels.expect(lines, *block.views()[1:], doubled).log_z
    assert twice.log_z == pytest.approx(expected, rel=1e-12)
    assert functions_of(family, lines.values).shape[1] == len(lines.values)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CONSTANTS])
def test_whole_weights_are_repeated_measurements(name):
    """One parameter for all cells, ignorable: a cell that counts three times is as good as three cells."""
    cells, _ = nmar.simulate((20, 9), CONSTANTS[name], "ignorable", 0.5, seed=0)
    times = np.random.default_rng(0).integers(1, 4, len(cells))
    i, j = cells.positions()
    where = np.concatenate([np.arange(k) for k in times])
    each = np.repeat(np.arange(len(cells)), times)
    repeated = nmar.Cells.from_arrays(i[each], j[each] + 9 * where, cells.values[each], (20, 27))
    settings = {"factors": 2, "max_iter": 300, "tol": 1e-13, "random_state": 0}
    weighted = nmar.CCPF(CONSTANTS[name], "ignorable", **settings).fit(cells.with_weights(times))
    plain = nmar.CCPF(CONSTANTS[name], "ignorable", **settings).fit(repeated)
    if not any(part in name for part in ("gaussian", "normal")):  # priors by moments are those of the cells
        assert weighted.predict_entries([0], [0]) == pytest.approx(plain.predict_entries([0], [0]), rel=2e-2)
        return
    assert weighted.predict_entries([0], [0]) == pytest.approx(plain.predict_entries([0], [0]), abs=2e-3)
    assert weighted.dispersion_ == pytest.approx(plain.dispersion_, rel=2e-2)


def test_weighted_effects_are_weighted_means():
    """A row's effect is its weighted mean, shrunken: normal equations by hand."""
    cells, _ = nmar.simulate((12, 30), nmar.Effects("rows"), "ignorable", 0.6, seed=0)
    weights = drawn(cells)
    settings = {"noise": "constant", "factors": 2, "max_iter": 400, "tol": 1e-14, "random_state": 0}
    model = nmar.CCPF(nmar.Effects("rows"), "ignorable", **settings)
    known = model.fit(cells.with_weights(weights)).posterior_
    shared, i = known.state.shared, cells.row_index
    y = known.units.to_model(cells.values)
    precision = 1.0 / shared.data.variance[0][0] + np.bincount(i, weights) / shared.dispersion
    exact = np.bincount(i, weights * y) / shared.dispersion / precision
    np.testing.assert_allclose(known.state.sides[0].data.mean[:, 0], exact, rtol=1e-6)


def test_one_batch_ends_where_sweeps_do():
    cells = cells_of("diagonal", (120, 30))
    cells = cells.with_weights(drawn(cells))
    batch = model_of("diagonal", noise="constant").set_params(max_iter=60).fit(cells)
    parts = (
        model_of("diagonal", noise="constant", solver=nmar.Minibatch(batch_size=120, passes=60))
        .set_params(max_iter=60)
        .fit(cells)
    )
    assert parts.score(cells) == pytest.approx(batch.score(cells), abs=0.001)
    assert parts.dispersion_ == pytest.approx(batch.dispersion_, rel=0.02)


def test_weights_travel_with_their_cells(tmp_path):
    cells = nmar.simulate((9, 7), nmar.Effects("rows"), "ignorable", 0.5, seed=0)[0]
    weights = drawn(cells)
    heavy = cells.with_weights(weights)
    keyed = {(i, j): w for i, j, w in zip(*cells.positions(), weights, strict=True)}

    def right(part, rows=lambda i: i, cols=lambda j: j):
        return all(keyed[rows(i), cols(j)] == w for i, j, w in zip(*part.positions(), part.weights, strict=True))

    assert right(heavy[[0, 3, 5]]) and right(heavy.with_values(cells.values + 1.0))
    assert right(heavy.T.T)
    assert all(keyed[j, i] == w for i, j, w in zip(*heavy.T.positions(), heavy.T.weights, strict=True))
    assert right(heavy.take_rows([4, 2]), rows=lambda i: [4, 2][i])
    assert all(right(part) for part in heavy.split(test=0.3, valid=0.1, seed=0))
    assert right(heavy.concat(heavy[[0]], duplicates="last"))
    frame = heavy.to_frame("r", "c", "v")
    again = nmar.Cells.from_frame(frame, row="r", col="c", value="v", weight="weight", rows=cells.rows, cols=cells.cols)
    assert right(again)
    assert cells.concat(heavy[[0]], duplicates="last").weights.sum() == pytest.approx(len(cells) - 1 + weights[0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0, -2.0], "-2 at position 1 is below 0"), ([1.0], "has length 1, but there are 2"), ([1.0, np.nan], "NaN")],
)
def test_strange_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        nmar.Cells.from_arrays([0, 1], [0, 1], [1.0, 2.0]).with_weights(weights)


def test_scores_are_weighted_means():
    cells = cells_of("effects")
    model = model_of("effects").fit(cells)
    weights = drawn(cells)
    each = model.log_likelihood(cells, per_cell=True)
    assert model.score(cells.with_weights(weights)) == pytest.approx(np.average(each, weights=weights), rel=1e-13)


def test_the_entrywise_solver_counts_cells_as_often():
    """Weights of 3 and a third of the noise give the lines of plain cells: visits move them alike."""
    data = nmar.Factorization(2, covariance="diagonal")
    cells = nmar.simulate((30, 20), data, "ignorable", 0.5, seed=0)[0]
    settings = {"factors": 2, "solver": nmar.Entrywise(visits=20_000), "max_iter": 3, "random_state": 0}
    heavy = nmar.CCPF(data, nmar.Linear(0.0), **settings).fit(cells.with_weights(np.full(len(cells), 3.0)))
    plain = nmar.CCPF(data, nmar.Linear(0.0), **settings).fit(cells)
    assert heavy.dispersion_ < plain.dispersion_  # three times the cells: less is left to the noise


def test_files_and_comparisons(tmp_path):
    frame = {"u": [0, 0, 1, 1], "i": [0, 1, 0, 1], "y": [1.0, 2.0, 3.0, 4.0], "w": [1.0, 0.5, 2.0, 3.0]}
    for ending in ("csv", "parquet"):
        nmar.data.write_frame(tmp_path / f"t.{ending}", frame)
        cells = nmar.read(tmp_path / f"t.{ending}", row="u", col="i", value="y", weight="w")
        assert cells.weights.tolist() == frame["w"]
    with pytest.raises(ValueError, match="weight='v' is not a column"):
        nmar.read(tmp_path / "t.csv", row="u", col="i", value="y", weight="v")
    for judge in (nmar.compare, nmar.missingness_test):
        with pytest.raises(ValueError, match="cells have weights"):
            judge(cells_of("full").with_weights(np.ones(len(cells_of("full")))))
