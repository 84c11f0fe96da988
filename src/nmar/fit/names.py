"""Data models and linkages by name; nothing heavy is imported at the top.

"factorization:10" stands for ``nmar.Factorization(10)``, "linear:0.3" for ``nmar.Linear(0.3)``, "free, s = 8" for
``nmar.Free(thinning=8)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmar.prob.linkage import Linkage

DATA = "factorization:RANK|auto[:diagonal], mixture:CLUSTERS[:cols], effects[:cols|:both], constant:FAMILY"
DATA_NAMES = f"{DATA}; poisson- or levels- before the first three, :styles-N|auto after levels"


def data_named(text: str, argument: str = "data") -> Any:
    """A data model from "factorization:10:diagonal", "poisson-mixture:5:cols", "constant:gamma" …"""
    from nmar.models import settings

    whole, *rest = text.split(":")
    family, name = _family_and_name(whole)
    more: dict[str, Any] = {}
    if family == "levels" and rest and rest[-1].startswith("styles-"):
        styles = rest.pop().removeprefix("styles-")
        more["styles"] = styles if styles == "auto" else _count([styles], 1)
    last: Any = rest[-1] if rest else "rows"
    try:
        if name == "factorization" and len(rest) <= 2:
            covariance: Any = rest[1] if len(rest) == 2 else "full"
            rank: Any = "auto" if rest[:1] == ["auto"] else _count(rest, 10)
            return settings.Factorization(rank, family, covariance, **more)
        if name == "mixture" and len(rest) <= 2:
            return settings.Mixture(_count(rest, 10), last if len(rest) == 2 else "rows", family, **more)
        if name == "effects" and len(rest) <= 1:
            return settings.Effects(last, family, **more)
        if whole == "constant" and len(rest) == 1:
            return settings.Constant(last)
    except ValueError as error:
        raise ValueError(f"{argument} {text!r}: {error}") from None
    raise ValueError(f"{argument} {text!r}; use {DATA_NAMES}")


def _family_and_name(text: str) -> tuple[Any, str]:
    """ "levels" and "factorization" from "levels-factorization"; Gaussian where no family is named."""
    for family in ("poisson", "levels"):
        if text.startswith(f"{family}-"):
            return family, text.removeprefix(f"{family}-")
    return "gaussian", text


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
