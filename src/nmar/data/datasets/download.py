"""Downloads that resume, with pooch: a cache, a checksum where one is known, progress on a terminal.

Enters: a source of the registry. Leaves: the path of its file on this machine.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmar.data.datasets.sources import Source

__all__ = ["Resumed", "fetch", "verify"]

log = logging.getLogger("nmar")

CHUNK = 1 << 16  # bytes; less than one is lost if the connection breaks
TIMEOUT = 60.0  # seconds without a byte


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError("downloading and checking data sets needs pooch: pip install pooch") from None
    return pooch


def fetch(source: Source, cache: str | os.PathLike[str] | None = None, known_hash: str | None = None) -> Path:
    """The file of a source, from the cache or from its address.

    Parameters
    ----------
    source : Source
        Source of the registry.
    cache : str, path-like or None, default=None
        Folder; None: the system's folder for caches.
    known_hash : str or None, default=None
        "algorithm:hexdigest" to check instead of the registry's.
    """
    if source.url is None:
        raise ValueError(
            f"path=None: {source.title} is not downloaded for you ({source.terms}). Get it at {source.page} and pass"
            " path=, a file, a folder or an archive"
        )
    pooch = _pooch()
    folder = Path(pooch.os_cache("nmar") if cache is None else cache)
    name, expected = source.url.rsplit("/", 1)[1], known_hash or source.known_hash
    try:
        found = pooch.retrieve(source.url, expected, name, folder, downloader=Resumed(folder / f"{name}.part"))
    except ValueError as error:
        raise ValueError(f"{source.title}: {error}; nothing was kept. Try again, or pass path=") from error
    if expected is None:
        digest = pooch.file_hash(found)
        log.info("%s: no checksum is published; this file is sha256:%s (known_hash= checks it)", source.title, digest)
    return Path(found)


def verify(path: Path, known_hash: str) -> None:
    """Raise unless a file has this checksum, "algorithm:hexdigest"."""
    if not path.is_file():
        raise ValueError(f"known_hash={known_hash!r} is the checksum of a file, and path={str(path)!r} is none")
    algorithm, _, digest = known_hash.rpartition(":")
    found = _pooch().file_hash(str(path), alg=algorithm or "sha256")
    if found.lower() != digest.lower():
        raise ValueError(
            f"path={str(path)!r} has the checksum {algorithm or 'sha256'}:{found}, not known_hash={known_hash!r}; it is"
            " another version, or broken"
        )


@dataclass(frozen=True)
class Resumed:
    """A downloader for pooch that goes on where an earlier one stopped."""

    part: Path  # file that holds what has come so far; beside it, the server's mark of the version it belongs to

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        """Download to ``output_file``; what has come stays in ``part`` if the connection breaks."""
        import requests

        mark = self.part.with_name(self.part.name + ".mark")
        have = self.part.stat().st_size if self.part.is_file() and mark.is_file() else 0
        headers = {"Accept-Encoding": "identity"}  # the bytes of the file, not of a compressed copy
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": mark.read_text()}
        with requests.get(url, stream=True, headers=headers, timeout=TIMEOUT) as answer:
            if answer.status_code == 416:  # all of it had come
                answer.close()
            else:
                answer.raise_for_status()
                resumed = answer.status_code == 206
                self._mark(mark, answer.headers)
                log.info("downloading %s%s", url, f", from byte {have:,} on" if resumed else "")
                self._save(answer, have if resumed else 0, mark.is_file())
        os.replace(self.part, output_file)
        mark.unlink(missing_ok=True)

    @staticmethod
    def _mark(mark: Path, headers: Any) -> None:
        """Remember the version, so that parts of two versions are never joined; without a mark nothing resumes."""
        found = headers.get("ETag", "") or headers.get("Last-Modified", "")
        if found and not found.startswith("W/"):
            mark.write_text(found)
        else:
            mark.unlink(missing_ok=True)

    def _save(self, answer: Any, have: int, resumable: bool) -> None:
        """Write what comes to ``part``; an error says how much came, and whether the next download goes on from it."""
        import requests
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        length = answer.headers.get("Content-Length")
        total = None if length is None else int(length) + have
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        quiet, broken = not sys.stderr.isatty(), None
        with (
            open(self.part, "ab" if have else "wb") as file,
            Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar,
        ):
            task = bar.add_task("", total=total, completed=have)
            try:
                for chunk in answer.iter_content(CHUNK):
                    file.write(chunk)
                    bar.advance(task, len(chunk))
            except requests.RequestException as error:
                broken = error
        size = self.part.stat().st_size
        if broken is not None or (total is not None and size != total):
            came = f"{size:,} bytes" if total is None else f"{size:,} of {total:,} bytes"
            then = "what came is kept and the next download goes on from there" if resumable else "it will begin anew"
            raise OSError(f"{answer.url}: the connection broke after {came}; try again: {then}") from broken
