"""Data models and linkages as a command line names them; nothing heavy is imported at the top."""

from __future__ import annotations

from typing import Any

DATA = "factorization:RANK[:diagonal], mixture:CLUSTERS[:cols], effects[:cols|:both], constant:FAMILY"
DATA_HELP = f"data model: {DATA}; poisson- before the first three"


def parse_data(text: str) -> Any:
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
        raise ValueError(f"--data {text!r}: {error}") from None
    raise ValueError(f"--data {text!r}; use {DATA_HELP.removeprefix('data model: ')}")


def _count(rest: list[str], default: int) -> int:
    if not rest:
        return default
    try:
        return int(rest[0])
    except ValueError:
        raise ValueError(f"{rest[0]!r} is not a whole number") from None


def parse_linkage(text: str) -> Any:
    """A linkage from "free", "linear:0.3" (fixed c) or "free+shift" (with a location linkage)."""
    from nmar.prob.linkage import LINKAGES, Curve

    whole, _, mean = text.partition("+")
    name, _, c = whole.partition(":")
    if name not in LINKAGES:
        raise ValueError(f"--linkage {text!r}; use one of {', '.join(LINKAGES)}, with :C to fix c")
    settings: dict[str, Any] = {"mean": mean} if mean else {}
    if c:
        if not issubclass(LINKAGES[name], Curve):
            raise ValueError(f"--linkage {text!r}: the {name} linkage has no parameter c")
        try:
            settings["c"] = float(c)
        except ValueError:
            raise ValueError(f"--linkage {text!r}: c={c!r} is not a number") from None
    return LINKAGES[name](**settings)
