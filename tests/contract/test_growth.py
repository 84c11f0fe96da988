"""The contract of growth: a model that is given more cells ends where a fit of all of them ends.

One table of data models, linkages and controls. ``partial_fit`` with new rows, new columns and new cells of known
lines, run until nothing moves, is compared with a fit of all cells in the units of the first ones (theory.md, Units):
by what it predicts where the optimum is unique, else by its bound. ``fold_in`` of a row is the same to the last bit
whatever else is folded in.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import nmar
import nmar.fit.start

SHAPE, FIRST = (30, 20), (24, 16)  # of all cells, and of the first ones: rows lead from the start
X = np.random.default_rng(3).normal(size=(SHAPE[1], 2))
NAMED = pd.DataFrame(X, columns=["a", "b"])  # its index holds the ids of the columns
BY_ROW = pd.DataFrame(np.random.default_rng(4).normal(size=(SHAPE[0], 2)))

MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, family="poisson"),
    "effects-rows": nmar.Effects("rows"),
    "effects-both": nmar.Effects("both"),
    "poisson-effects-both": nmar.Effects("both", "poisson"),
    "mixture-rows": nmar.Mixture(2, restarts=1),
    "mixture-cols": nmar.Mixture(2, "cols", restarts=1),
    "poisson-mixture-rows": nmar.Mixture(2, "rows", "poisson", restarts=1),
    "constant-gaussian": nmar.Constant("gaussian"),
    "constant-normal": nmar.Constant("gaussian", prior="normal"),
    "constant-gamma": nmar.Constant("gamma"),
    "constant-inverse-gaussian": nmar.Constant("inverse_gaussian"),
    "constant-poisson": nmar.Constant("poisson"),
    "constant-negative-binomial": nmar.Constant("negative_binomial"),
    "constant-binomial": nmar.Constant("binomial", trials=7),
    "regression": nmar.Regression(NAMED),
    "regression-diagonal": nmar.Regression(NAMED, covariance="diagonal"),
    "regression-cols": nmar.Regression(BY_ROW, axis="cols"),
    "regressor": nmar.Regressor(LinearRegression(), col_features=X),
    "pattern-only": nmar.PatternOnly(),
}


def data_of(model, shape):
    """The settings of a model for a matrix of this shape: a regressor takes features in the order of the matrix."""
    return nmar.Regressor(LinearRegression(), col_features=X[: shape[1]]) if model == "regressor" else MODELS[model]


def drawn(model, seed=0):
    """All cells, drawn from the model, and the first of them: fewer rows, fewer columns, nine tenths of the rest."""
    data = nmar.Effects("both") if model == "pattern-only" else MODELS[model]
    dispersion = 7.0 if model == "constant-binomial" else 1.0
    cells, _ = nmar.simulate(SHAPE, data, "ignorable", density=0.4, seed=seed, dispersion=dispersion)
    inside = cells.take_rows(np.arange(FIRST[0])).T.take_rows(np.arange(FIRST[1])).T
    return cells, inside.select(np.random.default_rng(seed).random(len(inside)) < 0.9)


def model_of(name, shape=SHAPE, **settings):
    given = {"linkage": "ignorable", "factors": 2, "random_state": 0, "n_jobs": 1, "tol": 0.0, **settings}
    return nmar.CCPF(data_of(name, shape), **given)


def grown_and_fresh(name, monkeypatch, sweeps, **settings):
    """A model grown to all cells, and one fitted to all of them in the same units; each after many sweeps."""
    cells, first = drawn(name)
    grown = model_of(name, FIRST, max_iter=sweeps, **settings).fit(first)
    units = grown.posterior_.units
    grown.set_params(data=data_of(name, SHAPE)).partial_fit(cells, sweeps=sweeps)
    monkeypatch.setattr(nmar.fit.start, "units_of", lambda *given: units)
    return grown, model_of(name, max_iter=sweeps, **settings).fit(cells), cells
