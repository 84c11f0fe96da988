"""Small tables for notebooks: plain HTML, escaped, without script or colours, so that they suit any theme."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

__all__ = ["facts_table", "first_ids"]

SHOWN = 3  # ids shown of an axis
LONGEST = 40  # letters of an id shown


def facts_table(title: str, facts: Sequence[tuple[str, str, str]], note: str = "") -> str:
    """A titled table with a line for each label, value and detail; everything is text and gets escaped."""
    lines = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(label)}</th>'
        f'<td style="text-align:left">{escape(value)}</td><td style="text-align:left">{escape(detail)}</td></tr>'
        for label, value, detail in facts
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    caption = f'<caption style="text-align:left"><strong>{escape(title)}</strong></caption>'
    return f"<table>{caption}<tbody>{lines}</tbody></table>{below}"


def first_ids(ids: Any) -> str:
    """The first few ids of an axis: "ann, bob, carl, …"."""
    shown = [_short(str(one)) for one in list(ids[:SHOWN])]
    return ", ".join(shown + ["…"] * (len(ids) > SHOWN))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
