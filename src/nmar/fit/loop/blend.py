"""Factors and averages part of the way to their targets: a stochastic step (theory.md, Stochastic scalings)."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np

from nmar.models.missingness import Pattern
from nmar.models.pattern_covariates import DesignedPattern, PatternEffects
from nmar.models.state import Side


def blend(old: Side, target: Side, step: float, law: Pattern | DesignedPattern) -> Side:
    """Move natural parameters a fraction ``step`` to the target; ``law`` is that of the side's pattern."""
    if step == 1.0:
        return target
    noise, reading = (
        None if one is None or other is None else one.blend(other, step)
        for one, other in ((old.noise, target.noise), (old.reading, target.reading))
    )
    return Side(law.blended(old.pattern, target.pattern, step), old.data.blend(target.data, step), noise, reading)


def blend_effects(
    old: PatternEffects | None, target: PatternEffects | None, step: float, weight: float
) -> PatternEffects | None:
    """Effects of the pattern's covariates: q(ω) a fraction ``step`` to its target, prior means ``weight``."""
    if old is None or target is None or (step == 1.0 and weight == 1.0):
        return target
    target = replace(target, levels=blend_numbers(old.levels, target.levels, weight))
    if old.cross is None or target.cross is None:
        return target
    return target.with_cross(old.cross.blend(target.cross, step))


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
