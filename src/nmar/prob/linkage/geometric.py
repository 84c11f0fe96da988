"""The geometric linkage: a table that is exponential in the count (theory.md, Linkages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammainc

from nmar.arrays import Array
from nmar.prob.linkage.curve import FLOOR, Curve

LOG_CEILING = 230.0  # log of the largest value of the table: nothing overflows


@dataclass(frozen=True)
class Geometric(Curve):
    """Linkage phi2(n) = exp(c (n - 1)), floored where c < 0; values are capped at exp(230).

    Parameters
    ----------
    c : float or None
        Parameter; 0 is ignorable. None: learned. A number is fixed, or with ``learn=True`` where learning starts.
    mean : {None, "shift", "scale"}, default=None
        Table of the mean that is learned beside that of the spread, for the Gaussian: a shift, a factor, or none.
    levels, learn, shift, scale, shift_width, scale_width, thinning, prior_width : int, bool, tuple and float
        As for :class:`nmar.Linear`.

    Examples
    --------
    >>> Geometric(-0.5).table(3).round(2).tolist()
    [1.0, 0.61, 0.37]
    """

    name: ClassVar[str] = "geometric"
    bounds: ClassVar[tuple[float, float]] = (-3.0, 2.0)

    def table(self, n: int) -> Array:
        return np.maximum(np.exp(np.minimum(self.parameter * np.arange(n), LOG_CEILING)), FLOOR)

    def slope(self, size: int | None = None) -> Array:
        steps = np.arange(self._bin_count(size))
        power = self.parameter * steps
        free = (power < LOG_CEILING) & (power > np.log(FLOOR))
        return np.where(free, steps * np.exp(np.where(free, power, 0.0)), 0.0)

    def _expected(self, rate: Array) -> Array:
        c = self.parameter
        grown = rate * np.exp(min(c, LOG_CEILING))
        if c >= 0:
            power = rate * np.expm1(min(c, LOG_CEILING)) - c
            log_mean = power + np.log(np.expm1(-grown) / np.expm1(-rate))
            return np.exp(np.minimum(log_mean, LOG_CEILING))
        floored = 1 + np.ceil(np.log(FLOOR) / c)  # the first floored n, at least 2
        below = 1 + gammainc(floored, rate) / np.expm1(-rate)
        # sum over n < floored of exp(c (n - 1)) P(n): a Poisson of rate `grown`
        mass = (np.expm1(-grown) + gammainc(floored, grown)) / np.expm1(-rate)
        return FLOOR * (1 - below) + np.exp(rate * np.expm1(c) - c) * mass
