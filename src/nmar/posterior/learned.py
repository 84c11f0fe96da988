"""What a fitted model learned about its rows and columns, by id and in the units of the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import polygamma

from nmar.arrays import Array
from nmar.data.labels import Labels, labelled, labels_of
from nmar.data.outside import as_frame
from nmar.models.arguments import check_choice, check_count
from nmar.models.bilinear import Bilinear
from nmar.models.cluster_prior import Assignment
from nmar.models.mixture import ClusterModel
from nmar.posterior.posterior import Posterior
from nmar.prob.scale import Scale

if TYPE_CHECKING:
    import pandas


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

    def frame(self, labels: Labels | None = None) -> pandas.DataFrame:
        """A pandas frame by id with the columns "level" and "sd", after "label" where there are labels."""
        named = {} if labels is None else {"label": labelled(self.ids, labels_of(labels, self.ids))}
        return as_frame({"id": self.ids, **named, "level": self.level, "sd": self.sd}, "frame()").set_index("id")


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


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of every line with their standard deviations.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        Ids of the lines.
    names : tuple of str
        Names of the factors.
    mean, sd : ndarray of shape (n, factors)
        Posterior means and standard deviations.
    """

    ids: Array
    names: tuple[str, ...]
    mean: Array
    sd: Array

    def frame(self, labels: Labels | None = None) -> pandas.DataFrame:
        """A pandas frame by id: a column for each factor, then one for each standard deviation ("factor 1 sd").

        Parameters
        ----------
        labels : dict, Series, table or None, default=None
            Names of the lines by id, as in :meth:`nmar.CCPF.recommend`; the first column then has them ("label").
        """
        named = {} if labels is None else {"label": labelled(self.ids, labels_of(labels, self.ids))}
        mean = dict(zip(self.names, self.mean.T, strict=True))
        sd = {f"{name} sd": column for name, column in zip(self.names, self.sd.T, strict=True)}
        return as_frame({"id": self.ids, **named, **mean, **sd}, "frame()").set_index("id")

    def top(
        self, n: int = 10, sign: Literal["both", "high", "low"] = "both", labels: Labels | None = None
    ) -> dict[str, list[tuple[Any, float]]]:
        """The lines that stand out in each factor, by distance from its average in posterior standard deviations.

        Parameters
        ----------
        n : int, default=10
            Lines for each factor.
        sign : {"both", "high", "low"}, default="both"
            Which ends are listed: above the average, below it, or both.
        labels : dict, Series, table or None, default=None
            Names to list in place of ids.

        Returns
        -------
        dict
            For each factor, pairs (id or name, mean), the most outstanding first.
        """
        check_count("n", n, 1)
        check_choice("sign", sign, ("both", "high", "low"))
        away = (self.mean - self.mean.mean(axis=0)) / np.maximum(self.sd, 1e-300)
        key = {"both": np.abs(away), "high": away, "low": -away}[sign]
        order = np.argsort(-key, axis=0, kind="stable")[:n]
        ids = labelled(self.ids, labels_of(labels, self.ids)).tolist()
        return {
            name: [(ids[place], float(self.mean[place, k])) for place in order[:, k].tolist()]
            for k, name in enumerate(self.names)
        }


def noise_levels(known: Posterior, axis: int) -> NoiseLevels:
    """Noise of each row, or of each column."""
    levels, name = known.state.sides[axis].noise, ("row", "col")[axis]
    if levels is None:
        raise AttributeError(f"{name}_noise_ exists for fits with noise='rows+cols' or noise='{name}s' only")
    spread = np.sqrt(known.dispersion / np.asarray(levels.mean, np.float64))
    unsure = 0.5 * np.sqrt(polygamma(1, np.asarray(levels.alpha, np.float64)))
    return NoiseLevels((known.rows, known.cols)[axis].ids, spread, spread * unsure)


def scale_of(known: Posterior) -> Scale:
    """The scale of the levels, of a model with ``family="levels"``."""
    if known.law.scale is None:
        raise AttributeError('levels_ and styles_ exist for family="levels" only')
    return known.law.scale


def level_styles(known: Posterior) -> LevelStyles:
    """Cut points of the levels, and which lines have which."""
    scale_of(known)
    reader, lines = known.state.shared.reader, known.state.sides[known.state.shared.reader.axis].reading
    ids = (known.rows, known.cols)[reader.axis].ids
    probability = np.ones((len(ids), 1)) if lines is None else np.asarray(lines.probability, np.float64)
    return LevelStyles(known.units.to_user(reader.cuts), reader.shares, ids, probability)


