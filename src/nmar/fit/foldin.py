"""Fold-in: the posterior of new lines given a fitted model, without touching what was fitted.

Enters: a posterior and the cells of new rows (or columns) on its columns (or rows). Leaves: a posterior whose rows
are the new ones. Given the other side, lines do not depend on each other; each is iterated until its own change is
small and frozen there, so the answer for a line does not depend on what else is folded in with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.executor import threads
from nmar.fit.problem import check_values, observe
from nmar.fit.solvers.schedule import leading_part, unseen_lines
from nmar.fit.solvers.twostage import pattern_alone
from nmar.kernels.choose import choose
from nmar.kernels.spec import Kernels
from nmar.models.arguments import listed
from nmar.models.buffers import arrays_of
from nmar.models.context import Context, Executor, Observed
from nmar.models.half_sweep import half_sweep
from nmar.models.law import Law
from nmar.models.state import Shared, Side, State
from nmar.models.views import whole_view
from nmar.posterior.posterior import Posterior
from nmar.prob.arrays import on_host
from nmar.prob.tree import join, map_arrays

TOLERANCE = 3e-3  # relative change of a line in one half sweep below which it is frozen
ROUNDS = 100


def fold_in(
    posterior: Posterior,
    cells: Cells,
    axis: int = 0,
    *,
    tol: float = TOLERANCE,
    max_iter: int = ROUNDS,
    n_jobs: int | None = None,
    backend: str = "auto",
) -> Posterior:
    """The posterior of new lines given the other side.

    Parameters
    ----------
    posterior : Posterior
        A fitted model.
    cells : Cells
        Observed cells of the new lines; ids of the other axis must be known to the model.
    axis : int, default=0
        Axis of the new lines: 0 for rows, 1 for columns.
    tol : float, default=0.003
        Relative change at which a line is frozen.
    max_iter : int, default=100
        Largest number of half sweeps.

    Returns
    -------
    Posterior
        On the new lines and the old other side. A line without cells keeps the prior.
    """
    law, state = posterior.law, posterior.state
    if state.shared.mechanism is not None:
        raise ValueError("lines cannot be folded into a model with mechanism='value' yet; fit all cells together")
    known = cells.align(cols=posterior.cols) if axis == 0 else cells.align(rows=posterior.rows)
    if law.data.known_lines(axis) is not None:
        ids = (known.row_ids, known.col_ids)[axis]
        raise ValueError(
            f"{listed(axis, ids)} cannot be folded in: lines of this axis have covariates or features, and new ones"
            " bring none; give theirs with set_params(data=…) and partial_fit, or fit all cells"
        )
    check_values(law, state.shared.linkage, known)
    start = unseen_lines(law, state, axis, (known.row_ids, known.col_ids)[axis])
    with threads(n_jobs) as executor:
        pair = Folding(axis, choose(backend), executor, tol, max_iter).fold(posterior, known, start)
    ends = (known.rows, posterior.cols) if axis == 0 else (posterior.rows, known.cols)
    return Posterior(law, state.with_side(axis, pair).bare(), *ends)


@dataclass(frozen=True, eq=False)
class Folding:
    """Lines of ``axis`` given the other side: where the loops run, and when a line has converged."""

    axis: int
    kernels: Kernels
    executor: Executor
    tol: float = TOLERANCE
    max_iter: int = ROUNDS

    def fold(self, posterior: Posterior, cells: Cells, start: Side) -> Side:
        """Lines with these cells, from ``start``; those without any stay there.

        Lines of the two-stage baseline have their pattern folded in by itself, which then gives the bins of the cells.
        """
        law, shared = posterior.law, posterior.state.shared
        observed = observe(cells, law, None, shared.units, law.dtype)
        if law.pattern_fixed:
            alone = pattern_alone(posterior)
            bare = pattern_alone(replace(posterior, state=posterior.state.with_side(self.axis, start)))
            start = replace(start, pattern=self.fold(alone, cells, bare.state.sides[self.axis]).pattern)
            there = replace(posterior, state=posterior.state.with_side(self.axis, start))
            link: Any = shared.linkage
            observed = replace(observed, group=link.group(there.rates(*cells.positions())))
        if law.taste is not None:
            start = self._described(posterior, cells, start)
        found = self._converge(posterior, observed, start)
        order = np.concatenate([where for where, _ in found])
        return map_arrays(join([pair for _, pair in found]).take(np.argsort(order, kind="stable")), on_host)

    def _described(self, posterior: Posterior, cells: Cells, start: Side) -> Side:
        """Lines at the prior that their choices give them: their pattern is folded in by itself first."""
        law, shared, side = posterior.law, posterior.state.shared, posterior.state.sides[self.axis]
        taste = None if law.taste is None else law.taste[self.axis]
        if taste is None:
            return start
        bare = pattern_alone(replace(posterior, state=posterior.state.with_side(self.axis, start)))
        pattern = self.fold(pattern_alone(posterior), cells, bare.state.sides[self.axis]).pattern
        x = taste.covariates(law.pattern_of(shared, self.axis).learned(pattern.weights.mean))
        data: Any = law.data
        return replace(start, pattern=pattern, data=data.lines_at(self.axis, x, side.data, shared.data))

    def _converge(self, posterior: Posterior, observed: Observed, start: Side) -> list[tuple[Array, Side]]:
        """Frozen lines with their positions, lines without cells first."""
        law, state, axis = posterior.law, posterior.state.placed(self.kernels), self.axis
        start = start.placed(self.kernels)
        degree = np.diff(observed.cells.by(axis).indptr)
        here, cold = np.flatnonzero(degree), np.flatnonzero(degree == 0)
        done = [(cold, start.take(cold))]
        pair, part, moving = start.take(here), _part(observed, axis, here), np.ones(len(here), bool)
        # a line's sums must not depend on how many cells there are besides its own: no line is cut
        context = Context(part, law, self.kernels, self.executor, cuts_lines=False)
        given = whole_view(state.sides[1 - axis], 1 - axis, context, state.shared)
        state = _over(part.cells, state.with_side(axis, pair), law)
        for turn in range(self.max_iter):
            if not moving.any():
                break
            if moving.mean() < 0.7:  # frozen lines cost as much as others until they are left out
                kept = np.flatnonzero(moving)
                here, pair, part, moving = here[kept], pair.take(kept), _part(part, axis, kept), moving[kept]
                state = _over(part.cells, state.with_side(axis, pair), law)
            context = replace(context, observed=part)
            new, _, size = half_sweep(axis, state.with_side(axis, pair), context, learns=False, theirs=given)
            state = State(state.sides, replace(state.shared, table_size=size))
            still = on_host(change(pair, new, axis, law, state.shared)) > self.tol
            frozen = np.flatnonzero(moving & (~still if turn < self.max_iter - 1 else True))
            done.append((here[frozen], new.take(frozen)))
            moving[frozen] = False
            pair = new
        return done


def _over(cells: Cells, state: State, law: Law) -> State:
    """The state as sweeps over these cells read it: a cellwise model has predictions for each of them."""
    if not law.data.cellwise:
        return state
    rows, cols = (side.data for side in state.sides)
    return State(state.sides, replace(state.shared, data=law.data.reread(state.shared.data, cells, rows, cols)))


def _part(observed: Observed, axis: int, lines: Array) -> Observed:
    """Chosen lines of what was observed, with their cells' classes."""
    if observed.group is None:
        return replace(observed, cells=leading_part(observed.cells, axis, lines))
    classes = observed.cells.with_values(observed.group.astype(np.float64))
    group = leading_part(classes, axis, lines).values.astype(np.int32)
    return replace(observed, cells=leading_part(observed.cells, axis, lines), group=group)


def change(old: Side, new: Side, axis: int, law: Law, shared: Shared) -> Array:
    """Relative change of each line: of the pattern's weights, the data model's features, the noise level or what a
    reader keeps, whichever is largest."""
    learned = law.pattern_of(shared, axis).learned
    pairs = [(learned(p.pattern.weights.mean), law.data.features(p.data, axis, shared.data).first) for p in (old, new)]
    shown = [[weights, first, *_own_numbers(side)] for (weights, first), side in zip(pairs, (old, new), strict=True)]
    found = [_of_each_line(np.abs(b - a)) / (_of_each_line(np.abs(b)) + 1e-300) for a, b in zip(*shown, strict=True)]
    return reduce(np.maximum, found)


def _of_each_line(array: Array) -> Array:
    """Sums over all axes but that of the lines."""
    return np.sum(array, axis=tuple(range(1, array.ndim)))


def _own_numbers(side: Side) -> list[Array]:
    """Noise levels of the lines, and what a reader keeps of them."""
    return [*([] if side.noise is None else [side.noise.mean]), *arrays_of(side.reading)]
