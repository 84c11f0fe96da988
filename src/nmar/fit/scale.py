"""A part of the data that stands for all of it: scaled counting, and blending of natural parameters.

Enters: a law, kernels, factors. Leaves: a law and kernels under which each cell counts several times, and factors
part of the way to their targets (theory.md, Stochastic scalings). Priors are never scaled.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.spec import (
    Crossing,
    Expectation,
    GammaTable,
    GammaUpdate,
    Kernels,
    Lines,
    NormalLines,
    NormalPrior,
    SideView,
)
from nmar.models.coupled import Executor, Law, Pair, State, exposure, view
from nmar.models.missingness import Pattern, PatternSide

Array = NDArray[Any]


@dataclass(frozen=True)
class CountedPattern(Pattern):
    """A pattern whose data sums count ``scale`` times."""

    scale: float = 1.0

    def update(self, side: PatternSide, allocated: Array, exposure: Array, kernels: Kernels, new: PatternSide) -> None:
        """As :meth:`Pattern.update` of ``scale`` times as many lines."""
        super().update(side, self.scale * allocated, self.scale * self._exposed(exposure), kernels, new)

    def _exposed(self, exposure: Array) -> Array:
        return exposure


@dataclass(frozen=True, eq=False)
class CountedKernels:
    """Kernels whose sums for the data model count ``scale`` times; q(n), log Z and n-vectors are untouched."""

    kernels: Kernels
    scale: float
    name: str = "counted"

    def expect(self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing) -> Expectation:
        """E-step with scaled sums."""
        found = self.kernels.expect(lines, mine, theirs, crossing)
        return found._replace(linear=self.scale * found.linear, quadratic=self.scale * found.quadratic)

    def statistics(
        self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, held: Expectation
    ) -> tuple[Array, Array]:
        """n-vectors, unscaled."""
        return self.kernels.statistics(lines, mine, theirs, crossing, held)

    def weigh(self, *given: Any) -> Any:
        """As the kernels' own."""
        return self.kernels.weigh(*given)

    def solve_normal(
        self, linear: Array, quadratic: Array, constant: Array, prior: NormalPrior
    ) -> tuple[Array, Array, Array]:
        """The sums given are scaled already."""
        return self.kernels.solve_normal(linear, quadratic, constant, prior)

    def add_lines(self, lines: Lines, theirs: Array) -> Array:
        """As the kernels' own: the pattern scales what it hands over."""
        return self.kernels.add_lines(lines, theirs)

    def renew(self, update: GammaUpdate, shape: Array, rate: Array, table: GammaTable) -> None:
        """As the kernels' own: the pattern scales what it hands over."""
        self.kernels.renew(update, shape, rate, table)

    def tabulate(self, shape: Array, rate: Array) -> GammaTable:
        """As the kernels' own."""
        return self.kernels.tabulate(shape, rate)

    def descend(
        self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, prior: NormalPrior, steps: int
    ) -> tuple[Expectation, NormalLines]:
        """Conjugate gradients with scaled weights: ω and ωt come from these tables, f(n) does not."""
        tables = {name: self.scale * getattr(crossing, name) for name in ("linear", "shift", "quadratic")}
        return self.kernels.descend(lines, mine, theirs, crossing._replace(**tables), prior, steps)


@dataclass(frozen=True, eq=False)
class Sums:
    """What each batch last gave to the lines of the other side, and the total of all batches.

    Each array has the batches first and the total last: (batches + 1, lines, …). They are overwritten in place:
    they are the solver's memory, no part of the state.
    """

    pattern: Array
    linear: Array
    quadratic: Array
    exposure: Array

    @classmethod
    def empty(cls, batches: int, state: State, law: Law, hidden: Any) -> Sums:
        """Room for the sums of the axis that does not lead."""
        axis = 1 - law.lead
        lines = len(state.sides[axis].pattern.weights.shape)
        sizes = view(state.sides[axis].take(slice(0, 1)), axis, law, state.shared).sizes
        room = [np.zeros((batches + 1, lines, size)) for size in sizes]
        exposed = exposure(axis, state, law, hidden)
        pattern, linear, quadratic = room
        return cls(pattern, linear, quadratic, np.zeros((batches + 1, *exposed.shape)))

    def replace(self, name: str, batch: int, block: slice, new: Array) -> Array:
        """Put a batch's new sums of some lines in place of its last ones; the total of these lines."""
        whole = getattr(self, name)
        own, total = whole[batch][block], whole[-1][block]
        total += new - own
        own[...] = new
        return total.copy()


