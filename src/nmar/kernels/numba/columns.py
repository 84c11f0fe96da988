"""Columns of packed lines as the compiled loops take them, and whether a loop is compiled for them alone.

A loop that is compiled for its columns (widths are constants of the machine code) keeps a line's own numbers and the
sums in registers. The code grows with the columns, and compiling grows faster: a full covariance of rank 64 has lines
of 2,200 numbers. Longer lines go through one loop for all, to which the columns are given as numbers; there a line is
so long that nothing would stay in registers anyway. Both add up cells and columns in the same order, so inner products
and sums over cells are the same bits; updates of diagonal lines agree to rounding.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from nmar.kernels.layout import padded, sections

LONGEST = int(os.environ.get("NMAR_FIXED_WIDTHS", "512"))  # numbers in a line that has loops of its own; 0: none has
ASKED = 1 << 17  # numbers of lines that may wait in the cache for their cells


class Columns(NamedTuple):
    """Widths of the sections, in whole vectors; where they begin; and how much of a line is asked for, and when.

    The first half of a line is asked for while cells are gathered, in two parts where it has features; the rest while
    they are added up. Where lines are updated (``updates``), most of the rest is asked for while moments are added,
    which takes longest.
    """

    weights: int  # widths
    first: int
    second: int
    first_at: int  # where sections begin
    second_at: int
    features: int  # columns from ``first_at`` on
    half: int
    quarter: int
    little: int  # of the rest, while weights are added
    most: int  # of the rest, while moments are added
    share: int  # in each of two steps of an update
    window: int  # cells whose lines may wait


def columns_of(sizes: tuple[int, int, int], updates: bool = False) -> Columns:
    """The columns of lines with these sizes of weights, first and second."""
    weights, first, second = (padded(size) for size in sizes)
    _, first_at, second_at, end = sections(*sizes)
    half = -(-end // 2)
    rest = end - half
    quarter = -(-half // 2) if first else half
    little = rest // 4 if updates else rest
    share = max(-(-rest // 2), -(-first // 2))
    return Columns(
        weights, first, second, first_at, second_at, end - first_at, half, quarter, little, rest - little, share,
        ASKED // max(end, 1),
    )  # fmt: skip


def constants(columns: Columns) -> Columns | None:
    """The columns if a loop is compiled for them alone, None if the loop for all serves them."""
    return columns if columns.first_at + columns.features <= LONGEST else None
