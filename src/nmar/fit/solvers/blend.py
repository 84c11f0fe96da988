"""Factors and averages part of the way to their targets: a stochastic step (theory.md, Stochastic scalings)."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np

from nmar.models.law import Law
from nmar.models.missingness import PatternSide
from nmar.models.state import Side


def blend(old: Side, target: Side, step: float, law: Law) -> Side:
    """Move natural parameters a fraction ``step`` to the target; activities are exact given the weights."""
    if step == 1.0:
        return target
    dtype = old.pattern.weights.alpha.dtype
    weights = old.pattern.weights.blend(target.pattern.weights, step)
    weights = replace(weights, alpha=weights.alpha.astype(dtype), beta=weights.beta.astype(dtype))
    return Side(PatternSide(weights, law.pattern.activity(weights)), old.data.blend(target.data, step))


def blend_numbers(old: Any, target: Any, step: float) -> Any:
    """Averages (prior variances, say) part of the way to new ones, field by field; the rest is the target's."""
    if step == 1.0 or old is None:
        return target
    if isinstance(target, float | np.floating | np.ndarray):
        return (1.0 - step) * old + step * target
    if isinstance(target, tuple):
        return tuple(blend_numbers(a, b, step) for a, b in zip(old, target, strict=True))
    if dataclasses.is_dataclass(target) and not isinstance(target, type):
        names = [f.name for f in dataclasses.fields(target)]
        return replace(target, **{k: blend_numbers(getattr(old, k), getattr(target, k), step) for k in names})
    return target
