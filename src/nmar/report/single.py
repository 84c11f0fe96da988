"""The page about a single fitted model: what it says, how far it may be trusted, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from html import escape
from typing import Any

from nmar.data.cells import Cells
from nmar.data.labels import labels_of
from nmar.evaluate import curves
from nmar.evaluate.gains import Judges
from nmar.evaluate.imputed import assumption
from nmar.evaluate.notes import ERROR, KINDS, POPULATIONS
from nmar.evaluate.scoring import score
from nmar.posterior.posterior import Posterior
from nmar.report.described import Group, Labels, groups, kind_of, linkage_words, model_facts
from nmar.report.document import Fact, Figure, facts, figure_cards, page
from nmar.report.drawn import (
    activity_figure,
    calibration_figure,
    covered,
    detection_figure,
    error_at,
    linkage_figures,
    styles_figure,
    trace_figure,
)
from nmar.report.tables import minus

LEVELS = (0.5, 0.8, 0.9, 0.95)


def model_page(
    model: Any,
    cells: Cells | None = None,
    name: str = "model",
    columns: Mapping[str, str | None] | None = None,
    row_labels: Any = None,
    col_labels: Any = None,
) -> str:
    """The report of a single fitted model, with scores and calibration where cells are given.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    cells : Cells or None, default=None
        Held-out cells.
    name : str, default="model"
        File of the model, for the commands at the end of the page.
    columns : dict or None, default=None
        Names of the columns ``row``, ``col`` and ``value`` of the user's tables, where known.
    row_labels, col_labels : dict, Series, table or None, default=None
        Names of rows and of columns to show in place of ids.
    """
    known = curves.posterior_of(model)
    kind = KINDS[kind_of(model)]
    labels = Labels(labels_of(row_labels, known.rows.ids), labels_of(col_labels, known.cols.ids))
    found = None if cells is None or not len(cells) else curves.calibration(model, cells)
    parts = [
        f'<section class="verdict" aria-label="summary"><p><strong>{escape(kind.full)}</strong>'
        f' <span class="technical">[{kind.technical}]</span></p><p>{escape(linkage_words(model))}</p></section>',
        facts(model_facts(model)),
        _judged(known, cells, found),
        _members(model, labels),
        "<h2>What predictions are about</h2>"
        f"<p>{escape(POPULATIONS[known.law.target])}</p>"
        "<h3>What imputation takes for granted</h3>"
        f"<p>{escape(assumption(known.law, known.state.shared.linkage, known.state.shared.mechanism))}</p>",
        figure_cards(_figures(model, found)),
        _next(name, columns or {}),
    ]
    return page("What this model has learned", name, "".join(parts))


def _judged(known: Posterior, cells: Cells | None, found: curves.Calibration | None) -> str:
    """Scores and coverage on held-out cells, or how to get them."""
    if cells is None or found is None:
        return (
            '<h2>On held-out cells</h2><p class="note">No cells were given to judge by. Cells that the model was not'
            " fitted to (<code>--test</code>) add its scores and the coverage of its intervals.</p>"
        )
    each = score(known, cells)
    se = Judges.of([cells]).error(each.predictive)
    shown = [
        Fact("log likelihood", minus(f"{each.predictive.mean():.4f}"), f"± {se:.4f}"),
        Fact("plug-in", minus(f"{each.plugin.mean():.4f}")),
        Fact("RMSE", f"{each.rmse:.4f}"),
        Fact("cells", f"{len(cells):,}"),
    ]
    rows = "".join(
        f'<tr><th scope="row">{level:.0%}</th><td>{covered(found, level):.1%}</td>'
        f"<td>± {100 * error_at(found, level):.1f}</td></tr>"
        for level in LEVELS
    )
    return (
        f"<h2>On held-out cells</h2><p>{_scored_by(known)} in nats per cell; higher is better. {ERROR}.</p>"
        f"{facts(shown)}<h3>Do its intervals keep their promise?</h3>"
        '<div class="card fit"><table><thead><tr><th scope="col">promised</th><th scope="col">values inside</th>'
        f'<th scope="col">± points</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _scored_by(known: Posterior) -> str:
    return "Log likelihood" if known.law.scale is None else "Log likelihood, which of levels is log P(level),"


def _members(model: Any, labels: Labels) -> str:
    """Factors, clusters and components by their members."""
    parts = []
    for title, words, found in groups(model, labels):
        cards = "".join(_group(one) for one in found)
        parts.append(f'<h2>{escape(title)}</h2><p>{escape(words)}</p><div class="groups">{cards}</div>')
    return "".join(parts)


def _group(one: Group) -> str:
    lines = "".join(f"<dt>{escape(what)}</dt><dd>{escape(ids)}</dd>" for what, ids in one.members)
    return (
        f'<div class="card group"><h3>{escape(one.name)} <small>{escape(one.detail)}</small></h3><dl>{lines}</dl></div>'
    )


def _figures(model: Any, found: curves.Calibration | None) -> list[Figure]:
    drawn: list[Figure] = []
    known = curves.posterior_of(model)
    linkage = known.state.shared.linkage
    if known.state.shared.mechanism is not None:
        drawn.append(detection_figure(known))
    elif linkage.bins != "known" and linkage.couples:
        drawn += linkage_figures([curves.linkage_curve(model)], linkage.name == "linear")
    if curves.posterior_of(model).law.scale is not None:
        drawn.append(styles_figure(curves.level_curves(model)))
    if found is not None:
        drawn.append(calibration_figure([("model", found)]))
    if len(curves.trace_of(model)[0]) > 1:
        drawn.append(trace_figure([("model", *curves.trace_of(model))]))
    return [*drawn, activity_figure(curves.activity(model))]


def _next(name: str, columns: Mapping[str, str | None]) -> str:
    """Commands and lines of Python with the names of this model."""
    file = shlex.quote(name)
    pair, three = (
        " ".join(f"--{key} {shlex.quote(columns.get(key) or key.upper())}" for key in keys)
        for keys in (("row", "col"), ("row", "col", "value"))
    )
    steps = [
        ("Score it on cells it has not seen", f"nmar evaluate {file} test.csv {three}"),
        ("Predict cells, with intervals", f"nmar predict {file} pairs.csv {pair} --level 0.9 -o predictions.csv"),
        ("List the best columns of a row", f"nmar recommend {file} --rows ID --n 10 --seen data.csv {three}"),
        ("Factors of new rows", f"nmar transform {file} new.csv {three} -o factors.csv"),
        ("Ask whether modelling the missingness is worth it", f"nmar compare data.csv {three} -o report.html"),
        (
            "Check what it does not reproduce (Python)",
            f"model = nmar.load({name!r})\nprint(nmar.check(model, test_cells).verdict)",
        ),
        (
            "Complete the table, and see what the missing values might change (Python; needs the training cells)",
            "completed = model.impute(n=20)\n"
            "mean = lambda t: (t.iloc[:, 0].mean(), t.iloc[:, 0].sem() ** 2)\n"
            "print(completed.pool(mean))\n"
            "print(model.sensitivity(delta=[-1, -0.5, 0, 0.5, 1], statistic=mean))",
        ),
    ]
    listed = "".join(f"<li>{escape(what)}<pre><code>{escape(how)}</code></pre></li>" for what, how in steps)
    return f'<h2>What to do next</h2><ul class="next">{listed}</ul>'
