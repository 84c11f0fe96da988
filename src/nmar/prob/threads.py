"""Independent parts of a calculation in threads, answers in their order; arrays in C let other threads run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def available_cpus() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def in_threads(task: Callable[[Part], Answer], parts: Iterable[Part]) -> list[Answer]:
    """``[task(part) for part in parts]``, several at once where there are several.

    Examples
    --------
    >>> in_threads(abs, [-1, 2])
    [1, 2]
    """
    each = list(parts)
    if len(each) < 2:
        return [task(part) for part in each]
    with ThreadPoolExecutor(min(len(each), available_cpus())) as pool:
        return list(pool.map(task, each))
