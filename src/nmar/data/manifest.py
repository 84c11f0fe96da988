"""What a folder of shards holds: the one small file that says it, and the checks it allows.

    manifest.json           shape, types, where each shard begins, length and checksum of every file, its own checksum
    rows.npz, cols.npz      the ids
    by0/indptr              int64, where the cells of each row begin
    by0/00000.indices …     positions on the other axis, int32 (int64 from 2³¹ lines on), shard after shard
    by0/00000.values …      float32 where that holds every value, else float64
    by0/00000.weights …     float64, where cells have weights
    by1/…                   the same by columns

Files are plain arrays without a header, little-endian, so that any range of lines is a range of bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.compressed import index_dtype
from nmar.data.container import Parts, blamed
from nmar.data.storage import Storage, as_array

NAME = "manifest.json"
FORMAT = "nmar-dataset"
VERSION = 2  # 2: the manifest has a checksum of its own
AXES = ("rows.npz", "cols.npz")
VALUES = {"float32": 4, "float64": 8}  # bytes of a value by its dtype
REMEDY = "restore it, or build the dataset again"


@dataclass(frozen=True)
class Manifest:
    """Contents of a dataset."""

    shape: tuple[int, int]  # number of rows and of columns
    cells: int  # number of observed cells
    values: str  # Dtype of the values
    weighted: bool  # whether cells have weights
    # for rows and for columns, the place of the first cell of each shard, and the number of cells
    starts: tuple[tuple[int, ...], tuple[int, ...]]
    files: Mapping[str, tuple[int, int]]  # length and CRC-32 of every file, by name
    source: Mapping[str, Any]  # what it was built from

    @property
    def digest(self) -> str:
        """A digest of the contents: two datasets with the same one hold the same cells."""
        told = (self.shape, self.cells, self.values, self.weighted, self.starts, sorted(self.files.items()))
        return hashlib.sha256(repr(told).encode()).hexdigest()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Arrays of each shard."""
        return ("indices", "values", "weights") if self.weighted else ("indices", "values")

    def names(self, axis: int, kind: str) -> tuple[str, ...]:
        """Files of one array, in order."""
        return tuple(shard_name(axis, shard, kind) for shard in range(len(self.starts[axis]) - 1))

    @property
    def record(self) -> dict[str, Any]:
        """The manifest as JSON holds it, without its checksum."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    def write(self, storage: Storage) -> None:
        """Write it, last of all files."""
        record = self.record
        storage.write(NAME, json.dumps({**record, "checksum": checksum_of(record)}, indent=1).encode())


@dataclass(frozen=True, eq=False)
class CheckedFiles:
    """Files of a dataset. Each is compared with its checksum before this process reads it for the first time."""

    storage: Storage  # the folder
    manifest: Manifest  # lengths and checksums
    _checked: set[str] = field(default_factory=set)
    _pointers: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """Where a file lies."""
        return self.storage.path(name)

    def read(self, name: str) -> bytearray:
        """A whole file."""
        self._first(name)
        return self.storage.read(name)

    def read_into(self, name: str, start: int, target: memoryview, ahead: int = 0) -> None:
        """Fill ``target`` with the bytes of a file from ``start`` on; ``ahead`` bytes more will be needed soon."""
        self._first(name)
        self.storage.read_into(name, start, target, ahead)

    def pointers(self, axis: int) -> NDArray[np.int64]:
        """Where the cells of each line begin; mapped, so that processes of one machine share it."""
        if axis not in self._pointers:
            name, cells = f"by{axis}/indptr", self.manifest.cells
            self.check(name)
            if self.storage.remote:
                made = as_array(self.storage.read(name), np.int64)
            else:
                made = np.asarray(np.memmap(self.storage.path(name), np.int64, "r"))
            if made[0] != 0 or made[-1] != cells or (made[1:] < made[:-1]).any():
                raise ValueError(f"file {self.path(name)!r} is damaged: it does not rise from 0 to {cells}; {REMEDY}")
            self._pointers[axis] = made
        return self._pointers[axis]

    def check(self, name: str) -> None:
        """Refuse a file that is missing, or not what was written."""
        if name not in self.manifest.files:
            raise ValueError(f"file {self.path(NAME)!r} is damaged: it has no checksum of {name}; {REMEDY}")
        size, check = self.manifest.files[name]
        found = self.storage.size(name)
        if found != size:
            raise ValueError(f"file {self.path(name)!r} is damaged: {found} bytes instead of {size}; {REMEDY}")
        if self.storage.checksum(name) != check:
            raise ValueError(f"file {self.path(name)!r} is damaged: its checksum is wrong; {REMEDY}")
        self._checked.add(name)

    def _first(self, name: str) -> None:
        if name not in self._checked:
            self.check(name)


def checksum_of(record: Mapping[str, Any]) -> str:
    """A digest of the manifest that does not depend on how its JSON is laid out."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def shard_name(axis: int, shard: int, kind: str) -> str:
    """Name of a file."""
    return f"by{axis}/{shard:05d}.{kind}"