class _Here(threading.local):
    """The block a thread works on."""

    block = slice(0, 0)


@dataclass(frozen=True, eq=False)
class Located:
    """An executor that lets the kernels of a task know its block."""

    executor: Executor
    here: _Here
    cuts: bool = False  # sums are remembered by line

    def map(self, task: Callable[[tuple[int, int]], Any], blocks: Iterable[tuple[int, int]]) -> list[Any]:
        """As the executor's own."""

        def located(block: tuple[int, int]) -> Any:
            self.here.block = slice(*block)
            return task(block)

        return self.executor.map(located, blocks)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """As the executor's own."""
        return self.executor.empty(shape, dtype)


@dataclass(frozen=True, eq=False)
class RecallingKernels(CountedKernels):
    """Kernels that add what the other batches gave when they were last visited."""

    scale: float = 1.0
    sums: Any = None
    batch: int = -1
    here: Any = None

    def expect(self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing) -> Expectation:
        """E-step of the batch, sums of all batches."""
        found = self.kernels.expect(lines, mine, theirs, crossing)
        if found.short:  # the half sweep will be repeated
            return found
        totals = {
            name: self.sums.replace(name, self.batch, self.here.block, getattr(found, name))
            for name in ("pattern", "linear", "quadratic")
        }
        return found._replace(**totals)


@dataclass(frozen=True)
class RecallingPattern(CountedPattern):
    """A pattern exposed to the lines of all batches, those of the others as they were last visited."""

    sums: Any = None
    batch: int = -1
    here: Any = None

    def _exposed(self, exposure: Array) -> Array:
        """The total; an exposure common to all lines was put in its place beforehand."""
        if exposure.ndim == 1:
            return self.sums.exposure[-1]
        return self.sums.replace("exposure", self.batch, self.here.block, exposure)


def recalled(around: Any, state: State, sums: Sums | None, batch: int) -> Any:
    """The same surroundings, with the sums of the other batches added to those of this one."""
    if sums is None or batch < 0:
        return around
    here, law = _Here(), around.law
    exposed = exposure(1 - law.lead, state, law, around.observed.hidden)
    if exposed.ndim == 1:
        sums.replace("exposure", batch, slice(None), exposed)
    pattern = RecallingPattern(**_fields(law.pattern), sums=sums, batch=batch, here=here)
    return replace(
        around,
        law=replace(law, pattern=pattern),
        kernels=RecallingKernels(around.kernels, 1.0, sums=sums, batch=batch, here=here),
        executor=Located(around.executor, here),
    )


def _fields(pattern: Pattern) -> dict[str, Any]:
    return {f.name: getattr(pattern, f.name) for f in dataclasses.fields(Pattern)}


def counted(around: Any, scale: float) -> Any:
    """The same surroundings with every cell counted ``scale`` times."""
    if scale == 1.0:
        return around
    law: Law = around.law
    pattern = law.pattern
    if isinstance(pattern, CountedPattern):
        pattern = replace(pattern, scale=scale)
    else:
        pattern = CountedPattern(**_fields(pattern), scale=scale)
    return replace(around, law=replace(law, pattern=pattern), kernels=CountedKernels(around.kernels, scale))


def blend(old: Pair, target: Pair, step: float, law: Law) -> Pair:
    """Move natural parameters a fraction ``step`` to the target; activities are exact given the weights."""
    if step == 1.0:
        return target
    dtype = old.pattern.weights.shape.dtype
    weights = old.pattern.weights.blend(target.pattern.weights, step)
    weights = replace(weights, shape=weights.shape.astype(dtype), rate=weights.rate.astype(dtype))
    return Pair(PatternSide(weights, law.pattern.activity(weights)), old.data.blend(target.data, step))


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
