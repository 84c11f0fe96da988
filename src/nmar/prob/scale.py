"""A scale of levels: which values there are, in their order, and the normal values that they begin with.

Enters: ordered values. Leaves: the place of each on its scale and back. Only the order of the levels says something to
a model; their numbers are read where means and intervals are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from nmar.arrays import Array
from nmar.prob.truncated import truncated
from nmar.prob.units import Units

__all__ = ["MOST", "Scale", "first_cuts", "level_values", "scores"]

Floats = NDArray[np.float64]

MOST = 100  # levels of a scale
SMOOTH = 0.5  # of a cell of each level, so that levels nobody uses have a place


@dataclass(frozen=True)
class Scale:
    """The levels of ordinal values, from the lowest to the highest.

    Examples
    --------
    >>> scale = Scale((1.0, 2.0, 5.0), (-1.0, 0.0, 1.0))
    >>> scale.places(np.array([5.0, 1.0])).tolist(), scale.middles.tolist()
    ([2, 0], [1.5, 3.5])
    """

    values: tuple[float, ...]  # the levels as numbers
    scores: tuple[float, ...]  # normal values that the levels begin with, in the model's units

    @property
    def middles(self) -> Floats:
        """Numbers half way between one level and the next."""
        values = np.array(self.values)
        return 0.5 * (values[1:] + values[:-1])

    def places(self, values: Array) -> NDArray[np.int32]:
        """The place of each value on the scale, from 0."""
        return _places(np.array(self.values), values)

    def as_scores(self, values: Array) -> Floats:
        """The normal value that each value begins with."""
        return np.array(self.scores)[self.places(values)]

    def spread(self, values: Array, uniform: Array) -> Floats:
        """Numbers that are nearest to these levels, spread evenly; ``uniform`` numbers from 0 to 1 say where."""
        levels, middles = np.array(self.values), self.middles
        if not len(middles):
            return values.astype(np.float64)
        ends = np.concatenate([[2.0 * levels[0] - middles[0]], middles, [2.0 * levels[-1] - middles[-1]]])
        place = self.places(values)
        return np.asarray(ends[place] + uniform * (ends[place + 1] - ends[place]))

    def nearest(self, values: Array) -> Floats:
        """The level that is nearest to each number."""
        return np.asarray(np.array(self.values)[np.searchsorted(self.middles, values)])

    def check(self, values: Array) -> None:
        """Refuse values that are no level."""
        self.places(values)


def _places(levels: Floats, values: Array) -> NDArray[np.int32]:
    """Places of values among levels; raises where one is none of them."""
    values = np.asarray(values, np.float64)
    found = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    wrong = levels[found] != values
    if wrong.any():
        named = ", ".join(f"{level:g}" for level in levels[:8]) + (", …" if len(levels) > 8 else "")
        raise ValueError(
            f"values contains {float(values[wrong][0]):g}, which is none of the levels {named}; give all of them"
            " (levels=…), or drop those cells"
        )
    return found.astype(np.int32)


def level_values(given: Any, found: Array) -> Floats:
    """The levels: those that are given, else the distinct values ``found``.

    Examples
    --------
    >>> level_values(None, np.array([4.0, 1.0, 2.0])).tolist(), level_values(range(1, 6), np.array([4.0])).tolist()
    ([1.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    """
    if given is None:
        levels = np.unique(np.asarray(found, np.float64))
        if len(levels) > MOST:
            raise ValueError(
                f"values has {len(levels)} distinct numbers, more than the {MOST} that family='levels' takes for"
                " levels; use family='gaussian', or round them"
            )
        return levels
    try:
        levels = np.array([float(each) for each in given])
    except (TypeError, ValueError):
        raise ValueError(f"levels={given!r}; give the levels as numbers, from the lowest to the highest") from None
    if not len(levels) or not np.all(np.isfinite(levels)) or np.any(np.diff(levels) <= 0.0) or len(levels) > MOST:
        raise ValueError(f"levels={given!r}; give up to {MOST} finite numbers, each above the one before")
    _places(levels, found)
    return levels


def first_cuts(counts: Array) -> Floats:
    """Cut points between which a standard normal value has the shares of the levels: (…, L − 1).

    Examples
    --------
    >>> np.round(first_cuts(np.array([100.0, 0.0, 100.0])), 2).tolist()
    [-0.0, 0.0]
    """
    smooth = np.asarray(counts, np.float64) + SMOOTH
    below = np.cumsum(smooth, axis=-1)
    return np.asarray(ndtri(below[..., :-1] / below[..., -1:]))


def scores(cuts: Floats) -> Floats:
    """Mean of a standard normal value at each level."""
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    return truncated(ends[:-1], ends[1:]).mean


def units_of_levels(values: Floats, cuts: Floats) -> Units:
    """Units in which the first and the last cut point lie half way between their levels.

    With two levels the noise of the model has the units of their distance.
    """
    if len(values) == 1:
        return Units(float(values[0]), 1.0)
    middles = 0.5 * (values[1:] + values[:-1])
    if len(values) == 2:
        scale = float(values[1] - values[0])
    else:
        scale = float((middles[-1] - middles[0]) / (cuts[-1] - cuts[0]))
    return Units(float(middles[0] - scale * cuts[0]), scale)
