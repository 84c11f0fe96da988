"""Figures of the paper's tables, in the style of the library's own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.evaluate.missingness import Bin
from nmar.report.figures import ROLES, STYLE, draw, matplotlib, new_axes, roles

Array = NDArray[Any]


def differences(lines: Sequence[tuple[str, Sequence[tuple[str, float, float]]]], ax: Any = None) -> Any:
    """Differences in nats per cell with two standard errors each way; a line per label, a colour per name.

    Parameters
    ----------
    lines : sequence of tuple of (str, sequence of tuple of (str, float, float))
        Label, and name, mean and standard error of each difference; an error of 0 draws a ring without bars.
    """
    names = list(dict.fromkeys(name for _, marks in lines for name, _, _ in marks))
    ax = new_axes((7.2, 1.2 + 0.34 * max(len(lines), 1))) if ax is None else ax

    def paint(a: Any) -> None:
        a.axvline(0.0, color=ROLES["c6"], lw=1, ls=(0, (4, 3)))
        for place, name in enumerate(names):
            role = ROLES[f"c{1 + place % 8}"]
            for line, (_, marks) in enumerate(lines):
                for _, mean, se in (mark for mark in marks if mark[0] == name):
                    at = line + 0.16 * (place - 0.5 * (len(names) - 1))
                    ring = {"mfc": "none", "mew": 1.4} if se == 0.0 else {}
                    a.errorbar(mean, at, xerr=2.0 * se or None, fmt="o", ms=4.5, lw=1.4, color=role, **ring)
            a.plot([], [], "o", ms=4.5, color=role, label=name)
        a.set_yticks(range(len(lines)), [label for label, _ in lines])
        a.set(xlabel="nats per held-out cell", ylim=(len(lines) - 0.5, -0.5))
        a.set_xscale("symlog", linthresh=0.05)
        a.legend(loc="upper center", bbox_to_anchor=(0.5, -0.6 / (0.3 + 0.34 * len(lines))), ncols=2)

    return draw(ax, paint)


def spreads(found: Sequence[tuple[str, Sequence[Bin]]], ax: Any = None) -> Any:
    """Residual variance over its mean in bins of P(observed), one colour per data set; lines: what is expected."""

    def paint(a: Any) -> None:
        for (name, bins), color in zip(found, roles([name for name, _ in found]), strict=True):
            x, level = [b.quantile for b in bins], np.mean([b.residual_variance for b in bins])
            a.plot(x, [b.residual_variance / level for b in bins], "o", ms=3, color=color, mec="none", label=name)
            a.plot(x, [b.expected_variance / level for b in bins], "-", lw=1.6, color=color)
        a.set(xlabel="quantile of P(observed)", ylabel="residual variance / its mean", xlim=(0, 1))
        a.set_ylim(bottom=0)
        a.legend()

    return draw(ax, paint)


def linkage_family(curves: Sequence[tuple[str, float, Array, Array]], ax: Any = None) -> Any:
    """E[φ | observed] against P(observed): a colour per linkage, a dash per c; curves of name, c, probability, E[φ]."""
    names = list(dict.fromkeys(name for name, _, _, _ in curves))
    dashes = dict(zip(dict.fromkeys(c for _, c, _, _ in curves), ("-", "--", "-.", ":"), strict=False))

    def paint(a: Any) -> None:
        for name, c, probability, expected in curves:
            a.plot(
                probability,
                expected,
                dashes[c],
                lw=1.6,
                color=roles(names)[names.index(name)],
                label=f"{name}, c = {c:g}",
            )
        a.set(xlabel="P(observed)", ylabel="E[φ | observed]", xlim=(0, 1), ylim=(0, 3))
        a.legend(ncols=2, fontsize=7.5)

    return draw(ax, paint)


def page(panels: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A white figure with empty panels side by side."""
    mpl = matplotlib()
    with mpl.rc_context({**STYLE, "figure.facecolor": "white"}):
        found = import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
        return found, found.subplots(1, panels, squeeze=False)[0]
