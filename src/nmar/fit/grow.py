"""Growth: a fitted model goes on with more cells, new rows and new columns.

Nothing is forgotten because nothing is thrown away: the cells seen so far are kept and the fit goes on from where it
was, so each call costs a few sweeps over all of them and the memory of all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.executor import threads
from nmar.fit.finish import finish, full_sweeps
from nmar.fit.foldin import Folding
from nmar.fit.job import Job, check_cells, hidden_cells
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress
from nmar.fit.options import Options
from nmar.fit.problem import check_values, observe
from nmar.fit.result import Fitted, preliminary, uninterrupted
from nmar.fit.solvers.schedule import leading_part, unseen_lines
from nmar.fit.solvers.twostage import on_pattern, pattern_alone
from nmar.kernels.choose import choose
from nmar.models.bilinear import Bilinear
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.pattern_covariates import DesignedPattern
from nmar.models.state import State
from nmar.models.unmodelled import Unmodelled
from nmar.posterior.posterior import Posterior
from nmar.prob.factor import pack, unpack
from nmar.prob.linkage import Linkage
from nmar.prob.tree import join

ASLEEP = 0.01  # share of a factor's starting variance below which it counts as switched off
ROUNDS = 5  # half sweeps of new lines alone before they join the others


def grown(posterior: Posterior, job: Job) -> Posterior:
    """A posterior on the axes of the job's cells, whose ids begin with the posterior's own.

    New columns are folded in given the old rows, then new rows given all columns; lines without such cells start
    from the prior.
    """
    for axis in (1, 0):
        posterior = _longer(posterior, job.cells, Folding(axis, job.kernels, job.executor, max_iter=ROUNDS))
    return posterior


def _longer(posterior: Posterior, cells: Cells, folding: Folding) -> Posterior:
    """The posterior with the new lines of one axis, from their cells on known lines of the other."""
    axis, law, state = folding.axis, posterior.law, posterior.state
    ids, have = (cells.rows, cells.cols)[axis], len((posterior.rows, posterior.cols)[axis])
    fresh = np.arange(have, len(ids))
    if not len(fresh):
        return posterior
    mine = leading_part(cells, axis, fresh)
    rows, cols = (posterior.rows, None) if axis else (None, posterior.cols)
    start, known = unseen_lines(law, state, axis, ids.ids[fresh]), law.data.known_lines(axis)
    if known is not None:
        start = replace(start, data=known.take(fresh))
    side = folding.fold(posterior, mine.align(rows, cols, unknown="drop"), start)
    state = state.with_side(axis, join([state.sides[axis], side]))
    return Posterior(law, state, *((posterior.rows, ids) if axis else (ids, posterior.cols)))


def reawakened(posterior: Posterior, observed: Observed, seed: int = 0) -> Posterior:
    """Factors that empirical Bayes switched off, started anew: more cells may well support them.

    A factor whose learned prior variance has gone to nothing can never come back by coordinate ascent, so without
    this a model grown from few cells would stay as simple as these few.
    """
    law, model, state = posterior.law, posterior.law.data, posterior.state
    if not isinstance(model, Bilinear) or model.rank == 0:
        return posterior
    other = 1 - law.lead
    level = (float(np.var(observed.cells.values)) or 1.0) / model.rank
    variance = [each.copy() for each in state.shared.data.variance]
    dead = np.flatnonzero(variance[other][: model.rank] < ASLEEP * level)
    if not len(dead):
        return posterior
    variance[other][dead] = level
    rng = np.random.default_rng(seed)
    for axis in (0, 1):
        side = state.sides[axis]
        mean, spread = side.data.mean.astype(np.float64), side.data.spread.astype(np.float64)
        noise = np.sqrt(0.1 * level) * rng.normal(size=(len(mean), len(dead)))
        mean[:, dead] = noise if axis == other else 0.0
        whole = spread if model.diagonal else unpack(spread, model.size)
        if model.diagonal:
            whole[:, dead] = 0.1 * variance[axis][dead]
        else:
            whole[:, dead, :] = 0.0
            whole[:, :, dead] = 0.0
            whole[:, dead, dead] = 0.1 * variance[axis][dead]
        free = np.array(model.axes[axis].free, bool)
        inside = np.ix_(np.arange(len(mean)), free, free)
        log_det = np.log(whole[:, free]).sum(axis=1) if model.diagonal else np.linalg.slogdet(whole[inside])[1]
        packed, dtype = (whole if model.diagonal else pack(whole)), side.data.mean.dtype
        moved = mean.astype(dtype), packed.astype(dtype), log_det.astype(side.data.log_det.dtype)
        lines = replace(side.data, **dict(zip(("mean", "spread", "log_det"), moved, strict=True)))
        state = state.with_side(axis, replace(side, data=lines))
    shared = replace(state.shared, data=replace(state.shared.data, variance=(variance[0], variance[1])))
    return replace(posterior, state=State(state.sides, shared))


def go_on(
    posterior: Posterior,
    cells: Cells,
    options: Options,
    hidden: tuple[Cells, ...] = (),
) -> Fitted:
    """Sweep on from a posterior over all cells seen so far, until the bound settles or ``options.stop`` says so.

    Parameters
    ----------
    posterior : Posterior
        The model so far.
    cells : Cells
        All cells, those of the posterior's own lines first on both axes.
    hidden : tuple of Cells, default=()
        Cells that are neither observed nor missing, unless they are among ``cells`` by now.
    """
    check_cells(cells)
    check_values(posterior.law, posterior.state.shared.linkage, cells)
    with threads(options.n_jobs) as executor:
        away = hidden_cells(cells, *hidden)
        job = Job(options, cells, None, away, choose(options.backend), executor, None, Control())
        law = _law(posterior.law, job)
        if not law.pattern_fixed:
            return uninterrupted(finish(job, law, *_resumed(replace(posterior, law=law), job), full_sweeps(job)))
        alone = replace(law, data=Unmodelled(), pattern_fixed=False)
        first = replace(pattern_alone(posterior), law=alone)
        with preliminary():
            pattern = uninterrupted(finish(job, alone, *_resumed(first, job), full_sweeps(job))).posterior
        observed, began = _resumed(replace(posterior, law=law), job)
        state, observed = on_pattern(began.state, observed, pattern)
        return uninterrupted(finish(job, law, observed, Progress(state), full_sweeps(job)))


def _law(law: Law, job: Job) -> Law:
    """The law of a fit of all cells: the data model has their priors and covariates, the pattern their density."""
    options, cells = job.options, job.cells
    pattern = law.pattern.grown(options.pattern_law, cells)
    pattern = pattern.as_in_paper(cells) if options.prior == "paper" else pattern
    options = options.settled(rank=law.data.rank) if options.open_rank else options  # type: ignore[attr-defined]
    data = law.data.grown(options.data.build(cells))
    return replace(law, pattern=pattern, data=data)


def _resumed(posterior: Posterior, job: Job) -> tuple[Observed, Progress]:
    """What sweeps over all cells read, and the state to go on from: nothing in it belongs to the first cells alone."""
    law, state = posterior.law, posterior.state
    for axis, side in enumerate(state.sides):
        known = law.data.known_lines(axis)
        if known is not None:  # covariates are standardised over all lines
            lines = np.arange(len(side.pattern.weights.alpha))
            state = state.with_side(axis, replace(side, data=known.take(lines)))
    longer = grown(replace(posterior, state=_covered(state, law, job.cells)), job)
    longer = replace(longer, state=_covered(longer.state, law, job.cells))
    observed = observe(job.cells, law, job.hidden, state.shared.units, law.dtype)
    state = reawakened(longer, observed).state
    rows, cols = (side.data for side in state.sides)
    data = law.data.reread(state.shared.data, observed.cells, rows, cols)
    link = _linkage(state.shared.linkage, job.options, observed)
    return observed, Progress(State(state.sides, replace(state.shared, data=data, linkage=link)))


def _covered(state: State, law: Law, cells: Cells) -> State:
    """The state with the levels that covariates of the pattern have by now."""
    for axis, known in enumerate(law.pattern.lines(cells)):
        mine, side = law.pattern_of(state.shared, axis), state.sides[axis]
        if known is not None and isinstance(mine, DesignedPattern):
            lines = known[: len(side.pattern.weights.alpha)]
            state = state.with_side(axis, replace(side, pattern=mine.with_known(side.pattern, lines)))
    return state


def _linkage(link: Linkage, options: Options, observed: Observed) -> Linkage:
    """The linkage so far; steps of a shift are as wide as all values spread, where no width was given."""
    if link.mean != "shift" or options.link.shift_width is not None:
        return link
    return replace(link, shift_width=float(np.std(observed.cells.values)) or 1.0)
