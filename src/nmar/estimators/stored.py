"""Model files: what a fitted :class:`nmar.CCPF` writes, and what it is when it is read back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import fields, replace
from types import NoneType
from typing import Any

import numpy as np

from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.compact import compact
from nmar.data.compressed import Compressed, index_dtype
from nmar.data.container import blamed
from nmar.data.covariates import CovariateTable
from nmar.data.structure import check_structure
from nmar.fit.result import Choice
from nmar.models.protocol import DataModel
from nmar.posterior.posterior import Posterior, mean_and_variance
from nmar.posterior.schema import check_shapes

TRACE = ("bound_trace_", "valid_trace_", "seconds_trace_", "stop_reason_")
LEFT_OUT = ("propensity",)  # parameters that a fitted model no longer needs
REMEDY = "save the model again, or get an undamaged copy of the file"


def record_of(model: Any, seen: bool) -> tuple[Any, ...]:
    """What a file holds of a fitted model, with its training cells where they are ``seen``."""
    known = model._fitted()
    params = {name: value for name, value in model.get_params(deep=False).items() if name not in LEFT_OUT}
    if not isinstance(params["random_state"], int):  # a generator has moved on, and None says nothing
        del params["random_state"]
    for part in ("data", "pattern"):
        params[part] = _portable(params[part], known)
    trace = {name: getattr(model, name) for name in TRACE}
    trace["seconds_trace_"] = np.full(len(trace["seconds_trace_"]), np.nan)  # equal fits give equal files
    return known, tuple(trace.values()), tuple(params.items()), tuple(_more(model, seen).items())


def _more(model: Any, seen: bool) -> dict[str, Any]:
    """What else belongs to the model, where it has it."""
    has = model.__dict__
    more: dict[str, Any] = {name: has[name] for name in ("n_features_in_", "effective_cells_") if name in has}
    if "feature_names_in_" in has:
        more["feature_names_in_"] = tuple(str(name) for name in has["feature_names_in_"])
    if "choices_" in has:
        more["choices_"] = tuple(tuple(getattr(one, f.name) for f in fields(one)) for one in has["choices_"])
    if model._seen is not None and model._seen.in_memory:
        more["_seen_digest"] = digest_of(model._seen)
    elif "_seen_digest" in has:
        more["_seen_digest"] = has["_seen_digest"]
    if seen:
        if model._seen is None:
            raise ValueError("seen=True: this model does not hold its training cells (loaded, or from a stream)")
        more["_seen"] = _cells_to_tuple(model._seen)
        more["_hidden"] = tuple(_cells_to_tuple(part) for part in model._hidden)
    return more


def digest_of(cells: Cells) -> str:
    """A number that identifies cells and their axes without holding any of them."""
    digest = hashlib.sha256(np.array(cells.shape).tobytes())
    for array in (*cells.positions(), cells.values):
        digest.update(np.ascontiguousarray(array, np.float64 if array.dtype.kind == "f" else np.int64).tobytes())
    return digest.hexdigest()


def training_cells(model: Any, cells: Cells) -> int:
    """How many of these cells the model was fitted to, as far as it can tell.

    A model that does not hold its training cells knows them by a digest, and so all or none of them.
    """
    known = model.posterior_
    there = cells.align(known.rows, known.cols, unknown="drop")
    if model._seen is not None:
        seen = model._seen.align(known.rows, known.cols)
        return int(np.count_nonzero(seen.contains(*there.positions())))
    same = getattr(model, "_seen_digest", None) == digest_of(there)
    return len(there) if same else 0


def restore(kind: type, record: Any, path: str | os.PathLike[str]) -> Any:
    """A fitted estimator of this class with what the file at ``path`` holds."""
    with blamed(str(path), ""):
        if not isinstance(record, tuple) or not 3 <= len(record) <= 4:
            raise ValueError(f"it holds {len(record) if isinstance(record, tuple) else 0} parts, not 3 or 4")
        known, trace, params, more = (*record, ())[:4]
        _check_posterior(known)
        settings, more = _named(params, set(kind()._get_param_names()) - set(LEFT_OUT)), _named(more, set(MORE))
        model = kind(**settings)
        model.posterior_ = known
        _restore_trace(model, trace)
        for name, value in more.items():
            with blamed(str(path), MORE[name][1] or name):
                setattr(model, name, MORE[name][0](value, known))
    return model


def _check_posterior(known: Any) -> None:
    """Refuse what is no fitted model, parts that do not fit each other, and a model that has no answer."""
    if not isinstance(known, Posterior):
        raise ValueError(f"it holds {type(known).__name__}, not a fitted model")
    check_shapes(known.law)
    check_shapes(known.state, (len(known.rows), len(known.cols)))
    ends = (np.array([0, len(axis) - 1]) for axis in (known.rows, known.cols))
    i, j = ends
    with np.errstate(all="ignore"):
        answers = [known.observed_probability(i, j)]
        if known.law.data.has_values:
            answers += mean_and_variance(known, i, j)
    if not all(np.all(np.isfinite(answer)) for answer in answers):
        raise ValueError(f"the model predicts {answers[-1]} for its first and last cells; {REMEDY}")


def _named(pairs: Any, allowed: set[str]) -> dict[str, Any]:
    """Values by name, of names that may be there."""
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("a part that is no list of names and values")
    if wrong := [name for name, _ in pairs if not isinstance(name, str) or name not in allowed]:
        raise ValueError(f"it names {wrong[0]!r}, which no model has; {REMEDY}")
    return dict(pairs)


def _restore_trace(model: Any, trace: Any) -> None:
    """Bounds, validation scores, the reason to stop, and NaN for how long sweeps took, which is not in files."""
    reason = dict(zip(TRACE, trace, strict=True))["stop_reason_"]
    if not all(isinstance(one, np.ndarray) and one.ndim == 1 and one.dtype == np.float64 for one in trace[:3]):
        raise ValueError(f"its trace is not one of numbers; {REMEDY}")
    if not isinstance(reason, str):
        raise ValueError(f"its reason to stop is {reason!r}; {REMEDY}")
    for name, value in zip(TRACE, trace, strict=True):
        setattr(model, name, value)
    model.n_iter_ = len(model.bound_trace_)


def _features(names: Any, known: Posterior) -> Any:
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names that are no texts; {REMEDY}")
    return np.array(names, object)


def _one(*kinds: type) -> Callable[[Any, Posterior], Any]:
    """A reader of a value of one of these types."""

    def read(value: Any, known: Posterior) -> Any:
        if type(value) not in kinds:
            raise ValueError(f"{value!r} of type {type(value).__name__}; {REMEDY}")
        return value

    return read


MORE: dict[str, tuple[Callable[[Any, Posterior], Any], str]] = {  # what else a file may hold, and what errors call it
    "n_features_in_": (_one(int), ""),
    "effective_cells_": (_one(int, float, NoneType), ""),
    "feature_names_in_": (_features, ""),
    "choices_": (lambda listed, known: tuple(Choice(*one) for one in listed), ""),
    "_seen_digest": (_one(str), ""),
    "_seen": (lambda parts, known: _cells_from_tuple(parts, known), "training cells"),
    "_hidden": (lambda held, known: tuple(_cells_from_tuple(parts) for parts in held), "held-out cells"),
}


def _portable(data: Any, known: Posterior) -> Any:
    """Settings as files can hold them, with their covariates, so that a loaded model can go on or be fitted anew."""
    if hasattr(data, "portable"):
        return data.portable(known.rows, known.cols)
    for name, axis in (("rows", known.rows), ("cols", known.cols)):
        covariates = getattr(data, name, None)
        if covariates is not None and not isinstance(data, DataModel):  # one's own model keeps what its class declares
            data = replace(data, **{name: CovariateTable.of(covariates, axis, name)})
    return data


def _cells_to_tuple(cells: Cells) -> tuple[Any, ...]:
    by = cells.by(0)
    return (by.indptr, by.indices, by.values, cells.weights, cells.rows, cells.cols)


def _cells_from_tuple(parts: Any, known: Posterior | None = None) -> Cells:
    """The cells that a file holds, checked before any loop reads them."""
    indptr, indices, values, weights, rows, cols = _checked_parts(parts)
    shape = len(rows), len(cols)
    if known is not None and shape != (len(known.rows), len(known.cols)):
        raise ValueError(
            f"{shape[0]} rows and {shape[1]} columns, and the model has {len(known.rows)} and {len(known.cols)};"
            f" {REMEDY}"
        )
    check_structure(indptr, indices, values, shape, "", REMEDY, weights=weights, strict=True)
    positions = indices.astype(index_dtype(shape[1]), copy=False)
    lines = Compressed(indptr.astype(np.int64, copy=False), positions, compact(values), shape[1])
    return Cells(lines, rows, cols, None if weights is None else weights.astype(np.float64, copy=False))


def _checked_parts(parts: Any) -> tuple[Any, ...]:
    """The six parts of stored cells, the last two of them axes."""
    if not isinstance(parts, tuple) or len(parts) != 6:
        count = len(parts) if isinstance(parts, tuple) else 0
        raise ValueError(f"{count} parts instead of 6; {REMEDY}")
    for axis, name in zip(parts[4:], ("rows", "columns"), strict=True):
        if not isinstance(axis, Axis):
            raise ValueError(f"it holds {type(axis).__name__} where the ids of {name} belong; {REMEDY}")
    return parts
