"""How the dispersion of an observed cell depends on its latent count (theory.md, Linkages).

Enters: a count n or a Poisson rate. Leaves: the table phi2(n) that multiplies the dispersion, its mean
under the zero-truncated Poisson, and for the Gaussian the location tables phi1(n) and delta(n) of
y ~ N(phi1(n) mu + delta(n), phi2(n) sigma^2). Every table starts at phi(1) = 1, delta(1) = 0, so the model
tends to the homoscedastic one where cells are almost surely missing (the paper's theorem 2).
Linkages are immutable: :meth:`Linkage.start` fills in what is to be learned, the M-step returns a new one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import gammainc, gammaln

from nmar.prob.families.base import Family
from nmar.prob.learn_linkage import learn_curve, learn_free
from nmar.prob.linkage_base import Bins, Linkage, check_thinning, check_width, extend
from nmar.prob.statistics import Array, Statistics

__all__ = [
    "FLOOR",
    "LINKAGES",
    "Compound",
    "Curve",
    "Exponential",
    "Free",
    "Geometric",
    "Ignorable",
    "Linear",
    "Linkage",
    "linkage",
]

FLOOR = 0.05  # smallest value of a parametric table
LOG_CEILING = 230.0  # log of the largest value of a geometric table: nothing overflows
TAIL_STEP, TAIL_SHARE = 3.0, 0.1  # where the tail starts: psi(m) = 3^(m - 1), a tenth of the cells at each m > 1
BENT = 1.2  # logarithm by which a thinned table is bent over its whole length at the start
REACH = 4.0  # a thinned free table has bins up to this many times s events: P(observed) = 98 %


def _mean_count(rate: Array) -> Array:
    """Return E[n], n zero-truncated Poisson."""
    return -rate / np.expm1(-rate)


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
class Ignorable(Linkage):
    """phi2(n) = 1: the value does not depend on the count.

    Parameters
    ----------
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    levels : int
        Number of entries of a table of the mean; it is constant beyond.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.

    Examples
    --------
    >>> Ignorable().table(3).tolist()
    [1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "ignorable"

    @property
    def bins(self) -> Bins:
        return "tail"

    @property
    def size(self) -> int:
        return 1 if self.mean is None else self.levels

    @property
    def couples(self) -> bool:
        return self.mean is not None

    @property
    def whole(self) -> bool:
        return True


@dataclass(frozen=True)
class Compound(Linkage):
    """phi2(n) = n: the compound Poisson model; mean="scale" also sets phi1(n) = n, learning nothing.

    Parameters
    ----------
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    levels : int
        Number of entries of a table of the mean; it is constant beyond.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.

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
        return _mean_count(rate)


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

    by_count: ClassVar[bool] = True  # whether c is what one more count adds
    c: float | None = None
    prior_width: float = field(default=0.1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width("prior_width", self.prior_width)
        if self.c is not None and not np.isfinite(self.c):
            raise ValueError(f"c is {self.c!r}; give a finite number, or None to learn it")

    @property
    def learned(self) -> bool:
        return self.c is None or super().learned

    def thinned(self, thinning: float) -> Self:
        """Return the linkage with another thinning; a parameter by count is spread over the counts there are then."""
        new = super().thinned(thinning)
        if self.c is None or not self.learn or not self.by_count:
            return new
        return replace(new, c=self.c * self.events / new.events)

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


@dataclass(frozen=True)
class Linear(Curve):
    """phi2(n) = 1 for odd n and 1 - 2c for even n (paper): E[phi2] is linear in P(missing).

    Parameters
    ----------
    c : float or None
        The parameter; 0 is ignorable. None: learned; a number: fixed, or where to start if ``learn=True``.
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    levels : int
        Number of entries of a table of the mean; it is constant beyond.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.
    prior_width : float
        Standard deviation of the normal prior of a learned c.

    Examples
    --------
    >>> Linear(0.25).table(4).tolist()
    [1.0, 0.5, 1.0, 0.5]
    """

    name: ClassVar[str] = "linear"
    by_count: ClassVar[bool] = False
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


@dataclass(frozen=True)
class Exponential(Curve):
    """phi2(n) = 1 - c + c n (paper), floored where c < 0.

    Parameters
    ----------
    c : float or None
        The parameter; 0 is ignorable. None: learned; a number: fixed, or where to start if ``learn=True``.
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    levels : int
        Number of entries of a table of the mean; it is constant beyond.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.
    prior_width : float
        Standard deviation of the normal prior of a learned c.

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
            return 1 + c * (_mean_count(rate) - 1)
        floored = 1 + np.ceil((1 - FLOOR) / -c)  # the first floored n, at least 2
        # FLOOR + sum over n < floored of (1 - c - FLOOR + c n) P(n); P(n < m) and E[n; n < m] by gammainc
        below = 1 + gammainc(floored, rate) / np.expm1(-rate)
        count_below = _mean_count(rate) * (1 - gammainc(floored - 1, rate))
        return FLOOR + (1 - c - FLOOR) * below + c * count_below


@dataclass(frozen=True)
class Geometric(Curve):
    """phi2(n) = exp(c (n - 1)), floored where c < 0; values are capped at exp(230).

    Parameters
    ----------
    c : float or None
        The parameter; 0 is ignorable. None: learned; a number: fixed, or where to start if ``learn=True``.
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    levels : int
        Number of entries of a table of the mean; it is constant beyond.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.
    prior_width : float
        Standard deviation of the normal prior of a learned c.

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


@dataclass(frozen=True)
class Free(Linkage):
    """phi2(2..levels) free, constant beyond, tied by a chain prior on log phi2.

    With thinning the entries are those of bins of counts that grow wider, up to ``REACH`` times s.

    Parameters
    ----------
    levels : int
        Number of entries; 0: 12, and more with thinning.
    mean : {None, "shift", "scale"}
        For the Gaussian: which table of the mean is learned beside that of the spread, a shift or a factor; None: none.
    learn : bool or None
        Whether what the linkage has to learn of the spread is learned; None: unless it was given as a number.
    shift, scale : tuple of float or None
        Tables of the mean to start from, in units of the values and as factors; None: from nothing.
    shift_width, scale_width : float
        Prior standard deviation of a step of these tables; of a shift None is that of the values.
    thinning : float or "auto"
        Events for each recorded one. 1 is the paper's model; "auto" chooses by held-out likelihood.
    strength : float
        Prior strength a: each entry is drawn to the one before it with the weight of 2a cells.
    values : tuple of float or None
        phi2(1..levels), the first 1; its length sets `levels`. None: start from ones.
    tail : int
        Levels m of a tail beside the coupling: the dispersion is phi2(n) psi(m), m unrelated to the pattern and with
        shares learned from the data. 1: no tail.
    tail_values, tail_parts : tuple of float or None
        psi(1..tail), the first 1, and P(m).

    Examples
    --------
    >>> Free(values=(1.0, 0.5, 0.4)).table(5).tolist()
    [1.0, 0.5, 0.4, 0.4, 0.4]
    """

    name: ClassVar[str] = "free"
    levels: int = 0
    strength: float = field(default=25.0, kw_only=True)
    values: tuple[float, ...] | None = field(default=None, kw_only=True)
    tail: int = field(default=1, kw_only=True)
    tail_values: tuple[float, ...] | None = field(default=None, kw_only=True)
    tail_parts: tuple[float, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if int(self.tail) != self.tail or self.tail < 1:
            raise ValueError(f"tail is {self.tail!r}; give a whole number of at least 1, 1 for no tail")
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
        return self.levels * self.tail

    @property
    def spread(self) -> Array:
        """phi2 of each bin of counts, whatever the tail."""
        return extend(self.values or (1.0,), self.levels)

    @property
    def tail_table(self) -> Array:
        return np.array(self.tail_values or [TAIL_STEP**m for m in range(self.tail)])

    @property
    def tail_shares(self) -> Array:
        if self.tail_parts:
            return np.array(self.tail_parts)
        return np.append(1.0 - TAIL_SHARE * (self.tail - 1), np.full(self.tail - 1, TAIL_SHARE))

    def bin_table(self, size: int | None = None) -> Array:
        self._bin_count(size)
        return np.outer(self.spread, self.tail_table).ravel()

    def log_allocation(self, cells: Array) -> float:
        return float(cells.reshape(-1, self.tail).sum(axis=0) @ np.log(self.tail_shares)) if self.tail > 1 else 0.0

    def thinned(self, thinning: float) -> Self:
        """Return the linkage with another thinning; a table that is there is read where events are as frequent."""
        new = replace(self, thinning=thinning, levels=0, values=None, shift=None, scale=None)
        if self.values is None:
            return new
        ratio = new.events / self.events
        places = np.log(np.maximum(np.array(new.starts) / ratio, 1.0))
        tables = [self.values, self.shift, self.scale]
        moved = [None if t is None else np.interp(places, np.log(self.starts), t) for t in tables]
        shaped = [None if t is None else tuple(float(v) for v in t) for t in moved]
        return replace(new, values=shaped[0], shift=shaped[1], scale=shaped[2])

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
        started = replace(super().start(sd), values=values, learn=self.learn is not False)
        if self.tail == 1:
            return started
        tail, parts = tuple(self.tail_table.tolist()), tuple(self.tail_shares.tolist())
        return replace(started, tail_values=tail, tail_parts=parts)

    def table(self, n: int) -> Array:
        bins = np.searchsorted(self.starts, np.arange(1, n + 1), side="right") - 1
        return self.spread[bins]

    def _expected(self, rate: Array) -> Array:
        rate = rate[..., None]
        table = self.spread * float(self.tail_shares @ self.tail_table)
        counts = np.arange(1, self.levels)
        log_probability = counts * np.log(rate) - gammaln(counts + 1) - rate - np.log(-np.expm1(-rate))
        return table[-1] + np.exp(log_probability) @ (table[:-1] - table[-1])

    def log_prior(self) -> float:
        """Return the chain prior as a density of log phi2 (of phi2 itself it would drag the table to 0)."""
        if not self.learn:
            return super().log_prior()
        steps = np.diff(np.log(self.spread))
        chain = self.strength * float(np.sum(-steps - np.expm1(-steps)))
        return super().log_prior() + chain + self._log_prior_of_tail()

    def _log_prior_of_tail(self) -> float:
        """log psi(m) ~ N(0, 1), m > 1, and shares with one cell more each."""
        if self.tail == 1:
            return 0.0
        return float(np.sum(np.log(self.tail_shares)) - 0.5 * np.sum(np.square(np.log(self.tail_table))))


LINKAGES: dict[str, type[Linkage]] = {
    kind.name: kind for kind in (Ignorable, Linear, Exponential, Compound, Geometric, Free)
}


def linkage(name_or_instance: str | Linkage) -> Linkage:
    """Return the linkage of that name with its defaults; an instance is returned as it is.

    Examples
    --------
    >>> linkage("linear")
    Linear(mean=None, levels=12, learn=None, shift=None, scale=None, shift_width=None, scale_width=0.1, \
thinning=1.0, c=None, prior_width=0.1)
    """
    if isinstance(name_or_instance, Linkage):
        return name_or_instance
    if name_or_instance in LINKAGES:
        return LINKAGES[name_or_instance]()
    raise ValueError(f"linkage is {name_or_instance!r}; choose one of {', '.join(LINKAGES)}")
