"""Pieces become shards: ranges of rows, then ranges of columns, each sorted in memory by itself; the one sort.

A shard of rows gathers its range of every piece and is sorted as any cells are (data/build.py). Its transpose is laid
aside; a shard of columns gathers its range of every transpose, in the order of the rows, and needs a counting sort.
What is finished is noted file by file, so that a build that was broken off goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.data import build
from nmar.data.axis import Axis
from nmar.data.compressed import Compressed, index_dtype
from nmar.data.ingest import FOLDER, Placed, Source, by_lines, join_axes, make_piece, place, placed
from nmar.data.manifest import AXES, Manifest, pack_axis, shard_name
from nmar.data.storage import Storage, as_array

Tell = Callable[[str, int, int], None]  # stage, steps done, steps in all

SHARD = 1 << 22  # cells of a shard, about: what one thread holds in memory while it sorts


@dataclass(frozen=True)
class Plan:
    """A build: from what, to where, and how."""

    source: Source
    storage: Storage
    duplicates: str
    jobs: int
    tell: Tell


def bounds_of(degree: NDArray[np.int64]) -> NDArray[np.int64]:
    """First lines of the shards, and the number of lines: as many whole lines as have about ``SHARD`` cells."""
    indptr = np.zeros(len(degree) + 1, np.int64)
    np.cumsum(degree, out=indptr[1:])
    lines = Compressed(indptr, np.empty(0), np.empty(0), 0).chunks(SHARD)
    return np.array([start for start, _ in lines] + [len(degree)], np.int64)


def run_build(plan: Plan) -> Manifest:
    """All stages; each leaves out what is there already."""
    _same_build(plan)
    pieces = plan.source.pieces
    _each(plan, "reading", lambda piece: make_piece(plan.source, piece, plan.storage), pieces)
    rows, cols = (join_axes(pieces, plan.storage, kind) for kind in ("rows", "cols"))
    degree, counts = np.zeros(len(rows), np.int64), np.zeros(len(cols), np.int64)
    for piece in pieces:
        row_map, row_degree, col_map, col_counts = place(piece, plan.storage, rows, cols)
        degree[row_map] += row_degree
        counts[col_map] += col_counts
    bounds = bounds_of(degree), bounds_of(counts)
    known = [placed(piece, plan.storage, bounds[0], cols) for piece in pieces]
    wide = plan.duplicates in ("mean", "sum") or any(np.dtype(part.values) == np.float64 for part in known)
    maker = ShardMaker(plan, (rows, cols), bounds, known, np.dtype(np.float64 if wide else np.float32))
    _each(plan, "rows", maker.rows, range(len(bounds[0]) - 1))
    _each(plan, "columns", maker.columns, range(len(bounds[1]) - 1))
    manifest = maker.finish()
    manifest.write(plan.storage)
    _clear(plan.storage)
    return manifest


def _same_build(plan: Plan) -> None:
    """Note what is built; leftovers of another build are removed."""
    told = json.dumps([plan.source.identity, plan.duplicates]).encode()
    name = f"{FOLDER}/plan.json"
    if plan.storage.exists(name) and bytes(plan.storage.read(name)) == told:
        return
    _clear(plan.storage)
    plan.storage.write(name, told)


def _clear(storage: Storage) -> None:
    """Remove what a build leaves behind."""
    if storage.remote:
        if storage.exists(FOLDER):
            storage._system.rm(storage.path(FOLDER), recursive=True)
        return
    folder = storage.path(FOLDER)
    if os.path.isdir(folder):
        storage.remove(*(f"{FOLDER}/{name}" for name in os.listdir(folder)))
        os.rmdir(folder)


def _each(plan: Plan, stage: str, step: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """Run independent steps in threads; the first error ends the stage."""
    with ThreadPoolExecutor(plan.jobs) as pool:
        futures = [pool.submit(step, part) for part in parts]
        try:
            for done, future in enumerate(futures, 1):
                future.result()
                plan.tell(stage, done, len(parts))
        except BaseException:
            for future in futures:
                future.cancel()
            raise


@dataclass(frozen=True, eq=False)
class ShardMaker:
    """Makes shards of both axes."""

    plan: Plan
    axes: tuple[Axis, Axis]  # Ids of rows and columns
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]]  # first lines of the shards of each axis, and its length
    pieces: list[Placed]  # where their cells lie
    values: np.dtype[Any]  # Dtype of the values of all shards

    @property
    def weighted(self) -> bool:
        """Whether cells have weights."""
        return len(self.plan.source.columns) > 3

    def rows(self, shard: int) -> None:
        """Gather, sort and write one shard of rows, and its transpose for the shards of columns."""
        if self._noted(0, shard) is not None:
            return
        start, stop = (int(bound) for bound in self.bounds[0][shard : shard + 2])
        parts = [piece.cells_of(self.plan.storage, shard, self.weighted) for piece in self.pieces]
        row, col, values, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        axis = self.axes[0].take(np.arange(start, stop))
        by_row = build.compress(row - start, col, values, axis, self.axes[1], self.plan.duplicates)
        by_row = by_row.with_values(by_row.values.astype(self.values, copy=False))
        by_weight = None
        if self.weighted:
            by_weight = build.compress(row - start, col, weights, axis, self.axes[1], self.plan.duplicates)
            by_weight = by_weight.with_values(by_weight.values.astype(np.float64, copy=False))
        self._lay_aside(shard, by_row, by_weight, start)
        self._write(0, shard, by_row, None if by_weight is None else by_weight.values)

    def _lay_aside(self, shard: int, by_row: Compressed, by_weight: Compressed | None, start: int) -> None:
        """The transpose of a shard of rows: its cells by columns, with the place where each shard of columns begins."""
        turned = build.turn(by_row)
        self._put(f"{shard:06d}.cuts", turned.indptr[self.bounds[1]])
        self._put(f"{shard:06d}.major", turned.major())
        self._put(f"{shard:06d}.minor", turned.indices.astype(index_dtype(len(self.axes[0])), copy=False) + start)
        self._put(f"{shard:06d}.turned", turned.values)
        if by_weight is not None:
            self._put(f"{shard:06d}.heavy", build.turn(by_weight).values)

    def columns(self, shard: int) -> None:
        """Gather the transposes of all shards of rows in a range of columns, and write it."""
        if self._noted(1, shard) is not None:
            return
        start, stop = (int(bound) for bound in self.bounds[1][shard : shard + 2])
        cuts = [self._get(f"{k:06d}.cuts", np.int64) for k in range(len(self.bounds[0]) - 1)]
        spans = [(int(cut[shard]), int(cut[shard + 1])) for cut in cuts]

        def gather(kind: str, dtype: Any) -> Array:
            return np.concatenate([self._get(f"{k:06d}.{kind}", dtype, *span) for k, span in enumerate(spans)])

        major = gather("major", index_dtype(len(self.axes[1]))) - start
        order, indptr = by_lines(major, stop - start)
        minor = gather("minor", index_dtype(len(self.axes[0])))[order]
        values = gather("turned", self.values)[order]
        weights = gather("heavy", np.float64)[order] if self.weighted else None
        self._write(1, shard, Compressed(indptr, minor, values, len(self.axes[0])), weights)

    def _write(self, axis: int, shard: int, lines: Compressed, weights: Array | None) -> None:
        note: dict[str, Any] = {"cells": lines.n_cells}
        arrays = {"indices": lines.indices, "values": lines.values}
        if weights is not None:
            arrays["weights"] = weights
        note["files"] = {kind: self.plan.storage.write(shard_name(axis, shard, kind), a) for kind, a in arrays.items()}
        self._put(f"by{axis}-{shard:05d}.degree", np.diff(lines.indptr))
        self._put(f"by{axis}-{shard:05d}.json", json.dumps(note).encode())

    def finish(self) -> Manifest:
        """Write ids and line pointers; the manifest of everything."""
        storage, starts = self.plan.storage, []
        files: dict[str, Any] = {}
        for axis in (0, 1):
            shards = range(len(self.bounds[axis]) - 1)
            notes = [self._noted(axis, k) or {} for k in shards]
            starts.append((0, *np.cumsum([note["cells"] for note in notes]).tolist()))
            for k, note in enumerate(notes):
                files |= {shard_name(axis, k, kind): tuple(told) for kind, told in note["files"].items()}
            degree = np.concatenate([self._get(f"by{axis}-{k:05d}.degree", np.int64) for k in shards])
            indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(degree)])
            files[f"by{axis}/indptr"] = storage.write(f"by{axis}/indptr", indptr)
            files[AXES[axis]] = storage.write(AXES[axis], pack_axis(self.axes[axis]))
        shape = (len(self.axes[0]), len(self.axes[1]))
        identity = {**self.plan.source.identity, "duplicates": self.plan.duplicates}
        return Manifest(shape, starts[0][-1], self.values.name, self.weighted, (starts[0], starts[1]), files, identity)

    def _put(self, name: str, data: Any) -> None:
        self.plan.storage.write(f"{FOLDER}/{name}", data)

    def _get(self, name: str, dtype: Any, start: int = 0, stop: int | None = None) -> Array:
        size = np.dtype(dtype).itemsize
        end = None if stop is None else stop * size
        return as_array(self.plan.storage.read(f"{FOLDER}/{name}", start * size, end), dtype)

    def _noted(self, axis: int, shard: int) -> dict[str, Any] | None:
        name = f"{FOLDER}/by{axis}-{shard:05d}.json"
        return json.loads(self.plan.storage.read(name).decode()) if self.plan.storage.exists(name) else None


def write_lines(storage: Storage, axis: int, lines: Compressed, weights: Array | None) -> tuple[dict[str, Any], Any]:
    """Write one orientation of cells in memory as shards; the files and where each shard's cells begin."""
    bounds = bounds_of(np.diff(lines.indptr))
    places = lines.indptr[bounds]
    files: dict[str, Any] = {f"by{axis}/indptr": storage.write(f"by{axis}/indptr", lines.indptr)}
    arrays = {"indices": lines.indices, "values": lines.values}
    if weights is not None:
        arrays["weights"] = weights.astype(np.float64, copy=False)
    for shard, (start, stop) in enumerate(pairwise(places)):
        for kind, array in arrays.items():
            name = shard_name(axis, shard, kind)
            files[name] = storage.write(name, np.ascontiguousarray(array[start:stop]))
    return files, tuple(places.tolist())
