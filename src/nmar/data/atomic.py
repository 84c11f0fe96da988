"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

OLD = 86_400.0  # seconds after which a temporary file is one that a killed process has left


def write_with(path: str | os.PathLike[str], write: Callable[[Path], object], sync: bool = True) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place.

    A failure leaves an older file as it was and nothing else behind. The file is on disk before it takes its place. It
    has the permissions of the file that it replaces, or those of any new file, and a symbolic link stays one. Without
    ``sync`` a loss of power may leave it incomplete: for files whose checksums are kept elsewhere. ``write`` has to
    raise an error where it could not write everything.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: the folder {str(target.parent)!r} does not exist; create it")
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(8)}{target.suffix}")
    if sync:  # not for shards, of which a folder has thousands
        _remove_leftovers(target)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    try:
        # not with mkstemp, which makes files that only their owner can read
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(temporary, flags, 0o666 if mode is None else mode | stat.S_IWUSR))
        write(temporary)
        if sync:
            with open(temporary, "rb+") as stream:
                os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        if sync:
            _sync_folder(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL:
            raise OSError(
                error.errno, f"no space left for {str(path)!r}; an older file there is intact: free some, then go on"
            ) from error
        raise
    return target


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of this target that a killed process has left; nobody writes one for a day."""
    name = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{16}}{re.escape(target.suffix)}")
    with os.scandir(target.parent) as entries:
        found = [Path(one.path) for one in entries if name.fullmatch(one.name)]
    for one in found:
        with contextlib.suppress(OSError):  # another process was faster
            if time.time() - one.stat().st_mtime > OLD:
                one.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a loss of power; not every system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:  # a file system without it
        pass
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically, as UTF-8."""
    return write_with(path, lambda file: file.write_text(text, encoding="utf-8"))
