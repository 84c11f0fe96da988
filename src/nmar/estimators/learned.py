"""What a fit learned, as attributes of :class:`nmar.CCPF`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.estimators.fitted import FittedModel
from nmar.posterior.learned import (
    Coefficients,
    Factors,
    LevelStyles,
    NoiseLevels,
    coefficients,
    covariate_effects,
    level_styles,
    noise_levels,
    pattern_effects,
    pattern_factors,
    responsibilities,
    scale_of,
    value_factors,
)
from nmar.posterior.mechanism import LearnedMechanism, learned_mechanism


class Learned(FittedModel):
    """Attributes of a fit. Some exist for some data models only; asking for another is an error that says for which."""

    @property
    def linkage_(self) -> Any:
        """The fitted linkage."""
        return self._fitted().linkage

    @property
    def dispersion_(self) -> float:
        """σ² of the Gaussian, κ of the other families."""
        return self._fitted().dispersion

    @property
    def mechanism_(self) -> LearnedMechanism:
        """Why values are missing: ``kind``, slopes with standard deviations, and ``curve(y)``, P(observed | y)."""
        return learned_mechanism(self._fitted())

    @property
    def row_noise_(self) -> NoiseLevels:
        """Noise of each row (``noise="rows+cols"`` or ``"rows"``)."""
        return noise_levels(self._fitted(), 0)

    @property
    def col_noise_(self) -> NoiseLevels:
        """Noise of each column (``noise="rows+cols"`` or ``"cols"``)."""
        return noise_levels(self._fitted(), 1)

    @property
    def row_factors_(self) -> Factors:
        """Factors of the values of each row with standard deviations (factorizations and other bilinear models)."""
        return value_factors(self._fitted(), 0)

    @property
    def col_factors_(self) -> Factors:
        """Factors of the values of each column with standard deviations."""
        return value_factors(self._fitted(), 1)

    @property
    def row_pattern_(self) -> Factors:
        """Weights of each row in the components of the missingness pattern, with standard deviations."""
        return pattern_factors(self._fitted(), 0)

    @property
    def col_pattern_(self) -> Factors:
        """Weights of each column in the components of the missingness pattern, with standard deviations."""
        return pattern_factors(self._fitted(), 1)

    @property
    def levels_(self) -> Array:
        """The levels in order (``family="levels"``)."""
        return np.array(scale_of(self._fitted()).values)

    @property
    def styles_(self) -> LevelStyles:
        """Cut points, and which lines have which (``family="levels"``)."""
        return level_styles(self._fitted())

    @property
    def responsibilities_(self) -> Array:
        """(lines, clusters) posterior probability of each cluster (Mixture)."""
        return responsibilities(self._fitted())

    @property
    def labels_(self) -> Array:
        """Most probable cluster of each line (Mixture)."""
        return self.responsibilities_.argmax(axis=1)

    @property
    def covariate_effects_(self) -> dict[str, Coefficients]:
        """Effects of covariates with standard deviations, by axis and name (``Factorization(rows=…, cols=…)``).

        One line for each coordinate of a row or column: its factors ("factor 1" …) and its own level ("bias"), the
        latter in units of the values. Of a mixture, one for each cluster: on the axis that is clustered the log odds of
        the cluster (they sum to 0), on the other axis its profile, in units of the values. Columns are the covariates,
        standardised (:class:`nmar.data.covariates.Design`).
        """
        return covariate_effects(self._fitted())

    @property
    def pattern_effects_(self) -> dict[str, Coefficients]:
        """Effects of the pattern's covariates with standard deviations (``pattern=nmar.Pattern(rows=…, cols=…)``).

        All are parts of the rate Λ of a cell, P(observed) = 1 − exp(−Λ), and none is negative. "rows": of the levels of
        row covariates (``names``) on each column (``ids``); "cols": of the levels of column covariates on each row;
        "products": of a row's level (``ids``) and a column's level (``names``) together, the same for all cells.
        """
        return pattern_effects(self._fitted())

    @property
    def coefficients_(self) -> Coefficients:
        """Coefficients with standard deviations, by covariate name (Regression)."""
        return coefficients(self._fitted(), getattr(self.data, "covariate_names", None))
