"""A run on disk: written atomically after some sweeps, read back to go on to bit-identical results.

A folder holds the two newest checkpoints, ``sweep-000010.nmar`` and so on. Each is a model file without pickle
(posterior/store.py) that holds the whole run so far and a fingerprint of data and options. A file that is damaged
is refused with the reason, and the one before it is used; one that belongs to another fit stops the fit.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.container import FileError, blamed
from nmar.data.dataset import Dataset
from nmar.fit.loop.remember import BatchSums
from nmar.fit.loop.run import Memory, Progress, Trace
from nmar.fit.options import Options
from nmar.models.scaling import LineSums
from nmar.models.settings import Regressor
from nmar.posterior.learned_estimator import to_bytes, untrusted_types
from nmar.posterior.schema import check_shapes
from nmar.posterior.store import load, register, save

log = logging.getLogger("nmar")

FORMAT = "nmar-checkpoint"
KEPT = 2

for _record in (Progress, Memory, Trace, BatchSums, LineSums):
    register(_record)


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to keep a run."""

    folder: Path  # folder of the files, made if it is missing
    every: int = 10  # Number of sweeps between checkpoints. The last sweep is always kept.
    resume: bool = False  # whether to go on from the newest good checkpoint of the same fit, if there is one
    fingerprint: str = ""  # fingerprint of data and options
    trusted: tuple[str, ...] = ()  # types that the fit's own estimator is made of, so that they can be read back
    # Files of this fit. Those of an earlier one stay until this one has written its first.
    written: set[Path] = field(default_factory=set)

    def sub(self, name: str) -> Checkpoint:
        """The checkpoint of one stage of a fit that has several."""
        return replace(self, folder=self.folder / name, written=set())

    def due(self, progress: Progress) -> bool:
        """Whether this sweep is one to keep."""
        return progress.trace.iterations % self.every == 0

    def files(self) -> list[Path]:
        """Checkpoints in the folder, newest first."""
        return sorted(self.folder.glob("sweep-*.nmar"), reverse=True)

    def write(self, progress: Progress) -> None:
        """Keep the run so far; only then are all but its last two checkpoints removed, those of earlier fits too."""
        target = self.folder / f"sweep-{progress.trace.iterations:06d}.nmar"
        save(target, (self.fingerprint, progress), FORMAT)
        self.written.add(target)
        kept = sorted(self.written)[-KEPT:]
        for old in self.files():
            if old not in kept:
                old.unlink(missing_ok=True)

    def read(self) -> Progress | None:
        """The newest good checkpoint, or None; a damaged one is named in the log, one of another fit is an error."""
        for path in self.files():
            try:
                fingerprint, progress = read_run(path, self.trusted)
            except (FileError, OSError) as error:
                log.warning("checkpoint %s refused, it cannot be read: %s", path, error)
                continue
            if fingerprint != self.fingerprint:
                told, mine = (text.partition("-") for text in (str(fingerprint), self.fingerprint))
                other = "other cells" if told[0] == mine[0] else "other options"
                raise ValueError(
                    f"checkpoint {str(path)!r} belongs to a fit with {other}; resume with the same ones, or give"
                    " another folder"
                )
            log.info("going on from %s", path)
            self.written.update(one for one in self.files() if one <= path)
            return progress
        return None

    def start(self) -> Progress | None:
        """What to go on from; files of an earlier fit stay until this one has one of its own."""
        return self.read() if self.resume else None


def read_run(path: Path, trusted: tuple[str, ...]) -> tuple[str, Progress]:
    """The fingerprint and the run of a file, whose parts fit each other."""
    record = load(path, FORMAT, trusted)
    with blamed(str(path), ""):
        if not (isinstance(record, tuple) and len(record) == 2 and isinstance(record[1], Progress)):
            raise ValueError("it holds no run")
        found = record[1].state.sides
        check_shapes(record[1].state, (len(found[0].pattern.activity.alpha), len(found[1].pattern.activity.alpha)))
    return str(record[0]), record[1]


