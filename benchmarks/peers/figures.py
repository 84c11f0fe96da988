"""The plots of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.peers.libraries import LIBRARIES
from benchmarks.peers.summary import Record, Row, digits, threaded
from nmar.report.figures import ROLES, STYLE

COLOURS = (
    "#3457d5",
    "#6d8cf0",
    "#a9bcf7",
    "#d9480f",
    "#0c8577",
    "#9c36b5",
    "#c76adb",
    "#b08900",
    "#d9b740",
    "#24292f",
    "#8a94a0",
)
MARKERS = "os*Dv^<>Pph"
PALETTE = dict(zip(LIBRARIES, zip(COLOURS, MARKERS, strict=True), strict=True))


def _page(path: Path, size: tuple[float, float], paint: Callable[[Any], None]) -> None:
    with rc_context({**STYLE, "figure.facecolor": "white"}):
        page = Figure(figsize=size, layout="constrained")
        paint(page.add_subplot())
        page.savefig(path, dpi=120)


def bars(path: Path, rows: Sequence[Row], title: str, limits: dict[int, float]) -> None:
    """Seconds of a sweep, one bar a library and number of threads; lines where a gather-only sweep would end."""
    shown = [row for row in rows if row.seconds is not None]

    def paint(axes: Any) -> None:
        for place, row in enumerate(shown):
            found, colour = row.seconds, PALETTE[row.library][0]
            spread = [[found.median - found.low], [found.high - found.median]]
            shade = 1.0 if row.threads > 1 else 0.55
            axes.barh(place, found.median, color=colour, alpha=shade, height=0.75)
            axes.errorbar(found.median, place, xerr=spread, color=ROLES["ink"], capsize=3, lw=1)
            axes.annotate(
                digits(found.median), (found.high, place), xytext=(6, 0), textcoords="offset points", va="center"
            )
        for (threads, seconds), style in zip(sorted(limits.items()), ("--", "-", ":", "-."), strict=False):
            label = f"gather limit, {threaded(threads)}"
            axes.axvline(seconds, color=ROLES["muted"], lw=1.2, ls=style, label=label)
        axes.set_yticks(range(len(shown)), [row.label for row in shown])
        axes.invert_yaxis()
        axes.set(xscale="log", xlabel="seconds a sweep", title=title)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.12, y=0.02)
        if limits:
            axes.figure.legend(loc="outside lower right", ncols=len(limits))

    _page(path, (8.6, 1.6 + 0.33 * len(shown)), paint)


def lines(path: Path, rows: Sequence[Row], by: str, title: str, xlabel: str) -> None:
    """Seconds of a sweep against the attribute ``by`` of the rows, a line each library."""

    def paint(axes: Any) -> None:
        for library, (colour, marker) in PALETTE.items():
            mine = sorted((row for row in rows if row.library == library and row.seconds), key=lambda r: getattr(r, by))
            if not mine:
                continue
            x, y = [getattr(row, by) for row in mine], [row.seconds.median for row in mine]
            spread = [
                [row.seconds.median - row.seconds.low for row in mine],
                [row.seconds.high - row.seconds.median for row in mine],
            ]
            axes.errorbar(x, y, yerr=spread, color=colour, marker=marker, ms=5, lw=1.6, capsize=2, label=mine[0].title)
        ticks = sorted({getattr(row, by) for row in rows})
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel="seconds a sweep", title=title)
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    _page(path, (8.6, 4.6), paint)


def traces(path: Path, found: dict[tuple[str, int], list[Record]], title: str, enough: float) -> None:
    """Error of held-out cells against seconds of fitting, a line each library and number of threads."""

    def paint(axes: Any) -> None:
        for (library, threads), trace in found.items():
            colour, marker = PALETTE[library]
            x, y = [point["seconds"] for point in trace], [point["rmse"] for point in trace]
            label, style = f"{LIBRARIES[library].title}, {threaded(threads)}", "-" if threads > 1 else "--"
            axes.plot(x, y, color=colour, marker=marker, ms=4.5, lw=1.5, ls=style, label=label)
        axes.axhline(enough, color=ROLES["muted"], lw=1, ls=":", label=f"target {enough:.4f}")
        axes.set(xscale="log", xlabel="seconds of fitting", ylabel="RMSE of held-out cells", title=title)
        axes.legend()

    _page(path, (7.6, 4.4), paint)
