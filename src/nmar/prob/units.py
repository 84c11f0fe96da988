"""The units of the values: a model sees (y − center) / scale, a person sees y (theory.md, Units).

Enters: values as they were given. Leaves: the units in which priors that know no units are right for them, and the way
there and back. Everything inside a fit is in the model's units, everything that is read is in the user's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nmar.arrays import Array
from nmar.prob.pieces import pieces

__all__ = ["Units"]

SAMPLE = 1 << 20  # values that quantiles are taken of, at most
GOLDEN = 0.6180339887498949  # whose multiples are spread evenly over the unit interval
BLOCK = 1 << 16  # values added up together: temporaries stay in cache, whatever the number of cells
WIDTH = 2.5631031310892007  # from the tenth to the ninetieth percentile of a standard normal
FAR = 100.0  # scales beyond these percentiles from which on a value is an outlier


@dataclass(frozen=True)
class Units:
    """Center and scale by which values are standardised: a value of the model is (value − center) / scale.

    Examples
    --------
    >>> units = Units(center=100.0, scale=5.0)
    >>> float(units.to_model(110.0)), units.to_user(2.0)
    (2.0, 110.0)
    """

    center: float = 0.0
    scale: float = 1.0

    @classmethod
    def of_real(cls, values: Array, center: float | None = None) -> Self:
        """Mean and spread of real values, or another center and the spread.

        The spread is that of a normal with the same tenth and ninetieth percentile, the standard deviation where
        these coincide, or the size of the values if all are alike. A few outliers change neither it nor the mean,
        in which they count as if they lay ``FAR`` spreads away: priors in units of an outlier say nothing about
        all other values.

        Examples
        --------
        >>> Units.of_real(np.array([1e8 - 1.0, 1e8 + 1.0])).center, Units.of_real(np.full(3, 0.1))
        (100000000.0, Units(center=0.1, scale=0.1))
        """
        some = _sample(values)
        low, middle, high = (float(q) for q in np.quantile(some, (0.1, 0.5, 0.9)))
        spread = (high - low) / WIDTH or float(np.std(some - middle))
        ends = low - middle - FAR * spread, high - middle + FAR * spread
        parts = (values[part].astype(np.float64) - middle for part in pieces(len(values), BLOCK))
        mean = middle + math.fsum(float(np.sum(np.clip(part, *ends))) for part in parts) / len(values)
        return cls(mean if center is None else center, spread or abs(mean) or 1.0)

    @classmethod
    def of_positive(cls, values: Array) -> Self:
        """The median of values above 0, which have no shift."""
        return cls(scale=float(np.median(_sample(values))))

    def to_model(self, values: Any, out: Array | None = None) -> Any:
        """Values as the model sees them, written to ``out`` if it is given (the values themselves, say)."""
        return np.divide(np.subtract(values, self.center, out=out), self.scale, out=out)

    def to_user(self, values: Any) -> Any:
        """What the model says of values, in their own units."""
        return self.center + self.scale * values

    def log_jacobian(self, cells: float = 1.0) -> float:
        """What the log density of so many cells gains in the user's units."""
        return -cells * math.log(self.scale)


def _sample(values: Array) -> Array:
    """All values, or ``SAMPLE`` of them: evenly spread over the array, but in step with no length of its lines."""
    if len(values) > SAMPLE:
        values = values[(np.arange(SAMPLE) * GOLDEN % 1.0 * len(values)).astype(np.int64)]
    return values[: len(values)].astype(np.float64)
