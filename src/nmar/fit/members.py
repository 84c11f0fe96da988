"""A pattern averaged over fits from several starts (docs/experiments/recommend.md).

Enters: a job that fits a pattern alone. Leaves: one pattern with the factors of all members, whose rate of a cell is
the mean of theirs. Each fit ends in a local optimum of its own, and their mean ranks better than any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nmar.fit.job import Job
from nmar.fit.problem import seed_sequence, whole_seed
from nmar.fit.result import Fitted, preliminary, uninterrupted
from nmar.models.missingness import PatternSide
from nmar.models.settings import PatternOnly
from nmar.posterior.posterior import Posterior
from nmar.prob.factor import GammaFactor


def other_members(job: Job, fit: Callable[[Job], Fitted]) -> list[Posterior]:
    """The members of a pattern that is fitted alone, but for the job's own fit, which comes after them.

    Members have seeds and folders of checkpoints of their own, and equal shares of ``max_time``.
    """
    count = job.options.pattern_law.members if isinstance(job.options.data, PatternOnly) else 1
    seeds = [whole_seed(one) for one in seed_sequence(job.options.random_state).spawn(count - 1)]
    others: list[Posterior] = []
    for k, seed in enumerate(seeds):
        member = _with_share(_member(job, k + 1, seed), count - k)
        with preliminary():
            others.append(uninterrupted(fit(member)).posterior)
    return others


def with_members(found: Fitted, others: Sequence[Posterior]) -> Fitted:
    """The fit averaged with other members; an interrupted one stays what it is."""
    if found.interrupted or not others:
        return found
    return replace(found, posterior=averaged([found.posterior, *others]))


def _member(job: Job, number: int, seed: int) -> Job:
    keep = None if job.keep is None else job.keep.sub(f"member-{number}")
    options = replace(job.options, random_state=seed)
    return replace(job, options=options, valid=None, watch=None, keep=keep, control=job.control.preparing())


def _with_share(job: Job, count: int) -> Job:
    """The job with its share of the time that is left for so many members."""
    left = job.seconds_left
    if left is None:
        return job
    options = replace(job.options, max_time=left / count)
    return replace(job, options=options, began=time.perf_counter())


def averaged(found: Sequence[Posterior]) -> Posterior:
    """One pattern with the factors of all, its rates the means of theirs: both sides count 1/√members."""
    first, scale = found[0], np.sqrt(len(found))
    factors = sum(one.law.pattern.factors for one in found)
    law = replace(first.law, pattern=replace(first.law.pattern, factors=factors, members=1))
    state = first.state
    for axis, side in enumerate(state.sides):
        parts = [one.state.sides[axis].pattern.weights for one in found]
        alpha = np.concatenate([part.alpha for part in parts], axis=1)
        beta = np.concatenate([part.beta for part in parts], axis=1) * alpha.dtype.type(scale)
        weights = GammaFactor(alpha, beta)
        activity = law.pattern_of(state.shared, axis).activity(weights)
        state = state.with_side(axis, replace(side, pattern=PatternSide(weights, activity)))
    return replace(first, law=law, state=state)
