"""Workspace of the compiled loops, one set of arrays for each call.

It is made in Python: each kind of ``np.zeros`` inside compiled code would be compiled too, and a first fit would wait.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.layout import padded, sections
from nmar.kernels.numba.tile import TILE, WORK

Array = NDArray[Any]


class Tile(NamedTuple):
    """What is known of the cells of a tile; arrays end in a lane axis."""

    work: Array  # rows of tile.py
    basis: Array  # statistics of the family
    plain: Array  # inner product of the weights
    inner: Array  # inner product of ``first``
    ys: Array  # values
    at: Array  # the line each cell belongs to
    firsts: Array  # both moments
    weights: Array  # what crosses to the data model
    underflow: Array  # log s, where it is needed
    shares: Array  # E[n] over the inner product, in the storage type
    moved: Array  # weights with which lines are added, in the storage type
    bins: Array  # of closed bins (closed.py)
    noise: Array  # E[ω] of the tail, and its products with residuals


class LineWorkspace(NamedTuple):
    """For the update of a diagonal line."""

    vectors: Array  # of its linear system
    own: Array  # (1, …) a line laid out like theirs
    dots: Array
    shares: Array
    part: Array
    total: Array


class Workspace(NamedTuple):
    """For the E-step of a block: sums of a run of cells in the storage type, of a line in float64."""

    parts: tuple[Array, ...]  # weights, first, second, and the variances of diagonal lines
    totals: tuple[Array, ...]
    tile: Tile
    line: LineWorkspace


def tile_workspace(basis: int, dtype: Any, bins: int = 0) -> Tile:
    """Workspace for a tile of cells of a family with ``basis`` statistics, and of counts with so many closed bins."""
    work, statistics = np.zeros((WORK, TILE)), np.zeros((basis, TILE))
    plain, inner, ys, at = np.ones(TILE), np.ones(TILE), np.ones(TILE), np.zeros(TILE, np.int64)
    firsts, weights, underflow = np.zeros((2, TILE)), np.zeros((2, TILE)), np.zeros(TILE)
    shares, moved = np.zeros(TILE, dtype), np.zeros((2, TILE), dtype)
    counts = np.zeros((4, bins, TILE))
    noise = np.ones((2, TILE))
    return Tile(work, statistics, plain, inner, ys, at, firsts, weights, underflow, shares, moved, counts, noise)


def expect_workspace(sizes: tuple[int, int, int], basis: int, dtype: Any, normal: bool, bins: int = 0) -> Workspace:
    """Workspace for the E-step of lines of these sizes, and for the update of diagonal normal ones."""
    wide = [padded(size) for size in (*sizes, sizes[1] if normal else 0)]
    parts, totals = (tuple(np.zeros(size, kind) for size in wide) for kind in (dtype, np.float64))
    vectors, own = np.zeros((5, sizes[1])), np.zeros((1, sections(*sizes)[-1]), dtype)
    dots, shares = np.zeros(TILE), np.zeros(TILE, dtype)
    line = LineWorkspace(vectors, own, dots, shares, np.zeros(wide[1], dtype), np.zeros(wide[1]))
    return Workspace(parts, totals, tile_workspace(basis, dtype, bins), line)


def gamma_workspace(factors: int, dtype: Any) -> tuple[Array, Array]:
    """Workspace for the table of a line of gamma factors."""
    return np.empty((5, factors)), np.empty((2, factors), dtype)
