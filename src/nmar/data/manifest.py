"""What a folder of shards holds: the one small file that says it, and the checks it allows.

    manifest.json           shape, types, where each shard begins, length and checksum of every file
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
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.storage import Storage

NAME = "manifest.json"
FORMAT = "nmar-dataset"
VERSION = 1
AXES = ("rows.npz", "cols.npz")


@dataclass(frozen=True)
class Manifest:
    """Contents of a dataset.

    Attributes
    ----------
    shape : tuple of (int, int)
        Rows and columns, observed cells.
    cells : int
        Rows and columns, observed cells.
    values : str
        Dtype of the values.
    weighted : bool
        Whether cells have weights.
    starts : tuple of (tuple of int, tuple of int)
        For rows and for columns, the place of the first cell of each shard, and the number of cells.
    files : dict of str to tuple of (int, int)
        Length and CRC-32 of every file, by name.
    source : dict of str to object
        What it was built from.
    """

    shape: tuple[int, int]
    cells: int
    values: str
    weighted: bool
    starts: tuple[tuple[int, ...], tuple[int, ...]]
    files: Mapping[str, tuple[int, int]]
    source: Mapping[str, Any]

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

    def write(self, storage: Storage) -> None:
        """Write it, last of all files."""
        record = {"format": FORMAT, "version": VERSION, **asdict(self)}
        storage.write(NAME, json.dumps(record, indent=1).encode())


def shard_name(axis: int, shard: int, kind: str) -> str:
    """Name of a file."""
    return f"by{axis}/{shard:05d}.{kind}"


def find_manifest(storage: Storage) -> Manifest | None:
    """The manifest of a folder; None where there is none, or another program's."""
    if not storage.exists(NAME):
        return None
    try:
        record = json.loads(storage.read(NAME).decode())
    except ValueError as error:
        raise ValueError(
            f"file {storage.path(NAME)!r} is damaged: {error}; restore it, or build the dataset again"
        ) from None
    return _manifest(record, storage) if isinstance(record, dict) and record.pop("format", None) == FORMAT else None


def _manifest(record: dict[str, Any], storage: Storage) -> Manifest:
    if record.pop("version") > VERSION:
        raise ValueError(f"path={storage.path(NAME)!r} was written by a newer nmar; upgrade to read it")
    rows, cols = record["starts"]
    files = {name: (int(size), int(check)) for name, (size, check) in record["files"].items()}
    shape = (int(record["shape"][0]), int(record["shape"][1]))
    return Manifest(
        **record | {"shape": shape, "starts": (tuple(rows), tuple(cols)), "files": files},
    )


@lru_cache(maxsize=4)
def known_manifest(storage: Storage, digest: str) -> Manifest:
    """The manifest of a folder that another process has opened, which must not have changed since."""
    found = find_manifest(storage)
    if found is None or found.digest != digest:
        raise ValueError(f"the dataset {storage.url!r} is another one here; give every worker the same folder")
    return found


def check_file(manifest: Manifest, storage: Storage, name: str) -> None:
    """Refuse a file that is missing, or not what was written."""
    size, check = manifest.files[name]
    found = storage.size(name)
    if found != size:
        raise ValueError(
            f"file {storage.path(name)!r} is damaged: {found} bytes instead of {size}; restore it, or build the"
            " dataset again"
        )
    if storage.checksum(name) != check:
        raise ValueError(
            f"file {storage.path(name)!r} is damaged: its checksum is wrong; restore it, or build the dataset again"
        )


def pack_axis(axis: Axis) -> bytes:
    """An axis as the bytes of an npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **axis.to_arrays())  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack_axis(data: bytes | bytearray) -> Axis:
    """The inverse of :func:`pack_axis`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
    return Axis.from_arrays(arrays)
