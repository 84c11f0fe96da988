"""Every built-in model with cells that it can have, and fits of them: in memory, on disk, on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from problems_fit import same

import nmar

COVARIATES = np.random.default_rng(3).normal(size=(40, 2))
FREE, THINNED = "free", nmar.Free(thinning=8.0)
MODELS: dict[str, tuple[Any, Any]] = {
    "full": (nmar.Factorization(2), THINNED),
    "diagonal": (nmar.Factorization(2, covariance="diagonal"), FREE),
    "poisson": (nmar.Factorization(2, family="poisson"), FREE),
    "rows": (nmar.Effects("rows"), "linear"),
    "both": (nmar.Effects("both"), "geometric"),
    "poisson-effects": (nmar.Effects("both", family="poisson"), FREE),
    "mixture": (nmar.Mixture(2, restarts=1), FREE),
    "poisson-mixture": (nmar.Mixture(2, axis="cols", family="poisson", restarts=1), FREE),
    "regression": (nmar.Regression(COVARIATES), THINNED),
    "covariates": (nmar.Factorization(2, cols=COVARIATES), FREE),
    "constant": (nmar.Constant(), nmar.Compound(mean="scale")),
    "gamma": (nmar.Constant("gamma"), FREE),
    "inverse_gaussian": (nmar.Constant("inverse_gaussian"), FREE),
    "poisson-constant": (nmar.Constant("poisson"), "compound"),
    "binomial": (nmar.Constant("binomial", trials=5), "compound"),
    "by-value": (nmar.Constant("negative_binomial"), FREE),
    "pattern": (nmar.PatternOnly(), "ignorable"),
}


def cells_for(name: str, shape: tuple[int, int] = (30, 40)) -> nmar.Cells:
    """Cells drawn from the model, or from a factorization where it has none of its own."""
    data = nmar.Factorization(2) if name in ("pattern", "covariates") else MODELS[name][0]
    link = "compound" if name in ("binomial", "poisson-constant") else nmar.Linear(0.2)
    return nmar.simulate(shape, data, link, 0.3, 0)[0]


def model(name: str, kind: type = nmar.CCPF, **given: Any) -> Any:
    """An estimator about to fit a few sweeps."""
    data, link = MODELS[name]
    settings = {"factors": 3, "max_iter": 3, "tol": 0.0, "random_state": 0, "starts": 1} | given
    return kind(data, link, **settings)


def same_fit(one: Any, other: Any) -> bool:
    """Whether two fits have the same bits."""
    a, b = one.posterior_.state, other.posterior_.state
    return (
        one.bound_trace_.tolist() == other.bound_trace_.tolist()
        and same(a.sides, b.sides)
        and same(a.shared.linkage, b.shared.linkage)
        and a.shared.dispersion == b.shared.dispersion
    )
