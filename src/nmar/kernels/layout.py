"""How a side lies in the host's memory for the kernels: sections in whole vectors, lines on cache lines.

The compiled kernels read whole vectors; the reference reads the same views by section. Both offer the functions of this
module as their own (spec.py, Kernels); nothing outside ``kernels/`` knows the layout.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.spec import Room

Array = NDArray[Any]

VECTOR = 16  # numbers that kernels read at a time
CACHE_LINE = 64  # bytes


own_memory = False  # lines and cells are read where they are, in the host's memory


class SideView(NamedTuple):
    """One side's lines as the loops read them.

    ``packed`` holds weights, first and second side by side, so that a gathered line is one run of memory; each section
    is filled up with zeros to whole vectors, which kernels read:

    weights (n, K)   exp E[log u]; paper exp(ψ(α))/β
    first (n, D1), second (n, D2)   features of the data model
    """

    packed: Array  # (n, K + D1 + D2, each in whole vectors)
    sizes: tuple[int, int, int]  # K, D1, D2
    log_weights: Array  # (n, K) E[log u], read only where the inner product of weights underflows
    first_top: Array  # (n,) logarithm of what was taken out of ``first`` by an allocating model, else zeros

    @property
    def weights(self) -> Array:
        """(n, K)"""
        return self._section(0)

    @property
    def first(self) -> Array:
        """(n, D1)"""
        return self._section(1)

    @property
    def second(self) -> Array:
        """(n, D2)"""
        return self._section(2)

    def _section(self, which: int) -> Array:
        start = sections(*self.sizes)[which]
        return self.packed[:, start : start + self.sizes[which]]


def padded(size: int) -> int:
    """A section's columns in whole vectors."""
    return -(-size // VECTOR) * VECTOR


def sections(weights: int, first: int, second: int) -> tuple[int, int, int, int]:
    """Columns of a packed line where weights, first and second begin, and where the line ends."""
    features = padded(weights)
    return 0, features, features + padded(first), features + padded(first) + padded(second)


def bare_view(log_weights: Array, weights: Array) -> SideView | None:
    """A view of lines without features that shows their weights where they are; None if they do not lie so."""
    n, K = weights.shape
    fits = padded(K) == K and weights.flags.c_contiguous and weights.ctypes.data % CACHE_LINE == 0
    return SideView(weights, (K, 0, 0), log_weights, np.zeros(n, weights.dtype)) if fits else None


def place(array: Array) -> Array:
    """An array as this backend keeps it: where it is."""
    return array


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array that begins on a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + size].view(dtype).reshape(shape)


def empty_view(log_weights: Array, sizes: tuple[int, int, int], room: Room = empty) -> SideView:
    """Room for a view, to be filled some lines at a time."""
    n, dtype = len(log_weights), log_weights.dtype
    return SideView(room((n, sections(*sizes)[-1]), dtype), sizes, log_weights, np.zeros(n, dtype))


def empty_vectors(n: int, width: int, dtype: Any, room: Room = empty) -> Array:
    """Room for a vector of each line, as ``add_lines`` reads them: filled up with zeros to whole vectors."""
    made = room((n, padded(width)), dtype)
    made[:, width:] = 0.0
    return made


def gather_first(view: SideView, lines: Array) -> Array:
    """First features of the chosen lines (m, D1), float64."""
    return view.first[lines].astype(np.float64)


def features(view: SideView) -> tuple[Array, Array]:
    """First and second features of all lines."""
    return view.first, view.second


def fill_view(
    view: SideView, lines: slice, weights: Array, first: Array, second: Array, first_top: Array | None = None
) -> None:
    """Write the weights and features of some lines, and zeros after each section."""
    for start, size in zip(sections(*view.sizes), view.sizes, strict=False):
        view.packed[lines, start + size : start + padded(size)] = 0.0
    view.weights[lines] = weights
    refill_view(view, lines, first, second, first_top)


def refill_view(view: SideView, lines: slice, first: Array, second: Array, first_top: Array | None = None) -> None:
    """Write the features of some lines, whose weights stay as they are."""
    view.first[lines] = first
    view.second[lines] = second
    if first_top is not None:
        view.first_top[lines] = first_top
