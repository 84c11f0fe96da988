"""What model files and checkpoints may hold: the types, the ranges and the shapes of every record.

Enters: a record just read from a file. Leaves: nothing, or an error that names the field. The type of a field is that
of its dataclass. Beside it a number is finite, and the tables below say more:

- ``RANGES``: between which numbers all entries of a field lie.
- ``SHAPES``: lengths of arrays and tuples, one letter for each axis. A capital letter is one number in the whole model
  (K factors of the pattern, D coordinates or clusters, G styles). A small letter is one number on each axis of the
  matrix (n lines, f covariates); all others are one in each record. ``D+`` is D (D + 1) / 2, ``*`` any length; ``|``
  separates alternatives. The shape of a factor is that of each of its arrays.
- ``PAIRS``: fields with one part for rows and one for columns.

A record of a user's own is checked by its types alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from nmar.data.axis import Axis
from nmar.posterior.learned_estimator import is_estimator
from nmar.prob.factor import NormalFactor, unpack
from nmar.prob.tree import arrays_of

INF = math.inf
POSITIVE, NOT_NEGATIVE, SHARE, AXIS = (1e-300, INF), (0.0, INF), (0.0, 1.0 + 1e-6), (0, 1)
BLOCK = 1 << 14  # lines whose covariances are checked at a time
MOST = 1 << 20  # whole numbers that say how many there are of something

RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "Assignment": {"probability": SHARE},
    "Bilinear": {"rank": (0, MOST), "steps": (0, MOST)},
    "ClusterModel": {"clusters": (1, MOST), "axis": AXIS, "concentration": POSITIVE, "tries": (0, MOST)},
    "ClusterCoefficients": {"spread": NOT_NEGATIVE, "ridge": POSITIVE, "concentration": POSITIVE},
    "CutPoints": {"shares": SHARE, "axis": AXIS},
    "DesignedAssignment": {"probability": SHARE},
    "DesignedProfile": {"variance": NOT_NEGATIVE},
    "Detection": {"variance": NOT_NEGATIVE},
    "Element": {"trials": (1, 2**53), "strength": POSITIVE},
    "GammaFactor": {"alpha": NOT_NEGATIVE, "beta": POSITIVE},
    "Law": {"lead": AXIS},
    "Levels": {"shares": SHARE},
    "LineCoefficients": {"spread": NOT_NEGATIVE, "ridge": NOT_NEGATIVE},
    "Mechanism": {"spreads": NOT_NEGATIVE},
    "Memory": {"steps": (0, 2**53), "lines": (0, 2**53)},
    "MixtureShared": {"concentration": POSITIVE},
    "Noise": {"shapes": POSITIVE, "freedom": NOT_NEGATIVE, "waits": (0, MOST)},
    "NormalElement": {"strength": POSITIVE, "shape": POSITIVE, "rate": POSITIVE},
    "NormalProfile": {"variance": NOT_NEGATIVE},
    "NormalShared": {"variance": NOT_NEGATIVE},
    "PatternSide": {"activity": POSITIVE},
    "Priors": {"variance": NOT_NEGATIVE, "lead": AXIS},
    "Product": {"rank": (1, MOST), "shape": POSITIVE, "scale_shape": POSITIVE, "scale_rate": POSITIVE},
    "Shared": {
        "dispersion": POSITIVE,
        "scale": POSITIVE,
        "rate": NOT_NEGATIVE,
        "table_size": (1, 1 << 14),
        "shapes": POSITIVE,
    },
    "ProductSide": {"weights": POSITIVE, "scale": POSITIVE},
    "Side": {"noise": POSITIVE},
    "Styles": {"probability": SHARE},
    "Taste": {"scale": POSITIVE},
    "Units": {"scale": POSITIVE},
}

SHAPES: dict[str, dict[str, str]] = {
    "Assignment": {"probability": "n D"},
    "ClusterCoefficients": {
        "level": "D", "mean": "D k", "spread": "k", "basis": "k k", "eigenvalues": "k",
    },
    "Coordinates": {"free": "D", "constant": "D", "learned": "D", "known": "n D"},
    "CutPoints": {"cuts": "G c", "shares": "G"},
    "Design": {"ids": "m", "x": "m f", "names": "f"},
    "DesignedAssignment": {"probability": "n D", "x": "n f"},
    "DesignedLines": {"mean": "n D", "spread": "n D|n D+", "log_det": "n", "x": "n f"},
    "DesignedProfile": {"mean": "n D", "variance": "n D", "x": "n f"},
    "Detection": {"mean": "n", "variance": "n"},
    "KnownLines": {"shown": "n *"},
    "LevelDesign": {"ids": "m", "x": "m k", "names": "k"},
    "Levels": {"labels": "l", "shares": "l"},
    "LineCoefficients": {"mean": "D f", "spread": "D f", "basis": "f f", "eigenvalues": "f", "ridge": "D"},
    "MixtureShared": {"concentration": "D"},
    "NormalFactor": {"mean": "n D", "spread": "n D|n D+", "log_det": "n"},
    "NormalProfile": {"mean": "n D", "variance": "n D"},
    "NormalShared": {"precision": "1"},
    "PatternSide": {"weights": "n K", "activity": "n"},
    "Priors": {"mean": "D", "variance": "D"},
    "ProductSide": {"weights": "n D", "scale": "n"},
    "Scale": {"values": "s", "scores": "s"},
    "Side": {"noise": "n"},
    "Statistics": {"names": "v", "vectors": "v *"},
    "Styles": {"probability": "n G"},
    "Taste": {"center": "t", "scale": "t"},
}  # fmt: skip

PAIRS = {
    "Bilinear": ("axes",),
    "Pattern": ("designs",),
    "Priors": ("mean", "variance", "coefficients"),
    "State": ("sides",),
}
INFINITE = {("Progress", "best_score"), ("Support", "low"), ("Support", "high")}  # fields that may be
MISSING = {"CovariateTable", "Learner", "Regression", "Regressor", "RegressorShared"}  # whose arrays may hold NaN
OF_AXIS = "nf"  # letters that are one number on each axis
LONG = {"seed", "number"}  # whole numbers of any length


# --- one record -----------------------------------------------------------------------------------------------------


def checked(kind: type, fields: dict[str, Any], ours: bool) -> Any:
    """The record of a class with these fields, which a file gave; its own checks come last."""
    expected = [f for f in dataclasses.fields(kind) if f.init and not f.metadata.get("derived")]
    names = {f.name for f in expected}
    if unknown := sorted(set(fields) - names):
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
    needed = {f.name for f in expected if f.default is f.default_factory is dataclasses.MISSING}
    if missing := sorted(needed - set(fields)):
        raise ValueError(f"{kind.__name__} lacks its field {missing[0]!r}")
    hints = _hints(kind)
    for name, value in fields.items():
        where = f"{kind.__name__}.{name}"
        if not _fits(value, hints.get(name, Any)):
            raise ValueError(f"{where} is {_shown(value)}, not {_told(hints[name])}")
        if ours:
            range_of = RANGES.get(kind.__name__, {}).get(name)
            low, high = range_of or (-INF, INF)
            for part in _leaves(value) if range_of is None else (*_leaves(value), *arrays_of(value)):
                _check_numbers(part, low, high, where, kind.__name__, name)
    return kind(**fields)


@cache
def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):  # of a user's class: names of its module that are not there at run time
        return {}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field declares."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in args)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if args[-1:] == (Ellipsis,):
            return all(_fits(one, args[0]) for one in value)
        return len(args) == len(value) and all(map(_fits, value, args))
    if hint is None or hint is NoneType:
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _leaves(value: Any) -> Iterator[Any]:
    """Numbers and arrays of a value, through tuples; records were checked when they were made."""
    if isinstance(value, tuple):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, np.ndarray | int | float) and not isinstance(value, bool):
        yield value


def _check_numbers(part: Any, low: float, high: float, where: str, record: str, name: str) -> None:
    if isinstance(part, np.ndarray):
        if part.dtype.kind not in "iuf" or not part.size:
            return
        least, most = float(part.min()), float(part.max())  # NaN, where there is one
        nan = record in MISSING
    else:
        if isinstance(part, int) and abs(part) >= 2**63 and name not in LONG:
            raise ValueError(f"{where} is a whole number of {part.bit_length()} bits")
        least, most, nan = (part, part, False) if isinstance(part, int) else (float(part), float(part), False)
    infinite = nan or (record, name) in INFINITE
    if not infinite and not (least > -INF and most < INF):
        raise ValueError(f"{where} is not finite")
    if least < low or most > high:
        outside = least if least < low else most
        raise ValueError(f"{where} has {outside:g}, outside {low:g} … {high:g}")


def _shown(value: Any) -> str:
    return repr(value)[:40] if isinstance(value, bool | int | float | str | NoneType) else f"of {type(value).__name__}"


def _told(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint).replace("typing.", "")


# --- shapes -----------------------------------------------------------------------------------------------------------


class Lengths:
    """Which number each letter stands for: those of the model, and those of the axis or record at hand."""

    def __init__(self, model: dict[str, int], axes: tuple[dict[str, int], dict[str, int]]) -> None:
        self.model, self.axes = model, axes

    def agree(self, shape: tuple[int, ...], pattern: str, here: dict[str, int]) -> bool:
        """Whether a shape is what one of the alternatives says; letters that were free are bound."""
        for option in pattern.split("|"):
            letters, bound = option.split(), dict(self.model | here)
            if len(letters) == len(shape) and all(map(self._one, letters, shape, [bound] * len(shape))):
                self.model.update({k: v for k, v in bound.items() if k.isupper()})
                here.update({k: v for k, v in bound.items() if k.islower()})
                return True
        return False

    @staticmethod
    def _one(letter: str, size: int, bound: dict[str, int]) -> bool:
        if letter == "*":
            return True
        if letter.isdigit():
            return size == int(letter)
        if letter.endswith("+"):
            d = bound.get(letter[:-1], -1)
            return size == d * (d + 1) // 2
        return bound.setdefault(letter, size) == size


def check_shapes(record: Any, shape: tuple[int, int] | None = None) -> None:
    """Refuse a tree of records whose arrays do not fit each other, or a matrix of this shape."""
    axes = ({}, {}) if shape is None else ({"n": shape[0]}, {"n": shape[1]})
    _walk(record, Lengths({}, axes), None, type(record).__name__)


def _walk(value: Any, lengths: Lengths, axis: int | None, path: str) -> None:
    if isinstance(value, tuple):
        for k, one in enumerate(value):
            _walk(one, lengths, axis, f"{path}[{k}]")
        return
    if not dataclasses.is_dataclass(value) or isinstance(value, type | Axis) or is_estimator(value):
        return
    name = type(value).__name__
    here = {} if axis is None else dict(lengths.axes[axis])
    for field, pattern in SHAPES.get(name, {}).items():
        pair = field in PAIRS.get(name, ())
        for part in getattr(value, field) if pair else (getattr(value, field),):
            _check_part(part, pattern, lengths, here, f"{path}.{field}")
    if axis is not None:
        lengths.axes[axis].update({k: v for k, v in here.items() if k in OF_AXIS})
    if isinstance(value, NormalFactor):
        _check_covariances(value, path)
    for one in dataclasses.fields(value):
        inner = getattr(value, one.name)
        if one.name in PAIRS.get(name, ()) and isinstance(inner, tuple):
            for k, each in enumerate(inner):
                _walk(each, lengths, k, f"{path}.{one.name}[{k}]")
        else:
            _walk(inner, lengths, axis, f"{path}.{one.name}")


def _check_covariances(factor: NormalFactor, path: str) -> None:
    """Refuse covariances of lines that are none: a sum of coordinates would have a variance below 0."""
    size = factor.mean.shape[1]
    for start in range(0, len(factor.mean), BLOCK):
        part = factor.take(slice(start, start + BLOCK))
        variances = part.variances.astype(np.float64)
        wrong = bool((variances < 0.0).any())
        if not wrong and not part.diagonal:
            near = 1e-6 * variances.max(axis=1, initial=1e-300)[:, None, None] * np.eye(size)
            try:
                np.linalg.cholesky(unpack(part.spread.astype(np.float64), size) + near)
            except np.linalg.LinAlgError:
                wrong = True
        if wrong:
            raise ValueError(f"{path}.spread holds no covariances")


def _check_part(part: Any, pattern: str, lengths: Lengths, here: dict[str, int], path: str) -> None:
    """One field: an array, a tuple, an axis, or a factor of arrays."""
    if part is None:
        return
    if dataclasses.is_dataclass(part) and not isinstance(part, Axis):
        for one in dataclasses.fields(part):
            _check_part(getattr(part, one.name), pattern, lengths, here, f"{path}.{one.name}")
        return
    if isinstance(part, np.ndarray) and part.dtype not in (np.float32, np.float64):
        raise ValueError(f"{path} is of {part.dtype}, not of float32 or float64")
    shape = part.shape if isinstance(part, np.ndarray) else (len(part),) if isinstance(part, tuple | Axis) else None
    if shape is None:
        raise ValueError(f"{path} is of {type(part).__name__}, not an array")
    if not lengths.agree(shape, pattern, here):
        known = {k: v for k, v in (lengths.model | here).items() if k in pattern}
        told = ", ".join(f"{k} = {v}" for k, v in known.items())
        raise ValueError(f"{path} has the shape {shape}, not ({pattern}){f' with {told}' if told else ''}")
