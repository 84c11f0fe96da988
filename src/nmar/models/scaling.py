"""How the cells of a half sweep stand for all cells: the one place where stochastic solvers differ from batch ones.

Enters: a block's sums and exposure. Leaves: those of all cells (theory.md, Stochastic scalings). Priors are never
scaled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields

from nmar.arrays import Array
from nmar.kernels.spec import EMPTY_FLOAT, Expectation


@dataclass(frozen=True, eq=False)
class LineSums:
    """Sums over the cells of each line, before scaling.

    Where lines differ in noise, those of the values are in units of the line's own level, which moves on.
    """

    pattern: Array  # (n, K) Σ_j E[n_ij] ϕ_ijk
    linear: Array  # (n, D1)
    quadratic: Array  # (n, D2)
    exposure: Array  # (n, K), or (K,) where it is the same for all lines
    squares: Array  # (n,) Σ ω E[(y − μ)²]; empty where lines do not differ in noise
    counts: Array  # (n,) how often the cells count; empty likewise

    def take(self, lines: slice) -> LineSums:
        """The chosen lines."""
        exposure = self.exposure if self.exposure.ndim == 1 else self.exposure[lines]
        sums = (self.pattern[lines], self.linear[lines], self.quadratic[lines])
        return LineSums(*sums, exposure, self.squares[lines], self.counts[lines])

    def at(self, levels: Array) -> LineSums:
        """The sums at noise levels of the lines, (n,) or one for all; as they are where lines have none."""
        if not levels.size:
            return self
        linear, quadratic = self.linear * levels[:, None], self.quadratic * levels[:, None]
        return LineSums(self.pattern, linear, quadratic, self.exposure, self.squares * levels, self.counts)

    def __add__(self, other: LineSums) -> LineSums:
        """Sums over the cells of both."""
        return self._combined(other, operator.add)

    def __sub__(self, other: LineSums) -> LineSums:
        """Sums over the cells of this one that are not in the other."""
        return self._combined(other, operator.sub)

    def _combined(self, other: LineSums, combine: Callable[[Array, Array], Array]) -> LineSums:
        return LineSums(*(combine(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Scaling:
    """A half sweep over some of the cells: other cells are remembered, and all count several times."""

    scale: float = 1.0  # how often each cell counts
    # sums over cells that this half sweep does not visit, of all lines; None: there are none
    others: LineSums | None = None

    def of_block(self, lines: slice) -> Scaling:
        """The part that a block of lines needs."""
        return self if self.others is None else Scaling(self.scale, self.others.take(lines))

    def apply(
        self, found: Expectation, exposure: Array, levels: Array, counts: Array
    ) -> tuple[Expectation, Array, LineSums | None]:
        """The block's expectation and exposure as if all cells had been visited; its own sums where they are kept.

        ``levels`` are the noise levels under which the sums were found and ``counts`` how often the cells of each line
        count, both empty where lines do not differ in noise.
        """
        own = None
        if self.others is not None:
            squares = found.squares if levels.size else EMPTY_FLOAT
            mine = LineSums(found.pattern, found.linear, found.quadratic, exposure, squares, counts)
            own = mine.at(1.0 / levels)
            found, exposure = _with_sums(found, mine + self.others.at(levels))
        if self.scale == 1.0:
            return found, exposure, own
        pattern, linear, quadratic, squares = (
            self.scale * sums for sums in (found.pattern, found.linear, found.quadratic, found.squares)
        )
        found = found._replace(pattern=pattern, linear=linear, quadratic=quadratic, squares=squares)
        return found, self.scale * exposure, own

    def all_counts(self, counts: Array) -> Array:
        """How often all cells of each line count, from those that are visited."""
        seen = counts if self.others is None else counts + self.others.counts
        return seen if self.scale == 1.0 else self.scale * seen


def _with_sums(found: Expectation, sums: LineSums) -> tuple[Expectation, Array]:
    """The expectation with other sums, and their exposure."""
    found = found._replace(pattern=sums.pattern, linear=sums.linear, quadratic=sums.quadratic)
    return (found._replace(squares=sums.squares) if sums.squares.size else found), sums.exposure


EXACT = Scaling()  # all cells are visited, each counts once
