"""What is known of rows or columns besides their cells: covariates by id, as numbers a model can use.

Enters: a data frame with one line per id (numbers, booleans, categories, some of them missing), or an array with one
line per position. Leaves: a :class:`Design`: standardised numbers and centred indicators, by id; or, for model files,
a :class:`CovariateTable`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.ids import as_ids, is_missing

MOST_LEVELS = 200  # of a column of categories: more of them are ids


@dataclass(frozen=True, eq=False)
class Design:
    """Covariates as numbers."""

    ids: Axis | None  # Ids of the rows or columns that have them. None: by position.
    # (lines, F) Each column with mean 0; numbers have standard deviation 1, indicators of a category are 0 or 1 less
    # their share
    x: Array
    names: tuple[str, ...]  # names of the columns: "age", "gender=F", "age missing"

    def lines(self, axis: Axis, argument: str) -> Array:
        """(n, F) covariates of the lines of an axis; the mean for ids that have none, with a warning."""
        if self.ids is None:
            if len(self.x) != len(axis):
                raise ValueError(f"{argument} has {len(self.x)} lines, but there are {len(axis)}; give one for each")
            return self.x
        where = self.ids.positions(axis.ids, unknown="prior")
        absent = axis.ids[where < 0]
        if len(absent):
            warnings.warn(
                f"{argument} has no line for {len(absent)} of {len(axis)} ids, {_some(absent)}; they get the mean"
                " covariates",
                UserWarning,
                stacklevel=4,
            )
        return self.at(where)

    @property
    def typical(self) -> Array | float:
        """Covariates of a line of which nothing is known: the mean."""
        return 0.0

    def of_ids(self, ids: Array) -> Array:
        """(n, F) covariates of ids; the mean where an id has none, or where lines are known by position only."""
        where = np.full(len(ids), -1) if self.ids is None else self.ids.positions(ids, unknown="prior")
        return self.at(where)

    def at(self, where: Array) -> Array:
        """(n, F) covariates at positions of ``x``; −1 is the mean."""
        return np.where((where >= 0)[:, None], self.x[where], self.typical)

    def has(self, ids: Array) -> NDArray[np.bool_]:
        """Which ids have covariates."""
        if self.ids is None:
            return np.zeros(len(ids), np.bool_)
        return self.ids.positions(ids, unknown="prior") >= 0


@dataclass(frozen=True, eq=False)
class CovariateTable:
    """Covariates as they were given, in a form that files can hold."""

    ids: Axis | None  # Ids of the rows or columns. None: by position.
    names: tuple[str, ...]  # names of the columns
    # entries of each column: numbers and booleans as an array, categories as a tuple of texts, None where missing
    entries: tuple[Any, ...]

    @classmethod
    def of(cls, covariates: Any, axis: Axis, argument: str) -> CovariateTable:
        """The table of anything that :func:`design` takes, with the same parameters."""
        ids, columns = read_columns(covariates, axis, argument)
        return cls(ids, tuple(columns), tuple(_portable(column) for column in columns.values()))

    def arrays(self) -> dict[str, Array]:
        """The columns as arrays, by name."""
        found = (one if isinstance(one, np.ndarray) else np.array(one, object) for one in self.entries)
        return dict(zip(self.names, found, strict=True))


def _portable(column: Array) -> Any:
    """A column of numbers as it is, another one as texts, None where an entry is missing."""
    if is_numeric(column):
        return column
    missing = missing_entries(column)
    return tuple(None if away else str(one) for one, away in zip(column.tolist(), missing, strict=True))


def _some(ids: Array) -> str:
    """The first ids."""
    return ", ".join(repr(one) for one in ids[:3].tolist()) + (" …" if len(ids) > 3 else "")


def design(covariates: Any, axis: Axis, argument: str) -> Design:
    """The covariates of an axis as numbers.

    Parameters
    ----------
    covariates : frame with a line per id, array with a line per position, or what a model file held of either
        Ids are in the index of a pandas frame, or in the one column that holds every id of the axis once.
    axis : Axis
        Ids of the matrix.
    argument : str
        What errors call the covariates.
    """
    return _encoded(*read_columns(covariates, axis, argument), argument)


def read_columns(covariates: Any, axis: Axis, argument: str) -> tuple[Axis | None, dict[str, Array]]:
    """The ids of the lines of a frame (or stored table) and its columns by name; of an array None, and x0, x1, …"""
    if isinstance(covariates, np.ndarray):
        if covariates.ndim != 2:
            raise ValueError(f"{argument} has shape {covariates.shape}; give one line for each id and a column each")
        return None, {f"x{k}": covariates[:, k] for k in range(covariates.shape[1])}
    if isinstance(covariates, CovariateTable):
        known, columns = covariates.ids, covariates.arrays()
    else:
        known, columns = _frame(covariates, axis, argument)
    if known is not None and len(known) and len(axis) and not (known.positions(axis.ids, unknown="prior") >= 0).any():
        raise ValueError(
            f"{argument} has no line for any id of the matrix: those are {_some(axis.ids)} and its own are"
            f" {_some(known.ids)} (1 and '1' differ); give the ids of the matrix"
        )
    return known, columns


def _frame(frame: Any, axis: Axis, argument: str) -> tuple[Axis, dict[str, Array]]:
    """The ids of a frame and its other columns."""
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise ValueError(
            f"{argument} of type {type(frame).__name__} is not a table; pass a pandas, polars or pyarrow table with a"
            " line for each id, or an array with a line for each position"
        ) from None
    columns = {name: wrapped[name].to_numpy() for name in wrapped.columns}
    index = getattr(frame, "index", None)  # pandas
    if index is not None and (index.name is not None or type(index).__name__ != "RangeIndex"):
        return _axis(index.to_numpy(), argument), columns
    known = set(axis.ids.tolist())
    holding = [name for name, column in columns.items() if _holds(column, known)]
    if len(holding) != 1:
        found = f"columns {holding} all do" if holding else f"none of {list(columns)} does"
        raise ValueError(
            f"{argument}: one column must hold every id of the matrix once, and {found}; put the ids in the index of a"
            " pandas frame, or leave other columns of ids out"
        )
    return _axis(columns.pop(holding[0]), argument), columns


def _axis(ids: Array, argument: str) -> Axis:
    """The ids of the lines, each of which there must be once."""
    try:
        return Axis.from_ids(as_ids(ids))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}; give one line for each id") from None


def _holds(column: Array, known: set[Any]) -> bool:
    values = column.tolist()
    return len(set(values)) == len(values) and known <= set(values)


def _encoded(ids: Axis | None, columns: dict[str, Array], argument: str) -> Design:
    parts: list[Array] = []
    names: list[str] = []
    for name, column in columns.items():
        for label, numbers in _column(name, column, argument):
            parts.append(numbers)
            names.append(label)
    if not parts:
        raise ValueError(f"{argument} has no column that differs between lines")
    return Design(ids, np.stack(parts, axis=1), tuple(names))


def _column(name: str, column: Array, argument: str) -> list[tuple[str, Array]]:
    """A column as numbers: itself standardised, or an indicator for each category; and whether it is missing."""
    missing = missing_entries(column)
    found: list[tuple[str, Array]] = []
    if is_numeric(column):
        numbers = finite_numbers(name, column, missing, argument)
        mean, sd = (float(f(numbers[~missing])) if not missing.all() else 0.0 for f in (np.mean, np.std))
        if sd > 0.0:
            found.append((name, np.where(missing, 0.0, (numbers - mean) / sd)))
    else:
        texts, levels = categories(name, column, missing, argument)
        for level in levels if len(levels) > 2 else levels[1:]:
            is_level = (texts == level) & ~missing
            share = float(is_level[~missing].mean())
            found.append((f"{name}={level}", np.where(missing, 0.0, is_level - share)))
    if missing.any() and not missing.all():
        found.append((f"{name} missing", missing - missing.mean()))
    return found


def missing_entries(column: Array) -> NDArray[np.bool_]:
    """Which entries are None, NaN, NaT or pandas' NA."""
    return np.array([is_missing(one) for one in column.tolist()], np.bool_)


def is_numeric(column: Array) -> bool:
    """Whether a column holds numbers or booleans."""
    return column.dtype.kind in "biuf"


def finite_numbers(name: str, column: Array, missing: Array, argument: str) -> Array:
    """A column of numbers, NaN where they are missing."""
    numbers = np.where(missing, np.nan, column.astype(np.float64))
    if not np.all(np.isfinite(numbers[~missing])):
        raise ValueError(f"{argument}: column {name!r} holds an infinite number")
    return numbers


def categories(name: str, column: Array, missing: Array, argument: str) -> tuple[Array, list[str]]:
    """A column of categories as texts, and its levels in order."""
    texts = np.array([str(one) for one in column.tolist()], object)
    levels = sorted(set(texts[~missing].tolist()))
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"{argument}: column {name!r} has {len(levels)} categories, more than {MOST_LEVELS}; leave it out, or"
            " join rare ones"
        )
    return texts, levels