def responsibilities(known: Posterior) -> Array:
    """Probability of each cluster of each line: (lines, clusters)."""
    if not isinstance(known.law.data, ClusterModel):
        raise AttributeError("responsibilities_ exists for data=nmar.Mixture(...) only")
    side: Assignment = known.state.sides[known.law.data.axis].data
    return side.probability


def covariate_effects(known: Posterior) -> dict[str, Coefficients]:
    """Effects of covariates on the values, by axis."""
    found = {}
    for axis, name in enumerate(("rows", "cols")):
        effects = known.law.data.covariate_effects(axis, known.state.sides[axis].data, known.state.shared.data)
        if effects is not None:
            in_units = np.broadcast_to(effects.in_units, len(effects.labels))
            scale = np.where(in_units, known.units.scale, 1.0)[:, None]
            found[name] = Coefficients(
                np.array(effects.labels), effects.names, scale * effects.mean, scale * effects.sd
            )
    if not found:
        raise AttributeError("covariate_effects_ exists for data models with covariates (rows=…, cols=…) only")
    return found


def pattern_effects(known: Posterior) -> dict[str, Coefficients]:
    """Effects of covariates on the rate of being observed, by axis, and their products."""
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


def coefficients(known: Posterior, names: tuple[str, ...] | None) -> Coefficients:
    """Coefficients of a regression whose covariates have these names."""
    model = known.law.data
    if names is None or not isinstance(model, Bilinear):
        raise AttributeError("coefficients_ exists for data=nmar.Regression(...) only")
    axis = 0 if model.axes[1].known is not None else 1
    side, scale = known.state.sides[axis].data, known.units.scale
    ids = (known.rows, known.cols)[axis].ids
    mean, sd = side.mean.astype(np.float64), np.sqrt(side.variances.astype(np.float64))
    return Coefficients(ids, names, scale * mean, scale * sd)


def loadings(posterior: Posterior, axis: int = 0) -> Array:
    """Posterior means of the lines' latent factors: (lines, rank).

    Products of two lines' factors are in the units of the values. The leading axis, whose factors have unit prior
    variance, has no units of its own; the other axis has those of the values, as have effects and profiles.
    """
    return loadings_and_errors(posterior, axis)[0]


def loadings_and_errors(posterior: Posterior, axis: int) -> tuple[Array, Array | None]:
    """:func:`loadings` and their posterior standard deviations, or None where the data model keeps none."""
    law, data = posterior.law, posterior.state.sides[axis].data
    rank, units = getattr(law.data, "rank", 0), posterior.units.scale
    factor = getattr(data, "weights", data)  # of a gamma model
    if not hasattr(factor, "mean"):
        return np.array(law.data.features(data, axis, posterior.state.shared.data).first), None
    scale: Any = units
    if hasattr(data, "weights"):
        scale = 1.0
    elif rank:
        scale = 1.0 if axis == law.lead else units
    elif isinstance(law.data, Bilinear):
        scale = np.where(law.data.axes[axis].free, units, 1.0)
    kept = slice(0, rank or None) if not hasattr(data, "weights") else slice(None)
    variance = getattr(factor, "variances", getattr(factor, "variance", None))
    error = None if variance is None else scale * np.sqrt(np.maximum(variance[:, kept], 0.0))
    return np.array(factor.mean[:, kept]) * scale, error


def pattern_factors(known: Posterior, axis: int) -> Factors:
    """Weights of each line in the components of the missingness pattern."""
    weights = known.law.pattern.factors_of(known.state.sides[axis].pattern)
    return _factors(known, axis, weights.mean, np.sqrt(weights.variance))


def value_factors(known: Posterior, axis: int) -> Factors:
    """Factors of the values of each line."""
    mean, sd = loadings_and_errors(known, axis)
    if sd is None or mean.shape[1] == 0 or not known.law.data.has_values:
        raise AttributeError(
            "row_factors_ and col_factors_ exist for data models with factors (Factorization, Effects, Regression) only"
        )
    return _factors(known, axis, mean, sd)


def _factors(known: Posterior, axis: int, mean: Array, sd: Array) -> Factors:
    names = tuple(f"factor {k + 1}" for k in range(mean.shape[1]))
    ids = np.asarray((known.rows, known.cols)[axis].ids)
    return Factors(ids, names, np.asarray(mean, np.float64), np.asarray(sd, np.float64))
