"""Growth: a fitted model goes on with more cells, new rows and new columns.

Nothing is forgotten because nothing is thrown away: the cells seen so far are kept and the fit goes on from where it
was, so each call costs a few sweeps over all of them and the memory of all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.callbacks import Control, run_kept
from nmar.fit.executor import threads
from nmar.fit.foldin import fold_in
from nmar.fit.options import Options
from nmar.fit.run import Progress
from nmar.fit.schedule import unseen_lines
from nmar.fit.start import known_density, observe
from nmar.fit.train import Fitted, uninterrupted
from nmar.kernels.choose import choose
from nmar.models.bilinear import Bilinear
from nmar.models.context import Context, Observed
from nmar.models.state import State, join
from nmar.posterior.posterior import Posterior
from nmar.prob.factor import NormalFactor, pack, unpack

ASLEEP = 0.01  # share of a factor's starting variance below which it counts as switched off
ROUNDS = 5  # half sweeps of new lines alone before they join the others


def grown(posterior: Posterior, cells: Cells, n_jobs: int | None = None, backend: str = "auto") -> Posterior:
    """A posterior on the axes of ``cells``, whose ids begin with the posterior's own.

    New columns are folded in given the old rows, then new rows given all columns; lines without such cells start
    from the prior.
    """
    state = posterior.state
    for axis, ids in ((1, cells.cols), (0, cells.rows)):
        have = len(posterior.cols if axis else posterior.rows)
        fresh = np.arange(have, len(ids))
        if not len(fresh):
            continue
        mine = (cells.T if axis else cells).take_rows(fresh)
        mine = mine.T if axis else mine
        known = Posterior(posterior.law, state, posterior.rows, posterior.cols)
        there = mine.align(rows=posterior.rows if axis else None, cols=None if axis else posterior.cols, unknown="drop")
        if len(there):
            side = fold_in(known, there, axis, max_iter=ROUNDS, n_jobs=n_jobs, backend=backend).state.sides[axis]
        else:
            side = unseen_lines(posterior.law, state, axis, len(fresh))
        state = state.with_side(axis, join([state.sides[axis], side]))
        ends = (posterior.rows, ids) if axis else (ids, posterior.cols)
        posterior = Posterior(posterior.law, state, *ends)
    return posterior


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
        factor = NormalFactor(mean.astype(dtype), packed.astype(dtype), log_det.astype(side.data.log_det.dtype))
        state = state.with_side(axis, replace(side, data=factor))
    shared = replace(state.shared, data=replace(state.shared.data, variance=(variance[0], variance[1])))
    return replace(posterior, state=State(state.sides, shared))


def go_on(
    posterior: Posterior,
    cells: Cells,
    options: Options,
) -> Fitted:
    """Sweep on from a posterior over all cells seen so far, until the bound settles or ``options.stop`` says so."""
    known = grown(posterior, cells, options.n_jobs, options.backend)
    law = known.law
    law.family.check_values(cells.values)
    law = replace(law, density=known_density(cells, None))
    observed = observe(cells, law, None, known.state.shared.units, law.dtype)
    state = reawakened(known, observed).state
    with threads(options.n_jobs) as executor:
        around = Context(observed, law, choose(options.backend), executor)
        fit = run_kept(Progress(state), around, options.stop, Control())
    return uninterrupted(Fitted(Posterior(law, fit.state, cells.rows, cells.cols), fit.trace, fit.reason))
