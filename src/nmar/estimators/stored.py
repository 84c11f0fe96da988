"""Model files: what a fitted :class:`nmar.CCPF` writes, and what it is when it is read back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.compact import compact
from nmar.data.compressed import Compressed, index_dtype
from nmar.data.covariates import CovariateTable
from nmar.data.structure import check_structure
from nmar.fit.result import Choice
from nmar.posterior.posterior import Posterior

TRACE = ("bound_trace_", "valid_trace_", "seconds_trace_", "stop_reason_")
LEFT_OUT = ("random_state", "propensity")  # parameters that a fitted model no longer needs
REMEDY = "save the model again, or get an undamaged copy of the file"


def record_of(model: Any, seen: bool) -> tuple[Any, ...]:
    """What a file holds of a fitted model, with its training cells where they are ``seen``."""
    known = model._fitted()
    params = {name: value for name, value in model.get_params(deep=False).items() if name not in LEFT_OUT}
    for part in ("data", "pattern"):
        params[part] = _portable(params[part], known)
    trace = tuple(getattr(model, name) for name in TRACE)
    return known, trace, tuple(params.items()), tuple(_more(model, seen).items())


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


def restore(model: Any, record: Any, path: str | os.PathLike[str]) -> Any:
    """A new estimator with what the file at ``path`` holds."""
    known, trace, _, *rest = record
    model.posterior_ = known
    for name, value in zip(TRACE, trace, strict=True):
        setattr(model, name, value)
    model.n_iter_ = len(model.bound_trace_)
    readers: dict[str, Callable[[Any], Any]] = {
        "feature_names_in_": lambda names: np.array(names, object),
        "choices_": lambda listed: tuple(Choice(*one) for one in listed),
        "_seen": lambda parts: _cells_from_tuple(parts, f"path={str(path)!r}, training cells", known),
        "_hidden": lambda held: tuple(
            _cells_from_tuple(parts, f"path={str(path)!r}, held-out cells") for parts in held
        ),
    }
    for name, value in rest[0] if rest else ():
        setattr(model, name, readers.get(name, lambda same: same)(value))
    return model


def _portable(data: Any, known: Posterior) -> Any:
    """Settings as files can hold them, with their covariates, so that a loaded model can go on or be fitted anew."""
    if hasattr(data, "portable"):
        return data.portable(known.rows, known.cols)
    for name, axis in (("rows", known.rows), ("cols", known.cols)):
        covariates = getattr(data, name, None)
        if covariates is not None:
            data = replace(data, **{name: CovariateTable.of(covariates, axis, name)})
    return data


def _cells_to_tuple(cells: Cells) -> tuple[Any, ...]:
    by = cells.by(0)
    return (by.indptr, by.indices, by.values, cells.weights, cells.rows, cells.cols)


def _cells_from_tuple(parts: Any, where: str, known: Posterior | None = None) -> Cells:
    """The cells that a file holds, checked before any loop reads them."""
    indptr, indices, values, weights, rows, cols = _checked_parts(parts, where)
    shape = len(rows), len(cols)
    if known is not None and shape != (len(known.rows), len(known.cols)):
        raise ValueError(
            f"{where}: {shape[0]} rows and {shape[1]} columns, and the model has {len(known.rows)} and"
            f" {len(known.cols)}; {REMEDY}"
        )
    check_structure(indptr, indices, values, shape, where, REMEDY, weights=weights, strict=True)
    positions = indices.astype(index_dtype(shape[1]), copy=False)
    lines = Compressed(indptr.astype(np.int64, copy=False), positions, compact(values), shape[1])
    return Cells(lines, rows, cols, None if weights is None else weights.astype(np.float64, copy=False))


def _checked_parts(parts: Any, where: str) -> tuple[Any, ...]:
    """The six parts of stored cells, the last two of them axes."""
    if not isinstance(parts, tuple) or len(parts) != 6:
        count = len(parts) if isinstance(parts, tuple) else 0
        raise ValueError(f"{where}: {count} parts instead of 6; {REMEDY}")
    for axis, name in zip(parts[4:], ("rows", "columns"), strict=True):
        if not isinstance(axis, Axis):
            raise ValueError(f"{where}: it holds {type(axis).__name__} where the ids of {name} belong; {REMEDY}")
    return parts
