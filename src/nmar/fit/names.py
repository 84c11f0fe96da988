"""Data models and linkages by name, and fits by label; nothing heavy is imported at the top.

"factorization:10" stands for ``nmar.Factorization(10)``, "linear:0.3" for ``nmar.Linear(0.3)``, "free, s = 8" for
``nmar.Free(thinning=8)``; :func:`line` writes the Python that fits a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmar.fit.options import Options
    from nmar.prob.linkage import Linkage

DATA = "factorization:RANK[:diagonal], mixture:CLUSTERS[:cols], effects[:cols|:both], constant:FAMILY"
DATA_NAMES = f"{DATA}; poisson- before the first three"


def data_named(text: str, argument: str = "data") -> Any:
    """A data model from "factorization:10:diagonal", "poisson-mixture:5:cols", "constant:gamma" …"""
    from nmar.models import settings

    whole, *rest = text.split(":")
    name = whole.removeprefix("poisson-")
    family: Any = "poisson" if name != whole else "gaussian"
    last: Any = rest[-1] if rest else "rows"
    try:
        if name == "factorization" and len(rest) <= 2:
            covariance: Any = rest[1] if len(rest) == 2 else "full"
            return settings.Factorization(_count(rest, 10), family, covariance)
        if name == "mixture" and len(rest) <= 2:
            return settings.Mixture(_count(rest, 10), last if len(rest) == 2 else "rows", family)
        if name == "effects" and len(rest) <= 1:
            return settings.Effects(last, family)
        if whole == "constant" and len(rest) == 1:
            return settings.Constant(last)
    except ValueError as error:
        raise ValueError(f"{argument} {text!r}: {error}") from None
    raise ValueError(f"{argument} {text!r}; use {DATA_NAMES}")


def _count(rest: list[str], default: int) -> int:
    if not rest:
        return default
    try:
        return int(rest[0])
    except ValueError:
        raise ValueError(f"{rest[0]!r} is not a whole number") from None


def linkage_named(text: str, argument: str = "linkage") -> Linkage:
    """A linkage from "free", "linear:0.3" (fixed c), "free+shift" (location linkage) or "free,s=8" (thinning)."""
    from nmar.prob.linkage import LINKAGES, Curve

    front, _, events = text.partition(",")
    whole, *extras = (part.strip() for part in front.split("+"))
    name, _, c = whole.partition(":")
    if name not in LINKAGES:
        raise ValueError(
            f"{argument} {text!r}; use one of {', '.join(LINKAGES)}, with :C to fix c and ,s=8 for thinned counts"
        )
    settings: dict[str, Any] = {"mean": extras[-1]} if extras else {}  # +shift, +scale
    if c:
        if not issubclass(LINKAGES[name], Curve):
            raise ValueError(f"{argument} {text!r}: the {name} linkage has no parameter c")
        settings["c"] = _number(c, "c", f"{argument} {text!r}")
    if events:
        settings["thinning"] = _thinning(events, f"{argument} {text!r}")
    return LINKAGES[name](**settings)


def _thinning(text: str, where: str) -> float:
    name, _, value = (part.strip() for part in text.partition("="))
    if name != "s":
        raise ValueError(f"{where}: {text.strip()!r} is not understood; write s=8")
    return _number(value, "s", where)


def _number(text: str, name: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: {name}={text!r} is not a number") from None


# --- labels -------------------------------------------------------------------------------------------------


def label(one: Linkage) -> str:
    """A short name: "free", "linear(c=0.3)", "free+shift", "free, s = 8"."""
    c = getattr(one, "c", None)
    fixed = f"(c={c:g})" if c is not None else ""
    return f"{one.name}{fixed}" + (f"+{one.mean}" if one.mean else "") + thinned_by(one)


def thinned_by(one: Linkage) -> str:
    """ ", s = 8", or nothing where counts are not thinned."""
    return "" if one.events == 1.0 else f", s = {one.events:.2g}"


# --- Python -------------------------------------------------------------------------------------------------


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
    from dataclasses import fields

    from nmar.prob.linkage.base import Linkage

    if isinstance(one, str):
        return f'"{one}"'
    kind: Any = type(one)
    is_linkage = isinstance(one, Linkage)
    if is_linkage and one == kind():
        return f'"{one.name}"'
    if not hasattr(kind, "__dataclass_fields__"):
        return f"{kind.__name__}(…)"
    usual = vars(kind(thinning=one.thinning)) if is_linkage else {f.name: f.default for f in fields(one)}
    told = []
    for k, field in enumerate(fields(one)):
        value = getattr(one, field.name)
        first = k == 0 and not is_linkage  # of a data model: its size or kind, always said
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
