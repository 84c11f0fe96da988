"""Tasks on a Dask cluster: plain tasks that name files, no scattered arrays and no actors.

A task is a function, the file of what all tasks read (fit/spool.py) and some parts. It can run anywhere and run again,
so a worker that dies costs what it had under way, and one that comes late is used. Results are put in the order of the
parts, and whoever adds them up does so in this order: neither timing nor the number of workers changes a bit.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

from nmar.data.storage import Storage
from nmar.fit.executor import Serial, Threads, threads
from nmar.fit.sharing import NotShared, SharedArrays, detach
from nmar.fit.spool import Left, Spool, forget, load
from nmar.fit.tasks import Tasks
from nmar.kernels.spec import Room

log = logging.getLogger("nmar")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt

PATIENCE = 5.0  # seconds that a scheduler may be silent before it is looked after
LONGEST_ANSWER = 60.0  # seconds that a busy scheduler may take to say that it is there
SHARE = 3  # a task gets this part of what is left for its thread: the last ones are small, so that threads end together


class ClusterLost(ConnectionError):
    """The scheduler is gone, and with it whatever was under way."""


class WrongWorker(RuntimeError):
    """A worker runs another version, whose results might differ."""


@cache
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


@cache
def keep_freed_memory() -> None:
    """Let blocks use the memory of the blocks before them.

    Dask starts workers with a threshold of glibc's that returns freed memory at once (MALLOC_TRIM_THRESHOLD_), and to
    give one also fixes the size from which arrays are mapped anew each time. Touching new memory took a fifth of the
    processor time of a sweep.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ and platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 1 << 25)
        mallopt(M_TRIM_THRESHOLD, 1 << 28)


def release(spool: str, token: bytes) -> None:
    """What a worker does when a run is over: drop what it holds of it."""
    forget(spool)
    detach(token)


def run_parts(
    task: Callable[[Any, Any], Any], storage: Storage, name: str, number: int, parts: list[Any], wanted: Any
) -> Left:
    """What a worker does: some parts of a ``map``, one after another."""
    check_versions(wanted)
    keep_freed_memory()
    began = time.perf_counter()
    common = load(storage, name)
    return Left.of([task(common, part) for part in parts], storage, f"{name}.{number}", began)


