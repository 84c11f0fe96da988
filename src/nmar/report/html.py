"""Self-contained pages: the report of a comparison, and (:mod:`nmar.report.single`) that of a model.

Enters: a comparison or a single model. Leaves: the text of a page. Figures are inline SVG where matplotlib is
installed; without it the page holds the tables and says how to get the rest.
"""

from __future__ import annotations

from html import escape

from nmar.evaluate import curves
from nmar.evaluate.comparison import Comparison, Key
from nmar.evaluate.missingness import residual_bins
from nmar.evaluate.notes import KINDS, METHODS
from nmar.report.document import Fact, Figure, facts, figure_cards, page
from nmar.report.drawn import activity_figure, calibration_figure, linkage_figures, residual_figure, trace_figure
from nmar.report.forest import ROLES, forest
from nmar.report.single import model_page
from nmar.report.tables import comparison_table, control_table, minus, named

__all__ = ["comparison_page", "model_page"]


def comparison_page(result: Comparison) -> str:
    """The report of a comparison: plain words, then the gains, then every number."""
    parts = [
        f'<section class="verdict" aria-label="verdict">{_verdict(result)}</section>',
        facts(_data_facts(result)),
        _against(result),
        "<h2>Every model on the held-out cells</h2>",
        f"<p>{escape(_split_words(result))} Higher is better; ± one standard error.</p>",
        f'<div class="card scroll">{comparison_table(result)}</div>',
        figure_cards(_comparison_figures(result)),
        _methods(),
    ]
    return page("What is the missingness worth?", result.setting.name, "".join(parts))


def _against(result: Comparison) -> str:
    """Models of the missingness against the controls: plot, what each would mean, and the table."""
    if all(row.best_control is None for row in result.rows):
        return ""
    fitted = {row.kind for row in result.rows}
    meanings = "".join(
        f'<div style="--role:var(--{ROLES[kind]})"><h3><span class="key"></span>{escape(one.full)}'
        f' <span class="technical">[{escape(one.technical)}]</span></h3><p>{escape(one.what)}</p>'
        f'<p class="note">If it wins: {escape(one.wins)}</p></div>'
        for kind, one in KINDS.items()
        if kind in fitted
    )
    return (
        "<h2>What explains the values best?</h2>"
        "<p>Modelling the missingness counts as a gain only if it beats the best of the other explanations (controls),"
        f" in {result.unit}, held out, paired by cell. A hundredth of a nat more makes a held-out value one per cent"
        " more probable.</p>"
        '<figure class="card forests"><h3>Better or worse than the best control</h3>'
        f"{forest(result)}<figcaption>The upright line at 0 is the best control: left of it is worse, right of it"
        " better. Nats per cell; bars reach two standard errors each way. A model of the missingness whose bar does not"
        " clear the line has shown no gain. Arrows: beyond the axis.</figcaption></figure>"
        f'<div class="controls">{meanings}</div>'
        "<h3>The same in numbers</h3>"
        f'<div class="card scroll">{control_table(result)}</div>'
    )


def _verdict(result: Comparison) -> str:
    found, several = [], len(result.verdict.findings) > 1
    kinds = {(row.data, row.name): row.kind for row in result.rows}
    for one in result.verdict.findings:
        data = f"<strong>{escape(one.data)}</strong>: " if several else ""
        used = named(kinds[one.data, one.recommended], one.recommended)
        found.append(
            f'<p class="plain">{data}{escape(one.plain)}</p><p>{minus(escape(one.numbers))}</p>'
            f"<p>Recommended: <strong>{used}</strong></p><pre><code>{escape(one.line)}</code></pre>"
        )
    return "".join(found)


def _data_facts(result: Comparison) -> list[Fact]:
    about, how = result.summary, result.setting
    return [
        Fact("rows × columns", f"{about.rows:,} × {about.cols:,}"),
        Fact("observed cells", f"{about.observed:,}"),
        Fact("density", f"{about.density:.2%}"),
        Fact("values", minus(f"{about.mean:.3g}"), f"sd {about.sd:.3g}"),
        Fact("range", minus(f"{about.low:.4g} … {about.high:.4g}")),
        Fact("held-out cells", f"{how.n_test:,}", f"× {how.seeds}" if how.seeds > 1 else ""),
    ]


def _split_words(result: Comparison) -> str:
    how = result.setting
    origin = "A split given by the user" if how.given else f"A random split of the observed cells (seed {how.seed})"
    if how.seeds > 1:
        several = f"{how.seeds} starts" if how.given else f"{how.seeds} random splits, each with a start of its own"
        origin = f"{origin if how.given else ''}{' and ' if how.given else ''}{several}"
        origin += f" (seeds {how.seed}–{how.seed + how.seeds - 1})"
    cold = f", {how.cold:,} of them in a row or column without any training cell" if how.cold else ""
    stopping = f"{how.n_valid:,} to stop on, " if how.n_valid else ""
    return (
        f"{origin}: {how.n_train:,} cells to train, {stopping}{how.n_test:,} to judge{cold}. All models see"
        f" the same cells; the pattern has {how.factors} components."
    )


def _methods() -> str:
    notes = "".join(f"<div><h3>{t}</h3><p>{escape(text)}</p></div>" for t, text in METHODS)
    return f'<h2>How to read this</h2><div class="methods">{notes}</div>'


def _comparison_figures(result: Comparison) -> list[Figure]:
    """Figures of the best data model from the first seed's fits: all models, and the best control."""
    model, cells = result.best().data, result.test_cells[0]
    used = result.best_control((result.modelled(model) or [Key(model, "ignorable")])[0])
    first = {k: v[0] for k, v in result.entries.items() if k.data == model and (not k.control or k == used)}
    coupled = {k: e for k, e in first.items() if k.kind == "coupled"}
    base = first[Key(model, "ignorable")].fitted.posterior
    found: list[Figure] = []
    if coupled:
        lines = [curves.linkage_curve(e.fitted)._replace(name=result.name(k)) for k, e in coupled.items()]
        linear = any(e.fitted.posterior.state.shared.linkage.name == "linear" for e in coupled.values())
        found += linkage_figures(lines, linear)
    if len(cells) >= 20:
        found.append(residual_figure(residual_bins(base, cells)))
    fits = [(result.name(k), e.fitted) for k, e in first.items()]
    found.append(calibration_figure([(n, curves.calibration(f, cells)) for n, f in fits]))
    found.append(trace_figure([(n, *curves.trace_of(f)) for n, f in fits]))
    found.append(activity_figure(curves.activity(base)))
    return found
