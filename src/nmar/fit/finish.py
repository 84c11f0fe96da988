"""How every fit ends: the main run, what is done after each of its sweeps, and the posterior it leaves.

First fits (fit/train.py), fits that go on with more cells (fit/grow.py) and streams (fit/stream.py) end here.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.job import Job
from nmar.fit.loop.run import Fit, FullSweeps, Progress, Schedule, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import seed_sequence
from nmar.fit.result import Fitted
from nmar.fit.solvers.entrywise import Entrywise, Visits
from nmar.fit.solvers.schedule import Batches, Minibatch
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.posterior.places import held_out_score
from nmar.posterior.posterior import Posterior

log = logging.getLogger("nmar")

How = tuple[Schedule, StopRule]  # what a sweep is, and when it has been enough


def full_sweeps(job: Job) -> How:
    """Coordinate ascent, whatever the solver of the first fit was."""
    return FullSweeps(), job.options.stop


def as_asked(job: Job, law: Law, observed: Observed) -> How:
    """The solver of the options; a stochastic bound is too noisy to stop on."""
    method, stop = job.options.method, job.options.stop
    seeds = seed_sequence(job.options.random_state)
    if isinstance(method, Minibatch):
        rule = replace(stop, max_iter=min(stop.max_iter, method.passes), tol=0.0)
        return Batches(method, observed, law, seeds), rule
    if isinstance(method, Entrywise):
        return Visits(method, observed, law, seeds), replace(stop, tol=0.0)
    return full_sweeps(job)


def finish(job: Job, law: Law, observed: Observed, progress: Progress, how: How) -> Fitted:
    """The main run, following validation if there is any; the best state by validation is kept, not the last.

    The posterior is on the axes of the job's cells and holds the factors alone, without what only sweeps need.
    """
    schedule, rule = how

    def judge(now: Progress) -> Progress:
        if job.valid is None:
            return now
        state = now.state.on_host()
        value = score(Posterior(law, state, job.cells.rows, job.cells.cols), job.valid)
        now = replace(now, trace=replace(now.trace, valid=(*now.trace.valid, value)))
        better = value > now.best_score
        return replace(now, best=state.bare().copy(), best_score=value) if better else now

    def tell(now: Progress) -> None:
        if job.keep is not None and job.keep.due(now):
            job.keep.write(now.on_host())
        if job.watch is not None:
            job.watch(now.trace, now.state)
        job.control.tell(now)

    fit = run(progress, job.context(law, observed), rule, judge, tell, schedule, job.control, keeps=True)
    _keep_last(job, fit, progress)
    best = None if fit.progress is None else fit.progress.best
    log.info("stopped after %d sweeps: %s", fit.trace.iterations, fit.reason)
    kept = (fit.state if best is None else best).bare()
    kept = replace(kept, shared=replace(kept.shared, data=law.data.without_cells(kept.shared.data)))
    weights = job.cells.weights if law.target == "all" else None
    effective = None if weights is None else float(weights.sum() ** 2 / np.sum(weights**2))
    known = Posterior(law, kept, job.cells.rows, job.cells.cols)
    return Fitted(known, fit.trace, fit.reason, effective_cells=effective)


def _keep_last(job: Job, fit: Fit, began: Progress) -> None:
    """The last sweep goes to disk too, whatever ended the fit."""
    last = fit.progress
    if job.keep is None or last is None or last is began or job.keep.due(last):
        return
    job.keep.write(last)


def score(posterior: Posterior, cells: Cells) -> float:
    """Mean predictive log likelihood of cells on the posterior's axes."""
    return float(np.mean(held_out_score(posterior, cells)))
