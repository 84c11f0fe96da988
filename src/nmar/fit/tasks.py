"""The tasks of one ``map`` on a cluster: sent, waited for, and sent once more where they keep everybody waiting.

A worker that has just been started imports the library and loads the compiled loops while it already holds a task, and
a slow machine takes its time over the last one. Tasks are pure, so that a second copy on an idle thread gives the same
result; whichever copy is there first counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

OVERDUE = 2.0  # a task that takes so many times what the slowest part so far would make of it is sent once more
SOONEST = 0.1  # seconds: nothing is sent once more before


@dataclass
class Tasks:
    """Tasks under way."""

    send: Callable[[int, int], Any]  # sends a task, by its number and by the number of its copy; gives a future
    parts: list[int]  # number of parts of each task
    threads: int  # Number of threads of the cluster. With fewer tasks some are idle.
    patience: float  # seconds without a result after which the scheduler is looked after
    waiting: dict[Any, int] = field(default_factory=dict)  # futures, and the number of the task of each
    _repeated: set[int] = field(default_factory=set)
    _slowest: float = 0.0  # seconds of a part
    _last: float = 0.0  # when a result came last

    def begin(self) -> None:
        """Send all tasks."""
        self._last = time.perf_counter()
        for number in range(len(self.parts)):
            self.waiting[self.send(number, 0)] = number

    def finished(self) -> Iterator[list[Any]]:
        """Futures as they are done, some at a time; raises TimeoutError when nothing has come for too long."""
        from distributed import wait

        while self.waiting:
            try:
                done = wait(list(self.waiting), self._wait_for(), "FIRST_COMPLETED").done
            except TimeoutError:
                if not self._repeat_overdue() and time.perf_counter() - self._last >= self.patience:
                    self._last = time.perf_counter()
                    yield []
                continue
            yield list(done)

    def settle(self, future: Any, seconds: float) -> int | None:
        """Take note of a result; the number of its task, or None where a copy of it was there before."""
        number = self.waiting.pop(future, None)
        if number is None:
            return None
        self._last = time.perf_counter()
        self._slowest = max(self._slowest, seconds / self.parts[number])
        for copy in [other for other, task in self.waiting.items() if task == number]:
            del self.waiting[copy]
            copy.release()
        return number

    def _left(self) -> set[int]:
        return set(self.waiting.values())

    def _may_repeat(self) -> list[int]:
        left = self._left()
        return sorted(left - self._repeated) if self._slowest and len(left) < self.threads else []

    def _due(self, number: int) -> float:
        """When a task is overdue."""
        return self._last + max(OVERDUE * self._slowest * self.parts[number], SOONEST)

    def _wait_for(self) -> float:
        """Seconds until something has to be done without a result."""
        due = [self._due(number) for number in self._may_repeat()]
        return max(min([*due, self._last + self.patience]) - time.perf_counter(), 0.01)

    def _repeat_overdue(self) -> bool:
        """Send overdue tasks once more, if threads are idle."""
        now = time.perf_counter()
        again = [number for number in self._may_repeat() if self._due(number) <= now]
        for number in again:
            self._repeated.add(number)
            self.waiting[self.send(number, 1)] = number
        return bool(again)
