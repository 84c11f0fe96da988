"""One fit with everything around it: options, cells, kernels, executor, callbacks and checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.checkpoint import Checkpoint
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress
from nmar.fit.options import Options
from nmar.fit.problem import Problem, begin, check_valid, seed_sequence
from nmar.kernels.spec import Kernels
from nmar.models.context import Context, Executor, Observed
from nmar.models.law import Law
from nmar.models.taste import Taste
from nmar.posterior.posterior import Posterior
from nmar.prob.linkage import Linkage

__all__ = ["Job", "Watch", "begin_fit", "check_cells", "fixed_seed", "hidden_cells"]

Watch = Callable[..., None]  # of the trace, the state and, while a start or settings are looked for, what is tried


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
    control: Control
    keep: Checkpoint | None = None
    taste: tuple[Taste | None, Taste | None] | None = None  # of the data model's covariates, where they are choices
    pattern: Posterior | None = None  # of a first stage that was fitted before
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Time since the fit began, sweeps that look for a start included."""
        return time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float | None:
        """What is left of ``max_time``; None: no limit."""
        limit = self.options.max_time
        return None if limit is None else max(limit - self.seconds, 0.0)

    def show(self, progress: Progress, doing: str = "trying starts") -> None:
        """Tell the progress bar and the callbacks of a sweep that looks for a start or for settings."""
        if self.watch is not None:
            self.watch(progress.trace, progress.state, doing)
        self.control.tell(progress, "search")

    def context(self, law: Law, observed: Observed) -> Context:
        """The context of a run."""
        return Context(observed, law, self.kernels, self.executor)


def check_cells(cells: Cells) -> None:
    """Refuse input that a coupled factorization cannot learn from."""
    if cells.n_observed == 0:
        raise ValueError("cells is empty: no observed cell to learn from")
    if cells.mean_weight() == 0.0:
        raise ValueError("weights of the cells are all 0: no value to learn from; give some cells a weight above 0")
    if min(cells.shape) < 2:
        raise ValueError(f"cells has shape {cells.shape}; at least two rows and two columns are needed")


def fixed_seed(seed: Any) -> Any:
    """A seed that gives the same numbers each time it is asked: None and generators are drawn from once."""
    found = seed_sequence(seed)
    return found if found.spawn_key else found.entropy


def hidden_cells(cells: Cells, *parts: Cells) -> Cells | None:
    """All held-out cells on the training axes; those that are also training cells stay observed."""
    known = [part.align(cells.rows, cells.cols, unknown="drop") for part in parts]
    if not known:
        return None
    row, col = (np.concatenate([part.positions()[axis] for part in known]) for axis in (0, 1))
    key = np.unique(row.astype(np.int64) * cells.shape[1] + col)
    key = key[~cells.contains(key // cells.shape[1], key % cells.shape[1])]
    if not len(key):
        return None
    away = Cells.from_arrays(key // cells.shape[1], key % cells.shape[1], np.zeros(len(key)), cells.shape)
    return Cells(away.by(0), cells.rows, cells.cols)


def begin_fit(job: Job, link: Linkage, seed: Any = None, lead: int | None = None) -> Problem:
    """The problem of a job with a linkage, about to start; ``seed`` and ``lead`` replace what the job would take."""
    options = job.options
    pattern = options.pattern_law.built(job.cells)
    if options.prior == "paper":
        pattern = pattern.as_in_paper(job.cells)
    data = options.build(job.cells)
    options.check_by_value(data, link)
    noise = options.noise_law(data, link)
    problem = begin(
        job.cells,
        data,
        link,
        pattern,
        control=options.tail_only,
        hidden=job.hidden,
        seed=options.random_state if seed is None else seed,
        dtype=np.dtype(options.dtype).type,
        lead=lead,
        target=options.target,
        bounds=options.bounds,
        levels=options.levels,
        noise=None if noise is None else noise.begun(job.cells.shape, job.cells.n_observed),
    )
    if job.taste is not None:
        problem = replace(problem, law=replace(problem.law, taste=job.taste))
    if job.valid is not None:
        check_valid(problem.law, link, job.valid)
    return problem
