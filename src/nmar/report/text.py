"""The comparison table for a terminal or a log."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmar.report.comparison import Comparison, Row

HEADS = (
    "model",
    "log lik.",
    "± se",
    "plug-in",
    "vs ignorable",
    "vs control",
    "RMSE",
    "s",
    "sweeps",
    "stopped by",
)


def gain(mean: float | None, se: float | None) -> str:
    """ "+0.0013 ± 0.0002", or a dash."""
    return "–" if mean is None or se is None else f"{mean:+.4f} ± {se:.4f}"


def cells_of(row: Row) -> tuple[str, ...]:
    """The row as the table shows it."""
    return (
        row.name,
        f"{row.log_likelihood:.4f}",
        f"{row.se:.4f}",
        f"{row.plugin:.4f}",
        gain(row.gain, row.gain_se),
        gain(row.gain_over_control, row.gain_over_control_se),
        f"{row.rmse:.4f}",
        f"{row.seconds:.1f}",
        str(row.n_iter),
        row.stop_reason,
    )


def table(result: Comparison, color: bool = False, width: int = 200) -> str:
    """A rich table as text; the best row is marked."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    best = result.best()
    models = list(dict.fromkeys(row.data for row in result.rows))
    grid = Table(box=box.SIMPLE_HEAD, title=_title(result), title_justify="left", title_style="bold")
    for k, head in enumerate(HEADS):
        grid.add_column(head, justify="left" if k in (0, len(HEADS) - 1) else "right", no_wrap=True)
    for model in models:
        if len(models) > 1:
            grid.add_row(f"[bold]{model}[/bold]")
        for row in (r for r in result.rows if r.data == model):
            mark = "★ " if row is best else "  "
            style = "bold" if row is best else "dim" if row.control else ""
            name, *rest = cells_of(row)
            grid.add_row(mark + name, *rest, style=style)
    stream = StringIO()
    Console(file=stream, width=width, force_terminal=color, no_color=not color).print(grid)
    foot = "Nats per held-out cell, higher is better; ± one standard error, differences paired by cell. ★ best."
    lines = [line.rstrip() for line in stream.getvalue().rstrip().splitlines()]
    return "\n".join([*lines, "", f"  {foot}"])


def _title(result: Comparison) -> str:
    about, how = result.summary, result.setting
    models = ", ".join(dict.fromkeys(row.data for row in result.rows))
    splits = f", {how.seeds} splits" if how.seeds > 1 else ""
    return (
        f"{how.name}: {about.rows:,} × {about.cols:,}, {about.observed:,} observed ({about.density:.2%}),"
        f" {how.n_test:,} held out{splits} · {models}"
    )
