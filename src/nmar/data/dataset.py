"""A matrix on disk that fits are made of without loading it: Parquet files in, shards by rows and by columns out.

Enters: Parquet files of any size, wherever fsspec reaches. Leaves: `Dataset`, which a fit reads block by block as it
reads `Cells`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmar.arrays import Array
from nmar.data import build
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.compressed import Compressed, index_dtype
from nmar.data.ingest import plan
from nmar.data.manifest import (
    AXES,
    NAME,
    REMEDY,
    CheckedFiles,
    Manifest,
    find_manifest,
    known_files,
    pack_axis,
    read_axis,
)
from nmar.data.shards import Plan, Tell, run_build, write_lines
from nmar.data.storage import Storage, find_files, is_remote
from nmar.data.stored import NeedsMemory, StoredArray, StoredLines
from nmar.data.tables import Wanted

BATCH = 1 << 22  # cells of a batch of rows
LOCK = ".building"  # what other processes wait for while one builds a store


class Dataset(Cells):
    """Observed cells on disk, range-partitioned into shards by rows and by columns.

    A dataset is built once from Parquet files, in one pass over them and one sort, and opened ever after. A build that
    was broken off goes on where it was. Fits read it block by block: memory holds the factors and a few blocks.

    Parameters
    ----------
    path : str
        Parquet files: a file, a pattern (``"s3://bucket/ratings/*.parquet"``) or a folder; or the folder of a dataset
        built before.
    store : str, optional
        Folder of the dataset, a path or a URL; it is opened if it holds one of the same source, and built if not. By
        default ``path`` without its pattern and with the ending ".nmar"; a remote source needs one.
    row, col, value : str, optional
        Names of the columns that hold the row id, the column id and the observed value.
    weight : str, optional
        Column that says how often each cell counts among the values.
    duplicates : {"error", "last", "mean", "sum"}, default="error"
        What to do with a cell that occurs more than once.
    n_jobs : int, optional
        Threads of the build; all processors by default. Each holds some hundred megabytes.
    progress : callable, optional
        Called with the stage ("reading", "rows", "columns"), the steps done and the steps in all.
    storage_options : dict, optional
        Options of the fsspec file system.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> from nmar.data import write_frame
    >>> folder = tempfile.mkdtemp()
    >>> table = {"user": ["ann", "bob", "ann"], "item": [10, 10, 20], "stars": [4.0, 0.0, 5.0]}
    >>> write_frame(os.path.join(folder, "part-0.parquet"), table)
    >>> dataset = nmar.Dataset(folder, row="user", col="item", value="stars")
    >>> dataset.shape, dataset.n_observed, dataset.row_ids.tolist()
    ((2, 2), 3, ['ann', 'bob'])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        store: str | os.PathLike[str] | None = None,
        *,
        row: str | None = None,
        col: str | None = None,
        value: str | None = None,
        weight: str | None = None,
        duplicates: build.Duplicates = "error",
        n_jobs: int | None = None,
        progress: Tell | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        options = tuple(sorted((storage_options or {}).items()))
        build.check_duplicates_policy(duplicates)
        if weight is not None:
            build.check_weights_policy(duplicates)
        here = Storage(os.fspath(path).rstrip("/") or "/", options)
        wanted = Wanted(row, col, value, weight)
        built = find_manifest(here)
        if built is not None:
            _check_opened(here.url, built, wanted, duplicates, store)
            self._open(CheckedFiles(here, built))
            return
        target = Storage(_store(os.fspath(path), store), options if store is None or is_remote(str(store)) else ())
        files = find_files(os.fspath(path), options)
        if not files:
            raise FileNotFoundError(f"path={os.fspath(path)!r}: no Parquet file there; check the spelling")
        source = plan(files, wanted, options)
        made = find_manifest(target)
        if made is None:
            jobs = n_jobs or len(os.sched_getaffinity(0))
            with target.alone(LOCK):
                made = find_manifest(target) or run_build(Plan(source, target, duplicates, jobs, progress or _quiet))
        if made.source != {**source.identity, "duplicates": duplicates}:
            raise ValueError(
                f"store={target.url!r} holds a dataset of another source, or of files that have changed since;"
                f" remove it, give another folder, or open it as it is: nmar.Dataset({target.url!r})"
            )
        self._open(CheckedFiles(target, made))

    def _open(self, files: CheckedFiles, changed: tuple[Any, bool] = (None, False)) -> None:
        self._files, self._changed = files, changed
        self.storage, self.manifest = files.storage, files.manifest
        self._axes: dict[int, Axis] = {}
        self._by = {axis: self._lines(axis) for axis in (0, 1)}
        self._order = None
        self._weights = self._array(0, "weights") if self.manifest.weighted else None  # type: ignore[assignment]
        self._turned_weights = None

    @classmethod
    def from_cells(cls, cells: Cells, store: str | os.PathLike[str]) -> Dataset:
        """Write cells that are in memory as a dataset, for a cluster say.

        Parameters
        ----------
        cells : Cells
            Cells in memory.
        store : str or path-like
            Folder to write. One that holds a dataset already is refused.

        Examples
        --------
        >>> import tempfile, nmar
        >>> cells = nmar.Cells.from_arrays([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0])
        >>> nmar.Dataset.from_cells(cells, tempfile.mkdtemp()).n_observed
        3
        """
        storage = Storage(os.fspath(store))
        if storage.exists(NAME):
            raise ValueError(f"store={storage.url!r} holds a dataset already; remove it, or give another folder")
        files: dict[str, Any] = {}
        starts = []
        for axis in (0, 1):
            made, places = write_lines(storage, axis, cells.by(axis), cells.weights_by(axis))
            files |= made
            starts.append(places)
            files[AXES[axis]] = storage.write(AXES[axis], pack_axis((cells.rows, cells.cols)[axis]))
        weighted = cells.weights_by(0) is not None
        values = cells.by(0).values.dtype.name
        manifest = Manifest(cells.shape, len(cells), values, weighted, (starts[0], starts[1]), files, {})
        manifest.write(storage)
        return _opened(storage, manifest.digest)

    # --- what there is ------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Axis:  # type: ignore[override]
        """Ids of the rows, read when they are first used."""
        return self._axis(0)

    @property
    def cols(self) -> Axis:  # type: ignore[override]
        """Ids of the columns."""
        return self._axis(1)

    def _axis(self, axis: int) -> Axis:
        if axis not in self._axes:
            name = AXES[axis]
            made = read_axis(self._files, name)
            if len(made) != self.shape[axis]:
                raise ValueError(
                    f"file {self.storage.path(name)!r} is damaged: {len(made)} ids, and the dataset has"
                    f" {self.shape[axis]}; {REMEDY}"
                )
            self._axes[axis] = made
        return self._axes[axis]

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns)."""
        return self.manifest.shape

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return self.manifest.cells

    @property
    def density(self) -> float:
        """Share of the cells that is observed."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    @property
    def digest(self) -> str:
        """Of the contents: of the cells as they were built, whatever this reads them as."""
        return self.manifest.digest

    @property
    def in_memory(self) -> bool:
        """False: cells are read block by block."""
        return False

    def by(self, axis: int) -> Compressed:
        """The cells line by line: by rows (axis 0) or by columns (axis 1), read when lines are used."""
        return super().by(axis)

    def _lines(self, axis: int) -> StoredLines:
        indices: Any = self._array(axis, "indices")
        return StoredLines(self._files.pointers(axis), indices, self._array(axis, "values"), self.shape[1 - axis])  # type: ignore[arg-type]

    def _array(self, axis: int, kind: str) -> StoredArray:
        other = self.shape[1 - axis]
        kinds = {"indices": index_dtype(other), "values": self.manifest.values, "weights": "float64"}
        starts = np.array(self.manifest.starts[axis], np.int64)
        below = other if kind == "indices" else 0
        made = StoredArray(self._files, self.manifest.names(axis, kind), starts, np.dtype(kinds[kind]), below)
        change, narrow = self._changed
        return made if kind != "values" or change is None else replace(made, change=change, narrow=narrow)

    def weights_by(self, axis: int) -> Any:
        """Weights in the order of ``by(axis)``, read by slices; None: every cell counts once."""
        return self._array(axis, "weights") if self.manifest.weighted else None

    def mean_weight(self) -> float | None:
        """Mean weight of the cells, or None where each counts once."""
        if not self.manifest.weighted:
            return None
        weights = self._array(0, "weights")
        return sum(float(weights[part].sum()) for part in weights.pieces()) / len(weights)

    def contains(self, row: Array, col: Array) -> NDArray[np.bool_]:
        """Which of the cells at these positions are observed."""
        key, found = row.astype(np.int64) * self.shape[1] + col, np.zeros(len(row), np.bool_)
        for start, part in self.by(0).blocks():
            here = (row >= start) & (row < start + part.n)
            if here.any():
                mine = (part.major().astype(np.int64) + start) * self.shape[1] + part.indices
                found[here] = np.isin(key[here], mine)
        return found

    def verify(self, name: str | None = None) -> None:
        """Compare files, or one of them, with their checksums; one that is missing or damaged is refused by name.

        Each file is compared before it is read for the first time, too.
        """
        for each in self.manifest.files if name is None else (name,):
            self._files.check(each)

    def __repr__(self) -> str:
        rows, cols = self.shape
        shards = sum(len(starts) - 1 for starts in self.manifest.starts)
        return f"Dataset({self.storage.url!r}: {rows} rows × {cols} cols, {self.n_observed} observed, {shards} shards)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.storage, self.digest, self._changed)

    # --- other cells from these ---------------------------------------------------------------------------------

    def map_values(self, f: Callable[[NDArray[Any]], ArrayLike]) -> Dataset:
        """The same cells with the values ``f(values)``; ``f`` is called with pieces, as they are read."""
        first = StoredLines.with_values(self.by(0), self._array(0, "values").changed(f)).values  # type: ignore[arg-type]
        made = Dataset.__new__(Dataset)
        made._open(self._files, (f, first.narrow))  # type: ignore[attr-defined]
        return made

    def to_cells(self) -> Cells:
        """All cells in memory."""
        lines = self.by(0)
        everything = slice(0, self.n_observed)
        stored = Compressed(np.array(lines.indptr), lines.indices[everything], lines.values[everything], self.shape[1])
        weights = self.weights_by(0)
        return Cells(stored, self.rows, self.cols, None if weights is None else weights[everything])

    def batches(self, cells: int = BATCH) -> Iterator[Cells]:
        """Rows as cells in memory, some at a time: a stream for ``CCPF(solver="minibatch")``."""
        for start, stop in self.by(0).chunks(cells):
            weights, lines = self.weights_by(0), self.by(0)
            span = slice(int(lines.indptr[start]), int(lines.indptr[stop]))
            counted = None if weights is None else weights[span]
            yield Cells(lines.lines(start, stop), self.rows.take(np.arange(start, stop)), self.cols, counted)

    def order(self, axis: int) -> Any:
        """Refused: it would be as long as the cells."""
        raise NeedsMemory(
            f"this orders all {self.n_observed} cells in memory, and a Dataset leaves them on disk; if they fit, load"
            " them: dataset.to_cells()"
        )

    def transpose(self) -> Cells:
        """Refused: a dataset has both orientations; exchange ``row`` and ``col`` when it is built."""
        raise NeedsMemory("a Dataset cannot be transposed; exchange row and col when it is built, or load it: to_cells")

    def align(
        self, rows: Axis | None = None, cols: Axis | None = None, unknown: Literal["error", "drop"] = "error"
    ) -> Cells:
        """The dataset itself, on its own axes; others would need its cells in memory."""
        if (rows is None or rows == self.rows) and (cols is None or cols == self.cols):
            return self
        return super().align(rows, cols, unknown)


