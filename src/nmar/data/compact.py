"""Values in as few bytes as hold them without loss.

Enters: observed values of any numeric dtype. Leaves: the same numbers as float32 where that holds every one of
them exactly (ratings, small counts), otherwise as float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16  # numbers looked at together: temporaries stay in cache, whatever the number of cells


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite."""
    return all(bool(np.isfinite(values[part]).all()) for part in _blocks(len(values)))


def compact(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers as float32 if none of them changes by it, otherwise as float64.

    Parameters
    ----------
    values : ndarray
        One-dimensional array of numbers or booleans.

    Returns
    -------
    float32 or float64 array
        `values` itself if it is of that dtype already.

    Examples
    --------
    >>> import numpy as np
    >>> from nmar.data.compact import compact
    >>> compact(np.array([0.5, 3.0])).dtype, compact(np.array([0.1, 3.0])).dtype
    (dtype('float32'), dtype('float64'))
    """
    if values.dtype == np.float32:
        return values
    narrow = np.empty(len(values), dtype=np.float32)
    with np.errstate(over="ignore", under="ignore"):  # what leaves the range of float32 comes back changed
        for part in _blocks(len(values)):
            wide = values[part].astype(np.float64, copy=False)
            narrow[part] = wide
            if not np.array_equal(narrow[part], wide):
                return values.astype(np.float64, copy=False)
    return narrow


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, n, BLOCK))
