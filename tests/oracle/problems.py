"""Tiny problems and the table of every model × linkage that exists: used by tests of several folders."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from nmar.data.cells import Cells
from nmar.fit.executor import Serial
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.kernels.layout import empty_view, fill_view
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.protocol import DataModel
from nmar.models.settings import Constant, Factorization
from nmar.models.shared import update_shared
from nmar.models.state import State
from nmar.prob.families import family
from nmar.prob.linkage import Compound, Exponential, Free, Geometric, Ignorable, Linear

RAGGED = (1.0, 0.6, 1.7, 0.4)
SHIFT = (0.0, 0.4, -0.3, 0.2)
SCALE = (1.0, 0.8, 1.3, 1.1)


def sampled(cases, share):
    """The cases of a wide table as parameters: one of each ``share`` neighbours, drawn by seed, others are slow.

    The seed is NMAR_TEST_SAMPLE, by default a hash of the sources (tests/conftest.py): the same sources run the same
    cases, and changes come upon all of them in time. `python -m pytest -m slow` runs the others of this seed.
    """
    cases, drawn = list(cases), random.Random(os.environ["NMAR_TEST_SAMPLE"])
    chosen = {start + drawn.randrange(share) for start in range(0, len(cases), share)}
    slow = [() if k in chosen else pytest.mark.slow for k in range(len(cases))]
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=marks)
        for one, marks in zip(cases, slow, strict=True)
    ]


CONSTANTS = {
    "constant-gaussian": Constant("gaussian"),
    "constant-normal": Constant("gaussian", prior="normal"),
    "constant-gamma": Constant("gamma"),
    "constant-inverse-gaussian": Constant("inverse_gaussian"),
    "constant-poisson": Constant("poisson"),
    "constant-negative-binomial": Constant("negative_binomial"),
    "constant-binomial": Constant("binomial", trials=7),
}
MODELS = {
    "full": Factorization(2, student=False),
    "full-plain": Factorization(2, bias=False, student=False),
    "diagonal": Factorization(2, covariance="diagonal", student=False),
    "diagonal-plain": Factorization(2, covariance="diagonal", bias=False, student=False),
    "poisson": Factorization(2, family="poisson"),
}

FIXED = {
    "ignorable": Ignorable(),
    "linear+": Linear(0.3),
    "linear-": Linear(-0.5),
    "exponential+": Exponential(0.4),
    "exponential-": Exponential(-0.2),
    "compound": Compound(),
    "geometric+": Geometric(0.3),
    "geometric-": Geometric(-0.4),
    "free": Free(values=RAGGED, learn=False),
}
FIXED_MEAN = {
    "ignorable-shift": Ignorable(mean="shift", levels=4, shift=SHIFT),
    "linear-shift": Linear(0.3, mean="shift", levels=4, shift=SHIFT),
    "free-shift": Free(values=RAGGED, learn=False, mean="shift", shift=SHIFT),
    "geometric-scale": Geometric(-0.4, mean="scale", levels=4, scale=SCALE),
    "free-scale": Free(values=RAGGED, learn=False, mean="scale", scale=SCALE),
    "compound-scale": Compound(mean="scale"),
}
LEARNED = {
    "ignorable": Ignorable(),
    "linear": Linear(0.3, learn=True),
    "exponential": Exponential(0.2, learn=True),
    "exponential-": Exponential(-0.2, learn=True),
    "compound": Compound(),
    "geometric": Geometric(0.2, learn=True),
    "geometric-": Geometric(-0.2, learn=True),
    "free": Free(values=RAGGED, strength=2.0),
}
LEARNED_MEAN = {
    "ignorable-shift": Ignorable(mean="shift", levels=3),
    "linear-shift": Linear(-0.3, learn=True, mean="shift", levels=3),
    "free-shift": Free(values=RAGGED, strength=2.0, mean="shift", shift_width=0.5),
    "exponential-scale": Exponential(0.2, learn=True, mean="scale", levels=3, scale_width=0.5),
    "free-scale": Free(values=RAGGED, strength=2.0, mean="scale", scale_width=0.5),
    "compound-shift": Compound(mean="shift", levels=3),
    "compound-scale": Compound(mean="scale"),
}
THINNED = {  # s > 1, and two tables of s = 1 beside them
    "free-thin8": Free(values=RAGGED, strength=2.0, thinning=8.0),  # bins that begin at 1, 3, 10 and 32 events
    "free-thin1.5": Free(values=RAGGED, strength=2.0, thinning=1.5),
    "linear-thin1.5": Linear(0.3, learn=True, thinning=1.5),
    "linear-thin8": Linear(-0.5, learn=True, thinning=8.0),
    "exponential-thin1.5": Exponential(0.2, learn=True, thinning=1.5),
    "geometric-thin8": Geometric(-0.2, learn=True, thinning=8.0),
    "compound-thin1.5": Compound(thinning=1.5),
    "ignorable-thin8": Ignorable(thinning=8.0),
    "free-shift-thin8": Free(values=RAGGED, strength=2.0, mean="shift", shift=SHIFT, shift_width=0.5, thinning=8.0),
    "ignorable-shift-thin1.5": Ignorable(mean="shift", levels=3, thinning=1.5),
    "free": LEARNED["free"],
    "linear": LEARNED["linear"],
}
# (model, linkage): a few of all the pairs, so that every model, kind of bins and s is there
THIN_PAIRS = [
    ("full", "free-thin8"),
    ("full", "free-shift-thin8"),
    ("full-plain", "linear-thin1.5"),
    ("full-plain", "compound-thin1.5"),
    ("full-plain", "ignorable-thin8"),
    ("diagonal", "geometric-thin8"),
    ("diagonal", "free-thin8"),
    ("diagonal-plain", "ignorable-shift-thin1.5"),
    ("poisson", "free-thin1.5"),
    ("poisson", "linear-thin8"),
    ("poisson", "exponential-thin1.5"),
]


class BareModel(DataModel):
    """A data model's traits without the model: what the tables over bins are made from."""

    diagonal = False

    def __init__(self, family, allocates=False, diagonal=False):
        self.family, self.allocates, self.diagonal = family, allocates, diagonal


