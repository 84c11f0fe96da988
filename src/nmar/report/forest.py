"""A forest plot in HTML and CSS: every model's log likelihood less that of the best control, no drawing library needed.

Names and numbers are text of the page, so that they keep their size on a narrow screen; only the bars are scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from typing import TYPE_CHECKING

from nmar.evaluate.gains import Gain
from nmar.evaluate.notes import KINDS, MODELLED
from nmar.report.text import signed

if TYPE_CHECKING:
    from nmar.evaluate.comparison import Comparison

ROLES = {"coupled": "c1", "taste": "c4", "ignorable": "c3", "two-stage": "c5", "tail": "c7", "shuffled": "c6"}
FARTHEST = 4.0  # times the reach of the models of the missingness: what is worse is marked at the edge


@dataclass(frozen=True)
class Mark:
    """One line of the plot."""

    name: str
    kind: str
    gain: Gain | None  # None: the best control itself

    @property
    def ends(self) -> tuple[float, float]:
        """Two standard errors each way."""
        if self.gain is None:
            return 0.0, 0.0
        return self.gain.mean - 2 * self.gain.se, self.gain.mean + 2 * self.gain.se


def forest(result: Comparison) -> str:
    """One plot per data model: differences from the best control of its best model, two standard errors each way."""
    models = list(dict.fromkeys(key.data for key in result.entries))
    drawn = []
    for model in models:
        marks = _marks(result, model)
        if marks:
            title = f"<h3>{escape(model)}</h3>" if len(models) > 1 else ""
            drawn.append(title + _plot(marks))
    return "".join(drawn)


def _marks(result: Comparison, model: str) -> list[Mark]:
    modelled = result.modelled(model)
    if not modelled:
        return []
    best = result.best_control(modelled[0])
    keys = [key for key in result.entries if key.data == model]
    order = ("taste", "coupled", "two-stage", "tail", "shuffled", "ignorable")
    keys.sort(key=lambda key: order.index(key.kind))
    return [Mark(result.name(key), key.kind, None if key == best else result.difference(key, best)) for key in keys]


def _plot(marks: Sequence[Mark]) -> str:
    low, high = limits(marks)
    groups = []
    for kind in dict.fromkeys(mark.kind for mark in marks):
        rows = "".join(_row(mark, low, high) for mark in marks if mark.kind == kind)
        what = KINDS[kind]
        head = f'{escape(what.full)} <span class="technical">[{escape(what.technical)}]</span>'
        role = f"--role:var(--{ROLES[kind]})"
        groups.append(f'<h4 style="{role}"><span class="key"></span>{head}</h4><ul style="{role}">{rows}</ul>')
    labels = [(_at(tick, low, high), _number(tick)) for tick in ticks(low, high)]
    axis = "".join(f'<span style="left:{place:.2f}%">{text}</span>' for place, text in labels)
    below = f'<div class="axis" aria-hidden="true"><div class="track">{axis}</div></div>'
    return f'<div class="forest">{"".join(groups)}{below}</div>'


def limits(marks: Sequence[Mark]) -> tuple[float, float]:
    """The range of the axis: all intervals, unless that would hide those of the models of the missingness."""
    ends = [end for mark in marks for end in mark.ends]
    reach = FARTHEST * max([abs(e) for m in marks if m.kind in MODELLED for e in m.ends], default=0.0)
    low, high = min(ends), max(ends)
    if reach > 0:
        low, high = max(low, -reach), min(high, reach)
    span = (high - low) or 1e-4
    return low - 0.05 * span, high + 0.05 * span


def _row(mark: Mark, low: float, high: float) -> str:
    zero = f'<i class="zero" style="left:{_at(0.0, low, high):.2f}%"></i>'
    name = f'<span class="name">{escape(mark.name)}</span>'
    if mark.gain is None:
        bar, text = f'<i class="dot hollow" style="left:{_at(0.0, low, high):.2f}%"></i>', "the best control"
    else:
        bar, text = _bar(mark, low, high), f"{signed(mark.gain.mean)} ± {mark.gain.se:.4f}".replace("-", "−")
    return (
        f'<li class="line">{name}<span class="number">{text}</span>'
        f'<div class="track" aria-hidden="true">{zero}{bar}</div></li>'
    )


def _bar(mark: Mark, low: float, high: float) -> str:
    assert mark.gain is not None
    begin, end = (min(max(_at(e, low, high), 0.0), 100.0) for e in mark.ends)
    bar = f'<i class="bar" style="left:{begin:.2f}%;width:{max(end - begin, 0.0):.2f}%"></i>'
    if low <= mark.gain.mean <= high:
        return bar + f'<i class="dot" style="left:{_at(mark.gain.mean, low, high):.2f}%"></i>'
    left = mark.gain.mean < low
    side = "left:0" if left else "right:0"
    return f'<i class="arrow" style="{side}">{"◀" if left else "▶"}</i>'


def _at(value: float, low: float, high: float) -> float:
    return 100.0 * (value - low) / (high - low)


def _number(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:+.4g}".replace("-", "−")


def ticks(low: float, high: float) -> list[float]:
    """About four round numbers within the range."""
    raw = (high - low) / 4
    power = 10.0 ** floor(log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first, last = -floor(-low / step), floor(high / step)
    return [k * step for k in range(first, last + 1)]
