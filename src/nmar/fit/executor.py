"""Where block tasks run: in this thread, or in a pool of threads that share memory.

Blocks depend on the data alone and results are summed in the order of the blocks, so the number of threads
changes no bit of the answer. Kernels release the GIL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = tuple[int, int]


class Recycler:
    """Arrays for results, from the memory of earlier results that nobody holds any more.

    A half sweep makes a new side and drops an old one of the same size. Fresh memory is slow to touch for the first
    time, as slow as the sweep itself where lines are short; memory that was used before is not.
    """

    cuts = True

    def __init__(self) -> None:
        self._given: list[NDArray[Any]] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An uninitialised array."""
        for each in self._given:
            if each.shape == shape and each.dtype == dtype and sys.getrefcount(each) == UNHELD:
                return each
        if len(self._given) >= MOST:
            self._given = [each for each in self._given if sys.getrefcount(each) > UNHELD]
        fresh = np.empty(shape, dtype)
        self._given.append(fresh)
        return fresh


MOST = 64  # arrays known at a time: what nobody holds is let go before there are more
UNHELD = 3  # references to an array that only the recycler knows: its list, the loop and the question


class Serial(Recycler):
    """Every task in the calling thread."""

    def map(self, task: Callable[[Block], Any], blocks: Iterable[Block]) -> list[Any]:
        """``[task(b) for b in blocks]``."""
        return [task(block) for block in blocks]


class Threads(Recycler):
    """Tasks in a pool of threads; results in the order of the blocks."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        super().__init__()
        self._pool = pool

    def map(self, task: Callable[[Block], Any], blocks: Iterable[Block]) -> list[Any]:
        """``[task(b) for b in blocks]``, several at once."""
        return list(self._pool.map(task, blocks))


def available_cpus() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: None is all processors, −1 too, −2 all but one, as in scikit-learn."""
    if n_jobs is None:
        return available_cpus()
    if n_jobs == 0 or int(n_jobs) != n_jobs:
        raise ValueError(f"n_jobs={n_jobs!r}; give a positive number of threads, -1 for all, or None")
    return max(1, available_cpus() + 1 + n_jobs) if n_jobs < 0 else int(n_jobs)


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
