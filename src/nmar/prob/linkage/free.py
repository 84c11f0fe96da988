"""The free linkage: a table of its own (theory.md, Linkages; Thinned counts)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import gammaln

from nmar.arrays import Array
from nmar.prob.families.base import Family
from nmar.prob.learn_linkage import learn_free
from nmar.prob.linkage.base import Bins, Linkage, check_thinning, check_width, extend
from nmar.prob.linkage.geometric import Geometric
from nmar.prob.statistics import Statistics

BENT = 1.2  # logarithm by which a thinned table is bent over its whole length at the start
REACH = 4.0  # a thinned free table has bins up to this many times s events: P(observed) = 98 %


def spaced_starts(levels: int, thinning: float) -> tuple[int, ...]:
    """Return the first counts of ``levels`` bins: one count each, or with thinning wider and wider ones.

    Examples
    --------
    >>> spaced_starts(4, 1.0)
    (1, 2, 3, 4)
    >>> spaced_starts(8, 8.0)
    (1, 2, 3, 5, 8, 13, 20, 32)
    """
    if thinning == 1.0:
        return tuple(range(1, levels + 1))
    reach, found = max(REACH * thinning, levels), [1]
    for left in range(levels - 1, 0, -1):  # equal ratios to the end, but at least one count on
        step = (reach / found[-1]) ** (1.0 / left)
        found.append(max(found[-1] + 1, round(found[-1] * step)))
    return tuple(found)


def default_levels(thinning: float) -> int:
    """Return how many bins a free table has: 12, and one more for each doubling of the events."""
    return 12 + round(float(np.log2(thinning)))


@dataclass(frozen=True)
class Free(Linkage):
    """Linkage phi2(2..levels) free, constant beyond, tied by a chain prior on log phi2.

    With thinning the entries are those of bins of counts that grow wider, up to ``REACH`` times s.

    Parameters
    ----------
    levels : int
        Number of entries. 0 is 12, and more with thinning.
    mean : {None, "shift", "scale"}, default=None
        Table of the mean that is learned beside that of the spread, for the Gaussian: a shift, a factor, or none.
    learn : bool or None, default=None
        Whether the table of the spread is learned. None: unless it was given by numbers.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors. None: no effect.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables. None: for a shift, that of the values.
    thinning : float, default=1.0
        Number of events for each recorded one. 1 is the paper's model.
    strength : float
        Prior strength a: each entry is drawn to the one before it with the weight of 2a cells.
    values : tuple of float or None
        Table phi2(1..levels), whose first entry is 1; its length sets `levels`. None: ones.

    Examples
    --------
    >>> Free(values=(1.0, 0.5, 0.4)).table(5).tolist()
    [1.0, 0.5, 0.4, 0.4, 0.4]
    """

    name: ClassVar[str] = "free"
    levels: int = 0
    strength: float = field(default=25.0, kw_only=True)
    values: tuple[float, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "values", tuple(float(v) for v in self.values))
            object.__setattr__(self, "levels", len(self.values))
            if not all(np.isfinite(v) and v > 0 for v in self.values) or self.values[:1] != (1.0,):
                raise ValueError(f"values is {self.values!r}; give numbers above zero, the first of them 1")
        check_thinning(self.thinning)
        if self.levels == 0:
            object.__setattr__(self, "levels", default_levels(self.events))
        super().__post_init__()
        check_width("strength", self.strength)
        if self.levels < 2:
            raise ValueError(f"levels is {self.levels}; the free linkage needs at least 2")

    @property
    def bins(self) -> Bins:
        return "tail"

    @property
    def learned(self) -> bool:
        return self.values is None

    @property
    def starts(self) -> tuple[int, ...]:
        return spaced_starts(self.levels, self.events)

    @property
    def size(self) -> int:
        return self.levels

    @property
    def spread(self) -> Array:
        """phi2 of each bin of counts."""
        return extend(self.values or (1.0,), self.levels)

    def bin_table(self, size: int | None = None) -> Array:
        self._bin_count(size)
        return self.spread

    @property
    def limits(self) -> tuple[float, float]:
        table = self.bin_table()
        return float(table.min()), float(table.max())

    @property
    def parameters(self) -> int:
        return self.levels - 1

    @property
    def leader(self) -> Linkage | None:
        return None if self.events > 1.0 else Geometric(mean=self.mean, levels=self.levels)

    def led_by(self, found: Linkage) -> Self:
        values = tuple(float(v) for v in found.table(self.levels))
        return replace(self, values=values, shift=found.shift, scale=found.scale)

    def bent(self, sign: float, sd: float) -> Self:
        steps = np.arange(self.levels) if self.events == 1.0 else BENT * np.linspace(0.0, 1.0, self.levels) / 0.3
        values = np.clip(np.exp(0.3 * sign * steps), 0.2, 5.0)
        return replace(super().bent(sign, sd), values=tuple(values.tolist()))

    def learn_spread(
        self, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
    ) -> tuple[Linkage, float]:
        if not self.learn:
            return super().learn_spread(family, dispersion, stats, learn_dispersion)
        return learn_free(self, family, dispersion, stats, learn_dispersion)

    def start(self, sd: float = 1.0) -> Self:
        values = self.values or (1.0,) * self.levels
        return replace(super().start(sd), values=values, learn=self.learn is not False)

    def table(self, n: int) -> Array:
        bins = np.searchsorted(self.starts, np.arange(1, n + 1), side="right") - 1
        return self.spread[bins]

    def _expected(self, rate: Array) -> Array:
        rate = rate[..., None]
        table = self.spread
        counts = np.arange(1, self.levels)
        log_probability = counts * np.log(rate) - gammaln(counts + 1) - rate - np.log(-np.expm1(-rate))
        return table[-1] + np.exp(log_probability) @ (table[:-1] - table[-1])

    def log_prior(self) -> float:
        """Return the chain prior as a density of log phi2 (of phi2 itself it would drag the table to 0)."""
        if not self.learn:
            return super().log_prior()
        steps = np.diff(np.log(self.spread))
        return super().log_prior() + self.strength * float(np.sum(-steps - np.expm1(-steps)))
