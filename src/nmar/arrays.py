"""The type of an array of any numbers, or of ids; on lines it may be a backend's own (``prob/arrays.py``)."""

from typing import Any

from numpy.typing import NDArray

__all__ = ["Array"]

Array = NDArray[Any]
