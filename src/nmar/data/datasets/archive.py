"""Files wherever they lie: in a folder, in an archive (also an archive inside an archive), compressed, or plain.

Enters: a path and patterns of names. Leaves: the files whose names match, to be read one after the other. A broken
archive is an error that says so.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

__all__ = ["Member", "members", "readable", "single"]

BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
DEEPEST = 4  # archives inside one another; a small file could otherwise hold them without end
MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
COMPRESSED = (".gz", ".bz2", ".xz")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.bz", ".tar.xz")


class Member(NamedTuple):
    """A file in a folder or in an archive."""

    pattern: str  # the pattern that its name matches
    where: str  # what errors call it
    stream: IO[bytes]  # its content, decompressed


def single(path: Path) -> str | None:
    """The name of a single file, without the ending of a compression; None where the path is no file, or an archive."""
    return _plain(path.name) if path.is_file() and not _is_archive(path.name) else None


def members(path: Path, patterns: Sequence[str]) -> Iterator[Member]:
    """The files whose names match a pattern, open one at a time.

    Parameters
    ----------
    path : Path
        Folder, archive (zip, tar, tar.gz, tar.bz2, tar.xz) or a single file.
    patterns : sequence of str
        Patterns of names, such as "mv_*.txt". Only the first one that matches any file counts; a single file that
        matches none is taken for the first.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"path={str(path)!r} does not exist; check the spelling")
    name = single(path)
    if name is not None:
        pattern = next((one for one in patterns if fnmatch(name, one)), patterns[0])
        yield from (member._replace(pattern=pattern) for member in _file(path, "*"))
        return
    for pattern in patterns:
        empty = True
        for member in _inside(path, pattern):
            empty = False
            yield member
        if not empty:
            return


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Around all reading of members: what a broken archive raises becomes a ValueError that says so."""
    try:
        yield
    except BROKEN as error:
        raise ValueError(
            f"path={str(path)!r} is broken or cut short ({type(error).__name__}: {error}); get it again"
        ) from error
    except OSError as error:
        if "CRC" not in str(error) and "Invalid data stream" not in str(error):  # as gzip and bz2 call broken data
            raise
        raise ValueError(f"path={str(path)!r} is broken ({error}); get it again") from error


def _inside(path: Path, pattern: str) -> Iterator[Member]:
    """The matching files of an archive, or of a folder: plain ones, or else those of the archives in it."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    plain = [one for one in files if not _is_archive(one.name) and fnmatch(_plain(one.name), pattern)]
    for file in plain or [one for one in files if _is_archive(one.name)]:
        yield from _file(file, pattern)


def _file(file: Path, pattern: str) -> Iterator[Member]:
    with open(file, "rb") as stream:
        yield from _opened(stream, str(file), pattern)


def _opened(stream: IO[bytes], where: str, pattern: str, depth: int = 1) -> Iterator[Member]:
    """The matching files in a stream: those of an archive, or itself."""
    if not _is_archive(where):
        yield Member(pattern, where, _decompressed(stream))
        return
    if depth > DEEPEST:
        raise ValueError(f"path={where!r}: archives inside archives, more than {DEEPEST} deep; unpack the inner ones")
    for inner, name in (_in_zip if where.lower().endswith(".zip") else _in_tar)(stream):
        last = PurePosixPath(name).name
        if _is_archive(last) or fnmatch(_plain(last), pattern):
            yield from _opened(inner(), f"{where}/{name}", pattern, depth + 1)


def _in_zip(stream: IO[bytes]) -> Iterator[tuple[Callable[[], Any], str]]:
    """The files of a zip file: what opens each, and its name."""
    whole = stream if stream.seekable() else io.BytesIO(stream.read())
    with zipfile.ZipFile(whole) as archive:
        for name in sorted(one for one in archive.namelist() if not one.endswith("/")):
            yield lambda name=name: archive.open(name), name  # type: ignore[misc]


def _in_tar(stream: IO[bytes]) -> Iterator[tuple[Callable[[], Any], str]]:
    """The same for a tar file, which is read to its end, where its checksum stands."""
    plain = _decompressed(stream)
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for one in tar:
            if one.isfile():
                yield lambda one=one: io.BufferedReader(_ReadOnce(tar.extractfile(one))), one.name  # type: ignore[misc]
    while plain.read(1 << 20):
        pass


def _decompressed(stream: Any) -> Any:
    """A stream without its compression, recognised by its first bytes; tarfile's own reader compares no checksum."""
    first = stream.peek(8)
    return next((opener(stream, "rb") for magic, opener in MAGIC.items() if first.startswith(magic)), stream)


class _ReadOnce(io.RawIOBase):
    """A file in a tar file that is read as it comes, which says that it cannot be sought; tarfile's own cannot say."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        return int(self._stream.readinto(buffer))


def _is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def _plain(name: str) -> str:
    """A name without the ending of a compression."""
    suffix = PurePosixPath(name).suffix.lower()
    return name[: -len(suffix)] if suffix in COMPRESSED and not _is_archive(name) else name
