"""How the compiled kernels are compiled, and kept on disk.

Numba takes a kept function for up to date while the text of its own file is the same. Machine code also holds what a
function calls and the constants it reads, wherever they are from, and with older ones it would read and write past its
arrays. The kernels are therefore kept under a stamp of all their sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba as nb
from numba.core.caching import FunctionCache, IndexDataCacheFile

FAST = {"reassoc", "contract", "nsz", "arcp"}  # infinities and NaN keep their meaning
ALWAYS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
INNER = {"no_cpython_wrapper": True}  # called by compiled code alone: no way in from Python has to be compiled


def stamp_of_sources() -> str:
    """A hash of all that kernels are compiled from."""
    folders = (files(package) for package in ("nmar.kernels", "nmar.kernels.numba"))
    sources = sorted((file for folder in folders for file in folder.iterdir() if file.name.endswith(".py")), key=str)
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()


class KernelFiles(IndexDataCacheFile):
    """Files of the compiled signatures of a function, each named by its key.

    Numba numbers them; two processes that compile two signatures at once may then take the same number, and the index
    name the other's code.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep the code of a signature; a process that reads the index finds it whole."""
        name = f"{self._index_name.removesuffix('.nbi')}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class KernelCache(FunctionCache):
    """Compiled functions on disk, in files that are named by the sources of all kernels.

    An index names the records that loops are given. Under a name of its own, one from before a record was moved is
    never read: it could not be.
    """

    stamp = stamp_of_sources()

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base, locator = self._impl.filename_base, self._impl.locator
        name = f"{base}.{self.stamp[:16]}"
        self._cache_file = KernelFiles(self._cache_path, name, locator.get_source_stamp())


def kept_code() -> tuple[Path, int] | None:
    """Folder of the compiled functions, and how many of the present kernels are there; None where nothing is kept."""
    try:
        folder = Path(KernelCache(_compiler)._cache_path)  # as for any function of this folder
    except RuntimeError:
        return None
    return folder, len(list(folder.glob(f"*.{KernelCache.stamp[:16]}.nbi")))


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that compiles a function; the GIL is released, and division by zero gives infinity."""

    def compile_kept(function: Callable[..., Any]) -> Any:
        dispatcher = nb.njit(**ALWAYS, **options)(function)
        with suppress(RuntimeError):  # nowhere to write: compiled anew in each process
            dispatcher._cache = KernelCache(function)
        return dispatcher

    return compile_kept


entry = _compiler()
fast_entry = _compiler(fastmath=FAST)
compiled = _compiler(**INNER)
fast = _compiler(fastmath=FAST, **INNER)
vectorised = _compiler(fastmath={"contract", "nsz", "arcp"}, **INNER)
exact = _compiler(fastmath={"contract"}, forceinline=True, **INNER)
inlined = _compiler(fastmath=FAST, forceinline=True, **INNER)
