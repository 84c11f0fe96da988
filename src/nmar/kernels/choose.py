"""Which kernels to use."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from nmar.kernels.spec import Kernels

BACKENDS = {"numba": "nmar.kernels.numba.kernels", "reference": "nmar.kernels.reference"}


class Backend:
    """The kernels of one module, imported when they are first used; pickled by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        found = getattr(import_module(BACKENDS[self.name]), attribute, None)
        if found is None:
            raise NotImplementedError(
                f"backend={self.name!r} has no {attribute}, which this model or solver needs; use backend='auto'"
            )
        setattr(self, attribute, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return choose, (self.name,)


def choose(backend: str = "auto") -> Kernels:
    """The kernels named ``backend``: "auto" (numba), "numba", or "reference" (NumPy, slow, the definition).

    Raises
    ------
    ValueError
        For any other name, listing the ones that exist.
    """
    key = "numba" if backend == "auto" else backend
    if key not in BACKENDS:
        raise ValueError(f"backend={backend!r} is not known; use one of 'auto', {', '.join(map(repr, BACKENDS))}")
    return cast(Kernels, Backend(key))