def find_manifest(storage: Storage) -> Manifest | None:
    """The manifest of a folder; None where there is none, or another program's."""
    if not storage.exists(NAME):
        return None
    try:
        record = json.loads(storage.read(NAME).decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(storage, str(error)) from None
    if not isinstance(record, dict) or record.pop("format", None) != FORMAT:
        return None
    version = record.pop("version", None)
    if version != VERSION:
        age = "a newer" if isinstance(version, int) and version > VERSION else "an older"
        how = "upgrade to read it" if age == "a newer" else "build the dataset again"
        raise ValueError(f"file {storage.path(NAME)!r} was written by {age} nmar; {how}")
    check = record.pop("checksum", None)
    try:
        made = _manifest(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _damaged(storage, f"{type(error).__name__}: {error}") from None
    if check != checksum_of({"format": FORMAT, "version": VERSION, **record}):
        raise _damaged(storage, "its checksum is wrong")
    return made


def _damaged(storage: Storage, why: str) -> ValueError:
    return ValueError(f"file {storage.path(NAME)!r} is damaged: {why}; {REMEDY}")


def _manifest(record: dict[str, Any]) -> Manifest:
    """A manifest whose parts agree with each other."""
    rows, cols = (tuple(int(place) for place in places) for places in record["starts"])
    files = {str(name): (int(size), int(check)) for name, (size, check) in record["files"].items()}
    shape = (int(record["shape"][0]), int(record["shape"][1]))
    made = Manifest(**record | {"shape": shape, "starts": (rows, cols), "files": files})
    if min(shape) < 1 or type(made.cells) is not int or made.cells < 1 or type(made.weighted) is not bool:
        raise ValueError(f"{made.cells} cells of shape {shape}, weighted={made.weighted!r}")
    if made.values not in VALUES or not isinstance(made.source, dict):
        raise ValueError(f"values={made.values!r}")
    for axis, starts in enumerate((rows, cols)):
        if starts[:1] != (0,) or starts[-1] != made.cells or any(b < a for a, b in pairwise(starts)):
            raise ValueError(f"shards of axis {axis} begin at {starts}, and there are {made.cells} cells")
    if wrong := [name for name, size in _lengths(made).items() if files.get(name, (-1, 0))[0] != size]:
        raise ValueError(f"the length of {wrong[0]} is not that of its cells")
    return made


def _lengths(made: Manifest) -> dict[str, int]:
    """Length in bytes of each array that the manifest describes."""
    found = {}
    for axis in (0, 1):
        found[f"by{axis}/indptr"] = 8 * (made.shape[axis] + 1)
        width = {"indices": np.dtype(index_dtype(made.shape[1 - axis])).itemsize, "values": VALUES.get(made.values, 0)}
        for kind in made.kinds:
            for name, (start, stop) in zip(made.names(axis, kind), pairwise(made.starts[axis]), strict=True):
                found[name] = (stop - start) * width.get(kind, 8)
    return found


@lru_cache(maxsize=4)
def known_files(storage: Storage, digest: str) -> CheckedFiles:
    """The files of a folder that another process has opened, which must not have changed since."""
    found = find_manifest(storage)
    if found is None or found.digest != digest:
        raise ValueError(f"the dataset {storage.url!r} is another one here; give every worker the same folder")
    return CheckedFiles(storage, found)


def pack_axis(axis: Axis) -> bytes:
    """An axis as the bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **axis.to_arrays())  # type: ignore[arg-type]
    return buffer.getvalue()


def read_axis(files: Storage | CheckedFiles, name: str) -> Axis:
    """The ids in a file of a folder, as :func:`pack_axis` made it."""
    with blamed(files.path(name), "ids"):
        parts = Parts(io.BytesIO(files.read(name)))
        return Axis.from_arrays({part.removesuffix(".npy"): parts.array(part) for part in parts.names})
