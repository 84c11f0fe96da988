"""How the cells of a half sweep stand for all cells: the one place where stochastic solvers differ from batch ones.

Enters: a block's sums and exposure. Leaves: those of all cells (theory.md, Stochastic scalings). Priors are never
scaled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from nmar.kernels.spec import Array, Expectation


@dataclass(frozen=True, eq=False)
class LineSums:
    """Sums over the cells of each line, before scaling."""

    pattern: Array  # (n, K) Σ_j E[n_ij] ϕ_ijk
    linear: Array  # (n, D1)
    quadratic: Array  # (n, D2)
    exposure: Array  # (n, K), or (K,) where it is the same for all lines

    def take(self, lines: slice) -> LineSums:
        """The chosen lines."""
        exposure = self.exposure if self.exposure.ndim == 1 else self.exposure[lines]
        return LineSums(self.pattern[lines], self.linear[lines], self.quadratic[lines], exposure)

    def __add__(self, other: LineSums) -> LineSums:
        """Sums over the cells of both."""
        return self._combined(other, operator.add)

    def __sub__(self, other: LineSums) -> LineSums:
        """Sums over the cells of this one that are not in the other."""
        return self._combined(other, operator.sub)

    def _combined(self, other: LineSums, combine: Callable[[Array, Array], Array]) -> LineSums:
        return LineSums(
            combine(self.pattern, other.pattern),
            combine(self.linear, other.linear),
            combine(self.quadratic, other.quadratic),
            combine(self.exposure, other.exposure),
        )


@dataclass(frozen=True, eq=False)
class Scaling:
    """A half sweep over some of the cells: other cells are remembered, and all count several times.

    Attributes
    ----------
    scale : float
        How often each cell counts.
    others : LineSums or None
        Sums over cells that this half sweep does not visit, of all lines; None: there are none.
    """

    scale: float = 1.0
    others: LineSums | None = None

    def of_block(self, lines: slice) -> Scaling:
        """The part that a block of lines needs."""
        return self if self.others is None else Scaling(self.scale, self.others.take(lines))

    def apply(self, found: Expectation, exposure: Array) -> tuple[Expectation, Array, LineSums | None]:
        """The block's expectation and exposure as if all cells had been visited; its own sums where they are kept."""
        own = None
        if self.others is not None:
            own = LineSums(found.pattern, found.linear, found.quadratic, exposure)
            found = found._replace(
                pattern=found.pattern + self.others.pattern,
                linear=found.linear + self.others.linear,
                quadratic=found.quadratic + self.others.quadratic,
            )
            exposure = exposure + self.others.exposure
        if self.scale == 1.0:
            return found, exposure, own
        pattern, linear, quadratic = (self.scale * s for s in (found.pattern, found.linear, found.quadratic))
        return found._replace(pattern=pattern, linear=linear, quadratic=quadratic), self.scale * exposure, own


EXACT = Scaling()  # all cells are visited, each counts once
