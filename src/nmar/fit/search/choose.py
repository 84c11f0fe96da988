"""The rank of the values, the number of styles and that of the pattern's factors, chosen by held-out cells.

Enters: a job with ``rank="auto"``, ``styles="auto"`` or ``factors="auto"``. Leaves: the number, and what was tried.
Some training cells are set aside, every number is swept a little on the others, never longer than ``max_iter``, and the
log likelihood of those set aside decides. The bound chooses nothing here: it pays for every component.
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
from nmar.fit.options import Options, with_levels
from nmar.fit.problem import seed_sequence, whole_seed
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
STYLES = (1, 2, 4, 8, 16)
WORTH = 0.005  # nats per cell that more styles must gain: they are tried on some lines, to which they mean more
ENOUGH = 200_000  # cells on which styles are chosen, about
SHORT = 12  # sweeps of every value that is tried, at most: fewer than a fit needs, so that all cost less than it


def ranked(setting: str, scores: dict[Any, Array], worth: float = 0.0) -> tuple[Choice, ...]:
    """Values that were tried, best first, with paired distances to the one that is chosen, the first of them.

    Chosen is the best, or the earliest that is behind it by no more than ``worth``.
    """
    order = sorted(scores, key=lambda value: -float(scores[value].mean()))
    best = scores[order[0]].mean()
    chosen = next(value for value in scores if best - scores[value].mean() <= worth)
    order.insert(0, order.pop(order.index(chosen)))
    found = []
    for value in order:
        gap = scores[chosen] - scores[value]
        found.append(Choice(setting, value, float(scores[value].mean()), float(gap.mean()), _error(gap)))
    return tuple(found)


def _error(gap: Array) -> float:
    """Standard error of a mean of paired differences."""
    return float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0


def choose_factors(job: Job) -> tuple[int, tuple[Choice, ...]]:
    """The number of factors whose held-out cells are most probable, and all numbers that were tried."""
    inner, judges = _set_aside(job)
    scores: dict[int, Array] = {}
    for factors in FACTORS:
        if scores and (job.seconds_left == 0.0 or factors > min(job.cells.shape)):
            break
        options = inner.options.settled(factors=factors)
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
    ranks = {rank: replace(inner.options.settled(rank=rank), starts=1) for rank in _possible_ranks(job.cells)}
    return _upwards(inner, judges, "rank", ranks)


def choose_styles(job: Job) -> tuple[int, tuple[Choice, ...]]:
    """The number of styles whose held-out levels are most probable, and all numbers that were tried.

    They are tried upwards until one predicts worse than the one before it by more than a standard error, on some of
    the lines that have styles; more of them must be worth ``WORTH``.
    """
    inner, judges = _set_aside(_some_lines(job))
    numbers = {styles: replace(inner.options.settled(styles=styles), starts=1) for styles in STYLES}
    return _upwards(inner, judges, "styles", numbers, errors=1.0, worth=WORTH)


def _upwards(
    inner: Job,
    judges: list[Cells],
    setting: str,
    options: dict[int, Options],
    errors: float = 0.0,
    worth: float = 0.0,
) -> tuple[int, tuple[Choice, ...]]:
    """The best of these values of a setting and all that were tried: in order, until one is worse than the last.

    It is worse where it is behind by more than ``errors`` standard errors, paired by cell. The earliest whose
    score is within ``worth`` of the best is taken.
    """
    scores: dict[int, Array] = {}
    before: Array | None = None
    for value, given in options.items():
        if scores and inner.seconds_left == 0.0:
            break
        posterior = _tried(replace(inner, options=given), f"trying {setting} {value}", SHORT)
        found = np.concatenate([held_out_score(posterior, cells) for cells in judges])
        scores[value] = found
        if before is not None and float(np.mean(before - found)) > errors * _error(before - found):
            break
        before = found
    choices = ranked(setting, scores, worth)
    log.info("%s: %s", setting, choices[0].value)
    return choices[0].value, choices if len(choices) > 1 else ()


def _possible_ranks(cells: Cells) -> list[int]:
    """Ranks below the smaller side of the matrix, or 1."""
    return [rank for rank in RANKS if rank < min(cells.shape)] or [1]


def _some_lines(job: Job) -> Job:
    """The job on rows, or columns, drawn at random, with about as many cells as are needed to judge styles."""
    levels = job.options.levels
    assert levels is not None
    share = ENOUGH / job.cells.n_observed
    if share >= 1.0:
        return job
    lines = job.cells.by(levels.axis).n
    rng = np.random.default_rng(seed_sequence(job.options.random_state))
    drawn = np.zeros(lines, bool)
    drawn[rng.choice(lines, max(2, round(share * lines)), replace=False)] = True
    return replace(job, cells=job.cells.select(drawn[job.cells.positions()[levels.axis]]))


def _set_aside(job: Job) -> tuple[Job, list[Cells]]:
    """The job on the training cells less some, and those that judge it, with the validation cells."""
    share = min(SHARE, JUDGES / job.cells.n_observed)
    inner, _, aside = job.cells.split(test=share, valid=0.0, seed=whole_seed(job.options.random_state))
    judges = [aside] if job.valid is None else [aside, job.valid]
    parts = judges if job.hidden is None else [*judges, job.hidden]
    options = replace(job.options, data=with_levels(job.options.data, job.cells))
    return replace(job, options=options, cells=inner, hidden=hidden_cells(inner, *parts), valid=None, keep=None), judges


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
