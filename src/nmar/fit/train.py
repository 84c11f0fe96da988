"""From cells and options to a fitted model: starts, the loop, validation, and the two-stage baseline."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.fit.executor import threads
from nmar.fit.options import Options
from nmar.fit.run import Fit, Trace, run
from nmar.fit.start import Problem, begin
from nmar.fit.stop import StopRule
from nmar.kernels.choose import choose
from nmar.kernels.spec import Kernels
from nmar.models.coupled import Executor, Law, Observed, State
from nmar.posterior.posterior import Posterior, log_density
from nmar.prob.linkage import Curve, Free, Geometric, Linkage
from nmar.prob.twostage import quadratic

Array = NDArray[Any]

log = logging.getLogger("nmar")

PROBE = 12  # sweeps of each start before the better one goes on

Watch = Callable[[Trace, State], None]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior and how it came about."""

    posterior: Posterior
    trace: Trace
    reason: str


@dataclass(frozen=True, eq=False)
class Job:
    """One fit with everything it needs around it."""

    options: Options
    cells: Cells
    valid: Cells | None
    hidden: Cells | None
    kernels: Kernels
    executor: Executor
    watch: Watch | None


def check_cells(cells: Cells) -> None:
    """Refuse input that a coupled factorization cannot learn from."""
    if cells.n_observed == 0:
        raise ValueError("cells is empty: no observed cell to learn from")
    if min(cells.shape) < 2:
        raise ValueError(f"cells has shape {cells.shape}; at least two rows and two columns are needed")
    if cells.n_observed == cells.shape[0] * cells.shape[1]:
        raise ValueError(
            "all cells are observed, so there is no missingness to model; use a plain factorization, or pass the"
            " full shape so that absent rows and columns count as missing"
        )


def train(
    cells: Cells,
    options: Options,
    valid: Cells | None = None,
    hidden: Cells | None = None,
    watch: Watch | None = None,
) -> Fitted:
    """Fit a model.

    Parameters
    ----------
    cells : training cells
    valid : cells on which the log likelihood is followed; the fit stops when it stalls and keeps the best state
    hidden : cells known to be held out; they and ``valid`` count as neither observed nor missing
    watch : called after each sweep
    """
    check_cells(cells)
    away = _hidden(cells, valid, hidden)
    kernels = choose(options.backend)
    with threads(options.n_jobs) as executor:
        job = Job(options, cells, valid, away, kernels, executor, watch)
        if options.link.name == "two-stage":
            return _two_stage(job)
        problem, state = _first_state(job)
        return _finish(job, problem.law, problem.observed, state)


