"""The rank of the values and the number of factors of the pattern, chosen by held-out cells.

Enters: a job with ``rank="auto"`` or ``factors="auto"``. Leaves: the number, and what was tried. Some training cells
are set aside, every number is swept a little on the others, never longer than ``max_iter``, and the log likelihood of
those set aside decides. The bound chooses nothing here: it pays for every component.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nmar.arrays import Array
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

log = logging.getLogger("nmar")

SHARE = 0.1  # of the training cells, on which numbers of factors are judged beside the validation cells
JUDGES = 50_000  # cells set aside, at most
SWEEPS = 30  # of every number that is tried, at most
FACTORS = (3, 10, 30)
RANKS = (5, 10, 15, 22, 33, 50, 75, 110, 165, 250)
SHORT = 12  # sweeps of every rank that is tried, at most: fewer than a fit needs, so that all of them cost less than it


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
        options = job.options.settled(factors=factors)
        posterior = _tried(replace(inner, options=options), f"trying {factors} factors", SWEEPS)
        found = np.concatenate([held_out_score(posterior, cells) for cells in judges])
        scores[factors] = found + _pattern_scores(posterior, inner.cells, judges)
    choices = ranked("factors", scores)
    log.info("factors: %s", choices[0].value)
    return choices[0].value, choices if len(choices) > 1 else ()


def choose_rank(job: Job) -> tuple[int, tuple[Choice, ...]]:
    """The rank whose held-out values are most probable, and all ranks that were tried.

    Ranks are tried upwards until one predicts worse than the one before it.
    """
    inner, judges = _set_aside(job)
    scores: dict[int, Array] = {}
    before = -np.inf
    for rank in _possible_ranks(job.cells):
        if scores and job.seconds_left == 0.0:
            break
        options = replace(job.options.settled(rank=rank), starts=1)
        posterior = _tried(replace(inner, options=options), f"trying rank {rank}", SHORT)
        scores[rank] = np.concatenate([held_out_score(posterior, cells) for cells in judges])
        if scores[rank].mean() < before:
            break
        before = scores[rank].mean()
    choices = ranked("rank", scores)
    log.info("rank: %s", choices[0].value)
    return choices[0].value, choices if len(choices) > 1 else ()


def _possible_ranks(cells: Cells) -> list[int]:
    """Ranks below the smaller side of the matrix, or 1."""
    return [rank for rank in RANKS if rank < min(cells.shape)] or [1]


def _set_aside(job: Job) -> tuple[Job, list[Cells]]:
    """The job on the training cells less some, and those that judge it, with the validation cells."""
    share = min(SHARE, JUDGES / job.cells.n_observed)
    inner, _, aside = job.cells.split(test=share, valid=0.0, seed=whole_seed(job.options.random_state))
    judges = [aside] if job.valid is None else [aside, job.valid]
    parts = judges if job.hidden is None else [*judges, job.hidden]
    return replace(job, cells=inner, hidden=hidden_cells(inner, *parts), valid=None, keep=None), judges


def _tried(job: Job, doing: str, sweeps: int) -> Posterior:
    """A short run."""
    problem, state = first_state(job)
    rule = StopRule(max_iter=min(sweeps, job.options.max_iter), tol=0.0, max_time=job.seconds_left)
    context = job.context(problem.law, problem.observed)
    fit = run(Progress(state), context, rule, tell=partial(job.show, doing=doing), stopped=job.control)
    return Posterior(problem.law, fit.state, job.cells.rows, job.cells.cols)


def _pattern_scores(posterior: Posterior, cells: Cells, judges: list[Cells]) -> Array:
    """log P(observed) of the judging cells, less what missing cells cost for each observed one."""
    i, j = cells.positions()
    u, v = (side.pattern.weights.column_sums for side in posterior.state.sides)
    missing = (float(u @ v) - float(posterior.rates(i, j).sum())) / len(i)
    known = [part.align(posterior.rows, posterior.cols, unknown="drop") for part in judges]
    rates = np.concatenate([posterior.rates(*part.positions()) for part in known])
    return np.log(chance(rates)) - missing
