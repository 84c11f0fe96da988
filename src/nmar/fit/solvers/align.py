"""A state and its remembered sums, aligned with the priors where the data model can be (models/alignment.py)."""

from __future__ import annotations

from dataclasses import replace

from nmar.fit.loop.remember import BatchSums
from nmar.models.alignment import Alignment
from nmar.models.law import Law
from nmar.models.scaling import LineSums
from nmar.models.state import Side, State


def align(state: State, law: Law, leading: list[Side], sums: BatchSums) -> tuple[State, list[Side], BatchSums]:
    """Turn the leading lines, the other side, the shared parameters and the remembered sums; as they are if not."""
    other = state.sides[1 - law.lead]
    found = law.data.alignment([side.data for side in leading], other.data, state.shared.data)
    if found is None:
        return state, leading, sums
    leading = [replace(side, data=found.leading(side.data)) for side in leading]
    other = replace(other, data=found.other(other.data))
    batches = tuple(None if each is None else _turned(each, found) for each in sums.batches)
    shared = replace(state.shared, data=law.data.realigned(found, state.shared.data))
    state = State(state.sides, shared).with_side(1 - law.lead, other)
    return state, leading, BatchSums(batches, _turned(sums.total, found))


def _turned(sums: LineSums, found: Alignment) -> LineSums:
    linear, quadratic = found.sums(sums.linear, sums.quadratic)
    return replace(sums, linear=linear, quadratic=quadratic)
