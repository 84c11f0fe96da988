"""The number of factors of the pattern, chosen by the held-out log likelihood of cells set aside.

Enters: a job with ``factors="auto"``. Leaves: the number, and what was tried. Every number is swept a little on the
other cells, never longer than ``max_iter``. The bound chooses nothing here: it pays for every component.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.fit.job import Job, hidden_cells
from nmar.fit.loop.run import Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import whole_seed
from nmar.fit.result import Choice
from nmar.fit.search.starts import first_state
from nmar.posterior.places import held_out_score
from nmar.posterior.posterior import Posterior
from nmar.prob.counts import chance

Array = NDArray[Any]

log = logging.getLogger("nmar")

SHARE = 0.1  # of the training cells, on which numbers of factors are judged beside the validation cells
JUDGES = 50_000  # cells set aside, at most
SWEEPS = 30  # of every number that is tried, at most
FACTORS = (3, 10, 30)


def ranked(setting: str, scores: dict[Any, Array]) -> tuple[Choice, ...]:
    """Values that were tried, best first, with paired distances to the best."""
    order = sorted(scores, key=lambda value: -float(scores[value].mean()))
    best = scores[order[0]]
    found = []
    for value in order:
        gap = best - scores[value]
        se = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0
        found.append(Choice(setting, value, float(scores[value].mean()), float(gap.mean()), se))
    return tuple(found)


def choose_factors(job: Job) -> tuple[int, tuple[Choice, ...]]:
    """The number of factors whose held-out cells are most probable, and all numbers that were tried."""
    inner, judges = _set_aside(job)
    scores: dict[int, Array] = {}
    for factors in FACTORS:
        if scores and (job.seconds_left == 0.0 or factors > min(job.cells.shape)):
            break
        posterior = _tried(replace(inner, options=replace(job.options, factors=factors)))
        found = np.concatenate([held_out_score(posterior, cells) for cells in judges])
        scores[factors] = found + _pattern_scores(posterior, inner.cells, judges)
    choices = ranked("factors", scores)
    log.info("factors: %s", choices[0].value)
    return choices[0].value, choices if len(choices) > 1 else ()


def _set_aside(job: Job) -> tuple[Job, list[Cells]]:
    """The job on the training cells less some, and those that judge it, with the validation cells."""
    share = min(SHARE, JUDGES / job.cells.n_observed)
    inner, _, aside = job.cells.split(test=share, valid=0.0, seed=whole_seed(job.options.seed))
    judges = [aside] if job.valid is None else [aside, job.valid]
    parts = judges if job.hidden is None else [*judges, job.hidden]
    return replace(job, cells=inner, hidden=hidden_cells(inner, *parts), valid=None, keep=None), judges


def _tried(job: Job) -> Posterior:
    """A short run."""
    problem, state = first_state(job)
    rule = StopRule(max_iter=min(SWEEPS, job.options.stop.max_iter), tol=0.0, max_time=job.seconds_left)
    context = job.context(problem.law, problem.observed)
    fit = run(Progress(state), context, rule, tell=job.show, stopped=job.control)
    return Posterior(problem.law, fit.state, job.cells.rows, job.cells.cols)


def _pattern_scores(posterior: Posterior, cells: Cells, judges: list[Cells]) -> Array:
    """log P(observed) of the judging cells, less what missing cells cost for each observed one."""
    i, j = cells.positions()
    u, v = (side.pattern.weights.column_sums for side in posterior.state.sides)
    missing = (float(u @ v) - float(posterior.rates(i, j).sum())) / len(i)
    known = [part.align(posterior.rows, posterior.cols, unknown="drop") for part in judges]
    rates = np.concatenate([posterior.rates(*part.positions()) for part in known])
    return np.log(chance(rates)) - missing
