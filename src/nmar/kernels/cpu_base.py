"""How the compiled kernels are compiled."""

from __future__ import annotations

import numba as nb

FAST = {"reassoc", "contract", "nsz", "arcp"}  # infinities and NaN keep their meaning

compiled = nb.njit(cache=True, nogil=True, error_model="numpy")
fast = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
vectorised = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
exact = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
inlined = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST, forceinline=True)
