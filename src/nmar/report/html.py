"""Self-contained pages: one file, no outside resource, light or dark as the reader's system is.

Enters: a comparison or a single model. Leaves: the text of a page. Figures are inline SVG where matplotlib is
installed; without it the page holds the tables and says how to get the rest.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from html import escape
from importlib import metadata, resources
from typing import Any

from nmar.data.cells import Cells
from nmar.models.law import Law
from nmar.prob.linkage import Linkage
from nmar.report import curves, figures
from nmar.report.comparison import Comparison, Key
from nmar.report.forest import ROLES, forest
from nmar.report.missingness import residual_bins
from nmar.report.names import setting
from nmar.report.notes import CONTROLS, METHODS, POPULATIONS
from nmar.report.scoring import Scores, score
from nmar.report.tables import comparison_table, control_table, minus

Figure = tuple[str, str, Callable[[], Any]]  # title, caption, what draws it


def comparison_page(result: Comparison) -> str:
    """The report of a comparison."""
    how = result.setting
    parts = [
        f'<section class="verdict" aria-label="verdict">{_verdict(result)}</section>',
        _facts(_data_facts(result)),
        "<h2>Held-out log likelihood</h2>",
        f"<p>{_split_words(result)} Higher is better; ± one standard error.</p>",
        f'<div class="card scroll">{comparison_table(result)}</div>',
        _against(result),
        _figures(_comparison_figures(result)),
        _methods(),
    ]
    return page("What is the missingness worth?", how.name, "".join(parts))


def model_page(model: Any, cells: Cells | None = None, name: str = "model") -> str:
    """The report of a single fitted model, with scores and calibration where cells are given."""
    known = curves.posterior_of(model)
    parts = []
    if cells is not None:
        parts.append(_facts(_score_facts(score(known, cells))))
    about = f'<p class="note">{POPULATIONS[known.law.target]}</p>'
    parts.append("<h2>The model</h2>" + _facts(_model_facts(model)) + about)
    parts.append(_figures(_model_figures(model, cells)))
    return page("Coupled compound Poisson factorization", name, "".join(parts))


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


def _against(result: Comparison) -> str:
    """Coupled models against the controls: table, plot, and what each control would mean."""
    if all(row.best_control is None for row in result.rows):
        return ""
    meanings = "".join(
        f'<div style="--role:var(--{ROLES[kind]})"><h3><span class="key"></span>{name}</h3><p>{what}</p>'
        f'<p class="note">If it wins: {meaning}</p></div>'
        for kind, name, what, meaning in CONTROLS
    )
    return (
        "<h2>Against the best control</h2>"
        "<p>The gain that counts: coupled − best control, in nats per cell, paired by cell.</p>"
        f'<div class="card scroll">{control_table(result)}</div>'
        '<figure class="card"><h3>Log likelihood less that of the best control</h3>'
        f"{forest(result)}<figcaption>Nats per cell; bars reach two standard errors each way. A coupled model whose bar"
        " does not clear zero has shown no gain from the missingness. Arrows: beyond the axis.</figcaption></figure>"
        f'<div class="controls">{meanings}</div>'
    )


def _facts(facts: list[tuple[str, str]]) -> str:
    return '<dl class="facts">' + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts) + "</dl>"


def _verdict(result: Comparison) -> str:
    found, several = [], len(result.verdict.findings) > 1
    for one in result.verdict.findings:
        data = f"<strong>{escape(one.data)}</strong>: " if several else ""
        found.append(
            f"<p>{data}{minus(escape(one.text))}</p><p>Recommended: <strong>{escape(one.recommended)}</strong></p>"
            f"<pre><code>{escape(one.line)}</code></pre>"
        )
    return "".join(found)


def _data_facts(result: Comparison) -> list[tuple[str, str]]:
    about, how = result.summary, result.setting
    return [
        ("rows × columns", f"{about.rows:,} × {about.cols:,}"),
        ("observed cells", f"{about.observed:,}"),
        ("density", f"{about.density:.2%}"),
        ("values", f"{minus(f'{about.mean:.3g}')} <small>± {about.sd:.3g}</small>"),
        ("range", minus(f"{about.low:.4g} … {about.high:.4g}")),
        ("held-out cells", f"{how.n_test:,} <small>{'× ' + str(how.seeds) if how.seeds > 1 else ''}</small>"),
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


def _model_facts(model: Any) -> list[tuple[str, str]]:
    known = curves.posterior_of(model)
    shared, law = known.state.shared, known.law
    c = getattr(shared.linkage, "c", None)
    linkage = escape(shared.linkage.name) + (f" <small>c = {c:.3g}</small>" if c is not None else "")
    facts = [
        ("rows × columns", f"{len(known.rows):,} × {len(known.cols):,}"),
        ("family", escape(law.family.name)),
        ("linkage", linkage + _model_settings(law, shared.linkage)),
        ("dispersion", f"{known.dispersion:.4g}"),
        ("pattern components", str(law.pattern.factors)),
    ]
    reason = getattr(model, "stop_reason_", None)
    return facts + ([("sweeps", f"{model.n_iter_} <small>{escape(reason)}</small>")] if reason else [])


def _model_settings(law: Law, linkage: Linkage) -> str:
    """s, ω and whether it is a control, where they are not the usual ones."""
    found = setting("s", [linkage.events])
    if law.control:
        found += ", tail-only control"
    elif linkage.couples:
        found += ", blind" if law.trust == 0.0 else setting("ω", [law.trust])
    return f" <small>{found.removeprefix(', ')}</small>" if found else ""


def _score_facts(found: Scores) -> list[tuple[str, str]]:
    se = found.predictive.std(ddof=1) / len(found.predictive) ** 0.5
    return [
        ("log likelihood", f"{found.predictive.mean():.4f} <small>± {se:.4f}</small>".replace("-", "−")),
        ("plug-in", f"{found.plugin.mean():.4f}".replace("-", "−")),
        ("RMSE", f"{found.rmse:.4f}"),
        ("cells", f"{len(found.predictive):,}"),
    ]


def _methods() -> str:
    notes = "".join(f"<div><h3>{t}</h3><p>{escape(text)}</p></div>" for t, text in METHODS)
    return f'<h2>How to read this</h2><div class="methods">{notes}</div>'


def _figures(wanted: list[Figure]) -> str:
    try:
        figures.matplotlib()
    except ImportError:
        return (
            '<h2>Figures</h2><p class="note">The figures (linkage, residual variance, calibration, traces)'
            " need matplotlib: <code>pip install 'nmar[report]'</code>, then write this report again.</p>"
        )
    drawn = [
        f'<figure class="card"><h3>{title}</h3>{figures.as_svg(draw(), title)}'
        f"<figcaption>{caption}</figcaption></figure>"
        for title, caption, draw in wanted
    ]
    return f'<h2>A closer look</h2><div class="figures">{"".join(drawn)}</div>' if drawn else ""


def _comparison_figures(result: Comparison) -> list[Figure]:
    """Figures of the best data model from the first seed's fits: all models, and the best control."""
    model, cells = result.best().data, result.test_cells[0]
    used = result.best_control(model)
    first = {k: v[0] for k, v in result.entries.items() if k.data == model and (not k.control or k == used)}
    coupled = {k: e for k, e in first.items() if k.kind in ("coupled", "blind")}
    base = first[Key(model, "ignorable")].fitted.posterior
    found: list[Figure] = []
    if coupled:
        lines = [curves.linkage_curve(e.fitted)._replace(name=result.name(k)) for k, e in coupled.items()]
        found += _linkage_figures(lines)
    if len(cells) >= 20:
        bins = residual_bins(base, cells)
        found.append(
            (
                "Residual variance against P(observed)",
                "Held-out squared residuals of the ignorable model, in equal-sized bins of cells that were"
                " about equally likely to be observed.",
                lambda: figures.heteroscedasticity(bins),
            )
        )
    named = [(result.name(k), e.fitted) for k, e in first.items()]
    found.append(_calibration_figure([(n, curves.calibration(f, cells)) for n, f in named]))
    found.append(_trace_figure([(n, *curves.trace_of(f)) for n, f in named]))
    found.append(_activity_figure(curves.activity(base)))
    return found


