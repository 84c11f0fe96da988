"""Linkages with one parameter c: what is common to them; their tables are in files of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from nmar.arrays import Array
from nmar.prob.families.base import Family
from nmar.prob.learn_linkage import learn_curve
from nmar.prob.linkage.base import Linkage, check_width, is_finite_number
from nmar.prob.statistics import Statistics

FLOOR = 0.05  # smallest value of a parametric table


@dataclass(frozen=True)
class Curve(Linkage, ABC):
    """A table with one parameter c; c = 0 is ignorable.

    Attributes
    ----------
    c : float or None
        None: learned; a number: fixed, or the starting value if ``learn=True``.
    prior_width : float
        Standard deviation of the normal prior of a learned c.
    """

    c: float | None = None
    prior_width: float = field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width("prior_width", self.prior_width)
        if self.c is not None and not is_finite_number(self.c):
            raise ValueError(f"c is {self.c!r}; give a finite number, or None to learn it")

    @property
    def learned(self) -> bool:
        return self.c is None or super().learned

    @property
    def parameter(self) -> float:
        """The present c (0 before it is learned)."""
        return 0.0 if self.c is None else float(self.c)

    @property
    def parameters(self) -> int:
        return 1

    def bent(self, sign: float, sd: float) -> Self:
        moved = super().bent(sign, sd)
        return replace(moved, c=float(np.clip(0.2 * sign, *self.bounds))) if self.learn else moved

    def learn_spread(
        self, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
    ) -> tuple[Linkage, float]:
        if not self.learn:
            return super().learn_spread(family, dispersion, stats, learn_dispersion)
        return learn_curve(self, family, dispersion, stats, learn_dispersion)

    @property
    def limits(self) -> tuple[float, float]:
        return (FLOOR, 1.0) if self.parameter < 0 else (1.0, np.inf if self.parameter > 0 else 1.0)

    def start(self, sd: float = 1.0) -> Self:
        learn = self.c is None if self.learn is None else self.learn
        return replace(super().start(sd), c=self.parameter, learn=learn)

    def scan(self, points: int) -> Array:
        """Return values of c between the bounds, denser near 0: spaced evenly in asinh(10 c)."""
        low, high = np.arcsinh(10.0 * np.array(self.bounds))
        return np.sinh(np.linspace(low, high, points)) / 10.0

    @abstractmethod
    def slope(self, size: int | None = None) -> Array:
        """Return d phi2 / dc of each bin; 0 where the table is floored."""

    def log_prior(self) -> float:
        own = -0.5 * (self.parameter / self.prior_width) ** 2 if self.learn else 0.0
        return super().log_prior() + own
