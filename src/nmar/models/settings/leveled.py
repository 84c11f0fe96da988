"""Ordinal values: the settings that data models with ``family="levels"`` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_count
from nmar.models.first_styles import first_styles, level_counts
from nmar.models.ratings import CutPoints, Styles
from nmar.prob.scale import MOST, Scale, first_cuts, level_values, scores, units_of_levels
from nmar.prob.units import Units

NAME = "levels"
WIDTH = 0.5  # of the steps of simulated cut points, in standard deviations of the latent values


@dataclass(frozen=True)
class LevelSettings:
    """Which levels there are, and how many styles of using them."""

    levels: Any = None  # all levels in order; None: those that are found
    styles: int = 1  # number of sets of cut points
    by: Literal["rows", "cols"] = "rows"  # which lines have styles

    @property
    def axis(self) -> int:
        """The axis whose lines have styles."""
        return 0 if self.by == "rows" else 1

    def values(self, cells: Cells) -> Array:
        """The levels."""
        return level_values(self.levels, _distinct(cells))

    def begin(self, cells: Cells, rng: np.random.Generator) -> FirstLevels:
        """What a fit begins with: cut points between which a standard normal has the shares of the levels."""
        values = self.values(cells)
        counts = level_counts(cells, self.axis, values)
        cuts = first_cuts(counts.sum(axis=0))
        scale = Scale(tuple(values.tolist()), tuple(scores(cuts).tolist()))
        units = units_of_levels(values, cuts)
        if self.styles == 1:
            return FirstLevels(scale, CutPoints(cuts[None, :], np.ones(1), self.axis), None, units)
        found = first_styles(counts, self.styles, rng)
        reader = CutPoints(first_cuts(found.T @ counts), found.mean(axis=0), self.axis)
        return FirstLevels(scale, reader, Styles(found), units)

    def draw(self, lines: int, spread: float, rng: np.random.Generator) -> FirstLevels:
        """Known cut points for latent values of this standard deviation, and styles of this many lines.

        Levels are about equally frequent in the first style; in the others all cut points are moved and put apart at
        random.
        """
        if self.levels is None:
            raise ValueError("levels=None has no cells to be found in; give all levels in order")
        values = level_values(self.levels, np.empty(0))
        even = first_cuts(np.ones(len(values)))
        moved = even + WIDTH * rng.normal(size=(self.styles, len(even)))
        moved[0] = even
        reader = CutPoints(spread * np.sort(moved, axis=1), np.full(self.styles, 1.0 / self.styles), self.axis)
        scale, units = Scale(tuple(values.tolist()), tuple((spread * scores(even)).tolist())), Units()
        if self.styles == 1:
            return FirstLevels(scale, reader, None, units)
        return FirstLevels(scale, reader, Styles(np.eye(self.styles)[rng.integers(0, self.styles, lines)]), units)


class FirstLevels(NamedTuple):
    """What a fit of levels begins with."""

    scale: Scale
    reader: CutPoints
    styles: Styles | None
    units: Units

    def reading(self, axis: int) -> Styles | None:
        """Styles of the lines of an axis."""
        return self.styles if axis == self.reader.axis else None


@dataclass(frozen=True, kw_only=True)
class Leveled:
    """Fields of a data model whose values may be levels."""

    levels: Any = None
    styles: int | Literal["auto"] = 1
    styles_by: Literal["rows", "cols"] = "rows"

    @property
    def kind(self) -> str:
        """What a name begins with: the family, unless it is the Gaussian."""
        family = getattr(self, "family", "gaussian")
        return "" if family == "gaussian" else f"{family}-"

    @property
    def styles_name(self) -> str:
        """What a name says of styles, where there are several."""
        return "" if self.styles == 1 else f":styles-{self.styles}"

    def check_levels(self, family: str) -> None:
        """Levels and styles belong to ``family="levels"``."""
        check_choice("styles_by", self.styles_by, ("rows", "cols"))
        if self.styles != "auto":
            check_count("styles", self.styles, 1)
        if family != NAME and (self.levels is not None or self.styles != 1):
            asked = f"levels={self.levels!r}" if self.levels is not None else f"styles={self.styles!r}"
            raise ValueError(f"{asked} is for family='levels', not {family!r}")

    def level_settings(self) -> LevelSettings | None:
        """What a fit of levels begins with; None where values are numbers."""
        if getattr(self, "family", None) != NAME:
            return None
        return LevelSettings(self.levels, 1 if self.styles == "auto" else int(self.styles), self.styles_by)


def _distinct(cells: Cells) -> Array:
    """Distinct values, or some of them where there are more than a scale has levels."""
    found = np.empty(0)
    for values in cells.by(0).value_parts():
        found = np.union1d(found, values.astype(np.float64))
        if len(found) > MOST:
            break
    return found
