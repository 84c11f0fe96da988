"""Folders of plain binary files, on disk or wherever fsspec reaches, read by ranges of bytes.

Enters: a path or a URL (``s3://bucket/folder``). Leaves: bytes of a file, all of them or a range, in memory of their
own that may be written to. Files appear whole or not at all. Errors name the file.
"""

from __future__ import annotations

import fcntl
import glob
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.atomic import write_with

READ = 1 << 24  # bytes of a file that are in memory while its checksum is computed


def is_remote(path: str) -> bool:
    """Whether a path is a URL that fsspec opens."""
    return "://" in path


def filesystem(path: str, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    """The fsspec file system of a URL."""
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"path={path!r} needs fsspec: pip install fsspec") from None
    return fsspec.filesystem(path.split("://", 1)[0], **dict(options))


def find_files(path: str, options: tuple[tuple[str, Any], ...] = ()) -> list[str]:
    """The files that a path, a pattern or a folder of Parquet files names, sorted; what is there is no pattern."""
    if not is_remote(path) and os.path.isfile(path):
        return [path]
    pattern = path if any(c in path for c in "*?[") or path.endswith((".parquet", ".pq")) else None
    if not is_remote(path) and os.path.isdir(path):
        return sorted(glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True))
    if is_remote(path):
        scheme, system = path.split("://", 1)[0], filesystem(path, options)
        names = system.glob(pattern or f"{path.rstrip('/')}/**/*.parquet")
        return sorted(f"{scheme}://{name.removeprefix(scheme + '://')}" for name in names)
    return sorted(glob.glob(pattern or os.path.join(path, "**", "*.parquet"), recursive=True))


def version_of(path: str, options: tuple[tuple[str, Any], ...] = ()) -> list[Any]:
    """What tells a file from another one that takes its place: length and time, or what its file system says."""
    if is_remote(path):
        return [str(filesystem(path, options).ukey(path))]
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


@dataclass(frozen=True)
class Storage:
    """One folder of files."""

    url: str  # path or URL
    options: tuple[tuple[str, Any], ...] = field(default=(), hash=False)  # some are dictionaries

    @property
    def remote(self) -> bool:
        """Whether fsspec reads it."""
        return is_remote(self.url)

    def path(self, name: str) -> str:
        """Where a file lies."""
        return f"{self.url.rstrip('/')}/{name}" if self.remote else os.path.join(self.url, name)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self._system.exists(self.path(name))) if self.remote else os.path.exists(self.path(name))

    def size(self, name: str) -> int:
        """Length of a file in bytes."""
        self._check(name)
        return int(self._system.size(self.path(name))) if self.remote else os.path.getsize(self.path(name))

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytearray:
        """Bytes ``start`` … ``stop`` of a file; a file that is not there or too short is refused by name."""
        if stop is None:
            stop = self.size(name)
        found = bytearray(stop - start)
        self.read_into(name, start, memoryview(found))
        return found

    def read_into(self, name: str, start: int, target: memoryview, ahead: int = 0) -> None:
        """Fill ``target`` with the bytes of a file from ``start`` on; ``ahead`` bytes more will be needed soon."""
        if self.remote:
            self._check(name)
            data = self._system.cat_file(self.path(name), start=start, end=start + len(target))
            done = len(data)
            target[:done] = data
        else:
            done = self._read_local(name, start, target, ahead)
        if done < len(target):
            raise ValueError(f"file {self.path(name)!r} is damaged: it ends {len(target) - done} bytes too early")

    def _read_local(self, name: str, start: int, target: memoryview, ahead: int) -> int:
        """Bytes that were read; the file is opened anew, so that it is the one that is there now."""
        try:
            handle = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise self._missing(name) from None
        try:
            done = 0
            while done < len(target):
                count = os.preadv(handle, [target[done:]], start + done)
                if count == 0:
                    break
                done += count
            if ahead and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(handle, start + done, ahead, os.POSIX_FADV_WILLNEED)
            return done
        finally:
            os.close(handle)

    def write(self, name: str, *parts: Any) -> tuple[int, int]:
        """Write buffers one after another as a file; its length and checksum."""
        views = [memoryview(part).cast("B") if len(part) else memoryview(b"") for part in parts]
        total, check = sum(len(view) for view in views), 0
        for view in views:
            check = zlib.crc32(view, check)
        self.put(name, views)
        return total, check

    def put(self, name: str, views: list[Any]) -> None:
        """Write buffers of bytes one after another as a file."""
        target = self.path(name)
        if self.remote:
            self._system.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            self._system.pipe_file(target, b"".join(views))
            return

        def fill(file: Path) -> None:
            with open(file, "wb") as stream:
                for view in views:
                    stream.write(view)

        os.makedirs(os.path.dirname(target), exist_ok=True)
        write_with(target, fill, sync=False)

    def remove(self, *names: str) -> None:
        """Remove files that are there."""
        for name in names:
            if self.remote:
                if self.exists(name):
                    self._system.rm(self.path(name))
                continue
            Path(self.path(name)).unlink(missing_ok=True)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Let one process at a time work on a local folder; others wait. The file of the lock goes with success."""
        if self.remote:
            yield
            return
        os.makedirs(self.url, exist_ok=True)
        with open(self.path(name), "ab") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
            self.remove(name)  # whoever waits for it still looks at what was made first

    def names(self, prefix: str) -> list[str]:
        """Files of the folder, but not of folders in it, whose names begin so."""
        if self.remote:
            found = self._system.ls(self.url, detail=False) if self._system.exists(self.url) else []
            listed = [str(path).rsplit("/", 1)[-1] for path in found]
        else:
            listed = os.listdir(self.url) if os.path.isdir(self.url) else []
        return sorted(name for name in listed if name.startswith(prefix))

    def checksum(self, name: str) -> int:
        """CRC-32 of a file."""
        total, check = self.size(name), 0
        for start in range(0, total, READ):
            check = zlib.crc32(self.read(name, start, min(start + READ, total)), check)
        return check

    @property
    def _system(self) -> Any:
        return filesystem(self.url, self.options)

    def _check(self, name: str) -> None:
        if not self.exists(name):
            raise self._missing(name)

    def _missing(self, name: str) -> FileNotFoundError:
        return FileNotFoundError(f"file {self.path(name)!r} is missing; restore it, or build the dataset again")


def as_array(data: bytearray, dtype: Any) -> NDArray[Any]:
    """Bytes as an array that may be written to."""
    return np.frombuffer(data, dtype=dtype)
