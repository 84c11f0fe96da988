"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write_with(path: str | os.PathLike[str], write: Callable[[Path], object], sync: bool = True) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place.

    A failure leaves an older file as it was and nothing else behind. The file is on disk before it takes its place,
    and its permissions are those of any new file. Without ``sync`` a loss of power may leave it incomplete: for files
    whose checksums are kept elsewhere.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path={str(target)!r}: the folder {str(target.parent)!r} does not exist; create it")
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(8)}{target.suffix}")
    # not with mkstemp, which makes files that only their owner can read
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        write(temporary)
        if sync:
            with open(temporary, "rb+") as stream:
                os.fsync(stream.fileno())
        os.replace(temporary, target)
        if sync:
            _sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return target


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
