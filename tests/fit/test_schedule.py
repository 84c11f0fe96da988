"""Mini-batches: one full batch is coordinate ascent, a part stands for the whole, streams, determinism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems_fit import NOISY, SETTINGS, THINNED, around, cells_of, same, start

import nmar
from nmar.fit.loop.remember import BatchSums
from nmar.fit.loop.run import BatchStep, Memory, Progress, bound_at, run, sweep_batch
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import observe
from nmar.fit.solvers.align import align
from nmar.fit.solvers.schedule import Batches, Minibatch, leading_part
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.scaling import Scaling
from nmar.prob.factor import GammaFactor
from nmar.prob.units import Units

SEED = np.random.SeedSequence(0)


def fit(problem, settings, passes=4):
    schedule = Batches(settings, problem.observed, problem.law, SEED)
    return run(Progress(problem.state), around(problem), StopRule(passes, 0.0), schedule=schedule)


@pytest.mark.parametrize("name", [*SETTINGS, *THINNED, *NOISY])
@pytest.mark.parametrize("remember", [True, False])
def test_one_full_batch_with_step_one_is_coordinate_ascent_bit_for_bit(name, remember):
    problem = start(name)
    whole = run(Progress(problem.state), around(problem), StopRule(4, 0.0))
    parts = fit(problem, Minibatch(batch_size=1000, xi=0.0, remember=remember))
    assert same(whole.state, parts.state)
    assert whole.trace.bound == parts.trace.bound


@pytest.mark.parametrize("name", [*SETTINGS, *THINNED, *NOISY])
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_a_batch_counted_twice_gives_the_columns_of_the_matrix_with_its_rows_twice(name, shape):
    problem = start(name, shape=shape)
    lead, count = problem.law.lead, max(shape)
    twice = leading_part(problem.observed.cells.align(), lead, np.arange(count))
    other = 1 - lead
    once, _, _ = half_sweep(other, problem.state, around(problem), scaling=Scaling(2.0))
    # the doubled matrix: every leading line twice, under new ids
    cells = twice if lead == 0 else twice.T
    row, col = cells.positions()
    doubled = nmar.Cells.from_arrays(
        np.concatenate([row, row + count]), np.tile(col, 2), np.tile(cells.values, 2), (2 * count, min(shape))
    )
    doubled = doubled if lead == 0 else doubled.T
    side = problem.state.sides[lead].take(np.tile(np.arange(count), 2))
    state = problem.state.with_side(lead, side)
    there = Context(observe(doubled, problem.law, None, Units(), np.float64), *_rest(problem))
    full, _, _ = half_sweep(other, state, there)
    for a, b in zip(_flat(once), _flat(full), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def _rest(problem):
    whole = around(problem)
    return whole.law, whole.kernels, whole.executor


def _flat(pair):
    from problems_fit import arrays

    return arrays(pair)


@pytest.mark.parametrize(
    ("name", "hide"), [("full", 0.0), ("thinned", 0.0), ("thinned", 0.2), ("poisson-thinned", 0.0), ("noise", 0.0)]
)
def test_remembered_batches_sum_to_the_whole_once_all_were_seen(name, hide):
    problem = start(name, hide=hide)
    lead = problem.law.lead
    schedule = Batches(Minibatch(batch_size=20, remember=True), problem.observed, problem.law, SEED)
    sums = schedule.remembering(problem.state, Memory(), around(problem)).sums
    state = problem.state
    whole, _, _ = half_sweep(1 - lead, state, Context(*_all(problem)))
    pair = None
    for b, part in [*enumerate(schedule.parts)] * 2:  # a second visit replaces what the first one gave
        here = Context(schedule.observed[b], *_rest(problem))
        local = state.with_side(lead, state.sides[lead].take(part))
        pair, info, _ = half_sweep(1 - lead, local, here, scaling=Scaling(1.0, sums.others(b)))
        sums = sums.replaced(b, info.sums)
    for a, b in zip(_flat(pair), _flat(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "hide"),
    [("full", 0.2), ("thinned", 0.2), ("diagonal", 0.0), ("poisson-thinned", 0.2), ("noise", 0.2)],
)
def test_bounds_of_equal_batches_average_to_the_bound(name, hide):
    """What lines pay for their observed cells belongs to the batch, and counts as often as its other terms."""
    problem = start(name, hide=hide)
    lead, state, values = problem.law.lead, problem.state, []
    _, info, _ = half_sweep(lead, state, around(problem))
    exact = bound_at(state, info.log_z, around(problem), 1.0)
    schedule = Batches(Minibatch(batch_size=15), problem.observed, problem.law, SEED)
    assert [len(part) for part in schedule.parts] == [15] * 4
    for here, part in zip(schedule.observed, schedule.parts, strict=True):
        local, there = state.with_side(lead, state.sides[lead].take(part)), Context(here, *_rest(problem))
        _, info, _ = half_sweep(lead, local, there)
        values.append(bound_at(local, info.log_z, there, 4.0))
    assert np.mean(values) == pytest.approx(exact, rel=1e-12)


def _all(problem):
    whole = around(problem)
    return whole.observed, whole.law, whole.kernels, whole.executor


def test_alignment_raises_the_bound_and_changes_no_prediction():
    problem = start(shape=(80, 40))
    state = run(Progress(problem.state), around(problem), StopRule(3, 0.0)).state
    lead = problem.law.lead
    sums = BatchSums.empty(1, state, around(problem))
    turned, leading, _ = align(state, problem.law, [state.sides[lead]], sums)
    turned = turned.with_side(lead, leading[0])
    values = []
    for each in (state, turned):
        _, info, _ = half_sweep(lead, each, Context(*_all(problem)))
        values.append((bound(each, info.log_z, problem.law), info.log_z))
    assert values[1][1] == pytest.approx(values[0][1], rel=1e-10)  # log Z: the cells see the same moments
    assert values[1][0] >= values[0][0]


def test_remembered_sums_follow_the_noise_levels_of_their_lines():
    """Batches visited under other levels of the columns give the target of the whole under those of now."""
    problem = start("noise-normal")
    lead, other = problem.law.lead, 1 - problem.law.lead
    side = problem.state.sides[other]
    levels = np.random.default_rng(2).gamma(4.0, 0.25, len(side.noise.alpha))
    now = problem.state.with_side(other, replace(side, noise=GammaFactor(side.noise.alpha, side.noise.alpha / levels)))
    schedule = Batches(Minibatch(batch_size=20, remember=True), problem.observed, problem.law, SEED)
    sums = schedule.remembering(problem.state, Memory(), around(problem)).sums
    for b, part in enumerate(schedule.parts):
        state = problem.state if b + 1 < len(schedule.parts) else now
        local = state.with_side(lead, state.sides[lead].take(part))
        here = Context(schedule.observed[b], *_rest(problem))
        pair, info, _ = half_sweep(other, local, here, scaling=Scaling(1.0, sums.others(b)))
        sums = sums.replaced(b, info.sums)
    whole, _, _ = half_sweep(other, now, Context(*_all(problem)))
    for one, two in zip(_flat((pair.data, pair.noise)), _flat((whole.data, whole.noise)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_common_scale_of_noise_levels_and_dispersion_changes_no_target(axis):
    """What is remembered before both are multiplied by 1.3 gives the sums that it gave before."""
    problem = start("noise")
    lead, state, memory = problem.law.lead, problem.state, Memory()
    schedule = Batches(Minibatch(batch_size=20, remember=True), problem.observed, problem.law, SEED)
    for _ in range(2):
        state, memory, _ = schedule.advance(state, memory, around(problem))
    levels = state.sides[1 - lead].noise.mean
    moved = memory.at_noise(1.3, axis == lead)
    after, before = moved.sums.total.at(levels if axis == lead else 1.3 * levels), memory.sums.total.at(levels)
    for name in ("linear", "quadratic", "squares", "counts", "pattern"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-12)
    for old, new in zip((memory.stats, *memory.kept), (moved.stats, *moved.kept), strict=True):
        np.testing.assert_allclose(new.vectors, old.vectors * [[1.0], [1.3]], rtol=1e-12)


@pytest.mark.parametrize("name", list(SETTINGS))
def test_minibatch_comes_near_the_batch_solution(name):
    data = SETTINGS[name]
    train, _, test = cells_of(data, (300, 60), 0.3).split(test=0.2, valid=0.0, seed=0)
    settings = dict(data=data, linkage="linear", factors=3, random_state=0, tol=0.0)
    whole = nmar.CCPF(max_iter=40, **settings).fit(train).log_likelihood(test)
    solver = Minibatch(batch_size=75, passes=15, remember=True)
    assert nmar.CCPF(solver=solver, **settings).fit(train).log_likelihood(test) > whole - 0.03


@pytest.mark.parametrize("link", ["free", nmar.Free(thinning=8.0)], ids=["free", "thinned"])
def test_minibatch_is_deterministic_whatever_the_number_of_threads(link):
    train = cells_of(SETTINGS["full"])
    fits = [
        nmar.CCPF(
            SETTINGS["full"],
            linkage=link,
            factors=3,
            solver=Minibatch(batch_size=16, passes=2, remember=True),
            random_state=3,
            n_jobs=jobs,
        ).fit(train)
        for jobs in (1, 2)
    ]
    assert same(fits[0].posterior_.state, fits[1].posterior_.state)


def test_a_step_moves_every_column_and_the_shared_vectors_part_of_the_way():
    problem = start()
    half = Context(problem.observed, *_rest(problem))
    full_state, full_memory, _ = sweep_batch(problem.state, Memory(), half, BatchStep(1.0, 1.0, 1.0))
    moved, memory, _ = sweep_batch(problem.state, full_memory, half, BatchStep(1.0, 1.0, 0.25))
    before = problem.state.sides[1 - problem.law.lead].pattern.weights.alpha
    target = full_state.sides[1 - problem.law.lead].pattern.weights.alpha
    now = moved.sides[1 - problem.law.lead].pattern.weights.alpha
    np.testing.assert_allclose(now, 0.75 * before + 0.25 * target, rtol=1e-6)
    assert memory.steps == 2


class Source:
    """A stream that can be read again."""

    def __init__(self, cells, size):
        self.cells, self.size = cells, size

    def __call__(self):
        for k in range(0, self.cells.shape[0], self.size):
            yield self.cells.take_rows(np.arange(k, min(k + self.size, self.cells.shape[0])))


@pytest.mark.parametrize(
    "given",
    [{"linkage": "linear"}, {"linkage": nmar.Linear(thinning=8.0)}],
    ids=["linear", "thinned"],
)
def test_stream_learns_columns_and_folds_in_rows(given):
    train, _, test = cells_of(SETTINGS["full"], (400, 40), 0.3).split(test=0.2, valid=0.0, seed=0)
    settings = dict(data=SETTINGS["full"], factors=3, random_state=0, **given)
    whole = nmar.CCPF(max_iter=40, **settings).fit(train).log_likelihood(test)
    stream = nmar.CCPF(solver=Minibatch(passes=8), **settings).fit(Source(train, 100))
    assert stream.n_iter_ == 8
    assert len(stream.posterior_.rows) == 100  # the last batch
    assert stream.fold_in(train).log_likelihood(test) > whole - 0.05


def test_one_shot_stream_makes_one_pass_over_every_batch():
    cells = cells_of(SETTINGS["full"], (120, 40))
    read = []

    def batches():
        for batch in Source(cells, 40)():
            read.append(batch.shape)
            yield batch

    model = nmar.CCPF(SETTINGS["full"], linkage="linear", factors=3, solver="minibatch", random_state=0)
    model.fit(batches())
    assert model.n_iter_ == 1
    assert read == [(40, 40)] * 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"t0": 0.5}, "t0"),
        ({"xi": 2.0}, "xi"),
        ({"passes": 0}, "passes"),
        ({"local": 0}, "local"),
    ],
)
def test_settings_are_checked(given, words):
    with pytest.raises(ValueError, match=words):
        Minibatch(**given)


def test_stream_needs_minibatch_and_common_columns():
    cells = cells_of(SETTINGS["full"], (120, 40))
    with pytest.raises(ValueError, match="solver='minibatch'"):
        nmar.CCPF(SETTINGS["full"]).fit([cells])
    model = nmar.CCPF(SETTINGS["full"], factors=2, solver="minibatch")
    with pytest.raises(ValueError, match="other columns"):
        model.fit([cells, cells.T.take_rows(np.arange(30)).T])
    with pytest.raises(ValueError, match="must give Cells"):
        model.fit(iter([]))
