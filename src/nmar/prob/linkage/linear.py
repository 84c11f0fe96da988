"""The linear linkage: two levels, by the parity of the count (theory.md, Linkages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.prob.linkage.base import Bins
from nmar.prob.linkage.curve import FLOOR, Curve


@dataclass(frozen=True)
class Linear(Curve):
    """Linkage phi2(n) = 1 for odd n and 1 - 2c for even n (paper): E[phi2] is linear in P(missing).

    Parameters
    ----------
    c : float or None
        Parameter; 0 is ignorable. None: learned. A number is fixed, or with ``learn=True`` where learning starts.
    mean : {None, "shift", "scale"}, default=None
        Table of the mean that is learned beside that of the spread, for the Gaussian: a shift, a factor, or none.
    levels, learn, shift, scale, shift_width, scale_width : int, bool, tuple and float
        As for :class:`nmar.Free`.
    thinning : float, default=1.0
        Number of events for each recorded one. 1 is the paper's model.
    prior_width : float, default=0.1
        Standard deviation of the normal prior of a learned c.

    Examples
    --------
    >>> Linear(0.25).table(4).tolist()
    [1.0, 0.5, 1.0, 0.5]
    """

    name: ClassVar[str] = "linear"
    bounds: ClassVar[tuple[float, float]] = (-50.0, 0.475)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c is not None and self.c >= 0.5:
            raise ValueError(f"c is {self.c!r}; the linear linkage needs c below 0.5, so that 1 - 2c > 0")

    @property
    def bins(self) -> Bins:
        return "parity" if self.mean is None else "open"

    @property
    def _even(self) -> float:
        return max(1 - 2 * self.parameter, FLOOR)

    @property
    def limits(self) -> tuple[float, float]:
        return min(1.0, self._even), max(1.0, self._even)

    def table(self, n: int) -> Array:
        return np.where(np.arange(1, n + 1) % 2 == 1, 1.0, self._even)

    def slope(self, size: int | None = None) -> Array:
        even = np.arange(1, self._bin_count(size) + 1) % 2 == 0
        return np.where(even & (1 - 2 * self.parameter > FLOOR), -2.0, 0.0)

    def _expected(self, rate: Array) -> Array:
        # 1 - c + c exp(-rate), with the floored c
        return 1 + 0.5 * (1 - self._even) * np.expm1(-rate)