# Settings with arrays or objects, which have digests of their own; how long a fit runs, and where.
APART = ("data", "pattern", "propensity", "max_iter", "tol", "max_time", "patience", "n_jobs", "backend", "memory",
         "executor")  # fmt: skip


def fingerprint(options: Options, *parts: Cells | None) -> str:
    """Digests of options and of data; how long to run and where is not part of them, so that a fit can be prolonged."""
    digest = hashlib.sha256()
    told = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in APART}
    seed = told["random_state"]
    if not isinstance(seed, int | np.integer | type(None)):
        told["random_state"] = type(seed).__name__
    digest.update(repr(told).encode())
    for given in (options.data, options.pattern, options.propensity):
        digest.update(b"|")
        _digest_settings(digest, given)
    told_of_options, digest = digest.hexdigest(), hashlib.sha256()
    for part in parts:
        digest.update(b"|")
        if isinstance(part, Dataset):
            digest.update(part.digest.encode())  # of its files: hashing the cells would read all of them
        elif part is not None:
            weights = () if part.weights is None else (part.weights,)
            for array in (*part.positions(), part.values, np.array(part.shape), *weights):
                digest.update(np.ascontiguousarray(array).tobytes())
            for ids in (part.rows, part.cols):
                if ids.table is not None:
                    digest.update("\0".join(map(str, ids.table.tolist())).encode())
    return f"{told_of_options}-{digest.hexdigest()}"


def _digest_settings(digest: Any, given: Any) -> None:
    """Add settings, field by field: ``repr`` leaves covariates out, or all but the corners of a long array."""
    if isinstance(given, np.ndarray) and given.dtype != object:
        digest.update(f"{given.dtype.str}{given.shape}".encode() + np.ascontiguousarray(given).tobytes())
    elif isinstance(given, np.ndarray | list | tuple):
        digest.update(type(given).__name__.encode())
        for each in given:
            _digest_settings(digest, each)
    elif hasattr(given, "columns"):  # a table
        names = getattr(given, "column_names", None) or list(given.columns)
        columns = {str(name): np.asarray(given[name]) for name in names}
        _digest_settings(digest, [np.asarray(getattr(given, "index", ())), *columns, *columns.values()])
    elif isinstance(given, Axis):  # without what it has looked up so far
        _digest_settings(digest, (given.size, given.table))
    elif is_dataclass(given):
        digest.update(type(given).__name__.encode())
        for one in fields(given):
            _digest_settings(digest, getattr(given, one.name))
    elif hasattr(given, "__code__"):
        digest.update(given.__qualname__.encode() + given.__code__.co_code)
    else:
        plain = type(given).__repr__ is object.__repr__  # which would be another text in every process
        digest.update((type(given).__qualname__ if plain else repr(given)).encode())


def checkpoint(
    folder: str | os.PathLike[str] | None, every: int, resume: bool, options: Options, *parts: Any
) -> Checkpoint | None:
    """A checked checkpoint, or None without a folder."""
    if folder is None:
        if resume:
            raise ValueError("resume=True needs checkpoint='folder' to resume from")
        return None
    if every < 1:
        raise ValueError(f"every={every!r}; give a whole number of sweeps of at least 1")
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"checkpoint={str(path)!r} is a file; give a folder")
    return Checkpoint(path, int(every), resume, fingerprint(options, *parts), _trusted(options, parts[0]))


def _trusted(options: Options, cells: Any) -> tuple[str, ...]:
    """Types of the user's own estimator, fitted to a few cells.

    An estimator that cannot be written is refused here, before the fit and not at its first checkpoint.
    """
    if not isinstance(options.data, Regressor) or isinstance(cells, Dataset):
        return ()
    return tuple(untrusted_types(to_bytes(options.data.fitted_to_few(cells))))
