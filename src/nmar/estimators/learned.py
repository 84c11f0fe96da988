"""What particular data models learned, as attributes of a fitted :class:`nmar.CCPF`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.models.bilinear import Bilinear
from nmar.models.mixture import Assignment, ClusterModel
from nmar.posterior.posterior import Posterior

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Regression coefficients of every line, in units of the values, on standardised covariates.

    Attributes
    ----------
    ids : (n,) ids of the lines that have coefficients
    names : names of the covariates, the intercept first (of values less their overall mean)
    mean, sd : (n, covariates) posterior means and standard deviations
    """

    ids: Array
    names: tuple[str, ...]
    mean: Array
    sd: Array


class Learned:
    """Attributes that exist for some data models only; asking for another is an AttributeError that says which."""

    data: Any
    _fitted: Callable[[], Posterior]

    @property
    def responsibilities_(self) -> Array:
        """(lines, clusters) posterior probability of each cluster (Mixture)."""
        known = self._fitted()
        if not isinstance(known.law.data, ClusterModel):
            raise AttributeError("responsibilities_ exists for data=nmar.Mixture(...) only")
        side: Assignment = known.state.sides[known.law.data.axis].data
        return side.probability

    @property
    def labels_(self) -> Array:
        """Most probable cluster of each line (Mixture)."""
        return self.responsibilities_.argmax(axis=1)

    @property
    def covariate_effects_(self) -> dict[str, Coefficients]:
        """Effects of covariates with standard deviations, by axis and name (``Factorization(rows=…, cols=…)``).

        One line for each coordinate of a row or column: its factors ("factor 1" …) and its own level ("bias"), the
        latter in units of the values; columns are the covariates, standardised (:class:`nmar.data.covariates.Design`).
        """
        known, found = self._fitted(), {}
        for axis, name in enumerate(("rows", "cols")):
            effects = known.law.data.covariate_effects(axis, known.state.shared.data)
            if effects is not None:
                scale = np.where([label == "bias" for label in effects.labels], known.units.scale, 1.0)[:, None]
                found[name] = Coefficients(
                    np.array(effects.labels), effects.names, scale * effects.mean, scale * effects.sd
                )
        if not found:
            raise AttributeError("covariate_effects_ exists for data models with covariates (rows=…, cols=…) only")
        return found

    @property
    def coefficients_(self) -> Coefficients:
        """Coefficients with standard deviations, by covariate name (Regression)."""
        known = self._fitted()
        model, names = known.law.data, getattr(self.data, "covariate_names", None)
        if names is None or not isinstance(model, Bilinear):
            raise AttributeError("coefficients_ exists for data=nmar.Regression(...) only")
        axis = 0 if model.axes[1].known is not None else 1
        side, scale = known.state.sides[axis].data, known.units.scale
        ids = (known.rows, known.cols)[axis].ids
        mean, sd = side.mean.astype(np.float64), np.sqrt(side.variances.astype(np.float64))
        return Coefficients(ids, names, scale * mean, scale * sd)
