"""What all tasks of a half sweep read, as one file that every worker maps or loads once, and what they leave.

Tasks that carry a path instead of arrays are small, and any worker can run any of them at any time, one that came late
or took over from a dead one too: nothing has to be sent again, and nothing is lost with a worker. New lines come back
as files too, so that a scheduler handles names and a few numbers. Files of one machine are mapped: its processes share
the memory. Arrays that a worker can map where they are (fit/sharing.py) are named in the file, not copied to it.
"""

from __future__ import annotations

import io
import mmap
import pickle
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmar.data.storage import Storage
from nmar.fit.sharing import Reference, Refers, attach

ALIGNED = 64  # loops expect lines that begin on a cache line
SMALL = 1 << 16  # bytes of arrays that travel with their task
KEPT = 2  # files that a worker holds: of the half sweep under way and the one before it

held_files: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def _padding(size: int) -> bytes:
    return bytes(-size % ALIGNED)


@dataclass
class Spool:
    """A folder of such files, that of one run; only the newest ones stay."""

    storage: Storage  # A folder that this process can write to and every worker can read
    token: str = field(default_factory=lambda: secrets.token_hex(6) + "0")
    count: int = 0
    names: list[str] = field(default_factory=list)

    def put(self, record: Any, refers: Refers | None = None) -> str:
        """Write a record; its name. ``refers`` knows the arrays that need not be written."""
        self.count += 1
        name = f"{self.token}-{self.count:06d}.bin"
        write(self.storage, name, *packed(record, refers))
        self.names.append(name)
        self.storage.remove(*self.names[:-KEPT])
        self.names = self.names[-KEPT:]
        return name

    def close(self) -> None:
        """Remove what is left, results that came too late among it."""
        self.storage.remove(*self.storage.names(self.token))
        self.names = []


def packed(record: Any, refers: Refers | None = None) -> tuple[bytes, list[memoryview]]:
    """A record without its arrays, and these; arrays that ``refers`` knows are references in the record."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, part: Any) -> Reference | None:
            return None if refers is None else refers(part)

    buffers: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    Pickler(head, protocol=5, buffer_callback=buffers.append).dump(record)
    return head.getvalue(), [buffer.raw() for buffer in buffers]


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, reference: Any) -> Any:
        return attach(reference)


def write(storage: Storage, name: str, head: bytes, arrays: list[memoryview]) -> None:
    """Write a packed record, every array at the beginning of a cache line."""
    table = np.array([len(head), len(arrays), *(len(view) for view in arrays)], np.int64).tobytes()
    parts: list[Any] = []
    for part in (table, head, *arrays):
        parts += [part, _padding(len(part))]
    storage.put(name, parts)


@dataclass(frozen=True)
class Left:
    """The results of a task: in a file, or, where they are small, here; and the seconds it took."""

    name: str | None
    results: Any
    seconds: float

    @classmethod
    def of(cls, results: Any, storage: Storage, name: str, began: float) -> Left:
        """Results as they travel; a task that runs twice writes the same file twice."""
        head, arrays = packed(results)
        if sum(len(view) for view in arrays) < SMALL:
            return cls(None, results, time.perf_counter() - began)
        write(storage, name, head, arrays)
        return cls(name, None, time.perf_counter() - began)

    def taken(self, storage: Storage) -> Any:
        """The results, whose file is no longer needed."""
        if self.name is None:
            return self.results
        found = read(storage, self.name)
        if not storage.remote:  # what is mapped stays
            storage.remove(self.name)
        return found


def load(storage: Storage, name: str) -> Any:
    """The record of a file, of which this process keeps the newest."""
    path = storage.path(name)
    with _lock:
        if path not in held_files:
            held_files[path] = read(storage, name)
            while len(held_files) > KEPT:
                held_files.popitem(last=False)
        return held_files[path]


def read(storage: Storage, name: str) -> Any:
    """The record of a file."""
    data: Any
    if storage.remote:
        data = storage.read(name)
    else:
        storage.size(name)  # named, if it is missing
        with open(storage.path(name), "rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)  # arrays may be written to, the file is not
    whole = memoryview(data)
    head, count = np.frombuffer(whole, np.int64, 2).tolist()
    lengths = [head, *np.frombuffer(whole, np.int64, count, 16).tolist()]
    place, parts = 16 + 8 * count, []
    for length in lengths:
        place += -place % ALIGNED
        parts.append(whole[place : place + length])
        place += length
    return _Unpickler(io.BytesIO(parts[0]), buffers=parts[1:]).load()


def forget(name: str) -> None:
    """Drop the records of a run that is over."""
    with _lock:
        for path in [path for path in held_files if name in path]:
            del held_files[path]
