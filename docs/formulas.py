"""For the site: the formulas of the theory, typed in Unicode, become MathML, which browsers typeset without script.

Enters: Markdown. Leaves: Markdown whose indented blocks, and symbols with ``_`` or ``^`` in sentences, are MathML.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

PAGES = ("theory.md",)
MARKS = "\u0302\u0303\u0304'′*"  # a hat, a tilde, a bar, primes
POWERS = "²³⁺⁻₀₁₂"
INDICES = set("ijkfgemn")
SCRIPT = rf"(?:\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}|[^\W_]+(?:[{MARKS}·]|[^\W_])*)"
BLOCK = re.compile(r"((?<=\n\n)(?: {4}.*\n(?:\n(?= {4}))?)+)")
SYMBOL = rf"(?<![\w.])[^\W\d_]\w?[{MARKS}]?(?:[_^]{SCRIPT})+"
INLINE = re.compile(rf"`[^`]*`|\[[^\]]*\]\([^)]*\)|{SYMBOL}")
TOKEN = re.compile(
    rf"(?P<name>[a-z]{{3,}}'s|[^\W\d_]+[{MARKS}{POWERS}]*|\d[\d.,]*|[)\]}}](?=[_^])|[Σ∫∂√∞])(?P<scripts>(?:[_^]{SCRIPT})*)"
    r"|(?P<space>\s+)|(?P<other>.)"
)
COLUMNS = re.compile(r" {3,}")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    if page.file.src_uri not in PAGES:
        return markdown
    parts = BLOCK.split(markdown)
    return "".join(block(part) if k % 2 else INLINE.sub(_inline, part) for k, part in enumerate(parts))


def block(text: str) -> str:
    """Lines of formulas, set in columns where they are apart by three spaces or more."""
    rows = []
    for line in text.rstrip().splitlines():
        cells = "".join(f"<mtd>{formula(part)}</mtd>" for part in COLUMNS.split(line.strip()))
        rows.append(f"<mtr>{cells}</mtr>")
    table = f'<math display="block"><mtable columnalign="left">{"".join(rows)}</mtable></math>'
    return f'<div class="formula" tabindex="0" role="group" aria-label="formula">{table}</div>\n\n'


def formula(text: str) -> str:
    """A formula in a line as the content of a MathML row."""
    return f"<mrow>{''.join(_atom(found) for found in TOKEN.finditer(text))}</mrow>"


def _inline(found: re.Match[str]) -> str:
    text = found[0]
    return text if text[0] in "`[" else f"<math>{formula(text)}</math>"


def _atom(found: re.Match[str]) -> str:
    if found["space"]:
        return '<mspace width="0.2em"></mspace>'
    if found["other"]:
        return f'<mo stretchy="false">{escape(found["other"])}</mo>'
    base, scripts = _name(found["name"]), re.findall(rf"([_^])({SCRIPT})", found["scripts"])
    below = "".join(_script(text) for mark, text in scripts if mark == "_")
    above = "".join(_script(text) for mark, text in scripts if mark == "^")
    if below and above:
        return f"<msubsup>{base}<mrow>{below}</mrow><mrow>{above}</mrow></msubsup>"
    if below or above:
        kind = "msub" if below else "msup"
        return f"<{kind}>{base}<mrow>{below or above}</mrow></{kind}>"
    return base


def _name(text: str) -> str:
    """Symbols of one letter are in italics, words and numbers upright."""
    if text in "Σ∫∂√)]}":
        return f'<mo stretchy="false" largeop="false">{text}</mo>'
    if text[0].isdigit():
        return f"<mn>{text}</mn>"
    if text == "∞":
        return "<mi>∞</mi>"
    letters = [one for one in text if one.isalpha()]
    if len(letters) > 1 and all(one.isascii() for one in letters):
        return f"<mtext>{escape(text)}</mtext>"
    symbols = re.findall(rf"[^\W\d_][{MARKS}{POWERS}]*", text)
    return "<mrow>" + "".join(f"<mi>{escape(one)}</mi>" for one in symbols) + "</mrow>"


def _script(text: str) -> str:
    """A sub- or superscript; letters without a brace are single symbols, words in full."""
    inner = text[1:-1] if text.startswith("{") else text
    if inner.isascii() and inner.isalpha() and len(inner) > 2 and not set(inner) <= INDICES:
        return f"<mtext>{inner}</mtext>"
    if inner.isalnum():
        return "".join(f"<mi>{one}</mi>" for one in inner)
    return formula(inner)
