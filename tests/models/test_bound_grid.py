"""The bound never falls: data models × linkages × noise and tail × weights × control × prior, sampled by seed."""

from __future__ import annotations

import numpy as np
import pytest

import nmar

GAUSSIAN = {
    "constant": nmar.Constant("gaussian"),
    "constant-normal": nmar.Constant("gaussian", prior="normal"),
    "effects": nmar.Effects("rows"),
    "effects-both": nmar.Effects("both"),
    "factorization": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "mixture": nmar.Mixture(2, restarts=1),
}
COUNTS = {
    "constant-poisson": nmar.Constant("poisson"),
    "constant-negative-binomial": nmar.Constant("negative_binomial"),
    "effects-poisson": nmar.Effects("cols", family="poisson"),
    "poisson": nmar.Factorization(2, family="poisson"),
    "mixture-poisson": nmar.Mixture(2, axis="cols", family="poisson", restarts=1),
}
POSITIVE = {"constant-gamma": nmar.Constant("gamma"), "constant-inverse-gaussian": nmar.Constant("inverse_gaussian")}
MODELS = GAUSSIAN | COUNTS | POSITIVE
LINKS = {
    "ignorable": nmar.Ignorable(),
    "linear": nmar.Linear(),
    "exponential": nmar.Exponential(),
    "compound": nmar.Compound(),
    "geometric": nmar.Geometric(),
    "free": nmar.Free(),
    "free-thin4": nmar.Free(thinning=4),
}
MOVING = {"linear-shift": nmar.Linear(mean="shift"), "free-scale": nmar.Free(mean="scale"), "two-stage": "two-stage"}
NOISE = ({}, {"noise": "rows"}, {"noise": "rows+cols"}, {"tail": True}, {"noise": "rows+cols", "tail": True})
SLACK = 1e-9  # relative


def chosen(rng, some):
    """One of these, with equal chances."""
    return list(some)[rng.integers(len(some))]


def drawn_case(seed):
    """A combination of settings that exists, and a small table for it."""
    rng = np.random.default_rng(seed)
    model = chosen(rng, MODELS)
    link = chosen(rng, LINKS | MOVING if model in GAUSSIAN else LINKS)
    noise = chosen(rng, NOISE) if model in GAUSSIAN and not model.startswith("constant") and link in LINKS else {}
    link = "ignorable" if "tail" in noise else link
    control = not noise and bool(rng.random() < 0.3)
    settings = {"control": "tail" if control else False, "prior": chosen(rng, ("learned", "paper")), **noise}
    return model, link, settings, table(rng, model, bool(rng.integers(2)))


def table(rng, model, weighted):
    """From 3 × 3 to 15 × 22 cells, few or nearly all of them observed."""
    shape = int(rng.integers(3, 16)), int(rng.integers(3, 23))
    mask = rng.random(shape) < rng.uniform(0.15, 0.9)
    while mask.sum() < 6 or mask.all():
        mask = rng.random(shape) < 0.5
    row, col = np.nonzero(mask)
    n = len(row)
    if model in COUNTS:
        values = rng.poisson(np.exp(rng.normal(size=n))).astype(float)
    elif model in POSITIVE:
        values = rng.gamma(2.0, size=n) + 0.01
    else:
        values = rng.normal(size=n) * chosen(rng, (0.1, 1.0, 30.0)) + rng.standard_t(2, size=n)
    weight = chosen(rng, (rng.gamma(1.0, size=n), rng.integers(1, 5, n).astype(float))) if weighted else None
    return nmar.Cells.from_arrays(row, col, values, shape=shape, weight=weight)


def check(seed, sweeps):
    model, link, settings, cells = drawn_case(seed)
    fit = nmar.CCPF(MODELS[model], (LINKS | MOVING)[link], factors=2, max_iter=sweeps, tol=0.0, n_jobs=1,
                    random_state=seed, **settings).fit(cells)  # fmt: skip
    bound = fit.bound_trace_
    assert np.isfinite(bound).all()
    fall = np.diff(bound) / np.abs(bound[1:])
    assert len(bound) < 2 or fall.min() >= -SLACK, (seed, model, link, settings, int(fall.argmin()), fall.min())


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_never_falls(seed):
    check(seed, 15)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 40))
def test_the_bound_never_falls_anywhere(first):
    for seed in range(first, first + 40):
        check(seed, 40)


@pytest.mark.parametrize("control", [False, "tail"])
def test_two_stage_with_a_posterior_of_the_variance_and_weights(control):
    """Its quadratic is learned at the variance that q holds, not at one of its own."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        cells = table(rng, "constant", weighted=True)
        fit = nmar.CCPF(nmar.Constant("gaussian"), "two-stage", factors=2, control=control, max_iter=12, tol=0.0,
                        n_jobs=1, random_state=0).fit(cells)  # fmt: skip
        assert (np.diff(fit.bound_trace_) >= -SLACK * np.abs(fit.bound_trace_[1:])).all()
