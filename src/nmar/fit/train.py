"""From cells and options to a fitted model: starts, the loop, validation, and the two-stage baseline."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.fit.checkpoint import Checkpoint
from nmar.fit.executor import resolve_jobs, running
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.finish import Fitted, as_asked, finish, preliminary, uninterrupted
from nmar.fit.loop.run import Progress, Trace
from nmar.fit.mechanism import with_mechanism
from nmar.fit.options import Options
from nmar.fit.outofcore import check_memory, check_settings, verify
from nmar.fit.problem import check_linked, seed_sequence, whole_seed
from nmar.fit.search.choose import choose_factors, ranked, score
from nmar.fit.search.starts import Job, Watch, first_problem, first_state, hidden_cells
from nmar.fit.solvers.twostage import on_pattern
from nmar.fit.target import given_probability, weighted
from nmar.fit.taste import described
from nmar.kernels.choose import choose
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.settings import PatternOnly
from nmar.prob.linkage import linkage

Array = NDArray[Any]

log = logging.getLogger("nmar")

SECOND = 0.1  # of the tolerance, in the second stage of the two-stage baseline
AUTO = ("ignorable", "linear", "exponential", "geometric", "free")


def check_cells(cells: Cells) -> None:
    """Refuse input that a coupled factorization cannot learn from."""
    if cells.n_observed == 0:
        raise ValueError("cells is empty: no observed cell to learn from")
    if cells.mean_weight() == 0.0:
        raise ValueError("weights of the cells are all 0: no value to learn from; give some cells a weight above 0")
    if min(cells.shape) < 2:
        raise ValueError(f"cells has shape {cells.shape}; at least two rows and two columns are needed")


def train(
    cells: Cells,
    options: Options,
    valid: Cells | None = None,
    hidden: Cells | None = None,
    watch: Watch | None = None,
    control: Control | None = None,
    keep: Checkpoint | None = None,
) -> Fitted:
    """Fit a model.

    Parameters
    ----------
    cells : training cells
    valid : cells on which the log likelihood is followed; the fit stops when it stalls and keeps the best state
    hidden : cells known to be held out; they and ``valid`` count as neither observed nor missing
    watch : called after each sweep
    control : callbacks
    keep : where to write checkpoints, and whether to go on from one

    Raises
    ------
    Interrupted
        after Ctrl-C, with what was fitted; a plain KeyboardInterrupt where no sweep of the model was finished
    """
    return uninterrupted(_train(cells, options, valid, hidden, watch, control, keep))


def _train(
    cells: Cells,
    options: Options,
    valid: Cells | None,
    hidden: Cells | None,
    watch: Watch | None,
    control: Control | None,
    keep: Checkpoint | None,
) -> Fitted:
    """:func:`train`, but an interrupted fit is returned."""
    check_cells(cells)
    check_settings(cells, options)
    options = _coupled_to_something(cells, options)
    control = control or Control()
    if options.linkage == "auto":
        return _choose_linkage(cells, options, valid, hidden, (watch, control, keep))
    away = hidden_cells(cells, *(part for part in (valid, hidden) if part is not None))
    options = replace(options, seed=fixed_seed(options.seed))
    kernels = choose(options.backend)
    with running(options.executor, options.n_jobs) as executor:
        verify(cells, executor)
        job = Job(options, cells, valid, away, kernels, executor, watch, control, keep)
        if options.target == "all":
            job = _for_all_cells(job)
        if options.mechanism == "taste":
            job = _by_taste(job)
        if options.linkage == "two-stage":
            return _two_stage(job)
        return _fit(job)


def _coupled_to_something(cells: Cells, options: Options) -> Options:
    """The options, or those of the ignorable model where no cell is missing, with a warning."""
    if cells.n_observed < cells.shape[0] * cells.shape[1]:
        return options
    warnings.warn(
        "all cells are observed, so there is no missingness to model: the ignorable model is fitted. Pass the full"
        " shape if absent rows and columns are missing, or hidden= for cells that are held out",
        UserWarning,
        stacklevel=5,
    )
    return replace(options, linkage="ignorable", control=False)


def fixed_seed(seed: Any) -> Any:
    """A seed that gives the same numbers each time it is asked: None and generators are drawn from once."""
    found = seed_sequence(seed)
    return found if found.spawn_key else found.entropy


def _fit(job: Job) -> Fitted:
    """Start, or go on from a checkpoint, and finish."""
    progress = None if job.keep is None else job.keep.start()
    if progress is not None:
        job = replace(job, options=replace(job.options, seed=progress.seed, **dict(progress.settings)))
        problem = first_problem(job)
        return _run(job, problem.law, problem.observed, progress)
    if job.options.factors == "auto":
        factors, choices = choose_factors(job)
        job = replace(job, options=replace(job.options, factors=factors))
        return replace(_fit_from_start(job), choices=choices)
    return _fit_from_start(job)


def _fit_from_start(job: Job) -> Fitted:
    """Fit with all settings decided."""
    problem, state = first_state(job)
    check_memory(problem, job.options.memory, resolve_jobs(job.options.n_jobs))
    if job.options.by_value is not None:
        state = with_mechanism(job, problem, state)
    settings = (("factors", job.options.factors),)
    began = Progress(state, Trace(before=job.seconds), seed=job.options.seed, settings=settings)
    return _run(job, problem.law, problem.observed, began)


def _choose_linkage(
    cells: Cells,
    options: Options,
    valid: Cells | None,
    hidden: Cells | None,
    rest: tuple[Watch | None, Control, Checkpoint | None],
) -> Fitted:
    """Fit every linkage the family can use and keep the one with the best validation log likelihood.

    Without ``valid`` a twentieth of the cells is set aside, and the chosen linkage is fitted again on all of them.
    """
    law = Law(options.pattern_law, options.data.build(cells))
    check_linked(law.data, "auto")
    inner, held_out = cells, valid
    if held_out is None:
        inner, _, held_out = cells.split(test=0.05, valid=0.0, seed=whole_seed(options.seed))
    watch, control, keep = rest

    def fit(part: Cells, name: str, judge: Cells | None, stage: str) -> Fitted:
        kept = None if keep is None else keep.sub(stage)
        return _train(part, replace(options, linkage=name), judge, hidden, watch, control, kept)

    fits: dict[str, Fitted] = {}
    scores: dict[str, Array] = {}
    for name in AUTO:
        try:
            linkage(name).supports(law.family)
        except ValueError:
            continue
        fits[name] = preliminary(fit(inner, name, held_out, name))
        scores[name] = score(fits[name].posterior, held_out)
    choices = ranked("linkage", scores)
    best, runner = choices[0], choices[min(1, len(choices) - 1)]
    log.info("auto: %s; %s is %.4f ± %.4f behind", best.value, runner.value, runner.behind, runner.se)
    chosen = fits[best.value] if valid is not None else fit(cells, best.value, None, "chosen")
    return replace(chosen, choices=choices)


def _run(job: Job, law: Law, observed: Observed, progress: Progress) -> Fitted:
    """The main run with the solver that was asked for."""
    return finish(job, law, observed, progress, as_asked(job, law, observed))


def _pattern_first(job: Job) -> Fitted:
    """The pattern alone, until its bound settles."""
    plain = replace(job.options, linkage="ignorable", control=False, target="observed", propensity=None)
    options = replace(plain, data=PatternOnly(), solver="batch", noise=None, tail=None, mechanism="none")
    return preliminary(_fit(replace(job, options=options, valid=None, watch=None, keep=_stage(job, "pattern"))))


def _for_all_cells(job: Job) -> Job:
    """The job with cells that count by the inverse of their P(observed), validation cells too."""
    if job.options.propensity is None:
        pattern = _pattern_first(replace(job, control=job.control.preparing())).posterior

        def probability(cells: Cells) -> Array:
            return -np.expm1(-pattern.rates(*cells.align(job.cells.rows, job.cells.cols).positions()))

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
    pattern = _pattern_first(replace(job, control=job.control.preparing())).posterior
    shuffled = job.options.control == "shuffled"
    shuffle = np.random.default_rng(seed_sequence(job.options.seed)) if shuffled else None
    data, taste = described(job.options.data, pattern, shuffle)
    return replace(job, options=replace(job.options, data=data), taste=taste)


def _two_stage(job: Job) -> Fitted:
    """The pattern alone until its bound settles, then the data from their start with variance a quadratic in log Λ.

    The second stage starts, and stops on ``valid``, as every other fit of the values does. Without ``valid`` its
    tolerance is smaller: the pattern's part of the bound stands still there, so that the same relative gain would end
    it after half as many sweeps as the ignorable model.
    """
    if job.options.method is not None:
        raise ValueError("the two-stage baseline has solver='batch' only")
    if not Law(job.options.pattern_law, job.options.data.build(job.cells)).family.location:
        raise ValueError("the two-stage baseline is defined for the Gaussian family only")
    plain = replace(job.options, linkage="ignorable", control=False)
    pattern = _pattern_first(job)
    keep = _stage(job, "pattern")
    plain = replace(plain, factors=pattern.posterior.law.pattern.factors)  # where they were left open
    known = None if keep is None else keep.read()  # the seed of the first stage, where that was drawn
    seed = plain.seed if known is None else known.seed
    problem, state = first_state(replace(job, options=replace(plain, seed=seed), watch=None))
    law = replace(problem.law, pattern_fixed=True)
    state, observed = on_pattern(state, problem.observed, pattern.posterior)
    began = Progress(state, Trace(before=job.seconds))
    stop = replace(job.options.stop, tol=SECOND * job.options.stop.tol)
    job = replace(job, options=replace(job.options, stop=stop), keep=_stage(job, "variance"))
    progress = None if job.keep is None else job.keep.start()
    return _run(job, law, observed, progress or began)


def _stage(job: Job, name: str) -> Checkpoint | None:
    return None if job.keep is None else job.keep.sub(name)
