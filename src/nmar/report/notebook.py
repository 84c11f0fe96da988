"""A comparison in a notebook: the verdict and the gains, as plain HTML without script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nmar.evaluate.notes import KINDS
from nmar.report.text import gain

if TYPE_CHECKING:
    from nmar.evaluate.comparison import Comparison

HEADS = ("model", "log likelihood", "over ignorable", "over the best control")


def comparison_html(result: Comparison) -> str:
    """What the comparison says, and its gains in nats per held-out cell."""
    several = len(result.verdict.findings) > 1
    words = "".join(
        f"<p><strong>{escape(f'{one.data}: ' if several else '')}{escape(one.plain)}</strong> {escape(one.numbers)}</p>"
        f"<pre>{escape(one.line)}</pre>"
        for one in result.verdict.findings
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    lines = []
    for row in result.rows:
        data = f"{row.data}: " if several else ""
        name = escape(f"{data}{KINDS[row.kind].plain} [{row.name}]")
        values = (
            f"{row.log_likelihood:.4f} ± {row.se:.4f}",
            gain(row.gain, row.gain_se),
            gain(row.gain_over_control, row.gain_over_control_se),
        )
        cells = "".join(f"<td>{value}</td>" for value in values)
        lines.append(f'<tr><th scope="row" style="text-align:left">{name}</th>{cells}</tr>')
    caption = f'<caption style="text-align:left">{escape(result.setting.name)}: {result.unit}, held out</caption>'
    return f"{words}<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
