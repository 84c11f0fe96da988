"""The learned prior shape of the pattern: stationary, monotone, and P(observed) of rare cells better calibrated."""

from dataclasses import replace

import numpy as np
import pytest
from problems import LEARNED, MODELS, small_cells

import nmar
from nmar.fit.executor import Serial
from nmar.fit.loop.run import sweep
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.models.state import State


def test_shape_is_stationary_for_the_bound_and_the_bound_never_falls():
    cells = small_cells("gaussian", (5, 4), seed=4)
    problem = begin(cells, MODELS["full"].build(cells), LEARNED["free"], Pattern(2, learns=True))
    around, state, values = Context(problem.observed, problem.law, choose("numba"), Serial()), problem.state, []
    for _ in range(20):
        state, value = sweep(state, around)
        values.append(value)
    assert np.all(np.diff(values) > -1e-9 * np.abs(values[-1]))
    last = 1 - problem.law.lead  # its shape is the newest: nothing was updated since
    shapes = list(state.shared.shapes)

    def at(h):
        moved = [shape * np.exp(h) if axis == last else shape for axis, shape in enumerate(shapes)]
        return bound(State(state.sides, replace(state.shared, shapes=tuple(moved))), 0.0, problem.law)

    assert abs(at(1e-4) - at(-1e-4)) / 2e-4 < 1e-5
    assert abs(at(0.3) - at(0.0)) > 1e-3


def test_rare_cells_are_less_certainly_missing():
    truth = Pattern(factors=5, shape=3.0, activity_shape=3.0, activity_rate=1.0)
    cells, known = nmar.simulate((200, 100), nmar.Effects("both"), "linear", 0.2, 0, pattern=truth)
    rng = np.random.default_rng(0)
    i, j = rng.integers(200, size=5000), rng.integers(100, size=5000)
    real = -np.expm1(-known.posterior.rates(i, j))
    loss = {}
    for prior in ("robust", "learned"):
        model = nmar.CCPF(nmar.Effects("both"), "linear", 10, max_iter=40, tol=0.0, random_state=0, prior=prior).fit(
            cells
        )
        fitted = model.observed_probability(i, j)
        loss[prior] = float(np.mean(real * np.log(real / fitted) + (1 - real) * np.log((1 - real) / (1 - fitted))))
    assert loss["learned"] < 0.6 * loss["robust"]


def test_stochastic_solvers_refuse_to_learn_it():
    with pytest.raises(ValueError, match="needs all lines"):
        nmar.CCPF(prior="learned", linkage="free", solver="minibatch").fit(small_cells("gaussian", (6, 5)))
