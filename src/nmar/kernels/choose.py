"""Which kernels to use."""

from __future__ import annotations

from importlib import import_module

from nmar.kernels.spec import Kernels

BACKENDS = {"numba": "nmar.kernels.cpu", "reference": "nmar.kernels.reference"}


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
    return import_module(BACKENDS[key])  # type: ignore[return-value]