def _opened(storage: Storage, digest: str, changed: tuple[Any, bool] = (None, False)) -> Dataset:
    """A dataset that was opened before, here or in another process."""
    made = Dataset.__new__(Dataset)
    made._open(known_files(storage, digest), changed)
    return made


def _check_opened(
    path: str, built: Manifest, wanted: Wanted, duplicates: str, store: str | os.PathLike[str] | None
) -> None:
    """Refuse what a dataset that is there already was not built with."""
    remedy = "leave it out, or give the Parquet files and another store"
    if store is not None and os.fspath(store).rstrip("/") != path:
        raise ValueError(f"path={path!r} is a dataset already, not its source: store={os.fspath(store)!r} says nothing")
    if duplicates not in ("error", built.source.get("duplicates")):
        raise ValueError(f"path={path!r} is built already, and not with duplicates={duplicates!r}; {remedy}")
    known = dict(zip(("row", "col", "value", "weight"), built.source.get("columns", ()), strict=False))
    for name, given in wanted.given().items():
        if given != known.get(name):
            raise ValueError(f"path={path!r} is built already, and not with {name}={given!r}; {remedy}")


def _store(path: str, store: str | os.PathLike[str] | None) -> str:
    """Folder of the dataset of a source."""
    if store is not None:
        return os.fspath(store).rstrip("/")
    if is_remote(path):
        raise ValueError(f"path={path!r} is remote: say where the dataset is to lie, store='folder' or a URL")
    while any(c in path for c in "*?["):
        path = os.path.dirname(path)
    return (path.rstrip("/") or ".") + ".nmar"


def _quiet(stage: str, done: int, total: int) -> None:
    pass
