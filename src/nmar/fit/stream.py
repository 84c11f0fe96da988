"""Fitting from an iterator of batches: the data need never be in memory together."""

from __future__ import annotations

from dataclasses import replace

from nmar.data.cells import Cells
from nmar.fit.executor import threads
from nmar.fit.finish import finish
from nmar.fit.job import Job, begin_fit, check_cells, fixed_seed
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress
from nmar.fit.options import Options
from nmar.fit.result import Fitted, uninterrupted
from nmar.fit.solvers.schedule import Minibatch, Source, Stream, check_streams
from nmar.kernels.choose import choose


def train_stream(source: Source, options: Options, control: Control | None = None) -> Fitted:
    """Fit from a stream; see :class:`nmar.fit.solvers.schedule.Stream` for what it must give.

    In memory are one batch, the columns' factors and what is shared. Rows are given up when their batch has been
    used: the posterior's rows are those of the last batch, and others have to be folded in.
    """
    method = options.method if isinstance(options.method, Minibatch) else Minibatch()
    stream = Stream(method, source)
    first = stream.first
    check_cells(first)
    _check_covariates(options, first)
    options = replace(options, random_state=fixed_seed(options.random_state))
    rule = replace(options.stop, max_iter=min(options.max_iter, stream.passes), tol=0.0)
    with threads(options.n_jobs) as executor:
        job = Job(options, first, None, None, choose(options.backend), executor, None, control or Control())
        problem = begin_fit(job, options.link, lead=0)
        check_streams(problem.law)
        fitted = finish(job, problem.law, problem.observed, Progress(problem.state), (stream, rule))
    return uninterrupted(replace(fitted, posterior=replace(fitted.posterior, rows=stream.rows)))


def _check_covariates(options: Options, first: Cells) -> None:
    """Rows of a stream come and go: what is known of them must be known by id."""
    designs = options.pattern_law.built(first).designs
    if designs is not None and designs[0] is not None and designs[0].ids is None:
        raise ValueError("pattern rows is an array, by position; rows of a stream need covariates by id, in a frame")
