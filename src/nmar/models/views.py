"""Sides as the kernels read them: tables of the pattern beside the data model's features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from nmar.arrays import Array
from nmar.kernels.spec import Kernels, View
from nmar.models.context import Context
from nmar.models.law import Law
from nmar.models.missingness import PatternSide
from nmar.models.protocol import DataModel, Features
from nmar.models.state import Shared, Side, State


def view(side: Side, axis: int, law: Law, shared: Shared, kernels: Kernels) -> View:
    """A block of lines as the kernels read it."""
    features = law.data.features(side.data, axis, shared.data)
    pattern = law.pattern_of(shared, axis).tabulated(side.pattern, kernels)
    bare = _bare(pattern, features, kernels)
    if bare is not None:
        return bare
    made = _empty(pattern, features, kernels, kernels.empty)
    _fill(made, slice(None), pattern, features, kernels)
    return made


def _bare(pattern: PatternSide, features: Features, kernels: Kernels) -> View | None:
    """A view that needs no copy, where lines have no features."""
    if features.first.shape[1] or features.second.shape[1]:
        return None
    return kernels.bare_view(cast(Array, pattern.log_weights), cast(Array, pattern.geometric))


def view_sizes(pattern: PatternSide, features: Features) -> tuple[int, int, int]:
    """K, D1 and D2: how many weights and features a line shows."""
    return pattern.weights.alpha.shape[1], features.first.shape[1], features.second.shape[1]


def _empty(pattern: PatternSide, features: Features, kernels: Kernels, room: Any) -> View:
    """An empty view of a tabulated side whose lines have such features."""
    return kernels.empty_view(cast(Array, pattern.log_weights), view_sizes(pattern, features), room)


def _fill(view: View, lines: slice, pattern: PatternSide, features: Features, kernels: Kernels) -> None:
    """Write some lines of a tabulated side."""
    kernels.fill_view(view, lines, cast(Array, pattern.geometric), features.first, features.second, features.top)


class _Filled(NamedTuple):
    """A view that is being filled, and from what."""

    view: View
    side: Side
    axis: int
    data: DataModel
    shared: Any
    kernels: Kernels


def _fill_piece(common: _Filled, piece: tuple[int, int]) -> None:
    lines = slice(*piece)
    part = common.side.take(lines)
    features = common.data.features(part.data, common.axis, common.shared)
    _fill(common.view, lines, part.pattern, features, common.kernels)


def whole_view(side: Side, axis: int, context: Context, shared: Shared) -> View:
    """All lines of a side as the kernels read them, made piece by piece."""
    data, kernels = context.law.data, context.kernels
    side = replace(side, pattern=_tabulated(side.pattern, axis, context, shared))
    one = data.features(side.data.take(slice(0, 1)), axis, shared.data)
    bare = _bare(side.pattern, one, kernels)
    if bare is not None:
        return bare
    made = _empty(side.pattern, one, kernels, context.room(("view", axis)))
    filled = _Filled(made, side, axis, data, shared.data, kernels)
    context.by_line(_fill_piece, filled, len(side.pattern.weights.alpha))
    return made


def tabulated(state: State, context: Context) -> State:
    """The state with the tables of its gamma factors (PatternSide), computed where they are not there yet."""
    for axis, side in enumerate(state.sides):
        state = state.with_side(axis, replace(side, pattern=_tabulated(side.pattern, axis, context, state.shared)))
    return state


def _tabulated(side: PatternSide, axis: int, context: Context, shared: Shared) -> PatternSide:
    if side.geometric is not None:
        return side
    new = replace(side.empty(context.kernels.empty), weights=side.weights, activity=side.activity)
    law = context.law.pattern_of(shared, axis)
    context.by_line(_tabulate_piece, (side, new, law, context.kernels), len(side.weights.alpha))
    return new


def _tabulate_piece(common: tuple[PatternSide, PatternSide, Any, Kernels], piece: tuple[int, int]) -> None:
    side, new, law, kernels = common
    for target, source in zip(new.table, law.tabulated(side.take(slice(*piece)), kernels).table, strict=True):
        target[slice(*piece)] = source


def expected_weights(side: PatternSide, axis: int, context: Context) -> Array:
    """E[v] of a side as the kernels add it up."""
    alpha = side.weights.alpha
    n, width = alpha.shape
    made = context.kernels.empty_vectors(n, width, alpha.dtype, context.room(("means", axis)))
    context.by_line(_divide_piece, (made, alpha, side.weights.beta), len(alpha))
    return made


def _divide_piece(common: tuple[Array, Array, Array], piece: tuple[int, int]) -> None:
    made, alpha, beta = common
    lines, width = slice(*piece), alpha.shape[1]
    np.divide(alpha[lines], beta[lines], out=made[lines, :width])
