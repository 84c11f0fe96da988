"""Drawing with matplotlib, the one place that knows it; imported for the first figure.

Colours are given by role. :func:`as_svg` turns the roles into CSS variables, so that a figure inside a page
follows the page's light or dark scheme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.evaluate.curves import Activity, Calibration, LevelCurves, LinkageCurve
from nmar.evaluate.groups import GroupTest
from nmar.evaluate.missingness import Bin
from nmar.evaluate.sensitivity import UNITS, Sensitivity
from nmar.posterior.mechanism import LearnedMechanism

POINTS = 101  # of a curve

# Roles and their colours in the light scheme; no two may be the same, as_svg tells them apart by value.
ROLES = {
    "ink": "#24292f",
    "muted": "#5c6570",
    "grid": "#e3e7ec",
    "c1": "#3457d5",
    "c2": "#d9480f",
    "c3": "#0c8577",
    "c4": "#9c36b5",
    "c5": "#b08900",
    "c6": "#8a94a0",
    "c7": "#c2255c",
    "c8": "#5c940d",
}
BASELINES = {"ignorable": "c3", "taste": "c4", "two-stage": "c5"}
CONTROLS = {"(tail)": "c7", "(shuffled)": "c6"}  # the end of a control's name
SERIES = ("c1", "c2", "c8")
STYLE = {
    "axes.edgecolor": ROLES["muted"],
    "axes.labelcolor": ROLES["ink"],
    "axes.titlecolor": ROLES["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titleweight": "semibold",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "grid.color": ROLES["grid"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": ROLES["ink"],
    "xtick.color": ROLES["muted"],
    "ytick.color": ROLES["muted"],
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.color": ROLES["ink"],
    "font.size": 10,
    "svg.fonttype": "none",
}


def matplotlib() -> Any:
    """The package, or a clear word about how to get it."""
    try:
        return import_module("matplotlib")
    except ImportError:
        raise ImportError("figures need matplotlib: pip install matplotlib") from None


def new_axes(size: tuple[float, float] = (4.8, 3.3)) -> Any:
    """An empty Axes on a figure of its own, without touching pyplot's state."""
    mpl = matplotlib()
    figure_class = import_module("matplotlib.figure").Figure
    with mpl.rc_context(STYLE):
        return figure_class(figsize=size, layout="constrained").add_subplot()


def roles(names: Sequence[str]) -> list[str]:
    """A colour for each name; baselines and controls keep theirs in every figure, so do the others in their order."""
    known = {name: BASELINES.get(name) or CONTROLS.get(name.rpartition(" ")[2]) for name in names}
    others = [name for name in names if known[name] is None]
    return [ROLES[known[name] or SERIES[others.index(name) % len(SERIES)]] for name in names]


def draw(ax: Any, paint: Callable[[Any], None]) -> Any:
    """What ``paint`` draws, in this style, on the Axes or on new ones."""
    mpl = matplotlib()
    with mpl.rc_context(STYLE):
        target = new_axes() if ax is None else ax
        paint(target)
    return target


def _from_zero(a: Any, lines: Sequence[Array]) -> None:
    """An axis from 0, or a logarithmic one where the lines are far apart."""
    if max(line.max() for line in lines) > 20.0 * min(line.min() for line in lines):
        a.set_yscale("log")
    else:
        a.set_ylim(bottom=0)


