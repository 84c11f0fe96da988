"""The units of the values: a model sees (y − center) / scale, a person sees y (theory.md, Units).

Enters: values as they were given. Leaves: the units in which priors that know no units are right for them, and the way
there and back. Everything inside a fit is in the model's units, everything that is read is in the user's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.prob.pieces import pieces

__all__ = ["Units", "mean_and_sd"]

Array = NDArray[Any]

BLOCK = 1 << 16  # values looked at together: temporaries stay in cache, whatever the number of cells


@dataclass(frozen=True)
class Units:
    """Where the model's 0 lies among the values and how long its 1 is.

    Examples
    --------
    >>> units = Units(center=100.0, scale=5.0)
    >>> float(units.to_model(110.0)), units.to_user(2.0)
    (2.0, 110.0)
    """

    center: float = 0.0
    scale: float = 1.0

    def to_model(self, values: Any, out: Array | None = None) -> Any:
        """Values as the model sees them, written to ``out`` if it is given (the values themselves, say)."""
        return np.divide(np.subtract(values, self.center, out=out), self.scale, out=out)

    def to_user(self, values: Any) -> Any:
        """What the model says of values, in their own units."""
        return self.center + self.scale * values

    def log_jacobian(self, cells: float = 1.0) -> float:
        """What the log density of so many cells gains in the user's units."""
        return -cells * math.log(self.scale)


def mean_and_sd(values: Array) -> tuple[float, float]:
    """Mean and standard deviation, exact to rounding however far from 0 the values lie and however large they are.

    Examples
    --------
    >>> import numpy as np
    >>> mean_and_sd(np.array([1e8 - 1.0, 1e8 + 1.0])), mean_and_sd(np.full(3, 0.1))[1]
    ((100000000.0, 1.0), 0.0)
    """
    first, parts = float(values[0]), list(pieces(len(values), BLOCK))

    def off(part: slice) -> Array:
        return values[part].astype(np.float64) - first

    most = max(float(np.abs(off(part)).max()) for part in parts)
    if most == 0.0:
        return first, 0.0
    mean = math.fsum(float(np.sum(off(part) / most)) for part in parts) / len(values)
    square = math.fsum(float(np.sum((off(part) / most - mean) ** 2)) for part in parts) / len(values)
    return first + most * mean, most * math.sqrt(square)
