"""Where tasks run: in this thread, or in a pool of threads that share memory.

Blocks depend on the data alone and results are summed in the order of the blocks, so the number of threads
changes no bit of the answer. Kernels release the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nmar.prob.threads import available_cpus

Task = Callable[[Any, Any], Any]

AWAKE = 0.2  # seconds: a Ctrl-C that comes just before the wait for tasks would not be seen until one of them ends


class Serial:
    """Every task in the calling thread."""

    shares_memory = True

    def map(self, task: Task, common: Any, parts: Iterable[Any]) -> list[Any]:
        """``[task(common, part) for part in parts]``."""
        return list(map(partial(task, common), parts))


class Threads:
    """Tasks in a pool of threads; results in the order of the parts."""

    shares_memory = True

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def map(self, task: Task, common: Any, parts: Iterable[Any]) -> list[Any]:
        """``[task(common, part) for part in parts]``, several at once."""
        futures = [self._pool.submit(task, common, part) for part in parts]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, AWAKE, FIRST_EXCEPTION)
                for each in done:
                    each.result()  # raises what the task raised
            return [each.result() for each in futures]
        finally:
            for each in waiting:
                each.cancel()


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: None is all processors, −1 too, −2 all but one, as in scikit-learn."""
    if n_jobs is None:
        return available_cpus()
    if not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r}; give a positive number of threads, -1 for all, or None")
    return max(1, available_cpus() + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


@contextmanager
def running(executor: Any, n_jobs: int | None) -> Iterator[Any]:
    """The executor that was given, or threads for the length of a fit."""
    if executor is not None:
        yield executor
        return
    with threads(n_jobs) as made:
        yield made


@contextmanager
def threads(n_jobs: int | None = None) -> Iterator[Serial | Threads]:
    """An executor for the length of a fit."""
    jobs = resolve_jobs(n_jobs)
    if jobs == 1:
        yield Serial()
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        yield Threads(pool)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: nobody waits for the blocks under way
        raise
    pool.shutdown()
