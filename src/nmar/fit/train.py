"""From cells and options to a fitted model, in the order things happen.

Checks, then the fits that go before (a pattern by itself, where weights, taste or the two-stage baseline need one),
then the start (:mod:`nmar.fit.search`), then the main run (:mod:`nmar.fit.finish`).
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.checkpoint import Checkpoint
from nmar.fit.executor import resolve_jobs, running
from nmar.fit.finish import How, as_asked, finish
from nmar.fit.job import Job, Watch, check_cells, fixed_seed, hidden_cells
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress, Trace
from nmar.fit.mechanism import with_mechanism
from nmar.fit.members import other_members, with_members
from nmar.fit.notice import ratings_taken_for_numbers
from nmar.fit.options import Options
from nmar.fit.outofcore import check_memory, check_settings, verify
from nmar.fit.problem import check_linked, seed_sequence, whole_seed
from nmar.fit.result import Choice, Fitted, preliminary, uninterrupted
from nmar.fit.search.choose import choose_factors, choose_rank, choose_styles, ranked
from nmar.fit.search.starts import first_problem, first_state
from nmar.fit.solvers.twostage import on_pattern
from nmar.fit.target import given_probability, weighted
from nmar.fit.taste import described
from nmar.kernels.choose import choose
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.settings import PatternOnly
from nmar.posterior.places import held_out_score
from nmar.posterior.posterior import Posterior
from nmar.prob.linkage import linkage
from nmar.prob.tree import alike

log = logging.getLogger("nmar")

SECOND = 0.1  # of the tolerance, in the second stage of the two-stage baseline
AUTO = ("ignorable", "linear", "exponential", "geometric", "free")


@dataclass(frozen=True, eq=False)
class Start:
    """What the main run goes from."""

    job: Job  # fit with everything around it
    law: Law  # settings of the model
    observed: Observed  # what sweeps read
    progress: Progress  # the first state, or a checkpoint
    how: How  # what a sweep is, and when to stop
    choices: tuple[Choice, ...] = ()  # what was tried for settings left open


def train(
    cells: Cells,
    options: Options,
    valid: Cells | None = None,
    hidden: Cells | None = None,
    watch: Watch | None = None,
    control: Control | None = None,
    keep: Checkpoint | None = None,
    pattern: Posterior | None = None,
) -> Fitted:
    """Fit a model.

    Parameters
    ----------
    cells : Cells
        Training cells.
    options : Options
        Settings.
    valid : Cells, optional
        Cells on which the log likelihood is followed. The fit stops when it stalls and keeps the best state.
    hidden : Cells, optional
        Held-out cells. They and ``valid`` count as neither observed nor missing.
    watch : callable, optional
        Called after each sweep.
    control : Control, optional
        Callbacks.
    keep : Checkpoint, optional
        Where to write checkpoints, and whether to go on from one.
    pattern : Posterior, optional
        What :func:`first_stage` gives for the same cells and options, where a model needs it and it is at hand.

    Raises
    ------
    Interrupted
        After Ctrl-C, with the fit up to the last finished sweep. A plain KeyboardInterrupt is raised where no sweep
        of the model was finished.
    """
    check_cells(cells)
    check_settings(cells, options)
    options = _coupled_to_something(cells, options)
    if (said := ratings_taken_for_numbers(cells, options.data)) is not None:
        log.info(said)
    control, choices = control or Control(), tuple[Choice, ...]()
    if options.linkage == "auto":
        found, options, choices = _choose_linkage(cells, options, valid, hidden, (watch, control, keep))
        if found is not None:
            return replace(found, choices=choices)
        keep = None if keep is None else keep.sub("chosen")
    away = hidden_cells(cells, *(part for part in (valid, hidden) if part is not None))
    options = replace(options, random_state=fixed_seed(options.random_state))
    with running(options.executor, options.n_jobs) as executor:
        verify(cells, executor)
        job = Job(options, cells, valid, away, choose(options.backend), executor, watch, control, keep, pattern=pattern)
        job = _prepared(job)
        others = other_members(job, _run)
        start = _two_stage(job) if options.linkage == "two-stage" else _start(job)
        found = finish(start.job, start.law, start.observed, start.progress, start.how)
        return uninterrupted(replace(with_members(found, others), choices=choices or start.choices))


def _coupled_to_something(cells: Cells, options: Options) -> Options:
    """The options, or those of the ignorable model where no cell is missing, with a warning."""
    if cells.n_observed < cells.shape[0] * cells.shape[1]:
        return options
    warnings.warn(
        "all cells are observed, so there is no missingness to model: the ignorable model is fitted. Pass the full"
        " shape if absent rows and columns are missing, or hidden= for cells that are held out",
        UserWarning,
        stacklevel=4,
    )
    return replace(options, linkage="ignorable", control=False)


def _prepared(job: Job) -> Job:
    """The job with the weights and the covariates that it takes from a pattern fitted first."""
    if job.options.target == "all":
        job = _for_all_cells(job)
    if job.options.mechanism == "taste":
        job = _by_taste(job)
    return job


def _run(job: Job) -> Fitted:
    """A fit without what goes before it, from its start to the posterior it leaves."""
    start = _start(job)
    return finish(start.job, start.law, start.observed, start.progress, start.how)


def _start(job: Job) -> Start:
    """Where the run begins, or goes on from a checkpoint; settings left open are chosen before."""
    progress = None if job.keep is None else job.keep.start()
    if progress is not None:
        job = replace(job, options=replace(job.options.settled(**dict(progress.settings)), random_state=progress.seed))
        problem = first_problem(job)
        held, new = (tuple((s.pattern.bare(), s.data) for s in one.state.sides) for one in (progress, problem))
        if not alike(held, new):
            raise ValueError("the checkpoint has other lines than a fit of these cells; give another folder")
        return Start(job, problem.law, problem.observed, progress, as_asked(job, problem.law, problem.observed))
    job, choices, settings = _settled(job)
    problem, state = first_state(job)
    check_memory(problem, job.options.memory, resolve_jobs(job.options.n_jobs))
    if job.options.by_value is not None:
        state = with_mechanism(job, problem, state)
    began = Progress(state, Trace(before=job.seconds), seed=job.options.random_state, settings=settings)
    return Start(job, problem.law, problem.observed, began, as_asked(job, problem.law, problem.observed), choices)


def _settled(job: Job) -> tuple[Job, tuple[Choice, ...], tuple[tuple[str, int], ...]]:
    """The job with numbers for those that were left open, what was tried, and what was chosen."""
    choices: tuple[Choice, ...] = ()
    chosen: dict[str, int] = {}
    for name, is_open, choose_one in (
        ("rank", job.options.open_rank, choose_rank),
        ("styles", job.options.open_styles, choose_styles),
        ("factors", job.options.factors == "auto", choose_factors),
    ):
        if is_open:
            chosen[name], tried = choose_one(job)
            job, choices = replace(job, options=job.options.settled(**chosen)), choices + tried
    return job, choices, tuple(chosen.items())


def _choose_linkage(
    cells: Cells,
    options: Options,
    valid: Cells | None,
    hidden: Cells | None,
    rest: tuple[Watch | None, Control, Checkpoint | None],
) -> tuple[Fitted | None, Options, tuple[Choice, ...]]:
    """The linkage with the best validation log likelihood among all that the family can use.

    Without ``valid`` a twentieth of the cells is set aside, and the chosen linkage has yet to be fitted to all of them.

    Returns
    -------
    fitted : Fitted or None
        The fit with the chosen linkage, where it has seen all cells.
    options : Options
        With the chosen linkage.
    choices : tuple of Choice
    """
    law = Law(options.pattern_law, options.data.build(cells))
    check_linked(law.data, "auto")
    inner, held_out = cells, valid
    if held_out is None:
        inner, _, held_out = cells.split(test=0.05, valid=0.0, seed=whole_seed(options.random_state))
    watch, control, keep = rest
    fits: dict[str, Fitted] = {}
    scores: dict[str, Array] = {}
    for name in AUTO:
        try:
            linkage(name).supports(law.family)
        except ValueError:
            continue
        kept = None if keep is None else keep.sub(name)
        with preliminary():
            fits[name] = train(inner, replace(options, linkage=name), held_out, hidden, watch, control, kept)
        scores[name] = held_out_score(fits[name].posterior, held_out)
    choices = ranked("linkage", scores)
    best, runner = choices[0], choices[min(1, len(choices) - 1)]
    log.info("auto: %s; %s is %.4f ± %.4f behind", best.value, runner.value, runner.behind, runner.se)
    chosen = None if valid is None else fits[best.value]
    return chosen, replace(options, linkage=best.value), choices


def first_stage(cells: Cells, options: Options, valid: Cells | None, hidden: Cells | None) -> Posterior:
    """The pattern that models by two stages begin with: taste, its control and the two-stage baseline share it."""
    away = hidden_cells(cells, *(part for part in (valid, hidden) if part is not None))
    options = replace(options, random_state=fixed_seed(options.random_state))
    with running(options.executor, options.n_jobs) as executor:
        return _pattern_first(Job(options, cells, valid, away, choose(options.backend), executor, None, Control()))


def _pattern_first(job: Job) -> Posterior:
    """The pattern alone, until its bound settles."""
    if job.pattern is not None:
        return job.pattern
    plain: dict[str, Any] = {"linkage": "ignorable", "control": False, "target": "observed", "propensity": None}
    options = replace(job.options, data=PatternOnly(), solver="batch", noise=None, tail=None, mechanism="none", **plain)
    alone = replace(job, options=options, valid=None, watch=None, keep=_stage(job, "pattern"))
    with preliminary():
        others = other_members(alone, _run)
        return uninterrupted(with_members(_run(alone), others)).posterior


def _for_all_cells(job: Job) -> Job:
    """The job with cells that count by the inverse of their P(observed), validation cells too."""
    if job.options.propensity is None:
        pattern = _pattern_first(replace(job, control=job.control.preparing()))

        def probability(cells: Cells) -> Array:
            return pattern.observed_probability(*cells.align(job.cells.rows, job.cells.cols).positions())

    else:

        def probability(cells: Cells) -> Array:
            return given_probability(job.options.propensity, cells)

    valid = job.valid
    if valid is not None and (job.options.propensity is None or callable(job.options.propensity)):
        known = valid.align(job.cells.rows, job.cells.cols, unknown="drop")
        valid = weighted(known, probability(known))
    return replace(job, cells=weighted(job.cells, probability(job.cells)), valid=valid)


def _by_taste(job: Job) -> Job:
    """The job whose data model has what rows and columns choose, in a pattern fitted first, as covariates."""
    pattern = _pattern_first(replace(job, control=job.control.preparing()))
    shuffled = job.options.control == "shuffled"
    shuffle = np.random.default_rng(seed_sequence(job.options.random_state)) if shuffled else None
    data, taste = described(job.options.data, pattern, shuffle)
    return replace(job, options=replace(job.options, data=data), taste=taste)


def _two_stage(job: Job) -> Start:
    """The pattern alone until its bound settles, then the data from their start with variance a quadratic in log Λ.

    The second stage starts, and stops on ``valid``, as every other fit of the values does. Without ``valid`` its
    tolerance is smaller: the pattern's part of the bound stands still there, so that the same relative gain would end
    it after half as many sweeps as the ignorable model.
    """
    if job.options.method is not None:
        raise ValueError("the two-stage baseline has solver='batch' only")
    if job.options.open_rank:
        raise ValueError("rank='auto' is not chosen for the two-stage baseline; give the rank that a plain fit chooses")
    if not Law(job.options.pattern_law, job.options.data.build(job.cells)).family.location:
        raise ValueError("the two-stage baseline is defined for the Gaussian family only")
    plain = replace(job.options, linkage="ignorable", control=False)
    pattern = _pattern_first(job)
    keep = _stage(job, "pattern")
    plain = plain.settled(factors=pattern.law.pattern.factors)  # where they were left open
    known = None if keep is None else keep.read()  # the seed of the first stage, where that was drawn
    seed = plain.random_state if known is None else known.seed
    problem, state = first_state(replace(job, options=replace(plain, random_state=seed), watch=None))
    law = replace(problem.law, pattern_fixed=True)
    state, observed = on_pattern(state, problem.observed, pattern)
    began = Progress(state, Trace(before=job.seconds))
    options = replace(job.options, tol=SECOND * job.options.tol)
    job = replace(job, options=options, keep=_stage(job, "variance"))
    progress = None if job.keep is None else job.keep.start()
    return Start(job, law, observed, progress or began, as_asked(job, law, observed))


def _stage(job: Job, name: str) -> Checkpoint | None:
    return None if job.keep is None else job.keep.sub(name)
