"""What each batch last gave to the lines of the other axis, so that a step sees all batches and not one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmar.kernels.spec import EMPTY_FLOAT
from nmar.models.context import Context
from nmar.models.exposure import lines_differ
from nmar.models.scaling import LineSums
from nmar.models.state import State
from nmar.models.views import view_sizes


@dataclass(frozen=True, eq=False)
class BatchSums:
    """Sums over the cells of each batch at its last visit, and of all batches; None: not visited yet."""

    batches: tuple[LineSums | None, ...]
    total: LineSums

    @classmethod
    def empty(cls, batches: int, state: State, context: Context) -> BatchSums:
        """No batch visited yet."""
        law = context.law
        axis = 1 - law.lead
        lines = len(state.sides[axis].pattern.weights.alpha)
        one = state.sides[axis].take(slice(0, 1))
        sizes = view_sizes(one.pattern, law.data.features(one.data, axis, state.shared.data))
        pattern, linear, quadratic = (context.kernels.place(np.zeros((lines, size))) for size in sizes)
        exposed = np.zeros(sizes[0])
        if lines_differ(law, state.shared.linkage, context.observed.hidden):
            exposed = context.kernels.place(np.zeros((lines, sizes[0])))
        each = EMPTY_FLOAT if one.noise is None else np.zeros(lines)
        return cls((None,) * batches, LineSums(pattern, linear, quadratic, exposed, each, each))

    def others(self, batch: int) -> LineSums:
        """Sums over all batches but one."""
        own = self.batches[batch]
        return self.total if own is None else self.total - own

    def at(self, level: float) -> BatchSums:
        """The sums with those of values multiplied by a number."""
        levels = np.array([level])
        return BatchSums(
            tuple(None if each is None else each.at(levels) for each in self.batches), self.total.at(levels)
        )

    def replaced(self, batch: int, new: LineSums) -> BatchSums:
        """The sums after a visit of one batch."""
        batches = list(self.batches)
        batches[batch] = new
        return BatchSums(tuple(batches), self.others(batch) + new)
