"""A data model with what rows and columns choose among its covariates (theory.md, Taste)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nmar.data.covariates import CovariateTable
from nmar.models.settings import Effects
from nmar.models.taste import Taste, chosen, names
from nmar.posterior.posterior import Posterior


def describes(data: Any) -> bool:
    """Whether what rows and columns choose can describe the values of a data model, which has no covariates yet."""
    known = [getattr(data, name, data) for name in ("rows", "cols")]
    return all(one is None for one in known) and getattr(data, "family", "gaussian") in ("gaussian", "levels")


def described(
    data: Any, pattern: Posterior, shuffle: np.random.Generator | None = None
) -> tuple[Any, tuple[Taste | None, Taste | None]]:
    """The settings of a data model with covariates from a fitted pattern, and how they were standardised.

    With ``shuffle`` every line has the covariates of another one, drawn at random: the control.

    Raises
    ------
    ValueError
        Where the data model has covariates of its own.
    """
    found: dict[str, CovariateTable] = {}
    tastes: list[Taste | None] = []
    for axis, name in enumerate(("rows", "cols")):
        if getattr(data, name) is not None:
            raise ValueError(f"mechanism='taste' and covariates ({name}=…) of the data model exclude each other")
        if isinstance(data, Effects) and data.axis not in (name, "both"):
            tastes.append(None)
            continue
        state = pattern.state
        means = pattern.law.pattern_of(state.shared, axis).learned(state.sides[axis].pattern.weights.mean)
        weights = np.asarray(means, np.float64)
        choices = chosen(weights)
        if shuffle is not None:
            choices = shuffle.permutation(choices)
        ids, columns = (pattern.rows, pattern.cols)[axis], choices.T
        found[name] = CovariateTable(ids, names(weights.shape[1]), tuple(np.ascontiguousarray(c) for c in columns))
        tastes.append(Taste.of(weights))
    return replace(data, **found), (tastes[0], tastes[1])