def _hidden(cells: Cells, valid: Cells | None, hidden: Cells | None) -> Cells | None:
    """All held-out cells on the training axes; those that are also training cells stay observed."""
    parts = [part.align(cells.rows, cells.cols, unknown="drop") for part in (valid, hidden) if part is not None]
    if not parts:
        return None
    row, col = (np.concatenate([part.pairs()[axis] for part in parts]) for axis in (0, 1))
    key = np.unique(row.astype(np.int64) * cells.shape[1] + col)
    seen = cells.row_index.astype(np.int64) * cells.shape[1] + cells.col_index
    key = np.setdiff1d(key, seen, assume_unique=True)
    if not len(key):
        return None
    away = Cells.from_arrays(key // cells.shape[1], key % cells.shape[1], np.zeros(len(key)), cells.shape)
    return Cells(away.by(0), cells.rows, cells.cols)


def _begin(job: Job, linkage: Linkage) -> Problem:
    options = job.options
    pattern = options.pattern
    if options.prior == "paper":
        pattern = pattern.as_in_paper(job.cells)
    return begin(
        job.cells,
        options.data.build(job.cells),
        linkage,
        pattern,
        control=options.control,
        hidden=job.hidden,
        seed=options.seed,
        dtype=np.dtype(options.dtype).type,
    )


def _first_state(job: Job) -> tuple[Problem, State]:
    """The start; where there are several, each is swept a little and the one with the best bound goes on."""
    problem = _begin(job, job.options.link)
    states = _candidates(job, problem)
    if len(states) == 1:
        return problem, states[0]
    probes = [_probe(job, problem.law, problem.observed, state, 2 * PROBE) for state in states]
    bounds = [probe.trace.bound[-1] for probe in probes]
    log.info("bounds of the starts: %s", ", ".join(f"{b:.8g}" for b in bounds))
    return problem, probes[int(np.argmax(bounds))].state


def _candidates(job: Job, problem: Problem) -> list[State]:
    """Starts of the linkage.

    A free table has several modes on some data (φ(2) below or above 1): start from 1 and from a geometric fit. For
    the control φ = 1 is a saddle, since all cells then share one q(n): start from tables bent down and up.
    """
    linkage = job.options.link
    given = isinstance(linkage, Free) and linkage.values is not None
    started = problem.state.shared.linkage
    if job.options.starts == 1 or given or not (started.learn or started.learns_mean):
        return [problem.state]
    if job.options.control:
        sd = _sd(problem.observed)
        return [_with_linkage(problem.state, _bent(started, sign, sd)) for sign in (-1.0, 1.0)]
    return [problem.state, _led(job, linkage, problem)] if isinstance(linkage, Free) else [problem.state]


def _with_linkage(state: State, linkage: Linkage) -> State:
    return State(state.sides, replace(state.shared, linkage=linkage))


def _bent(linkage: Linkage, sign: float, sd: float) -> Linkage:
    """A started linkage moved off the flat table."""
    if isinstance(linkage, Free):
        curve = Geometric(0.3 * sign).table(linkage.levels)
        linkage = replace(linkage, values=tuple(np.clip(curve, 0.2, 5.0).tolist()))
    elif isinstance(linkage, Curve) and linkage.learn:
        linkage = replace(linkage, c=0.2 * sign)
    if linkage.mean == "shift":
        linkage = replace(linkage, shift=(0.0, *(0.3 * sign * sd,) * (linkage.levels - 1)))
    if linkage.mean == "scale" and linkage.scale is not None:
        linkage = replace(linkage, scale=(1.0, *(1.0 + 0.2 * sign,) * (linkage.levels - 1)))
    return linkage


def _led(job: Job, linkage: Free, problem: Problem) -> State:
    """A free linkage started from the state and the table of a short geometric fit."""
    curve = _begin(job, Geometric(mean=linkage.mean, levels=linkage.levels))
    led = _probe(job, curve.law, curve.observed, curve.state, PROBE).state
    found = led.shared.linkage
    table = tuple(float(v) for v in found.table(linkage.levels))
    began = replace(linkage, values=table, shift=found.shift, scale=found.scale)
    return _with_linkage(led, began.start(_sd(problem.observed)))


def _sd(observed: Observed) -> float:
    return float(np.std(observed.cells.values, dtype=np.float64)) or 1.0


def _probe(job: Job, law: Law, observed: Observed, state: State, sweeps: int) -> Fit:
    sweeps = min(sweeps, job.options.stop.max_iter)
    return run(state, observed, law, job.kernels, job.executor, StopRule(max_iter=sweeps, tol=0.0))


def _finish(job: Job, law: Law, observed: Observed, state: State) -> Fitted:
    """The main run, following validation if there is any; the best state by validation is kept, not the last."""
    best: dict[str, Any] = {"score": -np.inf, "state": None}

    def after(now: State, trace: Trace) -> Trace:
        if job.valid is not None:
            score = _score(Posterior(law, now, job.cells.rows, job.cells.cols), job.valid)
            trace = replace(trace, valid=(*trace.valid, score))
            if score > best["score"]:
                best.update(score=score, state=now)
        if job.watch is not None:
            job.watch(trace, now)
        return trace

    fit = run(state, observed, law, job.kernels, job.executor, job.options.stop, after)
    kept = fit.state if best["state"] is None else best["state"]
    log.info("stopped after %d sweeps: %s", fit.trace.iterations, fit.reason)
    return Fitted(Posterior(law, kept, job.cells.rows, job.cells.cols), fit.trace, fit.reason)


def _score(posterior: Posterior, cells: Cells) -> float:
    """Mean predictive log likelihood of cells on the posterior's axes."""
    known = cells.align(posterior.rows, posterior.cols, unknown="drop")
    i, j = known.pairs()
    return float(np.mean(log_density(posterior, i, j, known.values))) if len(known) else float("nan")


def _two_stage(job: Job) -> Fitted:
    """Pattern and data fitted as if ignorable, then the data again with the variance a quadratic in log Λ."""
    first = replace(job, options=replace(job.options, linkage="ignorable", control=False), watch=None)
    problem, state = _first_state(first)
    if problem.law.family.name != "gaussian":
        raise ValueError("the two-stage baseline is defined for the Gaussian family only")
    fitted = _finish(replace(first, valid=None), problem.law, problem.observed, state).posterior
    i, j = job.cells.pairs()
    rates = fitted.rates(i, j)
    linkage = quadratic(rates).start()
    observed = replace(problem.observed, group=linkage.group(rates))
    law = replace(problem.law, pattern_fixed=True)
    shared = replace(fitted.state.shared, linkage=linkage)
    return _finish(job, law, observed, State(fitted.state.sides, shared))