def _linkage_figures(lines: list[curves.LinkageCurve]) -> list[Figure]:
    return [
        (
            "The fitted linkage",
            "By how much a latent count of n multiplies the dispersion. Dashed: ignorable.",
            lambda: figures.linkage(lines),
        ),
        (
            "Expected dispersion against P(observed)",
            "The same linkage averaged over the counts of a cell with that chance of being observed.",
            lambda: figures.expected_linkage(lines),
        ),
    ]


def _calibration_figure(found: list[tuple[str, curves.Calibration]]) -> Figure:
    caption = (
        "How many more (or fewer) held-out values lie inside central prediction intervals than promised."
        " Grey: two standard errors."
    )
    return "Calibration of intervals", caption, lambda: figures.calibration(found)


def _trace_figure(found: list[tuple[str, Any, Any]]) -> Figure:
    validated = all(len(valid) for _, _, valid in found)
    caption = (
        "Mean log likelihood of the validation cells by sweep; the dot is the state that was kept."
        if validated
        else "How far the bound is from its last value, by sweep."
    )
    return "Traces of the fits", caption, lambda: figures.trace(found)


def _model_figures(model: Any, cells: Cells | None) -> list[Figure]:
    found: list[Figure] = []
    known = curves.posterior_of(model)
    if known.state.shared.linkage.bins != "known":
        found += _linkage_figures([curves.linkage_curve(model)])
    if cells is not None and len(cells):
        found.append(_calibration_figure([("model", curves.calibration(model, cells))]))
    if len(curves.trace_of(model)[0]) > 1:
        found.append(_trace_figure([("model", *curves.trace_of(model))]))
    found.append(_activity_figure(curves.activity(model)))
    return found


def _activity_figure(sides: tuple[curves.Activity, curves.Activity]) -> Figure:
    caption = "Expected counts Σ Λ of rows and of columns, by rank: how uneven the pattern is."
    return "Activity and popularity", caption, lambda: figures.activity(sides)
