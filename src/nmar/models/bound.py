"""The evidence lower bound (theory.md, Bound and coordinate ascent)."""

from __future__ import annotations

from nmar.models.law import Law
from nmar.models.state import State
from nmar.prob import learn


def bound(state: State, log_z: float, law: Law) -> float:
    """Evidence lower bound of ``state``, whose half sweep gave ``log_z`` (models/shared.py, Info)."""
    shared = state.shared
    rows, cols = (side.pattern.weights for side in state.sides)
    total = log_z - float(rows.column_sums @ cols.column_sums)
    for axis, side in enumerate(state.sides):
        pattern = law.pattern_of(shared, axis)
        total += pattern.log_prior() - pattern.divergence(side.pattern)
        total -= law.data.divergence(side.data, axis, shared.data)
        if shared.noise is not None:
            total -= shared.noise.divergence(axis, side.noise)
    if law.data.has_values and law.data.precision(shared.data) is None:
        total += learn.log_prior_dispersion(law.family, shared.dispersion)
    if shared.effects is not None:
        total -= shared.effects.divergence()
    if shared.reader is not None:
        total += shared.reader.log_prior()
        total -= sum(shared.reader.divergence(axis, side.reading) for axis, side in enumerate(state.sides))
    if shared.mechanism is not None:
        total += shared.mechanism.log_prior()
        for axis, side in enumerate(state.sides):
            assert side.detection is not None
            total -= shared.mechanism.divergence(axis, side.detection)
    return total + shared.linkage.log_prior()
