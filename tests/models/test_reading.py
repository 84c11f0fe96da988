"""Readers (models/reading.py): one that reads values as they are is the plain model, for every way to update lines."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from problems import small_cells

import nmar
from nmar.fit.executor import Serial
from nmar.fit.foldin import fold_in
from nmar.fit.grow import grown
from nmar.fit.job import Job
from nmar.fit.loop.blend import blend
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress, run, sweep
from nmar.fit.options import Options
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.models.reading import Reading
from nmar.models.settings import Effects, Factorization, Mixture
from nmar.models.state import State
from nmar.posterior import store
from nmar.posterior.joint import drawn
from nmar.posterior.posterior import Posterior
from nmar.prob.factor import GammaFactor
from nmar.prob.linkage import Ignorable
from nmar.prob.tree import join

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
    learns_scale = True
    scale_is_known = False

    def start(self, axis, n):
        return None

    def read(self, given):
        weight = given.cells.weight if given.cells.weight.size else 1.0
        y = given.cells.values.astype(np.float64)
        square = (y - given.mean) ** 2 + given.variance
        log_z = -0.5 * np.sum(weight * (np.log(2.0 * np.pi * given.noise) + square / given.noise))
        return Reading(y, np.ones(len(y)), square, float(log_z))

    def learned(self, sums):
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


@dataclass(frozen=True)
class Counted(AsTheyAre):
    """The same, and of each line how many cells it has: Ga(1 + n, 1)."""

    def start(self, axis, n):
        return GammaFactor(np.ones(n), np.ones(n))

    def read(self, given):
        found = super().read(given)
        counts = np.bincount(given.line, minlength=len(given.cells.indptr) - 1).astype(np.float64)
        return found._replace(lines=GammaFactor(1.0 + counts, np.ones(len(counts))))


@pytest.fixture(scope="module")
def counted():
    """A posterior whose reader keeps lines of its own, and its cells."""
    cells = small_cells("gaussian", (7, 5))
    plain = begin(cells, Effects().build(cells), Ignorable(), Pattern(2), noise=Noise())
    reader = Counted()
    sides = (
        replace(side, reading=reader.start(axis, cells.shape[axis])) for axis, side in enumerate(plain.state.sides)
    )
    state = State(tuple(sides), replace(plain.state.shared, reader=reader))
    context = Context(plain.observed, plain.law, choose("numba"), Serial())
    result = run(Progress(state), context, lambda trace: "enough" if trace.iterations == 5 else None)
    return Posterior(plain.law, result.state, cells.rows, cells.cols), cells


def degrees(cells, axis):
    return np.diff(cells.by(axis).indptr)


def test_own_lines_of_a_reader_are_written_where_new_lines_go(counted):
    known, cells = counted
    for axis, side in enumerate(known.state.sides):
        np.testing.assert_array_equal(side.reading.alpha, 1.0 + degrees(cells, axis))


def test_own_lines_of_a_reader_are_at_the_prior_where_ids_were_never_seen(counted):
    known, _ = counted
    rows, cols = known.extended(np.array([70, 71])).state.sides
    np.testing.assert_array_equal(rows.reading.alpha[-3:], np.ones(3))
    assert len(cols.reading.alpha) == 6


def test_own_lines_of_a_reader_are_folded_in_and_grown(counted):
    known, cells = counted
    folded = fold_in(known, cells)
    np.testing.assert_array_equal(folded.state.sides[0].reading.alpha, 1.0 + degrees(cells, 0))
    ids = np.arange(cells.shape[0] + 2)
    more = nmar.Cells.from_arrays(
        np.append(cells.row_index, [7, 7, 8]),
        np.append(cells.positions()[1], [0, 1, 2]),
        np.append(cells.values, [0.1, 0.2, 0.3]),
        (len(ids), cells.shape[1]),
    )
    job = Job(Options(data=Effects()), more, None, None, choose("numba"), Serial(), None, Control())
    longer = grown(replace(known, rows=cells.rows), job)
    np.testing.assert_array_equal(longer.state.sides[0].reading.alpha[-2:], [3.0, 2.0])


def test_own_lines_of_a_reader_are_blended_drawn_and_joined(counted):
    known, _ = counted
    side = known.state.sides[0]
    start = replace(side, reading=Counted().start(0, 7))
    between = blend(start, side, 0.5, known.law.pattern)
    np.testing.assert_allclose(between.reading.alpha, 0.5 * (1.0 + side.reading.alpha))
    other = drawn(known, np.random.default_rng(0)).state.sides[0]
    assert np.ptp(other.reading.mean / side.reading.mean) > 0.1
    joined = join([side.take(slice(0, 3)), side.take(slice(3, 7))])
    np.testing.assert_array_equal(joined.reading.alpha, side.reading.alpha)


def test_own_lines_of_a_reader_are_kept_in_files(counted, tmp_path):
    known, _ = counted
    nmar.register(Counted)
    store.save(tmp_path / "m", known)
    again = store.load(tmp_path / "m")
    np.testing.assert_array_equal(again.state.sides[0].reading.alpha, known.state.sides[0].reading.alpha)
    assert again.state.shared.reader == Counted()
