"""The comparison tables for a terminal or a log."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmar.report.comparison import Comparison, Row

HEADS = ("model", "log lik.", "± se", "plug-in", "vs ignorable", "RMSE", "seconds", "sweeps", "stopped by")
AGAINST = ("coupled model", "vs tail", "vs two-stage", "vs blind", "vs best control", "best control")
FOOT = "Nats per held-out cell, higher is better; ± one standard error, differences paired by cell. ★ best."


def gain(mean: float | None, se: float | None) -> str:
    """ "+0.0013 ± 0.0002", or a dash."""
    return "–" if mean is None or se is None else f"{mean:+.4f} ± {se:.4f}"


def cells_of(row: Row) -> tuple[str, ...]:
    """The row as the table of fits shows it."""
    return (
        row.name,
        f"{row.log_likelihood:.4f}",
        f"{row.se:.4f}",
        f"{row.plugin:.4f}",
        gain(row.gain, row.gain_se),
        f"{row.rmse:.4f}",
        f"{row.seconds:.1f}",
        str(row.n_iter),
        row.stop_reason,
    )


def against_of(row: Row) -> tuple[str, ...]:
    """A coupled row as the table of gains over the controls shows it."""
    return (
        row.name,
        gain(row.gain_over_tail, row.gain_over_tail_se),
        gain(row.gain_over_two_stage, row.gain_over_two_stage_se),
        gain(row.gain_over_blind, row.gain_over_blind_se),
        gain(row.gain_over_control, row.gain_over_control_se),
        row.best_control or "–",
    )


def table(result: Comparison, color: bool = False, width: int = 200) -> str:
    """Two rich tables as text: the fits, the best one marked, and the coupled models against their controls."""
    best = result.best()
    models = list(dict.fromkeys(row.data for row in result.rows))
    fits, controls = _grid(HEADS, _title(result)), _grid(AGAINST, "Coupled − control")
    for model in models:
        rows = [row for row in result.rows if row.data == model]
        judged = [row for row in rows if row.best_control is not None]
        if len(models) > 1:
            fits.add_row(f"[bold]{model}[/bold]")
            if judged:
                controls.add_row(f"[bold]{model}[/bold]")
        for row in rows:
            mark = "★ " if row is best else "  "
            style = "bold" if row is best else "dim" if row.control else ""
            name, *rest = cells_of(row)
            fits.add_row(mark + name, *rest, style=style)
        for row in judged:
            controls.add_row(*against_of(row))
    parts = [_lines(fits, color, width)]
    if any(row.best_control is not None for row in result.rows):
        parts.append(_lines(controls, color, width))
    return "\n\n".join([*parts, f"  {FOOT}"])


def _grid(heads: tuple[str, ...], title: str) -> Any:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    for k, head in enumerate(heads):
        grid.add_column(head, justify="left" if k in (0, len(heads) - 1) else "right", no_wrap=True)
    return grid


def _lines(grid: Any, color: bool, width: int) -> str:
    from rich.console import Console

    stream = StringIO()
    Console(file=stream, width=width, force_terminal=color, no_color=not color).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _title(result: Comparison) -> str:
    about, how = result.summary, result.setting
    models = ", ".join(dict.fromkeys(row.data for row in result.rows))
    splits = f", {how.seeds} {'starts' if how.given else 'splits'}" if how.seeds > 1 else ""
    return (
        f"{how.name}: {about.rows:,} × {about.cols:,}, {about.observed:,} observed ({about.density:.2%}),"
        f" {how.n_test:,} held out{splits} · {models}"
    )
