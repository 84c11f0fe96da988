"""The exponential linkage: a table that is linear in the count (theory.md, Linkages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammainc

from nmar.arrays import Array
from nmar.prob.linkage.base import mean_count
from nmar.prob.linkage.curve import FLOOR, Curve


@dataclass(frozen=True)
class Exponential(Curve):
    """Linkage phi2(n) = 1 - c + c n (paper), floored where c < 0.

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
    >>> Exponential(0.5).table(4).tolist()
    [1.0, 1.5, 2.0, 2.5]
    """

    name: ClassVar[str] = "exponential"
    bounds: ClassVar[tuple[float, float]] = (-0.95, 30.0)

    @property
    def linear(self) -> bool:
        return self.limits[1] > 1.0

    def table(self, n: int) -> Array:
        return np.maximum(1 + self.parameter * np.arange(n), FLOOR)

    def slope(self, size: int | None = None) -> Array:
        steps = np.arange(self._bin_count(size))
        return np.where(1 + self.parameter * steps > FLOOR, steps, 0.0)

    def _expected(self, rate: Array) -> Array:
        c = self.parameter
        if c >= 0:
            return 1 + c * (mean_count(rate) - 1)
        floored = 1 + np.ceil((1 - FLOOR) / -c)  # the first floored n, at least 2
        # FLOOR + sum over n < floored of (1 - c - FLOOR + c n) P(n); P(n < m) and E[n; n < m] by gammainc
        below = 1 + gammainc(floored, rate) / np.expm1(-rate)
        count_below = mean_count(rate) * (1 - gammainc(floored - 1, rate))
        return FLOOR + (1 - c - FLOOR) * below + c * count_below
