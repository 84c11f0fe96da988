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
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any

__all__ = ["Member", "matching", "members", "readable", "single"]

BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.bz", ".tar.xz")
DEEPEST = 4  # archives inside one another; a small file could otherwise hold them without end
MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Member:
    """A file in a folder or in an archive.

    Attributes
    ----------
    name : str
        Its name without folders and without the ending of a compression.
    where : str
        What to call it in errors.
    stream : file-like
        Its content, decompressed.
    """

    name: str
    where: str
    stream: IO[bytes]


def single(path: Path) -> str | None:
    """The name of a single file, without the ending of a compression; None where the path is no file, or an archive."""
    return _plain(path.name) if path.is_file() and not _is_archive(path.name) else None


def members(path: Path, patterns: Sequence[str]) -> Iterator[tuple[str, Member]]:
    """The files whose names match a pattern, open one at a time, each with the pattern; at least one.

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
        if the path does not exist
    ValueError
        if no file matches
    """
    empty = True
    for found in matching(path, patterns):
        empty = False
        yield found
    if empty:
        raise ValueError(
            f"path={str(path)!r} holds no file named like {' or '.join(map(repr, patterns))}; is it the right one?"
        )


def matching(path: Path, patterns: Sequence[str]) -> Iterator[tuple[str, Member]]:
    """As :func:`members`, and nothing where no file matches."""
    if not path.exists():
        raise FileNotFoundError(f"path={str(path)!r} does not exist; check the spelling")
    name = single(path)
    if name is not None:
        named = [pattern for pattern in patterns if fnmatch(name, pattern)]
        for member in _file(path, "*"):
            yield (named or list(patterns))[0], member
        return
    for pattern in patterns:
        empty = True
        for member in _inside(path, pattern):
            empty = False
            yield pattern, member
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
    if path.is_file():
        yield from _file(path, pattern)
        return
    files = sorted(one for one in path.rglob("*") if one.is_file())
    plain = [one for one in files if not _is_archive(one.name) and fnmatch(_plain(one.name), pattern)]
    for file in plain or [one for one in files if _is_archive(one.name)]:
        yield from _file(file, pattern)


def _file(file: Path, pattern: str) -> Iterator[Member]:
    with open(file, "rb") as stream:
        yield from _opened(stream, file.name, str(file), pattern)


def _opened(stream: IO[bytes], name: str, where: str, pattern: str, depth: int = 1) -> Iterator[Member]:
    """The matching files in a stream: those of an archive, or itself."""
    if not _is_archive(name):
        opener = COMPRESSED.get(PurePosixPath(name).suffix.lower())
        plain: IO[bytes] = stream if opener is None else opener(stream, "rb")
        yield Member(_plain(PurePosixPath(name).name), where, plain)
        return
    if depth > DEEPEST:
        raise ValueError(f"path={where!r}: archives inside archives, more than {DEEPEST} deep; unpack the inner ones")
    inside = _in_zip if name.lower().endswith(".zip") else _in_tar
    for found, inner in inside(stream, pattern):
        yield from _opened(found, inner, f"{where}/{inner}", pattern, depth + 1)


def _in_zip(stream: IO[bytes], pattern: str) -> Iterator[tuple[IO[bytes], str]]:
    """The wanted files of a zip file, with their names."""
    whole = stream if stream.seekable() else io.BytesIO(stream.read())
    with zipfile.ZipFile(whole) as archive:
        for name in sorted(archive.namelist()):
            if _wanted(name, pattern):
                with archive.open(name) as found:
                    yield found, name


def _in_tar(stream: IO[bytes], pattern: str) -> Iterator[tuple[IO[bytes], str]]:
    """The wanted files of a tar file, with their names; it is read to its end, where its checksum stands."""
    plain = _decompressed(stream)
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for one in tar:
            if one.isfile() and _wanted(one.name, pattern):
                extracted = tar.extractfile(one)
                assert extracted is not None
                yield io.BufferedReader(_ReadOnce(extracted)), one.name
    while plain.read(1 << 20):
        pass


def _decompressed(stream: Any) -> Any:
    """A stream without its compression, recognised by its first bytes; tarfile's own reader compares no checksum."""
    first = stream.peek(8)
    for magic, opener in MAGIC.items():
        if first.startswith(magic):
            return opener(stream, "rb")
    return stream


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


def _wanted(name: str, pattern: str) -> bool:
    last = PurePosixPath(name).name
    return bool(last) and not name.endswith("/") and (_is_archive(last) or fnmatch(_plain(last), pattern))


def _is_archive(name: str) -> bool:
    return name.lower().endswith((".zip", *TARS))


def _plain(name: str) -> str:
    """A name without the ending of a compression."""
    suffix = PurePosixPath(name).suffix.lower()
    return name[: -len(suffix)] if suffix in COMPRESSED and not _is_archive(name) else name
