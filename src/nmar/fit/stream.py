"""Fitting from an iterator of batches: the data need never be in memory together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nmar.fit.callbacks import Control, run_kept
from nmar.fit.executor import threads
from nmar.fit.options import Options
from nmar.fit.run import Progress
from nmar.fit.schedule import Minibatch, Source, Stream, check_streams
from nmar.fit.start import begin
from nmar.fit.train import Fitted, check_cells, fixed_seed, uninterrupted
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.posterior.posterior import Posterior


def train_stream(source: Source, options: Options, control: Control | None = None) -> Fitted:
    """Fit from a stream; see :class:`nmar.fit.schedule.Stream` for what it must give.

    In memory are one batch, the columns' factors and what is shared. Rows are given up when their batch has been
    used: the posterior's rows are those of the last batch, and any others are folded in when they are asked about.
    """
    method = options.method if isinstance(options.method, Minibatch) else Minibatch()
    stream, control = Stream(method, source), control or Control()
    first = stream.first
    check_cells(first)
    pattern = options.pattern if options.prior == "robust" else options.pattern.as_in_paper(first)
    problem = begin(
        first,
        options.data.build(first),
        options.link,
        pattern,
        control=options.tail_only,
        trust=options.pattern_trust,
        seed=fixed_seed(options.seed),
        dtype=np.dtype(options.dtype).type,
        lead=0,
    )
    check_streams(problem.law)
    rule = replace(options.stop, max_iter=min(options.stop.max_iter, stream.passes), tol=0.0)

    rows = stream.rows

    def tell(now: Progress) -> None:
        nonlocal rows
        rows = stream.rows  # of the last finished pass: an interrupted one may have gone on to others

    with threads(options.n_jobs) as executor:
        around = Context(problem.observed, problem.law, choose(options.backend), executor)
        fit = run_kept(Progress(problem.state), around, rule, control, stream, tell=tell)
    return uninterrupted(Fitted(Posterior(problem.law, fit.state, rows, first.cols), fit.trace, fit.reason))
