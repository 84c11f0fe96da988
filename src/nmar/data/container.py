"""Files of arrays and JSON without pickle and without compression: what can be said of them before memory is taken.

Enters: a stream of a zip file, from anyone. Leaves: its parts, or a :class:`FileError` that names the file and the
part. A part is read only after its length in the directory has been compared with that of the file, and an array only
after its shape has been compared with its bytes, so that a file needs no more memory than a few times its size.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

KINDS = "biufUSmM"  # of dtypes that files may hold: numbers, texts, dates
JSON_LIMIT = 1 << 26  # bytes of a part of JSON, which needs many times its length in memory
WIDEST = 1 << 20  # length of an axis of an array without entries, at most
EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every part, so that the same parts make the same file
HEADERS: dict[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, Any]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class FileError(ValueError):
    """A model file, a checkpoint or a part of a dataset that cannot be used.

    Parameters
    ----------
    path : str
        The file.
    part : str
        The part of it that is wrong; empty where it is the file itself.
    why : str
        What is wrong, and the remedy.

    Examples
    --------
    >>> import nmar
    >>> try:
    ...     nmar.load(__file__)
    ... except nmar.FileError as error:
    ...     error.part
    ''
    """

    def __init__(self, path: str, part: str, why: str) -> None:
        super().__init__(path, part, why)
        self.path, self.part, self.why = path, part, why

    def __str__(self) -> str:
        return f"path={self.path!r}{f', {self.part}' if self.part else ''}: {self.why}"


@contextmanager
def blamed(path: str, part: str) -> Iterator[None]:
    """Errors of every kind become a :class:`FileError` of this file and part; one that is none yet keeps its part."""
    try:
        yield
    except FileError as error:
        if (error.path or not path) and (error.part or not part):
            raise
        raise FileError(error.path or path, error.part or part, error.why) from error.__cause__
    except ImportError:  # of an optional package, with how to install it
        raise
    except Exception as error:
        raise FileError(path, part, str(error) or type(error).__name__) from error


class Parts:
    """The parts of a zip file without compression.

    Parameters
    ----------
    stream : binary file
        The file, which can be sought.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        size = stream.seek(0, io.SEEK_END)
        self._archive = zipfile.ZipFile(stream)
        found = self._archive.infolist()
        self.names = [one.filename for one in found]
        if len(set(self.names)) < len(found):
            raise ValueError("two parts have one name")
        for one in found:
            if one.compress_type != zipfile.ZIP_STORED or one.file_size != one.compress_size or one.flag_bits & 1:
                raise ValueError(f"{one.filename} is compressed or encrypted, which no file of ours is")
        if sum(one.file_size for one in found) > size:
            raise ValueError("its parts are longer than the file")

    def bytes(self, name: str) -> bytes:
        """A part as it is."""
        if name not in self.names:
            raise ValueError(f"there is no part {name}")
        return self._archive.read(name)

    def json(self, name: str) -> Any:
        """A part of JSON."""
        found = self.bytes(name)
        if len(found) > JSON_LIMIT:
            raise ValueError(f"{len(found)} bytes of JSON; {JSON_LIMIT} are allowed")
        return json.loads(found)

    def array(self, name: str) -> NDArray[Any]:
        """A part that is an array, in memory of its own."""
        return array_of(self.bytes(name))


def array_of(data: bytes) -> NDArray[Any]:
    """The array that the bytes of an .npy file describe, in the byte order of this machine."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"an array of format {version}; known are 1.0 and 2.0")
    shape, fortran, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read; store numbers or texts")
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        raise ValueError(f"an array of dtype {dtype}; allowed are numbers, texts and dates")
    start, count = stream.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - start:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} in {len(data) - start} bytes")
    if count == 0 and max(shape) > WIDEST:
        raise ValueError(f"an array of shape {shape} without entries")
    made = np.frombuffer(data, dtype, count, start).astype(dtype.newbyteorder("="))
    if dtype.kind == "b" and made.size and made.view(np.uint8).max() > 1:
        raise ValueError("truth values other than 0 and 1")
    return made.reshape(shape, order="F" if fortran else "C")


def write_parts(target: Any, texts: dict[str, str], arrays: list[NDArray[Any]]) -> None:
    """Write texts by name and arrays by number; the same ones give the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, text in texts.items():
            content = text.encode()
            if len(content) > JSON_LIMIT:
                raise ValueError(f"{name} has {len(content)} bytes; files hold {JSON_LIMIT} of texts and settings")
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
        for k, array in enumerate(arrays):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{k}.npy", EPOCH), buffer.getvalue())
