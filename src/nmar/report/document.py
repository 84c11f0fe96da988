"""The frame of every page: one file, no outside resource and no script, light or dark as the reader's system is."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from html import escape
from importlib import metadata, resources
from typing import Any, NamedTuple

from nmar.report import figures

__all__ = ["Fact", "Figure", "facts", "figure_cards", "page", "versions"]


class Fact(NamedTuple):
    """A number or word with its label, and a detail in small print; plain text, which pages escape."""

    label: str
    value: str
    detail: str = ""


class Figure(NamedTuple):
    """What a figure is called, says, shows (for who cannot see it), and what draws it."""

    title: str
    caption: str
    alt: str
    draw: Callable[[], Any]


def page(title: str, eyebrow: str, body: str) -> str:
    """A whole document."""
    css = resources.files("nmar.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(eyebrow)}:"
        f" {escape(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
        f'<header><p class="eyebrow">{escape(eyebrow)}</p><h1>{escape(title)}</h1></header>\n'
        f"{body}\n<footer>{escape(versions())}</footer>\n</main>\n</body>\n</html>\n"
    )


def versions() -> str:
    """The software a result came from."""
    found = [f"nmar {_version('nmar')}", f"Python {platform.python_version()}"]
    found += [f"{name} {_version(name)}" for name in ("numpy", "scipy", "numba", "scikit-learn")]
    return " · ".join([*found, f"{platform.system()} {platform.machine()}"])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def facts(found: Sequence[Fact]) -> str:
    """A band of facts."""
    cells = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}{f' <small>{escape(detail)}</small>' if detail else ''}"
        "</dd></div>"
        for label, value, detail in found
    )
    return f'<dl class="facts">{cells}</dl>'


def figure_cards(wanted: Sequence[Figure]) -> str:
    """The figures as inline SVG, or a word about what they need."""
    if not wanted:
        return ""
    try:
        figures.matplotlib()
    except ImportError:
        return (
            '<h2>Figures</h2><p class="note">The figures (linkage, residual variance, calibration, traces)'
            " need matplotlib: <code>pip install matplotlib</code>, then write this report again.</p>"
        )
    drawn = [
        f'<figure class="card"><h3>{escape(title)}</h3>{figures.as_svg(draw(), title, alt)}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for title, caption, alt, draw in wanted
    ]
    return f'<h2>A closer look</h2><div class="figures">{"".join(drawn)}</div>'
