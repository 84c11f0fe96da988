"""The page of :func:`nmar.why_missing`: the verdict, the mechanisms, and what is missing."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.evaluate.why import Explanation, WhyCurves, WhyMissing
from nmar.report.document import Fact, Figure, facts, figure_cards, page
from nmar.report.figures import ROLES, detection, draw
from nmar.report.tables import minus
from nmar.report.text import gain

__all__ = ["detection_curve", "missing_by_mean", "value_histograms", "why_page"]

COLORS = {"none": "c3", "taste": "c4", "value": "c1"}
BINS = 12  # of fitted means
BARS = 40  # of histograms
NOTES = (
    ("What is held out", "A tenth of all cells, observed or not, is hidden from every fit. An observed cell scores"
     " log P(observed) + log p(value | observed), a missing one by log P(missing). Gains are in nats for each observed"
     " cell held out, paired by cell, ± one standard error over cells, rows and columns."),
    ("The mechanisms", "none: rows and columns decide how often cells are seen. taste: what rows and columns choose"
     " describes their values. value: the rate of being seen rises or falls with the value itself. + pattern: the"
     " pattern's factors have a say in which cells are seen, beside rows and columns."),
    ("What cells cannot tell", "That the curve of P(observed) has the assumed form, with one slope for all cells, is"
     " taken for granted. A mechanism that gains in the whole and loses in the values is refused. Where two tie, what"
     " is known of how the data came about has to decide."),
)  # fmt: skip


def why_page(found: WhyMissing) -> str:
    """The whole page."""
    parts = [
        f'<section class="verdict" aria-label="verdict"><p class="plain">{minus(escape(found.verdict))}</p></section>',
        facts(_facts(found)),
        "<h2>Every mechanism on held-out cells</h2>",
        "<p>Gains over rows and columns alone, in nats for each observed cell held out; higher is better.</p>",
        f'<div class="card scroll" tabindex="0" role="region" aria-label="mechanisms">{_table(found.rows)}</div>',
        figure_cards(_figures(found)),
        '<h2>How to read this</h2><div class="methods">',
        *(f"<div><h3>{escape(title)}</h3><p>{escape(text)}</p></div>" for title, text in NOTES),
        "</div>",
    ]
    return page("Why are values missing?", found.name, "".join(parts))


def _facts(found: WhyMissing) -> list[Fact]:
    means = {row.kind: row.mean_missing for row in found.shown}
    return [
        Fact("held-out cells", f"{found.n_seen:,}", f"observed, {found.n_missing:,} missing"),
        Fact("observed values", minus(f"{found.mean_observed:.4g}"), "mean"),
        *(Fact("missing values", minus(f"{mean:.4g}"), f"mean, by {kind!r}") for kind, mean in means.items()),
    ]


def _table(rows: tuple[Explanation, ...]) -> str:
    heads = ("mechanism", "whole", "values", "which cells are seen", "slope Γ", "mean of the missing")
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    lines = []
    for row in rows:
        gains = [minus(gain(one.mean, one.se)) for one in (row.gains[part] for part in ("whole", "value", "pattern"))]
        slope = minus(f"{row.slope:+.2f} ± {row.slope_sd:.2f}") if row.kind == "value" else "–"
        cells = "".join(f"<td>{one}</td>" for one in (*gains, slope, minus(f"{row.mean_missing:.4g}")))
        lines.append(f'<tr><th scope="row">{escape(row.name)}</th>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _figures(found: WhyMissing) -> list[Figure]:
    curves, drawn = found.curves, []
    if curves.mechanism is not None:
        y = np.quantile(curves.observed, [0.01, 0.99])
        low, high = curves.mechanism.curve(y)["observed"]
        drawn.append(
            Figure(
                "P(observed | value)",
                "In a row and column of average detection, with a 90 % band of the slope.",
                f"{low:.0%} at {y[0]:.3g}, {high:.0%} at {y[1]:.3g}",
                lambda: detection_curve(curves),
            )
        )
    share, _ = _by_mean(curves)
    drawn.append(
        Figure(
            "Missing share against the fitted mean",
            "Held-out cells in bins of what their value should be without a mechanism. Dots: the share that is missing;"
            " lines: what the fits expect.",
            f"{share['missing'][0]:.0%} in the lowest bin, {share['missing'][-1]:.0%} in the highest",
            lambda: missing_by_mean(curves),
        )
    )
    words = "; ".join(f"missing by {kind}: mean {values.mean():.3g}" for kind, values in curves.drawn.items())
    drawn.append(
        Figure(
            "Observed values, and missing ones as expected",
            "Shares of the observed values, and of a draw for each of some missing cells.",
            f"observed: mean {curves.observed.mean():.3g}; {words}",
            lambda: value_histograms(curves),
        )
    )
    return drawn


def detection_curve(curves: WhyCurves, ax: Any = None) -> Any:
    """P(observed | y) with its band, over the range of the observed and the missing values."""
    assert curves.mechanism is not None
    values = np.concatenate([curves.observed, *curves.drawn.values()])
    return detection(curves.mechanism, np.quantile(values, [0.002, 0.998]), ax)


def _by_mean(curves: WhyCurves) -> tuple[dict[str, Array], Array]:
    """Share of missing cells by bins of the fitted mean, as it is and as fits expect, and the middle of the bins."""
    order = np.argsort(curves.fitted, kind="stable")
    part = np.cumsum(curves.times[order])
    number = np.minimum((BINS * part / part[-1]).astype(int), BINS - 1)
    weight = np.bincount(number, curves.times[order], BINS)

    def mean(of: Array) -> Array:
        return np.asarray(np.bincount(number, (curves.times * of)[order], BINS) / weight)

    return {"missing": mean(curves.missing), **{kind: mean(p) for kind, p in curves.chance.items()}}, mean(
        curves.fitted
    )


def missing_by_mean(curves: WhyCurves, ax: Any = None) -> Any:
    """The share of missing cells against the fitted mean."""
    share, middle = _by_mean(curves)

    def paint(a: Any) -> None:
        for kind, expected in share.items():
            if kind == "missing":
                a.plot(middle, expected, "o", ms=5, color=ROLES["ink"], label="missing")
            else:
                a.plot(middle, expected, "-", lw=1.8, color=ROLES[COLORS[kind]], label=f"expected by {kind!r}")
        a.set(xlabel="fitted mean without a mechanism", ylabel="share of cells that is missing")
        a.set_ylim(bottom=0)
        a.legend()

    return draw(ax, paint)


def value_histograms(curves: WhyCurves, ax: Any = None) -> Any:
    """Histogram of the observed values, and of draws of missing ones."""
    values = np.concatenate([curves.observed, *curves.drawn.values()])
    low, high = np.quantile(values, [0.001, 0.999])
    edges = np.linspace(low, high, BARS + 1)

    def paint(a: Any) -> None:
        share = np.histogram(curves.observed, edges)[0] / len(curves.observed)
        a.stairs(share, edges, fill=True, color=ROLES["c6"], alpha=0.45, label="observed")
        for kind, drawn in curves.drawn.items():
            share = np.histogram(drawn, edges)[0] / len(drawn)
            a.stairs(share, edges, lw=1.8, color=ROLES[COLORS[kind]], label=f"missing, by {kind!r}")
        a.set(xlabel="value", ylabel="share")
        a.legend()

    return draw(ax, paint)
