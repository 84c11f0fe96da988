"""Checks of arguments, whose errors name the argument, what was given and the remedy."""

from __future__ import annotations

import warnings
from typing import Any

from nmar.data.cells import Cells


def check_choice(argument: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{argument}={value!r}; use one of {', '.join(map(repr, choices))}")


def check_count(argument: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:  # type: ignore[call-overload]
        raise ValueError(f"{argument}={value!r}; give a whole number of at least {least}")


def check_lines(argument: str, given: int, axis: int, cells: Cells) -> None:
    """Raise unless there are as many lines of covariates as the matrix has rows or columns; names those without."""
    ids = (cells.row_ids, cells.col_ids)[axis]
    if given < len(ids):
        raise ValueError(
            f"{argument} has {given} lines, none for {listed(axis, ids[given:])}; {one_for_every_id(argument)}"
        )
    if given > len(ids):
        name = ("rows", "columns")[axis]
        raise ValueError(f"{argument} has {given} lines but the matrix has {len(ids)} {name}; give one line for each")


def listed(axis: int, ids: Any) -> str:
    """Some ids by name."""
    few = ", ".join(repr(key.item() if hasattr(key, "item") else key) for key in ids[:3])
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    return f"{('row', 'column')[axis]}{'s' if len(ids) > 1 else ''} {few}{more}"


def one_for_every_id(argument: str) -> str:
    """The remedy for covariates that are too few."""
    return f"give one for every id of the matrix: set_params(data=…) with longer {argument}, or leave those cells out"


def warn_of_rank(rank: int, cells: Cells | None) -> None:
    """Warn of a rank that no matrix of the shape has."""
    if cells is not None and rank > min(cells.shape):
        rows, cols = cells.shape
        warnings.warn(
            f"rank={rank} is above the smaller side of a {rows} × {cols} matrix; a rank of at most {min(rows, cols)}"
            " describes any matrix of that shape, in less time and memory",
            UserWarning,
            stacklevel=3,
        )
