"""What a fit has learned of why values are missing, as a user reads it (theory.md, Values that decide)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from nmar.data.outside import as_frame
from nmar.posterior.posterior import Posterior
from nmar.prob.detection import seen

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class LearnedMechanism:
    """Why values are missing, by a fitted model.

    Attributes
    ----------
    kind : {"none", "taste", "value"}
        The mechanism of the fit.
    taste, value : float
        B and Γ: by how much the log rate of being seen rises with the expected value, and with what a value has beside
        it, for each spread of the observed values, the standard deviation of a normal with their tenth and ninetieth
        percentile. The mechanism "value" has one slope for both.
    taste_sd, value_sd : float
        Their standard deviations; 0 where they are given.
    over : float
        Shape of the curve P(observed | y), which is learned: by how much the counts vary more than Poisson ones. 0 is
        the curve 1 − exp(−exp(·)), 1 the logistic one.
    """

    kind: str
    taste: float = 0.0
    value: float = 0.0
    taste_sd: float = 0.0
    value_sd: float = 0.0
    over: float = 0.0
    known: Posterior | None = None

    def curve(self, y: ArrayLike, level: float = 0.9) -> pandas.DataFrame:
        """P(observed | y) in a row and column of average detection.

        Parameters
        ----------
        y : array of shape (n,)
            Values.
        level : float, default 0.9
            Probability that the band holds it.

        Returns
        -------
        DataFrame
            With the columns ``value``, ``observed``, ``low`` and ``high``.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r}; give a probability between 0 and 1")
        if self.known is None or self.known.state.shared.mechanism is None:
            raise ValueError(f"mechanism {self.kind!r} has no curve; P(observed) does not depend on the value there")
        mechanism, values = self.known.state.shared.mechanism, np.atleast_1d(np.asarray(y, np.float64))
        at = self.known.units.to_model(values.copy())
        rate = mechanism.intercept + mechanism.slope * at
        if mechanism.with_pattern:
            weights = [np.mean(side.pattern.weights.mean, axis=0) for side in self.known.state.sides]
            rate = rate + np.log(weights[0] @ weights[1])
        spread = float(ndtri(0.5 + level / 2)) * mechanism.errors_at(at)
        chance = [np.exp(seen(rate + sign * spread, mechanism.over).log_probability) for sign in (0, -1, 1)]
        return as_frame({"value": values, "observed": chance[0], "low": chance[1], "high": chance[2]}, "curve()")


def learned_mechanism(known: Posterior) -> LearnedMechanism:
    """Of a fitted model."""
    mechanism = known.state.shared.mechanism
    if mechanism is None:
        return LearnedMechanism("none" if known.law.taste is None else "taste")
    slope, error = mechanism.slope, mechanism.error
    return LearnedMechanism("value", slope, slope, error, error, mechanism.over, known)
