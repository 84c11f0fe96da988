"""Tasks on a Dask cluster: plain tasks that name files, no scattered arrays and no actors.

A task is a function, the file of what all tasks read (fit/spool.py) and some parts. It can run anywhere and run again,
so a worker that dies costs what it had under way, and one that comes late is used. Results are put in the order of the
parts, and whoever adds them up does so in this order: neither timing nor the number of workers changes a bit.
"""

from __future__ import annotations

import logging
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np

from nmar.data.storage import Storage
from nmar.fit.executor import Serial, Threads, threads
from nmar.fit.spool import Left, Spool, load

log = logging.getLogger("nmar")

PATIENCE = 5.0  # seconds that a scheduler may be silent before it is looked after
LONGEST_ANSWER = 60.0  # seconds that a busy scheduler may take to say that it is there
PER_THREAD = 8  # tasks for each thread of the cluster: what a late worker can take over, and a dead one loses


class ClusterLost(ConnectionError):
    """The scheduler is gone, and with it whatever was under way."""


class WrongWorker(RuntimeError):
    """A worker runs another version, whose results might differ."""


def versions() -> dict[str, str]:
    """What has to be the same everywhere for the same bits."""
    made = {name: version(name) for name in ("numpy", "scipy", "numba")}
    own = sys.modules[__name__.split(".")[0]].__version__  # type: ignore[attr-defined]
    return {"python": ".".join(platform.python_version_tuple()[:2]), "nmar": own, **made}


def check_versions(wanted: dict[str, str]) -> None:
    """Refuse to work for a process that has other versions."""
    found = versions()
    for name, told in wanted.items():
        if found.get(name) != told:
            raise WrongWorker(
                f"worker {_address()} has {name} {found.get(name)}, the program that fits has {told}; install the"
                " same versions everywhere"
            )


def _address() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:
        return platform.node()


def run_parts(
    task: Callable[[Any, Any], Any], storage: Storage, name: str, number: int, parts: list[Any], wanted: Any
) -> Left:
    """What a worker does: some parts of a ``map``, one after another."""
    check_versions(wanted)
    common = load(storage, name)
    return Left.of([task(common, part) for part in parts], storage, f"{name}.{number}")


class Cluster:
    """An executor on a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
    spool : where what all tasks read is written
    nearby : executor of this process, for work that goes by line
    """

    shares_memory = False

    def __init__(self, client: Any, spool: Spool, nearby: Serial | Threads) -> None:
        self.client, self.spool, self.nearby = client, spool, nearby
        self._wanted = versions()

    def map(self, task: Callable[[Any, Any], Any], common: Any, parts: Iterable[Any]) -> list[Any]:
        """``[task(common, part) for part in parts]``, on the workers."""
        given = list(parts)
        if not given:
            return []
        name, began = self.spool.put(common), time.perf_counter()
        label = getattr(common, "label", task.__name__.strip("_").replace("_", "-"))
        try:
            futures = self._submit(task, name, label, given)
            count = len(futures)
            found = self._collect(futures, len(given))
        except Exception as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error
        log.debug("%s: %d tasks, %.2f s", label, count, time.perf_counter() - began)
        return found

    def _submit(self, task: Callable[[Any, Any], Any], name: str, label: str, given: list[Any]) -> dict[Any, Any]:
        """Tasks under way, and the places of the parts of each."""
        futures = {}
        for k, group in enumerate(self._groups(len(given))):
            key = f"nmar-{label}-{self.spool.token}-{self.spool.count}-{k}"
            sent = (task, self.spool.storage, name, k, [given[place] for place in group], self._wanted)
            futures[self.client.submit(run_parts, *sent, key=key, pure=False)] = group
        return futures

    def _groups(self, count: int) -> list[Any]:
        """Places of the parts of each task: as many tasks as keep all threads busy until the end."""
        busy = max(sum(self.client.nthreads().values()), 2)
        return np.array_split(np.arange(count), min(count, PER_THREAD * busy))

    def _collect(self, futures: dict[Any, Any], count: int) -> list[Any]:
        from distributed import wait

        found: list[Any] = [None] * count
        try:
            while futures:
                some = list(futures)
                done = self._while_alive(lambda: wait(some, PATIENCE, "FIRST_COMPLETED").done)  # noqa: B023
                for future in done:
                    left = self._result(future)
                    for place, result in zip(futures.pop(future), left.taken(self.spool.storage), strict=True):
                        found[place] = result
                    future.release()
            return found
        finally:
            if futures:
                self._cancel(list(futures))

    def _result(self, future: Any) -> Left:
        """What a finished task left; its error, if it ended with one."""
        if future.status == "error":
            raise future.exception(PATIENCE)
        left: Left = self._while_alive(lambda: future.result(PATIENCE))
        return left

    def _while_alive(self, ask: Callable[[], Any]) -> Any:
        """What the scheduler answers, however long that takes, as long as there is one: a dead one never would."""
        while True:
            try:
                return ask()
            except TimeoutError:
                if not self._alive():
                    raise self._lost() from None

    def _cancel(self, futures: list[Any]) -> None:
        try:
            self.client.cancel(futures)
        except Exception as error:  # the cluster may be gone: what went wrong first is what matters
            log.debug("tasks could not be cancelled: %s", error)

    def _explained(self, error: Exception) -> Exception:
        """An error of the cluster in terms of what to do; errors of tasks as they are."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, ClusterLost):
            return error
        if isinstance(error, KilledWorker):
            return RuntimeError(
                f"workers died again and again at one task ({error}); see their logs: too little memory is the usual"
                " reason. A checkpoint, if there is one, is intact: resume=True goes on from it"
            )
        if isinstance(error, CancelledError | CommClosedError | TimeoutError | OSError) and not self._alive():
            return self._lost()
        return error

    def _lost(self) -> ClusterLost:
        return ClusterLost(
            f"the Dask scheduler {self._where()} is gone; start a cluster again and fit with resume=True: the"
            " checkpoint, if there is one, is intact"
        )

    def _alive(self) -> bool:
        """Whether the scheduler answers. (``client.scheduler_info`` would repeat what it knew while it lived.)"""
        if self.client.status != "running":
            return False
        try:
            self.client.sync(self.client.scheduler.ncores, workers=[], callback_timeout=LONGEST_ANSWER)
        except Exception:
            return False
        return True

    def _where(self) -> str:
        return str(getattr(self.client.scheduler, "addr", None) or getattr(self.client, "_start_arg", ""))


def default_client() -> Any:
    """The client of this process, or an error that says how to make one."""
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("executor='dask' needs Dask: pip install 'nmar[cluster]'") from None
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "executor='dask' finds no Dask client; make one first: dask.distributed.Client(address), or pass client="
        ) from None


@contextmanager
def on_cluster(client: Any, scratch: Storage, n_jobs: int | None = None) -> Iterator[Cluster]:
    """An executor on a cluster for the length of a fit; ``scratch`` is a folder that all its workers can read."""
    spool = Spool(scratch)
    with threads(n_jobs) as nearby:
        try:
            yield Cluster(client, spool, nearby)
        finally:
            spool.close()
