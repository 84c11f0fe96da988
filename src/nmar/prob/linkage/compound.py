"""The compound linkage: the dispersion is the count (theory.md, Linkages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.prob.linkage.base import Linkage, mean_count


@dataclass(frozen=True)
class Compound(Linkage):
    """Linkage phi2(n) = n: the compound Poisson model; mean="scale" also sets phi1(n) = n, learning nothing.

    Parameters
    ----------
    mean : {None, "shift", "scale"}, default=None
        Table of the mean that is learned beside that of the spread, for the Gaussian: a shift, a factor, or none.
    levels, learn, shift, scale, shift_width, scale_width, thinning : int, bool, tuple and float
        As for :class:`nmar.Linear`.

    Examples
    --------
    >>> Compound().table(3).tolist()
    [1.0, 2.0, 3.0]
    """

    name: ClassVar[str] = "compound"

    @property
    def learns_mean(self) -> bool:
        return self.mean == "shift"

    @property
    def limits(self) -> tuple[float, float]:
        return 1.0, np.inf

    @property
    def linear(self) -> bool:
        return True

    @property
    def whole(self) -> bool:
        return True

    def table(self, n: int) -> Array:
        return np.arange(1.0, n + 1)

    def mean_tables(self, size: int | None = None) -> tuple[Array, Array]:
        scale, shift = super().mean_tables(size)
        return (self.table(scale.size) if self.mean == "scale" else scale), shift

    def _expected(self, rate: Array) -> Array:
        return mean_count(rate)
