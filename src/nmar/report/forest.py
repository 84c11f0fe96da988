"""A forest plot of gains as a hand-written SVG: intervals around dots, no drawing library needed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nmar.report.comparison import Row

WIDTH, RIGHT, TOP, STEP = 860, 18, 34, 34


class Mark(NamedTuple):
    """One interval."""

    place: int  # line of the plot
    mean: float
    se: float
    offset: float  # above or below the middle of its line
    role: str


def forest(rows: Sequence[Row]) -> str:
    """Gains over ignorable (blue) and over the own control (orange), with two standard errors each way."""
    shown = [row for row in rows if row.gain is not None]
    if not shown:
        return ""
    several = len({row.data for row in rows}) > 1
    names = [f"{row.data} · {row.name}" if several else row.name for row in shown]
    begin = 30 + 7.6 * max(len(name) for name in names)  # room for the longest name
    marks = [mark for k, row in enumerate(shown) for mark in _marks(k, row)]
    low = min(0.0, *(m.mean - 2 * m.se for m in marks))
    high = max(0.0, *(m.mean + 2 * m.se for m in marks))
    low, high = low - 0.04 * (high - low), high + 0.04 * (high - low)
    ticks = _ticks(low, high)
    scale = (WIDTH - begin - RIGHT) / ((high - low) or 1.0)
    height = TOP + STEP * len(shown) + 34

    def x(value: float) -> float:
        return begin + (value - low) * scale

    parts = [_legend(begin), *(_tick(x(t), t, height) for t in ticks)]
    for k, (row, name) in enumerate(zip(shown, names, strict=True)):
        fill = "var(--muted)" if row.control else "var(--ink)"
        at = f'x="{begin - 14:.1f}" y="{_y(k) + 4.5}"'
        parts.append(f'<text {at} text-anchor="end" fill="{fill}">{escape(name)}</text>')
    parts += [_interval(x, mark) for mark in marks]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="gains with two standard errors"'
        f' style="font:13px var(--sans)">{"".join(parts)}</svg>'
    )


def _marks(place: int, row: Row) -> list[Mark]:
    over = Mark(place, row.gain or 0.0, row.gain_se or 0.0, 0.0, "c6" if row.control else "c1")
    if row.gain_over_control is None or row.gain_over_control_se is None:
        return [over]
    return [
        over._replace(offset=-6.0),
        Mark(place, row.gain_over_control, row.gain_over_control_se, 6.0, "c2"),
    ]


def _y(place: int) -> float:
    return TOP + STEP * (place + 0.5)


def _interval(x: object, mark: Mark) -> str:
    y, color = _y(mark.place) + mark.offset, f"var(--{mark.role})"
    left, middle, right = (x(mark.mean + k * mark.se) for k in (-2, 0, 2))  # type: ignore[operator]
    return (
        f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2.5"'
        f' stroke-linecap="round"/><circle cx="{middle:.1f}" cy="{y}" r="4.5" fill="{color}"/>'
    )


def _tick(x: float, value: float, height: float) -> str:
    zero = abs(value) < 1e-12
    stroke = 'stroke="var(--muted)"' if zero else 'stroke="var(--grid)"'
    text = "0" if zero else f"{value:+.4g}".replace("-", "−")
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 26}" {stroke}/>'
        f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="var(--muted)">{text}</text>'
    )


def _legend(begin: float) -> str:
    items = (("c1", "over ignorable"), ("c2", "over its control"), ("c6", "control itself"))
    return "".join(
        f'<circle cx="{begin + 140 * k + 5:.1f}" cy="13" r="4.5" fill="var(--{role})"/>'
        f'<text x="{begin + 140 * k + 16:.1f}" y="17.5" fill="var(--ink)">{text}</text>'
        for k, (role, text) in enumerate(items)
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the range."""
    span = (high - low) or 1e-4
    raw = span / 5
    power = 10.0 ** floor(log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    first, last = -floor(-low / step), floor(high / step)
    return [k * step for k in range(first, last + 1)]