def linkage(curves: Sequence[LinkageCurve], ax: Any = None) -> Any:
    """φ(n), the factor of the dispersion, against the latent count."""

    def paint(a: Any) -> None:
        a.axhline(1.0, color=ROLES["c6"], lw=1, ls=(0, (4, 3)))
        for one, color in zip(curves, roles([c.name for c in curves]), strict=True):
            a.plot(one.n, one.phi, "o-", ms=4.5, lw=1.8, color=color, label=one.name)
        a.set(xlabel="latent count n", ylabel="dispersion factor φ(n)")
        longest = max((one.n for one in curves), key=len)
        a.set_xticks(longest[:: -(-len(longest) // 8)])
        _from_zero(a, [one.phi for one in curves])
        if len(curves) > 1:
            a.legend()

    return draw(ax, paint)


def expected_linkage(curves: Sequence[LinkageCurve], ax: Any = None) -> Any:
    """E[φ | observed] against P(observed)."""

    def paint(a: Any) -> None:
        a.axhline(1.0, color=ROLES["c6"], lw=1, ls=(0, (4, 3)))
        for one, color in zip(curves, roles([c.name for c in curves]), strict=True):
            a.plot(one.probability, one.expected, lw=2, color=color, label=one.name)
        a.set(xlabel="P(observed)", ylabel="E[φ | observed]", xlim=(0, 1))
        _from_zero(a, [one.expected for one in curves])
        if len(curves) > 1:
            a.legend()

    return draw(ax, paint)


def heteroscedasticity(bins: Sequence[Bin], ax: Any = None, standardised: bool = False) -> Any:
    """Residual variance in bins of P(observed) with intervals of 95 %, and what the ignorable model expects.

    ``standardised``: relative to each cell's predictive variance, so that 1 is expected everywhere.
    """

    def paint(a: Any) -> None:
        x = [b.quantile for b in bins]
        found = [b.standardised if standardised else b.residual_variance for b in bins]
        low = [b.standardised_low if standardised else b.low for b in bins]
        high = [b.standardised_high if standardised else b.high for b in bins]
        expected = [1.0 if standardised else b.expected_variance for b in bins]
        a.vlines(x, low, high, color=ROLES["c1"], alpha=0.25, lw=1.2)
        a.plot(x, found, "o", ms=4, color=ROLES["c1"], alpha=0.8, mec="none", label="held-out residuals")
        a.plot(x, expected, "-", lw=2, color=ROLES["c2"], label="expected by the ignorable model")
        a.set(
            xlabel="quantile of P(observed)", ylabel="variance / expected" if standardised else "variance", xlim=(0, 1)
        )
        a.set_ylim(0, 1.25 * max(np.quantile(found, 0.98), *expected))
        a.legend(loc="upper right")

    return draw(ax, paint)


def cut_points(found: LevelCurves, ax: Any = None) -> Any:
    """Levels between their cut points, a bar for each style."""

    def paint(a: Any) -> None:
        inner = found.cuts.ravel()
        reach = 0.15 * max(float(np.ptp(inner)), 1e-9) if len(inner) else 1.0
        start, stop = (float(inner.min()), float(inner.max())) if len(inner) else (0.0, 0.0)
        ends = np.pad(found.cuts, ((0, 0), (1, 1)))
        ends[:, 0], ends[:, -1] = start - reach, stop + reach
        shades = np.linspace(0.15, 0.95, len(found.levels))
        for k, edges in enumerate(ends):
            for level, low, high, shade in zip(found.levels, edges[:-1], edges[1:], shades, strict=True):
                a.barh(k, high - low, left=low, color=ROLES["c1"], alpha=shade, height=0.8, edgecolor="none")
                if high - low > 0.04 * (stop - start + 2.0 * reach):
                    a.text(
                        0.5 * (low + high), k, f"{level:g}", ha="center", va="center", fontsize=8, color=ROLES["ink"]
                    )
        a.set_yticks(range(len(found.share)), [f"style {k + 1}, {share:.0%}" for k, share in enumerate(found.share)])
        a.invert_yaxis()
        a.grid(False)
        a.set(xlabel="latent value, in units of the levels", xlim=(start - reach, stop + reach))

    return draw(ax, paint)


def level_bars(levels: Array, chance: Array, names: Sequence[str], ax: Any = None) -> Any:
    """P(level) of some cells as bars side by side."""

    def paint(a: Any) -> None:
        width = 0.8 / len(chance)
        at = np.arange(len(levels))
        for k, (one, name) in enumerate(zip(chance, names, strict=True)):
            a.bar(at + (k + 0.5) * width - 0.4, one, width, color=ROLES[SERIES[k % len(SERIES)]], label=name)
        a.set_xticks(at, [f"{level:g}" for level in levels])
        a.set(xlabel="level", ylabel="P(level)")
        if len(chance) > 1:
            a.legend()

    return draw(ax, paint)


def calibration(found: Sequence[tuple[str, Calibration]], ax: Any = None) -> Any:
    """Coverage minus nominal level of central prediction intervals."""

    def paint(a: Any) -> None:
        level, band = found[0][1].level, 2.0 * found[0][1].error
        a.fill_between(100 * level, -100 * band, 100 * band, color=ROLES["c6"], alpha=0.25, lw=0)
        a.axhline(0.0, color=ROLES["c6"], lw=1, ls=(0, (4, 3)))
        for (name, one), color in zip(found, roles([name for name, _ in found]), strict=True):
            off = 100 * (one.covered - one.level)
            a.plot(100 * one.level, off, "o-", ms=3.5, lw=1.6, color=color, label=name)
        a.set(xlabel="nominal level of the interval, %", ylabel="coverage − level, points", xlim=(0, 100))
        reach = max(2.0, 1.15 * max(np.max(np.abs(100 * (c.covered - c.level))) for _, c in found))
        a.set_ylim(-reach, reach)
        if len(found) > 1:
            a.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, columnspacing=1.0)

    return draw(ax, paint)


def trace(found: Sequence[tuple[str, Array, Array]], ax: Any = None) -> Any:
    """Validation log likelihood by sweep, or else the bound's distance from its last value."""

    def paint(a: Any) -> None:
        validated = all(len(valid) for _, _, valid in found)
        for (name, bound, valid), color in zip(found, roles([f[0] for f in found]), strict=True):
            y = valid if validated else (bound[-1] - bound[:-1]) / max(abs(bound[-1]), 1e-300)
            a.plot(np.arange(1, len(y) + 1), y, "-", lw=1.8, color=color, label=name)
            if validated:
                top = int(np.argmax(valid))
                a.plot(top + 1, valid[top], "o", ms=5, color=color)
        if not validated:
            a.set_yscale("log")
        a.set(
            xlabel="sweep",
            ylabel="validation log likelihood" if validated else "relative distance of the bound",
        )
        if len(found) > 1:
            a.legend()

    return draw(ax, paint)


def activity(sides: tuple[Activity, Activity], ax: Any = None) -> Any:
    """Expected counts of rows and columns by rank, and observed cells where known."""

    def paint(a: Any) -> None:
        for name, one, role in zip(("rows", "columns"), sides, SERIES[:2], strict=True):
            rank = np.arange(1, len(one.expected) + 1)
            if one.observed is not None:
                shown = one.observed > 0
                a.plot(
                    rank[shown],
                    one.observed[shown],
                    ".",
                    ms=2.5,
                    alpha=0.35,
                    color=ROLES[role],
                    rasterized=True,
                )
            a.plot(rank, one.expected, "-", lw=2, color=ROLES[role], label=name)
        a.set(xscale="log", yscale="log", xlabel="rank", ylabel="expected count  Σ Λ")
        a.legend()

    return draw(ax, paint)


def detection(mechanism: LearnedMechanism, ends: Array, ax: Any = None) -> Any:
    """P(observed | y) between two values, with its band."""
    found = mechanism.curve(np.linspace(ends[0], ends[1], POINTS))

    def paint(a: Any) -> None:
        a.fill_between(found["value"], found["low"], found["high"], color=ROLES["c1"], alpha=0.2, lw=0)
        a.plot(found["value"], found["observed"], lw=2, color=ROLES["c1"])
        a.set(xlabel="value", ylabel="P(observed | value)", ylim=(0, 1))

    return draw(ax, paint)


def sensitivity(found: Sensitivity, ax: Any = None) -> Any:
    """A statistic against the shift of the missing values, with its interval."""

    def paint(a: Any) -> None:
        order = np.argsort(found.delta)
        x = found.delta[order]
        lines = found.estimate.reshape(len(x), -1)[order].T
        low, high = (None if e is None else e.reshape(len(x), -1)[order].T for e in (found.low, found.high))
        for k, line in enumerate(lines):
            color = ROLES[SERIES[k % len(SERIES)]]
            if low is not None and high is not None:
                a.fill_between(x, low[k], high[k], color=color, alpha=0.2, lw=0)
            a.plot(x, line, "o-", ms=4, lw=1.8, color=color, label=f"statistic {k}")
        a.axvline(0.0, color=ROLES["c6"], lw=1, ls=(0, (4, 3)))
        a.set(xlabel=", ".join(UNITS[found.unit]), ylabel="statistic")
        if len(lines) > 1:
            a.legend()

    return draw(ax, paint)


def volcano(found: GroupTest, ax: Any = None, rate: float = 0.05) -> Any:
    """−log10 p of each row against its difference; rows below the false discovery rate are marked."""

    def paint(a: Any) -> None:
        height, sure = -np.log10(np.maximum(found.p, 1e-300)), found.q < rate
        for which, role, label in ((~sure, "c6", "other rows"), (sure, "c2", f"false discovery rate below {rate:.0%}")):
            a.plot(found.difference[which], height[which], "o", ms=4, alpha=0.7, color=ROLES[role], label=label)
        first, second = found.groups
        a.set(xlabel=f"difference, {second} − {first}", ylabel="−log10 p")
        a.legend()

    return draw(ax, paint)


def as_svg(ax: Any, name: str, alt: str = "") -> str:
    """The figure of an Axes as an inline SVG that takes colours and font from the page around it.

    ``name`` and ``alt``, what the figure shows in words, are for readers who cannot see it.
    """
    mpl, stream = matplotlib(), io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        ax.figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    for role, color in ROLES.items():
        text = text.replace(color, f"var(--{role})")
    text = re.sub(r"font: ([0-9.]+px|[^;'\"]*?([0-9.]+px))[^;'\"]*", _font, text)
    text = re.sub(r' id="(?:figure|axes|patch|line2d|text|xtick|ytick|legend|matplotlib\.axis)_\d+"', "", text)
    words = f"<desc>{escape(alt)}</desc>" if alt else ""
    label = escape(f"{name}. {alt}" if alt else name)

    def opening(match: re.Match[str]) -> str:
        return f'<svg viewBox="{match.group(1)}" role="img" aria-label="{label}">{words}'

    return re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', opening, text, count=1)


def _font(match: re.Match[str]) -> str:
    size = re.search(r"[0-9.]+px", match.group(0))
    weight = "600 " if "600" in match.group(0) or "bold" in match.group(0) else ""
    return f"font: {weight}{size.group(0) if size else '10px'} var(--sans)"
