"""Where fits of the mechanism "value" start: from some sweeps without it (theory.md, Values that decide)."""

from __future__ import annotations

from dataclasses import replace

from nmar.fit.job import Job
from nmar.fit.loop.run import Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import Problem, whole_seed
from nmar.models.mechanism import Draw, Mechanism
from nmar.models.state import State

FEW = 5_000_000  # missing cells that are all read
FOLD = 4  # so many times as many missing cells as observed ones are all read too; else as many as observed are drawn
WARM = 15  # sweeps before missing cells are looked at: their values are not known before those of observed ones


def with_mechanism(job: Job, problem: Problem, state: State) -> State:
    """The state after some sweeps without the mechanism, and with it.

    A mechanism that moves no value leaves the start as it is: values are fitted as if there were none.
    """
    given = job.options.by_value
    assert given is not None
    if job.options.executor is not None:
        raise ValueError("mechanism='value' runs in this process only; leave out executor and client")
    rows, cols = job.cells.shape
    away = 0 if job.hidden is None else job.hidden.n_observed
    if job.cells.n_observed + away == rows * cols:
        raise ValueError("mechanism='value' learns from missing cells, and all cells are observed or hidden")
    missing = rows * cols - job.cells.n_observed - away
    draw = Draw(whole_seed(job.options.random_state)) if missing > max(FEW, FOLD * job.cells.n_observed) else None
    mechanism = Mechanism.start(job.cells.n_observed / (rows * cols - away), given, draw)
    if mechanism.moves_values:
        rule = StopRule(max_iter=min(WARM, job.options.max_iter), tol=0.0, max_time=job.seconds_left)
        context = job.context(problem.law, problem.observed)
        state = run(Progress(state), context, rule, tell=job.show, stopped=job.control).state
    lines = [
        replace(side, detection=mechanism.first_lines(axis, size))
        for axis, (side, size) in enumerate(zip(state.sides, job.cells.shape, strict=True))
    ]
    return State((lines[0], lines[1]), replace(state.shared, mechanism=mechanism))
