"""What must not change the answer: the pattern under an ignorable linkage, transposition, shards, threads."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from problems import FIXED, FIXED_MEAN, LEARNED, LEARNED_MEAN, MODELS, THINNED, advanced, problem, small_cells

from nmar.data.cells import Cells
from nmar.fit.executor import Serial, threads
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models import half_sweep as halves
from nmar.models.bound import bound
from nmar.models.context import Context, Observed
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.state import Side, State
from nmar.prob.linkage import Ignorable
from nmar.prob.tree import join

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

SWEEPS = 5
models = pytest.mark.parametrize("model", MODELS)
backends = pytest.mark.parametrize("backend", ["numba", "reference"])
THIN = [("full", "free-thin8"), ("diagonal", "geometric-thin8"), ("poisson", "linear-thin8")]
thin = pytest.mark.parametrize(("model", "link"), THIN)


def same_bits(a, b, name="record"):
    """Assert that two records hold the same numbers to the last bit."""
    if isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, err_msg=name)
    elif isinstance(a, tuple):
        assert len(a) == len(b), name
        for at, (x, y) in enumerate(zip(a, b, strict=True)):
            same_bits(x, y, f"{name}[{at}]")
    elif is_dataclass(a):
        assert type(a) is type(b), name
        for field in fields(a):
            same_bits(getattr(a, field.name), getattr(b, field.name), f"{name}.{field.name}")
    else:
        assert a == b, name


def medium_cells(family, shape=(23, 11), seed=0):
    """Cells with values that are not round numbers, a row and a column without any."""
    rng = np.random.default_rng(seed)
    seen = rng.random(shape) < 0.4
    seen[3], seen[:, 5] = False, False
    row, col = np.nonzero(seen)
    values = rng.poisson(2.0, len(row)) if family == "poisson" else rng.normal(1.3, 2.0, len(row))
    return Cells.from_arrays(row, col, values.astype(float), shape=shape)


# --- an ignorable linkage separates the two models ----------------------------------------------------------


@models
@backends
def test_ignorable_data_model_does_not_see_the_pattern(model, backend):
    cells = medium_cells(MODELS[model].family)
    data = MODELS[model].build(cells)
    base = begin(cells, data, Ignorable(), Pattern(2), seed=0)
    expected = advanced(base, SWEEPS, backend)
    factors = 3 if backend == "reference" or model == "full" else 2  # other widths compile other loops: once will do
    other = begin(cells, data, Ignorable(), Pattern(factors, shape=1.1, activity_rate=3.0), seed=0)
    reseeded = begin(cells, data, Ignorable(), Pattern(2), seed=99)
    pairs = zip(reseeded.state.sides, base.state.sides, strict=True)
    mixed = replace(base, state=State(tuple(Side(p.pattern, d.data) for p, d in pairs), base.state.shared))
    control = begin(cells, data, Ignorable(), Pattern(2), seed=0, control=True)
    for changed in (other, mixed, control):
        found = advanced(changed, SWEEPS, backend)
        for axis in (0, 1):
            same_bits(found.sides[axis].data, expected.sides[axis].data)
        same_bits(found.shared.data, expected.shared.data)
        assert found.shared.dispersion == expected.shared.dispersion
    moved = advanced(mixed, SWEEPS, backend)
    assert not np.array_equal(moved.sides[0].pattern.weights.alpha, expected.sides[0].pattern.weights.alpha)


@models
def test_control_with_ignorable_is_ignorable(model):
    cells = medium_cells(MODELS[model].family)
    found = {}
    for control in (False, True):
        started = problem(model, Ignorable(), cells, control=control)
        state = advanced(started, SWEEPS)
        _, info, _ = half_sweep(0, state, Context(started.observed, started.law, choose("numba"), Serial()))
        found[control] = state, bound(state, info.log_z, started.law)
    for axis in (0, 1):
        same_bits(found[True][0].sides[axis], found[False][0].sides[axis])
    assert found[True][1] == pytest.approx(found[False][1], rel=1e-12)


@pytest.mark.parametrize("model", ["full", "poisson"])
def test_ignorable_knows_no_thinning(model):
    """Nothing reads the counts, so there is nothing to thin."""
    cells = medium_cells(MODELS[model].family)
    plain = advanced(problem(model, Ignorable(), cells), 2)
    found = advanced(problem(model, Ignorable(thinning=8.0), cells), 2)
    for axis in (0, 1):
        same_bits(found.sides[axis], plain.sides[axis])
    assert found.shared.dispersion == plain.shared.dispersion


@pytest.mark.parametrize("model", ["full", "poisson"])
@pytest.mark.parametrize("link", ["linear", "free", "geometric-"])
def test_thinning_by_next_to_nothing_is_no_thinning(model, link):
    """s = 1 takes other code everywhere, and the answer must not jump there."""
    cells = medium_cells(MODELS[model].family)
    near = replace(LEARNED[link], thinning=1.0 + 1e-9)
    one, two = (advanced(problem(model, link_, cells), 2) for link_ in (LEARNED[link], near))
    assert two.shared.dispersion == pytest.approx(one.shared.dispersion, rel=1e-6)
    for axis in (0, 1):
        shapes, rates = (
            [getattr(s.sides[axis].pattern.weights, part) for s in (one, two)] for part in ("alpha", "beta")
        )
        np.testing.assert_allclose(*shapes, rtol=1e-5)
        np.testing.assert_allclose(*rates, rtol=1e-5)


@models
def test_coupled_data_model_sees_the_pattern(model):
    """The counterpart: with a linkage that is not ignorable another pattern moves the data model."""
    cells = medium_cells(MODELS[model].family)
    data = MODELS[model].build(cells)
    one, two = (advanced(begin(cells, data, FIXED["linear+"], Pattern(k)), 2, "reference") for k in (2, 3))
    first = [s.sides[0].data.mean if model != "poisson" else s.sides[0].data.weights.alpha for s in (one, two)]
    assert not np.allclose(first[0], first[1], rtol=1e-6)


# --- transposition ------------------------------------------------------------------------------------------


def normal_coordinates(started, state, axis):
    """Coordinates of a Gaussian side in the same order for either axis: factors, own bias, constant."""
    d = state.sides[axis].data.mean.shape[1]
    order = np.arange(d)
    bias = started.law.data.axes[axis].bias
    if bias >= 0:
        order[2:] = [bias, 5 - bias]  # rank 2: places 2 and 3 hold the bias and the constant
    return order


def free_part(started, state, axis):
    """Means, variances and prior of one Gaussian side in that order."""
    side, order = state.sides[axis].data, normal_coordinates(started, state, axis)
    priors = state.shared.data
    return (side.mean[:, order], side.variances[:, order], side.log_det, priors.variance[axis][order])


@pytest.mark.parametrize("shape", [(23, 11), (9, 17)])
@pytest.mark.parametrize("link", ["linear", "free", "free-shift"])
@models
@backends
def test_transposed_input_gives_the_transposed_answer(model, link, shape, backend):
    if model == "poisson" and link in LEARNED_MEAN:
        pytest.skip("location tables are the Gaussian's")
    transposed(model, {**LEARNED, **LEARNED_MEAN}[link], shape, backend)


@thin
@backends
def test_transposed_answer_with_thinning(model, link, backend):
    transposed(model, THINNED[link], (23, 11), backend)


def transposed(model, linkage, shape, backend):
    """Assert that the fit of the transposed matrix is the transposed fit."""
    cells = medium_cells(MODELS[model].family, shape)
    started, turned = (problem(model, linkage, c, seed=1) for c in (cells, cells.T))
    one, two = advanced(started, SWEEPS, backend), advanced(turned, SWEEPS, backend)
    for axis in (0, 1):
        same_bits(one.sides[axis].pattern, two.sides[1 - axis].pattern, "pattern")
        if model == "poisson":
            same_bits(one.sides[axis].data, two.sides[1 - axis].data, "data")
        else:
            same_bits(free_part(started, one, axis), free_part(turned, two, 1 - axis), "data")
    assert one.shared.dispersion == two.shared.dispersion
    assert one.shared.center == two.shared.center
    same_bits(one.shared.linkage, two.shared.linkage, "linkage")


# --- shards and threads -------------------------------------------------------------------------------------


SHARDS = [(model, link) for model in MODELS for link in ("linear", "geometric", "free")]


@pytest.mark.parametrize(("model", "link"), SHARDS + THIN)
def test_shards_of_rows_concatenate_to_the_whole(model, link):
    cells = medium_cells(MODELS[model].family)
    started = problem(model, {**LEARNED, **THINNED}[link], cells)
    state, law = advanced(started, 2), started.law
    whole, info, _ = half_sweep(0, state, Context(started.observed, law, choose("numba"), Serial()))
    pairs, total, stats = [], 0.0, None
    for rows in (np.arange(0, 4), np.arange(4, 15), np.arange(15, 23)):
        part = State((state.sides[0].take(rows), state.sides[1]), state.shared)
        observed = Observed(started.observed.cells.take_rows(rows))
        pair, found, _ = half_sweep(0, part, Context(observed, law, choose("numba"), Serial()))
        pairs.append(pair)
        total += found.log_z
        stats = found.stats if stats is None else stats + found.stats
    same_bits(join(pairs), whole)
    assert total == pytest.approx(info.log_z, rel=1e-13)
    np.testing.assert_allclose(stats.vectors, info.stats.vectors, rtol=1e-11, atol=1e-13)
    assert stats.mean_count_total == pytest.approx(info.stats.mean_count_total, rel=1e-13)


@pytest.mark.parametrize("link", ["linear", "geometric", "free-shift"])
@models
def test_number_of_threads_changes_no_bit(model, link, monkeypatch):
    if model == "poisson" and link in LEARNED_MEAN:
        link = "free"
    monkeypatch.setattr(halves, "BLOCK", 16)
    cells = medium_cells(MODELS[model].family)
    started = problem(model, {**LEARNED, **LEARNED_MEAN}[link], cells)
    assert len(cells.by(0).chunks(16)) > 3
    states = []
    for jobs in (1, 2, 3):
        with threads(jobs) as executor:
            states.append(advanced(started, SWEEPS, executor=executor))
    same_bits(states[0], states[1])
    same_bits(states[0], states[2])


@thin
def test_threads_and_long_lines_with_thinning(model, link, monkeypatch):
    """Blocks of 4 cells: most lines are cut into segments, whose exposures are added in their order."""
    started = problem(model, THINNED[link], medium_cells(MODELS[model].family))
    whole = advanced(started, 1)
    monkeypatch.setattr(halves, "BLOCK", 4)
    states = []
    for jobs in (1, 2, 3):
        with threads(jobs) as executor:
            states.append(advanced(started, 1, executor=executor))
    same_bits(states[0], states[1])
    same_bits(states[0], states[2])
    for axis in (0, 1):
        parts = [s.sides[axis].pattern.weights for s in (whole, states[0])]
        np.testing.assert_allclose(parts[0].alpha, parts[1].alpha, rtol=1e-6)
        np.testing.assert_allclose(parts[0].beta, parts[1].beta, rtol=1e-6)


@thin
def test_bound_of_long_lines_with_thinning(model, link, monkeypatch):
    """What lines pay for their observed cells is paid once, whether they are cut or not."""
    started = problem(model, THINNED[link], medium_cells(MODELS[model].family))
    state, found = advanced(started, 1), []
    for size in (1 << 15, 4):
        monkeypatch.setattr(halves, "BLOCK", size)
        for axis in (0, 1):
            _, info, _ = half_sweep(axis, state, Context(started.observed, started.law, choose("numba"), Serial()))
            found.append(bound(state, info.log_z, started.law))
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


@models
def test_size_of_blocks_changes_rounding_only(model, monkeypatch):
    started = problem(model, LEARNED["linear"], medium_cells(MODELS[model].family))
    whole = advanced(started, 2)
    monkeypatch.setattr(halves, "BLOCK", 16)
    blocks = advanced(started, 2)
    shapes = [s.sides[0].pattern.weights.alpha for s in (whole, blocks)]
    # c is the best of several points of a flat top, where values that differ by 1e-16 lie 1e-8 apart
    np.testing.assert_allclose(shapes[0], shapes[1], rtol=1e-7)
    assert whole.shared.dispersion == pytest.approx(blocks.shared.dispersion, rel=1e-7)


# --- hidden cells -------------------------------------------------------------------------------------------


def no_cells(shape):
    """Cells of which there are none."""
    return small_cells("gaussian", shape).select(np.zeros(small_cells("gaussian", shape).n_observed, bool))


@pytest.mark.parametrize("control", [False, True], ids=["coupled", "control"])
@models
def test_hiding_nothing_is_not_hiding(model, control):
    cells = small_cells(MODELS[model].family, (5, 4), seed=1)
    plain, none = (
        problem(model, FIXED["linear+"], cells, hidden=hidden, control=control) for hidden in (None, no_cells((5, 4)))
    )
    one, two = advanced(plain, 3), advanced(none, 3)
    same_bits(one, two)
    assert bound(one, 0.0, plain.law) == bound(two, 0.0, none.law)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("model", "link"), [(model, "linear") for model in MODELS] + THIN)
def test_exposure_leaves_hidden_cells_out(model, link, axis):
    """β of every line, cell by cell: 1 for each that is not hidden, s for an observed one."""
    cells = small_cells(MODELS[model].family, (5, 4), seed=1)
    hidden = Cells.from_arrays([0, 2, 2], [1, 0, 3], np.ones(3), shape=(5, 4))
    seen = set(zip(*(a.tolist() for a in cells.positions()), strict=True))
    hidden = hidden.select([pair not in seen for pair in zip(*(a.tolist() for a in hidden.positions()), strict=True)])
    assert hidden.n_observed
    started = problem(model, THINNED[link], cells, hidden=hidden)
    s = THINNED[link].thinning
    state = advanced(started, 1)
    pair, _, _ = half_sweep(axis, state, Context(started.observed, started.law, choose("numba"), Serial()))
    other, own = (state.sides[a].pattern for a in (1 - axis, axis))
    expected = np.zeros_like(pair.pattern.weights.beta)
    taken = set(zip(*(a.tolist() for a in hidden.positions()), strict=True))
    for i in range(expected.shape[0]):
        expected[i] = own.activity.alpha[i] / own.activity.beta[i]
        for j in range(len(other.weights.alpha)):
            where = (i, j) if axis == 0 else (j, i)
            if where not in taken:
                expected[i] += (s if where in seen else 1.0) * other.weights.alpha[j] / other.weights.beta[j]
    np.testing.assert_allclose(pair.pattern.weights.beta, expected, rtol=1e-13)


@pytest.mark.parametrize(("model", "link"), [(model, "linear") for model in MODELS] + THIN[:1])
def test_hidden_cells_in_blocks(model, link, monkeypatch):
    """Each block of lines takes its own hidden cells out, not those of the first block."""
    cells = medium_cells(MODELS[model].family)
    hide = np.random.default_rng(1).random(cells.n_observed) < 0.3
    started = problem(model, THINNED[link], cells.select(~hide), hidden=cells.select(hide))
    state, found = advanced(started, 1), []
    for size in (1 << 15, 16):
        monkeypatch.setattr(halves, "BLOCK", size)
        pair, _, _ = half_sweep(0, state, Context(started.observed, started.law, choose("numba"), Serial()))
        found.append(pair.pattern)
    same_bits(found[0], found[1])


def test_what_belongs_to_a_cell_follows_it_to_either_axis():
    cells = medium_cells("gaussian")
    i, j = cells.positions()
    observed = Observed(cells, group=(1000 * i + j).astype(np.int32))
    for axis in (0, 1):
        lines = observed.block(axis, 2, 9, i + j / 100.0)
        major = np.repeat(np.arange(2, 9), np.diff(lines.indptr))
        row, col = (major, lines.indices) if axis == 0 else (lines.indices, major)
        np.testing.assert_array_equal(lines.group, 1000 * row + col)
        np.testing.assert_array_equal(lines.offset, row + col / 100.0)
        np.testing.assert_array_equal(
            lines.values, [cells.values[(i == r) & (j == c)][0] for r, c in zip(row, col, strict=True)]
        )


# --- storage and start --------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["ignorable", "linear", "geometric", "free"])
@models
@backends
def test_float32_is_finite_and_close(model, link, backend):
    if backend == "numba" and "plain" in model:
        pytest.skip("nothing is different but the width of the lines, for which other loops are compiled")
    close_in_float32(model, LEARNED[link], backend)


@thin
@backends
def test_float32_with_thinning(model, link, backend):
    close_in_float32(model, THINNED[link], backend)


def close_in_float32(model, linkage, backend):
    """Assert that the bounds of a fit stored in single precision are those of double precision, nearly."""
    cells = medium_cells(MODELS[model].family)
    values = {}
    for dtype in (np.float32, np.float64):
        started = problem(model, linkage, cells, dtype=dtype)
        state, trace = started.state, []
        for _ in range(SWEEPS):
            state, value = sweep(state, Context(started.observed, started.law, choose(backend), Serial()))
            trace.append(value)
        values[dtype] = np.array(trace)
        assert state.sides[0].pattern.weights.alpha.dtype == dtype
    assert np.all(np.isfinite(values[np.float32]))
    # factors are rounded to 6e-8 of themselves each sweep; the bound is a sum of some 300 terms of order 1
    np.testing.assert_allclose(values[np.float32], values[np.float64], rtol=1e-4)


@pytest.mark.parametrize("model", ["full", "diagonal"])
@backends
def test_known_coordinates_stay_what_they_are(model, backend):
    """The place beside a line's bias holds the constant 1, with no variance, after any number of updates."""
    started = problem(model, LEARNED["linear"], medium_cells("gaussian"))
    state = advanced(started, 2, backend)
    for axis, side in enumerate(state.sides):
        known = ~np.array(started.law.data.axes[axis].free)
        assert known.sum() == 1
        np.testing.assert_array_equal(side.data.mean[:, known], 1.0)
        np.testing.assert_array_equal(side.data.variances[:, known], 0.0)
        assert np.all(side.data.variances[:, ~known] > 0.0)


@models
def test_same_seed_same_bits(model):
    cells = medium_cells(MODELS[model].family)
    same_bits(
        advanced(problem(model, LEARNED["free"], cells, seed=3), 2),
        advanced(problem(model, LEARNED["free"], cells, seed=3), 2),
    )


SAME = [*LEARNED, *FIXED_MEAN, "free-thin8", "geometric-thin8"]


@pytest.mark.parametrize("link", SAME)
def test_backends_give_the_same_fit(link):
    cells = medium_cells("gaussian")
    started = problem("full", {**THINNED, **LEARNED, **FIXED_MEAN}[link], cells)
    one, two = (advanced(started, 3, backend) for backend in ("numba", "reference"))
    assert one.shared.dispersion == pytest.approx(two.shared.dispersion, rel=1e-8)
    np.testing.assert_allclose(one.sides[0].data.mean, two.sides[0].data.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.sides[1].pattern.weights.alpha, two.sides[1].pattern.weights.alpha, rtol=1e-6)