BareModel.__abstractmethods__ = frozenset()


def functions_of(name, values):
    """The functions of the values that a family's slopes multiply, (F, cells), as the kernels read them."""
    return np.array(family(name).functions(values), values.dtype).reshape(-1, len(values))


def every(linkages, linkages_of_mean):
    """(model, linkage) names of every pair that exists: location tables are the Gaussian's alone."""
    pairs = [(model, link) for model in MODELS for link in linkages]
    return pairs + [(m, link) for m in MODELS for link in linkages_of_mean if m != "poisson"]


def small_cells(family, shape=(3, 3), seed=0, density=0.75):
    """Observed cells of a tiny matrix, some missing, among them an observed 0 and one far from the rest.

    Values are eighths, so that sums of them carry no rounding.
    """
    rng = np.random.default_rng(seed)
    seen = rng.random(shape) < density
    seen[0, 0], seen[-1, -1], seen[0, 1] = True, True, False
    row, col = np.nonzero(seen)
    if family == "poisson":
        values = rng.poisson(2.0, len(row)).astype(float)
        values[-1] = 9.0
    else:
        values = np.round(8.0 * rng.normal(1.0, 1.5, len(row))) / 8.0
        values[-1] = 9.0
    values[0] = 0.0
    return Cells.from_arrays(row, col, values, shape=shape)


def problem(model, linkage, cells=None, *, factors=2, **options):
    """A fit about to start; ``model`` names an entry of MODELS."""
    settings = MODELS[model]
    cells = small_cells(settings.family) if cells is None else cells
    return begin(cells, settings.build(cells), linkage, Pattern(factors), **options)


def advanced(started, sweeps=2, backend="numba", executor=None):
    """The state after some sweeps."""
    state, kernels = started.state, choose(backend)
    for _ in range(sweeps):
        state, _ = sweep(state, Context(started.observed, started.law, kernels, executor or Serial()))
    return state


def step(started, state, axis, backend="numba", executor=None):
    """One half sweep and the M-steps after it: (state after the side's update, state after all, info)."""
    kernels = choose(backend)
    pair, info, size = half_sweep(axis, state, Context(started.observed, started.law, kernels, executor or Serial()))
    moved = State(state.sides, replace(state.shared, table_size=size)).with_side(axis, pair)
    return moved, State(moved.sides, update_shared(axis, moved, info, started.law)), info


def make_view(log_weights, first, second, first_top=None):
    """A view from E[log u] and the features of a data model."""
    view = empty_view(log_weights, (log_weights.shape[1], first.shape[1], second.shape[1]))
    fill_view(view, slice(None), np.exp(log_weights), first, second, first_top)
    return view
