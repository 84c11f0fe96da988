"""Sides as the kernels read them: tables of the pattern beside the data model's features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from nmar.kernels.layout import SideView, aligned, bare_view, empty_view, fill_view, padded
from nmar.kernels.spec import Array, Kernels
from nmar.models.context import Context
from nmar.models.law import Law
from nmar.models.missingness import PatternSide
from nmar.models.protocol import DataModel, Features
from nmar.models.state import Shared, Side, State


def view(side: Side, axis: int, law: Law, shared: Shared, kernels: Kernels) -> SideView:
    """A block of lines as the kernels read it."""
    features = law.data.features(side.data, axis, shared.data)
    pattern = side.pattern.tabulated(kernels)
    bare = _bare(pattern, features)
    if bare is not None:
        return bare
    made = _empty(pattern, features, None)
    _fill(made, slice(None), pattern, features)
    return made


def _bare(pattern: PatternSide, features: Features) -> SideView | None:
    """A view that needs no copy, where lines have no features."""
    if features.first.shape[1] or features.second.shape[1]:
        return None
    return bare_view(cast(Array, pattern.log_weights), cast(Array, pattern.geometric))


def _empty(pattern: PatternSide, features: Features, memory: Any) -> SideView:
    """An empty view of a tabulated side whose lines have such features."""
    logs = cast(Array, pattern.log_weights)
    sizes = (logs.shape[1], features.first.shape[1], features.second.shape[1])
    return empty_view(logs, sizes, memory or np.empty)


def _fill(view: SideView, lines: slice, pattern: PatternSide, features: Features) -> None:
    """Write some lines of a tabulated side."""
    fill_view(view, lines, cast(Array, pattern.geometric), features.first, features.second, features.top)


class _Filled(NamedTuple):
    """A view that is being filled, and from what."""

    view: SideView
    side: Side
    axis: int
    data: DataModel
    shared: Any


def _fill_piece(common: _Filled, piece: tuple[int, int]) -> None:
    lines = slice(*piece)
    part = common.side.take(lines)
    _fill(common.view, lines, part.pattern, common.data.features(part.data, common.axis, common.shared))


def whole_view(side: Side, axis: int, context: Context, shared: Shared) -> SideView:
    """All lines of a side as the kernels read them, made piece by piece."""
    data = context.law.data
    side = replace(side, pattern=_tabulated(side.pattern, context))
    one = data.features(side.data.take(slice(0, 1)), axis, shared.data)
    bare = _bare(side.pattern, one)
    if bare is not None:
        return bare
    made = _empty(side.pattern, one, _memory(context, ("view", axis)))
    context.by_line(_fill_piece, _Filled(made, side, axis, data, shared.data), len(made.packed))
    return made


def _memory(context: Context, name: Any) -> Any:
    """Where an array for one half sweep comes from."""
    buffers = context.buffers
    return None if buffers is None else lambda shape, dtype: buffers.scratch(name, shape, dtype)


def tabulated(state: State, context: Context) -> State:
    """The state with the tables of its gamma factors (PatternSide), computed where they are not there yet."""
    for axis, side in enumerate(state.sides):
        state = state.with_side(axis, replace(side, pattern=_tabulated(side.pattern, context)))
    return state


def _tabulated(side: PatternSide, context: Context) -> PatternSide:
    if side.geometric is not None:
        return side
    new = replace(side.empty(np.empty), weights=side.weights, activity=side.activity)
    context.by_line(_tabulate_piece, (side, new, context.kernels), len(side.weights.alpha))
    return new


def _tabulate_piece(common: tuple[PatternSide, PatternSide, Kernels], piece: tuple[int, int]) -> None:
    side, new, kernels = common
    for target, source in zip(new.table, side.take(slice(*piece)).tabulated(kernels).table, strict=True):
        target[slice(*piece)] = source


def expected_weights(side: PatternSide, axis: int, context: Context) -> Array:
    """E[v] of a side as the kernels add it up: each line filled up with zeros to whole vectors."""
    shape = side.weights.alpha
    memory = _memory(context, ("means", axis)) or np.empty
    made = aligned(len(shape), padded(shape.shape[1]), shape.dtype, memory)
    context.by_line(_divide_piece, (made, shape, side.weights.beta), len(shape))
    return made


def _divide_piece(common: tuple[Array, Array, Array], piece: tuple[int, int]) -> None:
    made, shape, rate = common
    lines, width = slice(*piece), shape.shape[1]
    np.divide(shape[lines], rate[lines], out=made[lines, :width])
    made[lines, width:] = 0.0
