"""Which cells a question is about: observed ones, missing ones, or any."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from nmar.models.arguments import check_choice
from nmar.posterior.posterior import Posterior

__all__ = ["Given", "Target", "about"]

Target = Literal["observed", "all"] | None
Given = Literal["observed", "missing"] | None


def about(known: Posterior, target: Target = None, given: Given = "observed") -> Posterior:
    """The posterior for questions about observed, missing or all cells; target None: what it was fitted for."""
    if target is not None:
        check_choice("target", target, ("observed", "all"))
        known = replace(known, law=replace(known.law, target=target))
    check_choice("given", given, ("observed", "missing", None))
    if known.state.shared.mechanism is not None:
        given = None if known.law.target == "all" else given
        return replace(known, law=replace(known.law, given=given))
    if given == "missing" and known.state.shared.linkage.couples and not known.law.separate:
        raise ValueError(
            f"given='missing': the linkage {known.state.shared.linkage.name!r} has no law of values that are not"
            " observed; use given=None, or fit with linkage='ignorable' or mechanism='value'"
        )
    return known if given == "observed" else replace(known, law=replace(known.law, target="all"))
