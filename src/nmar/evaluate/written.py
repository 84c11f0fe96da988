"""The Python that fits a model, as reports print it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nmar.fit.options import Options
from nmar.prob.linkage.base import Linkage


def line(options: Options) -> str:
    """The line of Python that fits a model, on all cells."""
    told = [call(options.data), call(options.linkage)]
    if options.pattern is not None:
        told.append(f"pattern={call(options.pattern)}")
    elif options.factors != 10:
        told.append(f"factors={options.factors}")
    if options.mechanism != "none":
        told.append(f"mechanism={_written(options.mechanism)}")
    if options.control:
        told.append(f"control={_written(options.control)}")
    if options.starts != 1 and options.linkage != "two-stage" and options.link.learned and options.link.couples:
        told.append(f"starts={_written(options.starts)}")
    told += [f"{name}={_written(value)}" for name in ("noise", "tail") if (value := getattr(options, name)) is not None]
    return f"nmar.CCPF({', '.join(told)}).fit(cells)"


def call(one: Any) -> str:
    """How a data model or a linkage is written: ``nmar.Factorization(3)``, ``"free"``."""
    if isinstance(one, str):
        return f'"{one}"'
    kind: Any = type(one)
    is_linkage = isinstance(one, Linkage)
    if is_linkage and one == kind():
        return f'"{one.name}"'
    if not hasattr(kind, "__dataclass_fields__"):
        return f"{kind.__name__}(…)"
    usual = vars(kind(thinning=one.thinning)) if is_linkage else {f.name: f.default for f in fields(one)}
    told, size = [], next((f.name for f in fields(one) if not (is_linkage or f.kw_only)), None)
    for field in fields(one):
        value = getattr(one, field.name)
        first = field.name == size  # of a data model: its size or kind, always said
        changed = not _same(value, usual[field.name]) or (field.name == "thinning" and value != 1.0)
        if first or changed:
            told.append((field.name, _written(value), first or field.name == "c"))
    told.sort(key=lambda entry: not entry[2])
    return f"nmar.{kind.__name__}({', '.join(v if bare else f'{n}={v}' for n, v, bare in told)})"


def _same(value: Any, usual: Any) -> bool:
    return value is usual or (isinstance(value, bool | int | float | str | tuple) and bool(value == usual))


def _written(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool | int | tuple):
        return repr(value)
    return f"{value:.4g}" if isinstance(value, float) else "…"
