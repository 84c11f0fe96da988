"""Where a fit starts: restarts of the data model, starts of the linkage, and the short runs that choose among them.

Everything here is determined by data, options and seed, so a resumed fit that has no checkpoint yet does it again.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from nmar.fit.job import Job, begin_fit
from nmar.fit.loop.run import Fit, Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.options import Options
from nmar.fit.problem import Problem, seed_sequence
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.state import State
from nmar.prob.linkage import Linkage

log = logging.getLogger("nmar")

RARE, MUCH = 0.1, 7.5  # a low Λ̄ of the tail-only control, and how much more its table is bent there: c = ±1.5
PROBE = 12  # sweeps of each start before the better one goes on


def first_problem(job: Job) -> Problem:
    """The law and what a sweep reads, without any of the sweeps that choose a start."""
    return begin_fit(job, job.options.link)


def first_state(job: Job) -> tuple[Problem, State]:
    """The start; where there are several, each is swept a little, and the linkage with the best bound is taken.

    Only the linkage is carried over: the run then begins where every other run begins, so that models compared with
    each other have had the same sweeps.
    """
    problem = _restarted(job)
    states = starting_states(job, problem)
    if len(states) == 1:
        return problem, states[0]
    probes: list[Fit] = []
    for state in states:
        if not probes or job.seconds_left != 0.0:
            probes.append(_probe(job, problem.law, problem.observed, state, 2 * PROBE))
    bounds = [probe.trace.bound[-1] for probe in probes]
    log.info("bounds of the starts: %s", ", ".join(f"{b:.8g}" for b in bounds))
    best = probes[int(np.argmax(bounds))].state.shared
    return problem, with_linkage(problem.state, best.linkage, best.rate)


def _restarted(job: Job) -> Problem:
    """The problem from the best of the data model's restarts (mixtures have many modes), by a short run's bound."""
    seeds = seed_sequence(job.options.random_state)
    problem = begin_fit(job, job.options.link, seeds)
    restarts = getattr(problem.law.data, "restarts", 1)
    if restarts == 1:
        return problem
    problems = [problem, *(begin_fit(job, job.options.link, child) for child in seeds.spawn(restarts - 1))]
    probes = [_probe(job, each.law, each.observed, each.state, PROBE) for each in problems]
    best = int(np.argmax([probe.trace.bound[-1] for probe in probes]))
    return problems[best]


def starting_states(job: Job, problem: Problem) -> list[State]:
    """Starts of the linkage, one or several.

    Tables have several modes on some data (φ(2) below or above 1): a free one starts from 1, from a geometric fit and
    from a table bent up, one with a parameter c from either side of 0. Values without a dispersion of their own
    (Poisson) start from the table bent up first, because counts mostly vary more than that, and no other parameter can
    say so. For the tail-only control φ = 1 is a saddle, since all cells then share one q(n), and Λ̄ and the table move
    each other slowly: it starts from tables bent a little at Λ̄ = 1 and much at a low Λ̄, both ways. A stochastic
    solver, which counts its passes, takes the first.
    """
    options, started = job.options, problem.state.shared.linkage
    if not (started.learn or started.learns_mean):
        return [problem.state]
    most, sd = _most_starts(options), _sd(problem.observed)
    if options.tail_only:
        bends = [(sign * bend, rate) for bend, rate in ((1.0, 1.0), (MUCH, RARE)) for sign in (-1.0, 1.0)]
        return [with_linkage(problem.state, started.bent(bend, sd), rate) for bend, rate in bends[:most]]
    if not options.link.learned or (most == 1 and options.link.leader is None):
        return [problem.state]
    if options.link.leader is None:
        return [with_linkage(problem.state, started.bent(sign, sd)) for sign in (-1.0, 1.0)]
    heavy, flat = with_linkage(problem.state, started.bent(1.0, sd)), problem.state
    order = (flat, heavy) if problem.law.family.learns_dispersion else (heavy, flat)
    if most == 1:
        return [order[0]]
    return [order[0], _led(job, options.link.leader, problem), order[1]][:most]


def _most_starts(options: Options) -> int | None:
    """How many starts may be tried; None: all there are."""
    if options.method is not None:
        return 1
    return None if options.starts == "auto" else int(options.starts)


def with_linkage(state: State, link: Linkage, rate: float | None = None) -> State:
    """The state with another linkage, and the rate of the control that goes with it."""
    rate = state.shared.rate if rate is None else rate
    return State(state.sides, replace(state.shared, linkage=link, rate=rate))


def _led(job: Job, leader: Linkage, problem: Problem) -> State:
    """The first state with the tables of a leader's short fit, whose sweeps are not kept: starts compare evenly."""
    first = begin_fit(job, leader)
    found = _probe(job, first.law, first.observed, first.state, PROBE).state.shared.linkage
    return with_linkage(problem.state, problem.state.shared.linkage.led_by(found))


def _sd(observed: Observed) -> float:
    return float(np.sqrt(observed.cells.by(0).variance())) or 1.0


def _probe(job: Job, law: Law, observed: Observed, state: State, sweeps: int) -> Fit:
    rule = StopRule(max_iter=min(sweeps, job.options.max_iter), tol=0.0, max_time=job.seconds_left)
    return run(Progress(state), job.context(law, observed), rule, tell=job.show, stopped=job.control)
