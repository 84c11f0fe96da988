"""Values of a bounded scale: what is seen is the model's value, rounded to the levels and held within the range.

Enters: a Gaussian law of a continuous value by its distribution function. Leaves: moments, quantiles, draws and
probability integrals of the value that can be seen. Of the ways to keep ratings inside their range this one has the
best held-out log probability of a level (docs/experiments/imputation.md); densities and fits stay continuous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nmar.arrays import Array

__all__ = ["Bounds", "Support", "support_of"]

Bounds = Literal["auto"] | tuple[float, float] | tuple[float, float, float] | None

LEVELS = 21  # distinct values, at most, that "auto" takes for levels
NODES = 64  # of the quadrature over a continuous range


@dataclass(frozen=True)
class Support:
    """A range, with levels ``step`` apart, or without any.

    Examples
    --------
    >>> Support(1.0, 5.0, 0.5).seen(np.array([0.2, 3.3, 7.0])).tolist()
    [1.0, 3.5, 5.0]
    """

    low: float
    high: float
    step: float | None = None

    def seen(self, values: Array) -> Array:
        """Values rounded to the levels and held within the range."""
        if self.step is not None:
            values = self.low + self.step * np.round((values - self.low) / self.step)
        return np.clip(values, self.low, self.high)

    def between(self, values: Array) -> tuple[Array, Array]:
        """The model's values that are seen as these: from, to; −∞ and ∞ at the ends of the range."""
        half = 0.0 if self.step is None else 0.5 * self.step
        low = np.where(values <= self.low, -np.inf, values - half)
        return low, np.where(values >= self.high, np.inf, values + half)

    def moments(self, cumulative: Callable[[float], Array]) -> tuple[Array, Array]:
        """Mean and variance of what is seen, from the distribution function F of the model's value.

        E[y] = high − ∫F and E[(high − y)²] = ∫ 2(high − t)F(t) over the range; with levels, sums over the middles.
        """
        at: Array
        first: Array
        second: Array
        if self.step is None:
            nodes, weights = np.polynomial.legendre.leggauss(NODES)
            half = 0.5 * (self.high - self.low)
            at, first = self.low + half * (nodes + 1.0), half * weights
            second = first * 2.0 * (self.high - at)
        else:
            below = np.arange(1, round((self.high - self.low) / self.step) + 1)  # steps from the top
            at = self.high - (below - 0.5) * self.step
            first, second = np.full(len(at), self.step), self.step**2 * (2.0 * below - 1.0)
        found = np.stack([cumulative(float(t)) for t in at], axis=-1)
        short, square = found @ first, found @ second
        return self.high - short, np.maximum(square - short**2, 0.0)


def support_of(bounds: Bounds, values: Array) -> Support | None:
    """The support that ``bounds`` asks for, or None: no bounds, or "auto" where values lie on no few levels.

    Parameters
    ----------
    bounds : "auto", (low, high), (low, high, step) or None
        Range, and step of the levels.
    values : ndarray
        Training values.

    Examples
    --------
    >>> support_of("auto", np.array([1.0, 2.0, 5.0, 4.0]))
    Support(low=1.0, high=5.0, step=1.0)
    """
    if bounds is None:
        return None
    if isinstance(bounds, str):
        if bounds != "auto":
            raise ValueError(f"bounds={bounds!r}; use 'auto', (low, high), (low, high, step) or None")
        return _levels(values)
    try:
        numbers = tuple(float(each) for each in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"bounds={bounds!r}; give numbers: (low, high) or (low, high, step)") from None
    if len(numbers) not in (2, 3) or not np.all(np.isfinite(numbers)) or not numbers[0] < numbers[1]:
        raise ValueError(f"bounds={bounds!r}; give (low, high) or (low, high, step) with low below high")
    steps = (numbers[1] - numbers[0]) / numbers[2] if len(numbers) == 3 and numbers[2] > 0.0 else None
    if len(numbers) == 3 and (steps is None or abs(steps - round(steps)) > 1e-6):
        raise ValueError(f"bounds={bounds!r}; the step has to divide the range from low to high")
    outside = values[(values < numbers[0]) | (values > numbers[1])]
    if len(outside):
        raise ValueError(f"bounds={bounds!r} but a value is {float(outside[0]):g}; widen the range or drop such cells")
    return Support(*numbers)


def _levels(values: Array) -> Support | None:
    """Few values that are whole steps apart, the smallest distance being the step."""
    distinct = np.unique(values)
    if not 2 <= len(distinct) <= LEVELS:
        return None
    step = float(np.min(np.diff(distinct)))
    places = (distinct - distinct[0]) / step
    if np.max(np.abs(places - np.round(places))) > 1e-6 or round(places[-1]) >= LEVELS:
        return None
    return Support(float(distinct[0]), float(distinct[-1]), step)
