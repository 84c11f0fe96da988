"""Covariates as levels, for models whose coefficients cannot be negative: categories, and bins of numbers.

Enters: what data/covariates.py reads. Leaves: a :class:`LevelDesign` of zeros and ones, and the codes that make it, so
that lines which come later are put into the same levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.covariates import Design, categories, finite_numbers, is_numeric, missing_entries, read_columns

BINS = 5  # of a column of numbers: quantiles; a column with no more distinct numbers has a level for each


@dataclass(frozen=True, eq=False)
class Levels:
    """The code of one column."""

    name: str  # name of the column
    texts: tuple[str, ...] | None  # its categories in order; None for numbers
    edges: Array | None  # numbers: upper ends of all bins but the last; None for categories
    labels: tuple[str, ...]  # names of the levels, of the missing one last
    missing: bool  # whether missing entries have a level of their own
    shares: Array  # how many lines are in each level, as shares of all

    def encode(self, column: Array, argument: str) -> Array:
        """(lines, levels) zeros and ones; an entry missing where none was when the code was made has the shares."""
        missing = missing_entries(column)
        found = np.zeros((len(column), len(self.labels)))
        if self.edges is not None:
            if not is_numeric(column):
                raise ValueError(f"{argument}: column {self.name!r} held numbers and now does not; give numbers")
            numbers = finite_numbers(self.name, column, missing, argument)
            level = np.searchsorted(self.edges, numbers, side="left")
        else:
            level = self._categories(column, missing, argument)
        known = np.flatnonzero(~missing)
        found[known, level[known]] = 1.0
        found[missing] = np.eye(len(self.labels))[-1] if self.missing else self.shares
        return found

    def _categories(self, column: Array, missing: Array, argument: str) -> Array:
        assert self.texts is not None
        place = {text: k for k, text in enumerate(self.texts)}
        texts = [str(one) for one in column.tolist()]
        strange = sorted({text for text, away in zip(texts, missing, strict=True) if not away and text not in place})
        if strange:
            raise ValueError(
                f"{argument}: column {self.name!r} has the unknown level {strange[0]!r}; the model knows"
                f" {', '.join(map(repr, self.texts[:6]))}{' …' if len(self.texts) > 6 else ''}. Use one of these, leave"
                " it missing, or fit again"
            )
        return np.array([place.get(text, 0) for text in texts], np.int64)


@dataclass(frozen=True, eq=False)
class LevelDesign(Design):
    """Covariates as zeros and ones; ``codes`` has what made them, a code for each column of the table."""

    codes: tuple[Levels, ...] = ()

    @property
    def typical(self) -> Array:
        """Shares of the levels."""
        return np.concatenate([code.shares for code in self.codes])

    def recoded(self, covariates: Any, axis: Axis, argument: str) -> LevelDesign:
        """The same levels of other lines, or of more."""
        ids, columns = read_columns(covariates, axis, argument)
        absent = [code.name for code in self.codes if code.name not in columns]
        if absent:
            raise ValueError(
                f"{argument} has no column {absent[0]!r}, which the model was fitted with; give it as well"
            )
        return LevelDesign(ids, *_coded(self.codes, columns, argument), self.codes)


def level_design(covariates: Any, axis: Axis, argument: str) -> LevelDesign:
    """The covariates of an axis as levels; parameters as in :func:`nmar.data.covariates.design`."""
    ids, columns = read_columns(covariates, axis, argument)
    made = [_code(name, column, argument) for name, column in columns.items()]
    codes = tuple(code for code in made if len(code.labels) > 1)
    if not codes:
        raise ValueError(f"{argument} has no column that differs between lines")
    return LevelDesign(ids, *_coded(codes, columns, argument), codes)


def _coded(codes: tuple[Levels, ...], columns: dict[str, Array], argument: str) -> tuple[Array, tuple[str, ...]]:
    x = np.concatenate([code.encode(columns[code.name], argument) for code in codes], axis=1)
    return x, tuple(label for code in codes for label in code.labels)


def _code(name: str, column: Array, argument: str) -> Levels:
    """The levels of a column: its categories, or bins of its numbers, and one for missing entries."""
    missing = missing_entries(column)
    texts, edges = None, None
    if is_numeric(column):
        numbers = finite_numbers(name, column, missing, argument)[~missing]
        edges, labels = _bins(name, numbers)
        level = np.searchsorted(edges, numbers, side="left")
    else:
        entries, levels = categories(name, column, missing, argument)
        texts, labels = tuple(levels), [f"{name}={level}" for level in levels]
        level = np.searchsorted(np.array(levels, object), entries[~missing])
    counts = np.bincount(level, minlength=len(labels)).astype(np.float64)
    if missing.any():
        labels, counts = [*labels, f"{name} missing"], np.append(counts, missing.sum())
    return Levels(name, texts, edges, tuple(labels), bool(missing.any()), counts / max(len(column), 1))


def _bins(name: str, numbers: Array) -> tuple[Array, list[str]]:
    """Upper ends of the bins but the last, and their labels."""
    distinct = np.unique(numbers)
    if len(distinct) <= BINS:
        return distinct[:-1], [f"{name}={value:g}" for value in distinct]
    edges = np.unique(np.quantile(numbers, np.arange(1, BINS) / BINS))
    edges = edges[edges < distinct[-1]]
    inner = [f"{low:g}<{name}<={high:g}" for low, high in pairwise(edges.tolist())]
    return edges, [f"{name}<={edges[0]:g}", *inner, f"{name}>{edges[-1]:g}"]
