"""Arrays that processes of one machine share, and references to them in place of their bytes.

Enters: shapes of arrays, in the process that fits; references, in a worker. Leaves: arrays. The memory belongs to no
file (``memfd_create``, Linux), so that nothing is left behind by a process that is killed. Workers read it; only the
process that fits writes to it, between half sweeps, so that a task that runs twice or too late cannot spoil anything.
"""

from __future__ import annotations

import mmap
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from nmar.arrays import Array

PAGE = 4096  # the array begins here; its token lies before it
LEAST = 1 << 16  # bytes of an array that is worth sharing

attached: dict[tuple[int, int, bytes], mmap.mmap] = {}
_lock = threading.Lock()

Refers = Callable[[Any], "Reference | None"]  # where another process finds an array, if it can


class NotShared(ConnectionError):
    """Memory of another process that this one cannot map: it is on another machine, or in another container."""


@dataclass(frozen=True)
class Reference:
    """Where an array lies in the memory of another process."""

    process: int
    descriptor: int
    token: bytes
    size: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@dataclass
class SharedArrays:
    """Arrays of this process that other processes of the machine can map; ``close`` ends that, the arrays stay."""

    token: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    _parts: dict[int, tuple[int, int]] = field(default_factory=dict)  # address: length and descriptor

    @staticmethod
    def possible() -> bool:
        """Whether this system has such memory."""
        return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array that is not initialised."""
        size = PAGE + prod(shape) * np.dtype(dtype).itemsize
        descriptor = os.memfd_create("nmar", os.MFD_CLOEXEC)
        os.truncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
        memory[: len(self.token)] = self.token
        made = np.frombuffer(memory, dtype, prod(shape), PAGE).reshape(shape)
        self._parts[_address(made)] = (made.nbytes, descriptor)
        return made

    def reference(self, array: Any) -> Reference | None:
        """Where another process finds an array; None: it is not one of these, or a small one."""
        if not isinstance(array, np.ndarray) or array.nbytes < LEAST:
            return None
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        known = self._parts.get(_address(owner))
        if known is None or known[0] != owner.nbytes:
            return None
        start = PAGE + _address(array) - _address(owner)
        where = (os.getpid(), known[1], self.token, PAGE + known[0], start)
        return Reference(*where, array.shape, array.strides, array.dtype.str)

    def close(self) -> None:
        """Let no process map the arrays any more."""
        for _, descriptor in self._parts.values():
            os.close(descriptor)
        self._parts = {}


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def attach(reference: Reference) -> Array:
    """The array of another process, mapped; what was mapped before is used again."""
    key = (reference.process, reference.descriptor, reference.token)
    with _lock:
        if key not in attached:
            attached[key] = _mapped(reference)
        memory = attached[key]
    return np.ndarray(reference.shape, reference.dtype, memory, reference.start, reference.strides)


def _mapped(reference: Reference) -> mmap.mmap:
    try:
        descriptor = os.open(f"/proc/{reference.process}/fd/{reference.descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise NotShared(f"memory of process {reference.process} cannot be mapped: {error}") from None
    try:
        if os.fstat(descriptor).st_size == reference.size:
            memory = mmap.mmap(descriptor, reference.size)
            if memory[: len(reference.token)] == reference.token:
                return memory
    finally:
        os.close(descriptor)
    raise NotShared(f"process {reference.process} is another one here: its memory is on another machine")


def detach(token: bytes) -> None:
    """Forget the arrays of a run that is over, so that their memory is free again."""
    with _lock:
        for key in [key for key in attached if key[2] == token]:
            del attached[key]
