"""What particular data models learned, as attributes of a fitted :class:`nmar.CCPF`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import polygamma

from nmar.arrays import Array
from nmar.models.bilinear import Bilinear
from nmar.models.cluster_prior import Assignment
from nmar.models.mixture import ClusterModel
from nmar.posterior.mechanism import LearnedMechanism, learned_mechanism
from nmar.posterior.posterior import Posterior
from nmar.prob.scale import Scale


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of every line, by the names of their covariates.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        Ids of the lines that have coefficients.
    names : tuple of str
        Names of the covariates; of a regression the intercept first (of values less their overall mean).
    mean, sd : ndarray of shape (n, covariates)
        Posterior means and standard deviations.
    """

    ids: Array
    names: tuple[str, ...]
    mean: Array
    sd: Array


@dataclass(frozen=True, eq=False)
class NoiseLevels:
    """How far the values of each row, or column, scatter.

    Attributes
    ----------
    ids : array of shape (n,)
        Ids of the rows or columns.
    level : array of shape (n,)
        Standard deviation of the noise of each one, in units of the values, where the other axis has its average
        noise.
    sd : array of shape (n,)
        Posterior standard deviation of ``level``.
    """

    ids: Array
    level: Array
    sd: Array

    def noisiest(self, n: int = 5) -> Array:
        """Ids of the ``n`` noisiest rows or columns, the noisiest first."""
        return self.ids[np.argsort(-self.level, kind="stable")[:n]]


@dataclass(frozen=True, eq=False)
class LevelStyles:
    """How rows, or columns, turn what they think into levels (``family="levels"``).

    Attributes
    ----------
    cuts : array of shape (styles, levels − 1)
        Cut points between the levels in units of the ratings: the first and the last lie half way between their levels
        in the mean over the cells of all styles.
    share : array of shape (styles,)
        Share of the lines in each style.
    ids : array of shape (n,)
        Ids of the lines that have styles; all rows, if there is one style.
    probability : array of shape (n, styles)
        Probability of each style of each line.
    """

    cuts: Array
    share: Array
    ids: Array
    probability: Array

    def typical(self, style: int, n: int = 5) -> Array:
        """Ids of the ``n`` lines that have a style with the highest probability."""
        return self.ids[np.argsort(-self.probability[:, style], kind="stable")[:n]]


class Learned:
    """Attributes that exist for some data models only; asking for another is an AttributeError that says which."""

    data: Any
    _fitted: Callable[[], Posterior]

    @property
    def mechanism_(self) -> LearnedMechanism:
        """Why values are missing: ``kind``, slopes with standard deviations, and ``curve(y)``, P(observed | y)."""
        return learned_mechanism(self._fitted())

    @property
    def row_noise_(self) -> NoiseLevels:
        """Noise of each row (``noise="rows+cols"`` or ``"rows"``)."""
        return self._noise(0)

    @property
    def col_noise_(self) -> NoiseLevels:
        """Noise of each column (``noise="rows+cols"`` or ``"cols"``)."""
        return self._noise(1)

    def _noise(self, axis: int) -> NoiseLevels:
        known = self._fitted()
        levels, name = known.state.sides[axis].noise, ("row", "col")[axis]
        if levels is None:
            raise AttributeError(f"{name}_noise_ exists for fits with noise='rows+cols' or noise='{name}s' only")
        spread = np.sqrt(known.dispersion / np.asarray(levels.mean, np.float64))
        unsure = 0.5 * np.sqrt(polygamma(1, np.asarray(levels.alpha, np.float64)))
        return NoiseLevels((known.rows, known.cols)[axis].ids, spread, spread * unsure)

    @property
    def levels_(self) -> Array:
        """The levels in order (``family="levels"``)."""
        return np.array(self._scale().values)

    @property
    def styles_(self) -> LevelStyles:
        """Cut points, and which lines have which (``family="levels"``)."""
        self._scale()
        known = self._fitted()
        reader, lines = known.state.shared.reader, known.state.sides[known.state.shared.reader.axis].reading
        ids = (known.rows, known.cols)[reader.axis].ids
        probability = np.ones((len(ids), 1)) if lines is None else np.asarray(lines.probability, np.float64)
        return LevelStyles(known.units.to_user(reader.cuts), reader.shares, ids, probability)

    def _scale(self) -> Scale:
        found = self._fitted().law.scale
        if found is None:
            raise AttributeError('levels_ and styles_ exist for family="levels" only')
        return found

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
        latter in units of the values. Of a mixture, one for each cluster: on the axis that is clustered the log odds of
        the cluster (they sum to 0), on the other axis its profile, in units of the values. Columns are the covariates,
        standardised (:class:`nmar.data.covariates.Design`).
        """
        known, found = self._fitted(), {}
        for axis, name in enumerate(("rows", "cols")):
            effects = known.law.data.covariate_effects(axis, known.state.sides[axis].data, known.state.shared.data)
            if effects is not None:
                scale = np.where(np.broadcast_to(effects.in_units, len(effects.labels)), known.units.scale, 1.0)[
                    :, None
                ]
                found[name] = Coefficients(
                    np.array(effects.labels), effects.names, scale * effects.mean, scale * effects.sd
                )
        if not found:
            raise AttributeError("covariate_effects_ exists for data models with covariates (rows=…, cols=…) only")
        return found

    @property
    def pattern_effects_(self) -> dict[str, Coefficients]:
        """Effects of the pattern's covariates with standard deviations (``pattern=nmar.Pattern(rows=…, cols=…)``).

        All are parts of the rate Λ of a cell, P(observed) = 1 − exp(−Λ), and none is negative. "rows": of the levels of
        row covariates (``names``) on each column (``ids``); "cols": of the levels of column covariates on each row;
        "products": of a row's level (``ids``) and a column's level (``names``) together, the same for all cells.
        """
        known = self._fitted()
        effects, designs = known.state.shared.effects, known.law.pattern.designs
        if effects is None or designs is None:
            raise AttributeError("pattern_effects_ exists for patterns with covariates, nmar.Pattern(rows=…, cols=…)")
        found: dict[str, Coefficients] = {}
        for axis, name in enumerate(("rows", "cols")):
            design, lines = designs[axis], 1 - axis
            if design is not None:
                mine: Any = known.law.pattern_of(known.state.shared, lines)
                factor = mine.effect_factors(known.state.sides[lines].pattern)
                ids = (known.rows, known.cols)[lines].ids
                found[name] = Coefficients(ids, design.names, factor.mean, np.sqrt(factor.variance))
        if effects.cross is not None and designs[0] is not None and designs[1] is not None:
            mean, sd = effects.cross.mean, np.sqrt(effects.cross.variance)
            mean, sd = (mean, sd) if known.law.lead == 0 else (mean.T, sd.T)
            found["products"] = Coefficients(np.array(designs[0].names), designs[1].names, mean, sd)
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
