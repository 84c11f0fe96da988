"""The tables of a comparison in HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from nmar.report.comparison import Comparison


def comparison_table(result: Comparison) -> str:
    """The rows as fitted, the best one marked."""
    heads = ("model", "log likelihood", "plug-in", "over ignorable", "RMSE", "seconds", "sweeps")
    best = result.best()
    lines = []
    for row in result.rows:
        kind = "best" if row is best else "control" if row.control else ""
        badge = '<span class="badge">best</span>' if row is best else ""
        stopped = f'{row.n_iter} <span class="se">{escape(row.stop_reason)}</span>'
        values = (
            _with_se(f"{row.log_likelihood:.4f}", row.se),
            minus(f"{row.plugin:.4f}"),
            _gain(row.gain, row.gain_se),
            f"{row.rmse:.4f}",
            f"{row.seconds:.1f}",
            stopped,
        )
        lines.append((row.data, kind, f"{escape(row.name)}{badge}", values))
    return _table(heads, lines)


def control_table(result: Comparison) -> str:
    """The coupled models against each control and against the best of them."""
    heads = ("coupled model", "over tail", "over two-stage", "over blind", "over the best control", "best control")
    lines = []
    for row in (r for r in result.rows if r.best_control is not None):
        values = (
            _gain(row.gain_over_tail, row.gain_over_tail_se),
            _gain(row.gain_over_two_stage, row.gain_over_two_stage_se),
            _gain(row.gain_over_blind, row.gain_over_blind_se),
            f"<strong>{_gain(row.gain_over_control, row.gain_over_control_se)}</strong>",
            escape(row.best_control or ""),
        )
        lines.append((row.data, "", escape(row.name), values))
    return _table(heads, lines)


def _table(heads: Sequence[str], lines: Sequence[tuple[str, str, str, Sequence[str]]]) -> str:
    """Lines of data model, class, name and cells; a heading for each data model where there are several."""
    body, previous, several = [], None, len({line[0] for line in lines}) > 1
    for data, kind, name, values in lines:
        if several and data != previous:
            body.append(f'<tr class="group"><th colspan="{len(heads)}">{escape(data)}</th></tr>')
        previous = data
        cells = "".join(f"<td>{v}</td>" for v in values[:-1]) + f'<td class="last">{values[-1]}</td>'
        body.append(f'<tr class="{kind}"><th scope="row">{name}</th>{cells}</tr>')
    head = "".join(f"<th>{h}</th>" for h in heads[:-1]) + f'<th class="last">{heads[-1]}</th>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _with_se(text: str, se: float) -> str:
    return f'{minus(text)} <span class="se">± {se:.4f}</span>'


def minus(text: str) -> str:
    """A hyphen before a digit becomes a minus sign."""
    return re.sub(r"-(?=\d)", "−", text)


def _gain(mean: float | None, se: float | None) -> str:
    return "–" if mean is None or se is None else _with_se(f"{mean:+.4f}", se)
