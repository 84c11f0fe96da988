"""The tables of a comparison in HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from nmar.evaluate.comparison import Comparison
from nmar.evaluate.notes import KINDS
from nmar.report.text import signed


def comparison_table(result: Comparison) -> str:
    """The rows as fitted, the model to use marked."""
    heads = ("model", "log likelihood", "over ignorable", "plug-in", "RMSE", "seconds", "sweeps")
    used = result.recommended()
    lines = []
    for row in result.rows:
        kind = "best" if row is used else "control" if row.control else ""
        badge = '<span class="badge">recommended</span>' if row is used else ""
        reasons = escape(row.stop_reason.replace("/", ", "))
        stopped = f'{row.n_iter} <span class="technical">{reasons}</span>'
        values = (
            _with_se(f"{row.log_likelihood:.4f}", row.se),
            _gain(row.gain, row.gain_se),
            minus(f"{row.plugin:.4f}"),
            f"{row.rmse:.4f}",
            f"{row.seconds:.1f}",
            stopped,
        )
        lines.append((row.data, kind, f"{named(row.kind, row.name)}{badge}", values))
    return _table("Held-out log likelihood of every model", heads, lines)


def control_table(result: Comparison) -> str:
    """The models of the missingness against each control and against the best of them."""
    over = [f"over {KINDS['two-stage'].plain} [two-stage]", "over its own control [tail, shuffled]"]
    heads = ["model of the missingness", "over the best control", "best control", *over]
    lines = []
    for row in (r for r in result.rows if r.best_control is not None):
        values = (
            f"<strong>{_gain(row.gain_over_control, row.gain_over_control_se)}</strong>",
            escape(row.best_control or ""),
            _gain(row.gain_over_two_stage, row.gain_over_two_stage_se),
            _gain(row.gain_over_own, row.gain_over_own_se),
        )
        lines.append((row.data, "", named(row.kind, row.name), values))
    return _table("Models of the missingness against each control", heads, lines)


def named(kind: str, name: str) -> str:
    """Plain words first, the technical name in brackets."""
    return f'{escape(KINDS[kind].plain)} <span class="technical">[{escape(name)}]</span>'


def _table(title: str, heads: Sequence[str], lines: Sequence[tuple[str, str, str, Sequence[str]]]) -> str:
    """Lines of data model, class, name and cells; a heading for each data model where there are several.

    On a narrow screen a line becomes a block, each cell with its heading (``data-head``) before it; roles are written
    out because browsers forget those of a table that is laid out otherwise.
    """
    body, previous, several = [], None, len({line[0] for line in lines}) > 1
    for data, kind, name, values in lines:
        if several and data != previous:
            span = f'colspan="{len(heads)}" scope="rowgroup" role="rowheader"'
            body.append(f'<tr class="group" role="row"><th {span}>{escape(data)}</th></tr>')
        previous = data
        cells = "".join(
            f'<td role="cell" data-head="{escape(head)}"><span>{value}</span></td>'
            for head, value in zip(heads[1:], values, strict=True)
        )
        style = f' class="{kind}"' if kind else ""
        body.append(f'<tr{style} role="row"><th scope="row" role="rowheader">{name}</th>{cells}</tr>')
    head = "".join(f'<th scope="col" role="columnheader">{escape(h)}</th>' for h in heads)
    return (
        f'<table class="stacks" role="table" aria-label="{escape(title)}"><thead role="rowgroup"><tr role="row">{head}'
        f'</tr></thead><tbody role="rowgroup">{"".join(body)}</tbody></table>'
    )


def _with_se(text: str, se: float) -> str:
    return f'<span class="number">{minus(text)} <span class="se">± {se:.4f}</span></span>'


def minus(text: str) -> str:
    """A hyphen before a digit becomes a minus sign."""
    return re.sub(r"-(?=\d)", "−", text)


def _gain(mean: float | None, se: float | None) -> str:
    return "–" if mean is None or se is None else _with_se(signed(mean), se)