def grouped(count: int, threads: int) -> list[slice]:
    """The parts of each task: many at first, few at the end, so that all threads end together."""
    found, start = [], 0
    while start < count:
        stop = start + -(-(count - start) // (SHARE * threads))
        found.append(slice(start, stop))
        start = stop
    return found


def on_one_machine(client: Any) -> bool:
    """Whether the workers are where this process is, as far as their addresses tell."""
    from distributed.comm import get_address_host
    from distributed.utils import get_ip

    here = {"127.0.0.1", "::1", "localhost", get_ip()}
    found = list(client.nthreads())
    return all(address.startswith("inproc:") or get_address_host(address) in here for address in found)


class Cluster:
    """An executor on a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
        Client of the cluster.
    spool : Spool
        Writer of what all tasks read.
    nearby : Serial or Threads
        Executor of this process, for work that goes by line.
    """

    shares_memory = False

    def __init__(self, client: Any, spool: Spool, nearby: Serial | Threads) -> None:
        self.client, self.spool, self.nearby = client, spool, nearby
        self._wanted = versions()
        self._gone = False
        self._shared = SharedArrays()
        try:
            self._maps = SharedArrays.possible() and on_one_machine(client)
        except Exception as error:
            raise self._explained(error) from error

    @property
    def room(self) -> Room | None:
        """Makes arrays that workers read where they are, if all of them are on this machine."""
        return self._shared.empty if self._maps else None

    def map(self, task: Callable[[Any, Any], Any], common: Any, parts: Iterable[Any]) -> list[Any]:
        """``[task(common, part) for part in parts]``, on the workers."""
        given = list(parts)
        if not given:
            return []
        try:
            return self._map(task, common, given)
        except NotShared as error:  # a worker has come from another machine: what tasks read is written to files
            log.info("%s", error)
            self._maps = False
            return self._map(task, common, given)

    def _map(self, task: Callable[[Any, Any], Any], common: Any, given: list[Any]) -> list[Any]:
        began = time.perf_counter()
        name = self.spool.put(common, self._shared.reference if self._maps else None)
        label = getattr(common, "label", task.__name__.strip("_").replace("_", "-"))
        try:
            threads = max(sum(self.client.nthreads().values()), 2)
            groups = grouped(len(given), threads)
            sender = self._sender(task, name, label, [given[group] for group in groups])
            sizes = [group.stop - group.start for group in groups]
            found = self._collect(Tasks(sender, sizes, threads, PATIENCE), groups)
        except Exception as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error
        log.debug("%s: %d tasks, %.2f s", label, len(groups), time.perf_counter() - began)
        return found

    def _sender(
        self, task: Callable[[Any, Any], Any], name: str, label: str, parts: list[list[Any]]
    ) -> Callable[[int, int], Any]:
        """Sends a task of a map, by its number and by the number of its copy."""

        def send(number: int, copy: int) -> Any:
            key = f"nmar-{label}-{self.spool.token}-{self.spool.count}-{number}-{copy}"
            sent = (task, self.spool.storage, name, number, parts[number], self._wanted)
            return self.client.submit(run_parts, *sent, key=key, pure=False)

        return send

    def _collect(self, tasks: Tasks, groups: list[slice]) -> list[Any]:
        """Results of the parts of all tasks, in their order."""
        found: list[Any] = [None] * groups[-1].stop
        try:
            tasks.begin()
            for done in tasks.finished():
                if not done and not self.alive():
                    raise self._lost()
                for future in done:
                    left = self._result(future)
                    number = tasks.settle(future, left.seconds)
                    if number is not None:
                        found[groups[number]] = left.taken(self.spool.storage)
                    future.release()
            return found
        finally:
            if tasks.waiting:
                self._cancel(list(tasks.waiting))

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
                if not self.alive():
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

        if isinstance(error, ClusterLost | NotShared):
            return error
        if isinstance(error, KilledWorker):
            return RuntimeError(
                f"workers died again and again at one task ({error}); see their logs: too little memory is the usual"
                " reason. A checkpoint, if there is one, is intact: resume=True goes on from it"
            )
        if isinstance(error, CancelledError | CommClosedError | TimeoutError | OSError) and not self.alive():
            return self._lost()
        return error

    def close(self) -> None:
        """Remove the files of the run, and what workers hold of it."""
        self.spool.close()
        self._shared.close()
        if self._gone or not self.alive():
            return  # the cluster is gone, and what its workers held with it
        try:
            self.client.run(release, self.spool.token, self._shared.token)
        except Exception as error:  # a worker may have died meanwhile
            log.debug("workers could not be told that the run is over: %s", error)

    def _lost(self) -> ClusterLost:
        self._gone = True
        return ClusterLost(
            f"the Dask scheduler {self._where()} is gone; start a cluster again and fit with resume=True: the"
            " checkpoint, if there is one, is intact"
        )

    def alive(self) -> bool:
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
        raise ImportError("executor='dask' needs Dask: pip install dask distributed pyarrow") from None
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "executor='dask' finds no Dask client; make one first: dask.distributed.Client(address), or pass client="
        ) from None


@contextmanager
def on_cluster(client: Any, scratch: Storage, n_jobs: int | None = None) -> Iterator[Cluster]:
    """An executor on a cluster for the length of a fit; ``scratch`` is a folder that all its workers can read."""
    with threads(n_jobs) as nearby:
        cluster = Cluster(client, Spool(scratch), nearby)
        try:
            yield cluster
        finally:
            cluster.close()
