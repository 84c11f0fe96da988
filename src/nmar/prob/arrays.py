"""Arrays of lines: NumPy's, or those of a backend that keeps lines in memory of its own (a device).

Whatever has a line axis (rows or columns of the matrix) belongs to the backend; what has none (vectors over factors or
bins, numbers) is on the host. Code above the kernels writes plain NumPy. It reaches arrays of a backend through NumPy's
dispatch (``__array_ufunc__`` and ``__array_function__``), and brings one to the host only by :func:`on_host`.
docs/architecture.md lists what such an array must offer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nmar.arrays import Array


def is_array(value: Any) -> bool:
    """Whether this is an array, on the host or of a backend.

    Examples
    --------
    >>> is_array(np.zeros(2)), is_array([0.0, 0.0])
    (True, False)
    """
    return hasattr(type(value), "__array_function__")


def on_host(array: Any) -> Array:
    """The array in NumPy's memory: itself, or fetched from where its backend keeps it."""
    return np.asarray(array) if isinstance(array, np.ndarray | np.generic) else array.fetch()
