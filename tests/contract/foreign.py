"""A backend whose arrays are not NumPy's, as those of a device would be.

Its loops are the reference ones; what it adds is refusal. A ``Foreign`` array comes to the host by nothing but
``fetch``, takes part only in the NumPy functions listed in FUNCTIONS (docs/architecture.md), and meets arrays of the
host only where these have no line axis. ``FETCHED`` and ``PLACED`` note the shapes of what crossed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from nmar.kernels import layout, reference

name = "foreign"
own_memory = True

FETCHED: list[tuple[int, ...]] = []
PLACED: list[tuple[int, ...]] = []

FUNCTIONS = {
    np.concatenate, np.copy, np.cumsum, np.diff, np.einsum, np.empty, np.empty_like, np.full_like, np.linalg.inv,
    np.linalg.slogdet, np.max, np.mean, np.min, np.moveaxis, np.ones_like, np.repeat, np.stack, np.sum, np.take,
    np.where, np.zeros, np.zeros_like,
}  # fmt: skip


class Foreign(NDArrayOperatorsMixin):
    """An array in memory that the host cannot read."""

    def __init__(self, data: Any) -> None:
        self._data = np.asarray(data)

    def fetch(self) -> np.ndarray:
        """The array on the host: the only way back."""
        FETCHED.append(self._data.shape)
        return self._data.copy()

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("an array of the backend was converted to NumPy's without being asked to")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method not in ("__call__", "reduce"):
            raise TypeError(f"{ufunc.__name__}.{method} is nothing that arrays of a backend must know")
        if ufunc is not np.matmul:  # small matrices of the host may multiply lines
            _check_meeting(inputs)
        if out is not None:
            kwargs["out"] = _inside(out)
        return _outside(getattr(ufunc, method)(*_inside(inputs), **kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in FUNCTIONS:
            raise TypeError(f"{function.__name__} is nothing that arrays of a backend must know (docs/architecture.md)")
        if function is np.where:
            _check_meeting(args)
        return _outside(function(*_inside(args), **_inside(kwargs)))

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    T = property(lambda self: Foreign(self._data.T))

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Any:
        return (Foreign(each) for each in self._data)

    def __float__(self) -> float:
        if self._data.size != 1:
            raise TypeError("only a single number can be asked for")
        return float(self._data)

    def __getitem__(self, which: Any) -> Foreign:
        return Foreign(self._data[_inside(which)])

    def __setitem__(self, which: Any, value: Any) -> None:
        _check_meeting((Foreign(self._data[_inside(which)]), value))
        self._data[_inside(which)] = _inside(value)

    def astype(self, dtype: Any, copy: bool = True) -> Foreign:
        return Foreign(self._data.astype(dtype, copy=copy))

    def sum(self, *args: Any, **kwargs: Any) -> Foreign:
        return np.sum(self, *args, **kwargs)

    def mean(self, *args: Any, **kwargs: Any) -> Foreign:
        return np.mean(self, *args, **kwargs)

    def max(self, *args: Any, **kwargs: Any) -> Foreign:
        return np.max(self, *args, **kwargs)


def _check_meeting(operands: tuple[Any, ...]) -> None:
    """Refuse arrays of the host that have the line axis of a foreign one."""
    ndim = max(each.ndim for each in operands if isinstance(each, Foreign))
    for each in operands:
        if isinstance(each, np.ndarray) and each.ndim >= max(ndim, 1) and each.shape[0] > 1:
            raise TypeError(f"an array of the host of shape {each.shape} met lines of the backend; place it first")


def _inside(value: Any) -> Any:
    """Arrays as the loops below read them."""
    if isinstance(value, Foreign):
        return value._data
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_inside, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_inside, value))
    if isinstance(value, dict):
        return {key: _inside(each) for key, each in value.items()}
    return value


def _outside(value: Any) -> Any:
    """What the loops leave, in foreign arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return Foreign(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_outside, value))
    if isinstance(value, tuple):
        return tuple(map(_outside, value))
    return value


def place(array: np.ndarray) -> Foreign:
    PLACED.append(array.shape)
    return Foreign(array.copy())


def empty(shape: tuple[int, ...], dtype: Any) -> Foreign:
    return Foreign(layout.empty(shape, dtype))


def bare_view(log_weights: Foreign, weights: Foreign) -> Any:
    return layout.bare_view(_inside(log_weights), _inside(weights))


def empty_view(log_weights: Foreign, sizes: tuple[int, int, int], room: Any) -> Any:
    return layout.empty_view(_inside(log_weights), sizes, lambda shape, dtype: _inside(room(shape, dtype)))


def empty_vectors(n: int, width: int, dtype: Any, room: Any) -> Foreign:
    return Foreign(layout.empty_vectors(n, width, dtype, lambda shape, kind: _inside(room(shape, kind))))


def _foreign(function: Any) -> Any:
    """A function of the reference, from foreign arrays to foreign arrays."""

    def run(*given: Any) -> Any:
        return _outside(function(*_inside(given)))

    return run


def statistics(*given: Any) -> Any:
    return reference.statistics(*_inside(given))  # n-vectors are the host's


for _name in ("fill_view", "refill_view", "gather_first"):
    globals()[_name] = _foreign(getattr(layout, _name))
for _name in ("expect", "weigh", "solve_normal", "descend", "add_lines", "update_gamma", "tabulate"):
    globals()[_name] = _foreign(getattr(reference, _name))
