"""The check of compressed sparse arrays that come from a file.

Enters: line pointers, positions and values as a file holds them. Leaves: nothing, or an error that names the part.
Compiled loops, ours and scipy's, read memory where these arrays point, so nothing is made of them before this check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.compact import all_finite

FEW_LINES = 1 << 24  # rows or columns of a matrix in a file with few entries, at most: each line takes memory


def check_structure(
    indptr: Any,
    indices: Any,
    values: Any,
    shape: tuple[int, int],
    where: str,
    remedy: str,
    *,
    weights: Any = None,
    strict: bool = False,
) -> None:
    """Refuse compressed sparse arrays that do not describe a matrix.

    Parameters
    ----------
    indptr : array of int
        Where the entries of each line begin, and the number of entries.
    indices : array of int
        Position of each entry on the other axis.
    values : array of numbers
        Value of each entry.
    shape : tuple of int
        Number of lines, and length of the other axis.
    where : str
        What the error calls the arrays, with the file; empty where its caller says it.
    remedy : str
        What the error says to do.
    weights : array of float, optional
        Weight of each entry. Weights are finite and at least 0.
    strict : bool
        Whether positions have to rise within a line, so that no entry occurs twice, and values have to be finite.

    Raises
    ------
    ValueError
        If an array is of the wrong kind or length, or points outside the others.

    Examples
    --------
    >>> import numpy as np
    >>> from nmar.data.structure import check_structure
    >>> check_structure(np.array([0, 1]), np.array([7]), np.ones(1), (1, 5), "file 'a.npz'", "write it again")
    Traceback (most recent call last):
    ...
    ValueError: file 'a.npz': indices has 7 at place 0, outside 0 … 4; write it again
    """
    wrong = _wrong_pointers(indptr, len(indices) if _is_flat(indices, "iu") else -1, shape[0])
    wrong = wrong or _wrong_positions(indptr, indices, shape[1], strict) or _wrong_numbers(values, indices, strict)
    if not wrong and weights is not None:
        wrong = _wrong_weights(weights, indices)
    if wrong:
        raise ValueError(f"{where}{': ' if where else ''}{wrong}; {remedy}")


def _is_flat(array: Any, kinds: str) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in kinds


def _kind(array: Any) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__


def _wrong_pointers(indptr: Any, entries: int, lines: int) -> str:
    """What is wrong with line pointers, or nothing."""
    if not _is_flat(indptr, "iu"):
        return f"indptr is {_kind(indptr)}, not a list of integers"
    if len(indptr) != lines + 1:
        return f"indptr has {len(indptr)} entries, and {lines} lines need {lines + 1}"
    if indptr[0] != 0:
        return f"indptr begins with {indptr[0]}, not 0"
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        place = int(np.argmax(falls))
        return f"indptr falls from {indptr[place]} to {indptr[place + 1]} at line {place}"
    if entries >= 0 and indptr[-1] != entries:
        return f"indptr ends with {indptr[-1]}, and there are {entries} indices"
    return ""


def _wrong_positions(indptr: NDArray[Any], indices: Any, size: int, ordered: bool) -> str:
    """What is wrong with positions on the other axis, or nothing."""
    if not _is_flat(indices, "iu"):
        return f"indices is {_kind(indices)}, not a list of integers"
    if len(indices) == 0:
        return ""
    for place in (int(np.argmin(indices)), int(np.argmax(indices))):
        if not 0 <= int(indices[place]) < size:
            return f"indices has {indices[place]} at place {place}, outside 0 … {size - 1}"
    if ordered:
        stays = indices[1:] <= indices[:-1]
        first = indptr[1:-1]  # a line may begin anywhere
        stays[first[(first > 0) & (first < len(indices))] - 1] = False
        if stays.any():
            place = int(np.argmax(stays))
            return f"indices does not rise within a line: {indices[place]}, then {indices[place + 1]} at place {place}"
    return ""


def _wrong_numbers(values: Any, indices: NDArray[Any], finite: bool, name: str = "values") -> str:
    """What is wrong with numbers of entries, or nothing."""
    if not _is_flat(values, "biuf"):
        return f"{name} is {_kind(values)}, not a list of numbers"
    if len(values) != len(indices):
        return f"there are {len(values)} {name} for {len(indices)} indices"
    if finite and not all_finite(values):
        place = int(np.argmin(np.isfinite(values)))
        return f"{name} has {values[place]} at place {place}"
    return ""


def _wrong_weights(weights: Any, indices: NDArray[Any]) -> str:
    """What is wrong with weights of entries, or nothing."""
    wrong = _wrong_numbers(weights, indices, True, "weights")
    if not wrong and len(weights) and weights.min() < 0:
        place = int(np.argmin(weights))
        return f"weights has {weights[place]} at place {place}, below 0"
    return wrong
