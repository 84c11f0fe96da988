"""What every linkage offers, and the location tables of the Gaussian (theory.md, Linkages).

Enters: settings. Leaves: an immutable linkage; :meth:`Linkage.start` fills in what is to be learned and the
M-step returns a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from nmar.arrays import Array
from nmar.prob import counts
from nmar.prob.families.base import Family
from nmar.prob.learn_dispersion import best_dispersion
from nmar.prob.statistics import Statistics

__all__ = ["Bins", "Linkage", "check_thinning", "check_width", "extend", "is_finite_number", "mean_count"]

Bins = Literal["tail", "parity", "open"]
MOST_THINNING = 1e3  # events for each recorded one: tables of counts grow with it
TINY_RATE = 1e-300  # stands for a rate of zero, where every mean has its limit


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """What the linkages share, and the location tables of the Gaussian.

    Attributes
    ----------
    mean : {None, "shift", "scale"}, default=None
        Which location table is learned: delta(n), phi1(n) or none.
    levels : int
        Number of free entries of a location table; it is constant beyond.
    learn : bool or None
        Whether the parameters of phi2 are learned; None until :meth:`start` decides.
    shift, scale : tuple of float or None
        delta(1..levels), in units of the values, and phi1(1..levels).
    shift_width, scale_width : float
        Prior standard deviation of a step of delta (None: sd(y)) and of phi1 around 1.
    thinning : float
        Each recorded event is one of s: the linkage reads all events of a cell, recorded or not (theory.md, Thinned
        counts). 1 is the paper's model.
    """

    name: ClassVar[str]
    bounds: ClassVar[tuple[float, float]] = (0.0, 0.0)
    mean: Literal["shift", "scale"] | None = None
    levels: int = 12
    learn: bool | None = None
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    shift_width: float | None = None
    scale_width: float = 0.1
    thinning: float = 1.0

    def __post_init__(self) -> None:
        check_thinning(self.thinning)
        if self.mean not in (None, "shift", "scale"):
            raise ValueError(f"mean is {self.mean!r}; choose None, 'shift' or 'scale'")
        if int(self.levels) != self.levels or self.levels < 1:
            raise ValueError(f"levels is {self.levels!r}; give a whole number of at least 1")
        check_table("shift", self.shift, 0.0, self.levels)
        check_table("scale", self.scale, 1.0, self.levels)
        for name in ("shift_width", "scale_width"):
            check_width(name, getattr(self, name))

    @property
    def bins(self) -> Bins:
        """How counts fall into bins: constant after the last ("tail"), odd and even, or one each ("open")."""
        return "open"

    @property
    def size(self) -> int | None:
        """Number of bins; None where every count has its own."""
        return {"tail": self.levels, "parity": 2, "open": None}[self.bins]

    @property
    def couples(self) -> bool:
        """Whether a cell's value depends on its count at all."""
        return True

    @property
    def learned(self) -> bool:
        """Whether something of it is learned and where it starts was left open."""
        return self.learns_mean or bool(self.learn)

    @property
    def parameters(self) -> int:
        """How many numbers phi2 has that can be learned."""
        return 0

    @property
    def linear(self) -> bool:
        """Whether phi2(n) is linear in n without a floor: sums over open bins then have a sharper stopping rule."""
        return False

    @property
    def whole(self) -> bool:
        """Whether phi2(n) is a whole number for every n, so that it can multiply a number of trials."""
        return False

    @property
    def leader(self) -> Linkage | None:
        """A linkage with fewer parameters whose short fit gives a start (:meth:`led_by`), or None."""
        return None

    def led_by(self, found: Linkage) -> Self:
        """Return this linkage, started, with the tables of a fitted :attr:`leader`."""
        raise TypeError(f"linkage {self.name!r} has no leader")

    def bent(self, sign: float, sd: float) -> Self:
        """Return this linkage, started, moved off the flat tables: up (sign 1) or down (−1), by more for more.

        `sd` is the standard deviation of the values.
        """
        if self.mean == "shift":
            return replace(self, shift=(0.0, *(0.3 * sign * sd,) * (self.levels - 1)))
        if self.mean == "scale" and self.scale is not None:
            return replace(self, scale=(1.0, *(1.0 + 0.2 * sign,) * (self.levels - 1)))
        return self

    def learn_spread(
        self, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
    ) -> tuple[Linkage, float]:
        """Return the linkage with the best phi2 and the dispersion that goes with it, the location tables held.

        `stats` are n-vectors whose only unknowns are the dispersions of the bins.
        """
        if learn_dispersion:
            dispersion = best_dispersion(family, stats, self.bin_table(stats.size), dispersion)
        return self, dispersion

    @property
    def events(self) -> float:
        """Events for each recorded one, s; 1 where it cannot matter."""
        return float(self.thinning) if self.couples else 1.0

    @property
    def starts(self) -> tuple[int, ...] | None:
        """First count of each bin of the kind "tail"; None: 1, 2, …"""
        return None

    @property
    def learns_mean(self) -> bool:
        """Whether a location table is learned."""
        return self.mean is not None

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest phi2(n) over all n."""
        return 1.0, 1.0

    def start(self, sd: float = 1.0) -> Self:
        """Return a copy whose learned parameters have their starting values.

        Parameters
        ----------
        sd : float
            Standard deviation of the observed values; sets the prior width of the shift.
        """
        started = replace(self, learn=bool(self.learn))
        if self.mean == "shift":
            width = self.shift_width or float(sd)
            started = replace(started, shift=self.shift or (0.0,) * self.levels, shift_width=width)
        if self.mean == "scale" and self.learns_mean:
            started = replace(started, scale=self.scale or (1.0,) * self.levels)
        return started

    def rescaled(self, factor: float) -> Self:
        """Return the same linkage for values multiplied by `factor`: delta(n) and its width are in their units."""
        shift, width = self.shift, self.shift_width
        if factor == 1.0 or (shift is None and width is None):
            return self
        moved = None if shift is None else tuple(factor * v for v in shift)
        return replace(self, shift=moved, shift_width=None if width is None else factor * width)

    def table(self, n: int) -> Array:
        """Return phi2(1..n)."""
        return np.ones(n)

    def bin_table(self, size: int | None = None) -> Array:
        """Return phi2 of each bin; `size` is needed where bins are open."""
        return self.table(self._bin_count(size))

    def mean_tables(self, size: int | None = None) -> tuple[Array, Array]:
        """Return phi1 and delta of each bin."""
        count = self._bin_count(size)
        return extend(self.scale or (1.0,), count), extend(self.shift or (0.0,), count)

    def expected(self, rate: npt.ArrayLike) -> Array:
        """Return E[phi2] of an observed cell whose recorded events have this rate."""
        positive = np.maximum(np.asarray(rate, dtype=float), TINY_RATE)
        return self._expected(positive) if self.events == 1.0 else self._summed(positive)

    def _expected(self, rate: Array) -> Array:
        """Return E[phi2(n)], n zero-truncated Poisson of this positive rate."""
        return np.ones_like(rate)

    def _summed(self, rate: Array) -> Array:
        """Return E[phi2] by a sum over bins, open ones as far as the Poisson law of all events has mass."""
        size = self.size or counts.open_size(float(rate.max(initial=TINY_RATE)), self.events, self.table)
        flat = rate.ravel()
        log_w, _ = counts.log_weights(np.log(flat), self.bins, size, self.events, self.starts)
        weight = np.exp(log_w - counts.log_truncation(flat, self.events)[:, None])
        return np.asarray(weight @ self.bin_table(self.size or size)).reshape(rate.shape)

    def log_prior(self) -> float:
        """Return the log prior of the learned parameters, up to a constant that makes its maximum 0."""
        total = 0.0
        if self.mean == "shift" and self.shift and self.shift_width:
            total -= 0.5 * float(np.sum(np.square(np.diff(self.shift) / self.shift_width)))
        if self.mean == "scale" and self.scale:
            total -= 0.5 * float(np.sum(np.square((np.array(self.scale) - 1) / self.scale_width)))
        return total

    def supports(self, family: Family) -> None:
        """Raise ValueError if this linkage cannot be used with `family`."""
        if self.mean is not None and not family.location:
            raise ValueError(
                f"mean={self.mean!r} links the location of a gaussian, but the family is {family.name}; use mean=None"
            )
        if family.whole_dispersion and not self.whole:
            raise ValueError(
                f"linkage {self.name!r} gives the {family.name} a number of trials that is not an integer; "
                "use 'ignorable' or 'compound'"
            )

    def _bin_count(self, size: int | None) -> int:
        own = self.size
        if size is None and own is None:
            raise ValueError(f"size is None, but linkage {self.name!r} has a bin for every n; give a number")
        if size is not None and own is not None and size != own:
            raise ValueError(f"size is {size}, but linkage {self.name!r} has {own} bins; give that or None")
        return int(own if size is None else size)  # type: ignore[arg-type]


def mean_count(rate: Array) -> Array:
    """Return E[n], n zero-truncated Poisson."""
    return -rate / np.expm1(-rate)


def check_table(name: str, table: tuple[float, ...] | None, first: float, levels: int) -> None:
    if table is not None and (len(table) != levels or table[0] != first or not np.all(np.isfinite(table))):
        raise ValueError(f"{name} is {table!r}; give {levels} finite numbers, the first of them {first:g}")


def check_thinning(thinning: float) -> None:
    if not (is_finite_number(thinning) and 1.0 <= thinning <= MOST_THINNING):
        raise ValueError(f"thinning is {thinning!r}; give a number from 1 to {MOST_THINNING:g}")


def is_finite_number(value: object) -> bool:
    """Return whether an argument is a finite number, which True and False are not."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and bool(np.isfinite(value))  # type: ignore[call-overload]


def check_width(name: str, width: float | None) -> None:
    if width is not None and not (is_finite_number(width) and width > 0):
        raise ValueError(f"{name} is {width!r}; give a number above zero")


def extend(values: tuple[float, ...], size: int) -> Array:
    """Return the first `size` values, the last one repeated as often as needed."""
    return np.array(values)[np.minimum(np.arange(size), len(values) - 1)]
