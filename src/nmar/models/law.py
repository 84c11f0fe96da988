"""The settings of a coupled model, which do not change during a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.kernels.spec import Kernels
from nmar.models.missingness import Pattern
from nmar.models.pattern_covariates import DesignedPattern
from nmar.models.protocol import DataModel
from nmar.models.state import Shared, State
from nmar.models.taste import Taste
from nmar.prob.families import Family, family
from nmar.prob.linkage import Linkage
from nmar.prob.scale import Scale
from nmar.prob.support import Support


@dataclass(frozen=True)
class Law:
    """Settings of the model."""

    pattern: Pattern  # model of which cells are observed
    data: DataModel  # model of the values
    lead: int = 0  # axis that a sweep updates first
    # whether counts share one rate Λ̄, and the pattern is fitted as if ignorable (theory.md, Control)
    control: bool = False
    pattern_fixed: bool = False  # whether the pattern stays as it is (second stage of the two-stage baseline)
    dtype: Any = np.float64  # storage of the factors
    target: str = "observed"  # which cells predictions are about
    # what is known of the cells that predictions are about, where values decide whether they are observed
    given: str | None = "observed"
    support: Support | None = None  # Range and levels of the values that can be observed. None: no bounds.
    scale: Scale | None = None  # Levels of ordinal values. None: values are numbers.
    # how what rows and columns choose describes their values, or None where it does not
    taste: tuple[Taste | None, Taste | None] | None = None

    @property
    def family(self) -> Family:
        """Family of the values."""
        return family(self.data.family)

    @property
    def separate(self) -> bool:
        """Whether the pattern is fitted as if ignorable: control and two-stage baseline."""
        return self.control or self.pattern_fixed

    def extra_exposure(self, linkage: Linkage) -> float:
        """How often more a line is exposed to its observed cells: s − 1; 0 where values do not move the pattern."""
        return 0.0 if self.separate or not linkage.couples else linkage.events - 1.0

    def pattern_of(self, shared: Shared, axis: int) -> Pattern | DesignedPattern:
        """The law of one side of the pattern, with the prior shape it has learned and the effects of covariates."""
        plain = self.pattern if shared.shapes is None else replace(self.pattern, shape=shared.shapes[axis])
        return plain if shared.effects is None else DesignedPattern(plain, axis, axis == self.lead, shared.effects)

    def settled(self, axis: int, state: State, before: Shared, kernels: Kernels) -> State:
        """The state after a change of what lines of ``axis`` share of the effects of the pattern's covariates."""
        law = self.pattern_of(state.shared, axis)
        if not isinstance(law, DesignedPattern) or before.effects is None or self.pattern_fixed:
            return state
        side = state.sides[axis]
        return state.with_side(axis, replace(side, pattern=law.settled(side.pattern, before.effects, kernels)))
