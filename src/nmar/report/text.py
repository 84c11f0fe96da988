"""The comparison tables for a terminal or a log."""

from __future__ import annotations

import re
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

from nmar.evaluate.notes import KINDS

if TYPE_CHECKING:
    from nmar.evaluate.comparison import Comparison, Row

WIDTH = 80  # what a terminal has at least; plug-in scores, sweeps and reasons to stop are in ``frame()``
HEADS = ("model", "log lik.", "± se", "vs ignorable", "RMSE", "seconds")
AGAINST = ("missingness modelled", "control", "model − control", "")
LEVELS = "Values are levels: the score is log P(level), no log density, and is not compared with one."
FOOT = (
    "Nats per held-out cell, higher is better; ± one standard error, differences paired by cell. ★ is the model to use,"
    " by the verdict below."
)
COUNTS = "counts: the best of the controls of a model; only a gain over it speaks for modelling the missingness."


def gain(mean: float | None, se: float | None) -> str:
    """ "+0.0013 ± 0.0002", or a dash."""
    return "–" if mean is None or se is None else f"{signed(mean)} ± {se:.4f}"


def signed(value: float) -> str:
    """Four decimals with their sign, which nothing has that rounds to 0."""
    text = f"{value:+.4f}"
    return "0.0000" if float(text) == 0.0 else text


def cells_of(row: Row) -> tuple[str, ...]:
    """The row as the table of fits shows it."""
    return (
        row.name,
        f"{row.log_likelihood:.4f}",
        f"{row.se:.4f}",
        gain(row.gain, row.gain_se),
        f"{row.rmse:.4f}",
        f"{row.seconds:.1f}",
    )


def against_of(row: Row) -> list[tuple[str, ...]]:
    """A model of the missingness against the best of its controls, which counts, its own and the two-stage baseline."""
    own = f"{row.linkage} ({'shuffled' if row.kind == 'taste' else 'tail'})"
    gains = {
        row.best_control or "": (row.gain_over_control, row.gain_over_control_se),
        own: (row.gain_over_own, row.gain_over_own_se),
        "two-stage": (row.gain_over_two_stage, row.gain_over_two_stage_se),
    }
    return [
        (row.name, name, gain(*found), "counts" if name == row.best_control else "")
        for name, found in gains.items()
        if found[0] is not None
    ]


def table(result: Comparison, color: bool = False, width: int = WIDTH) -> str:
    """Two rich tables as text: the fits, the best one marked, and models of the missingness against their controls."""
    from rich.markup import escape as plain

    best = result.recommended()
    models = list(dict.fromkeys(row.data for row in result.rows))
    fits, controls = _grid(HEADS, plain(_title(result))), _grid(AGAINST, "What the missingness adds")
    for model in models:
        rows = [row for row in result.rows if row.data == model]
        judged = [row for row in rows if row.best_control is not None]
        if len(models) > 1:
            fits.add_row(f"[bold]{plain(model)}[/bold]")
            if judged:
                controls.add_row(f"[bold]{plain(model)}[/bold]")
        for row in rows:
            mark = "★ " if row is best else "  "
            style = "bold" if row is best else "dim" if row.control else ""
            name, *rest = cells_of(row)
            fits.add_row(mark + plain(name), *rest, style=style)
        for row in judged:
            for line in against_of(row):
                controls.add_row(*line, style="bold" if line[-1] else "")
    parts = [_lines(fits, color, width)]
    compared = any(row.best_control is not None for row in result.rows)
    if compared:
        parts.append(_lines(controls, color, width))
    scored = LEVELS if result.leveled else ""
    notes = (FOOT, scored, COUNTS if compared else "", *_legend(result), *_chosen(result), _unsettled(result))
    return "\n\n".join(
        [*parts, "\n".join(textwrap.fill(text, width, subsequent_indent="  ") for text in notes if text)]
    )


def wrapped(text: str, width: int = WIDTH) -> str:
    """Sentences broken to the width of a terminal, and long calls, which begin with a space, at their parentheses."""
    return "\n".join(
        _code(line, width) if line.startswith(" ") else textwrap.fill(line, width) for line in text.splitlines()
    )


def _code(line: str, width: int) -> str:
    """A call, its arguments on lines of their own where it is too long."""
    parts = re.fullmatch(r"( +)([\w.]+\()(.*)(\)\.fit\(cells\))", line)
    if len(line) <= width or parts is None:
        return line
    indent, begin, arguments, end = parts.groups()
    inner = textwrap.fill(arguments, width, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    ")
    return f"{indent}{begin}\n{inner}\n{indent}{end}"


def _legend(result: Comparison) -> list[str]:
    """What the names of the controls mean, in plain words."""
    shown = {
        "ignorable": "ignorable",
        "taste": "taste",
        "two-stage": "two-stage",
        "tail": "(tail)",
        "shuffled": "(shuffled)",
    }
    kinds = {row.kind for row in result.rows}
    return [f"{name}: {KINDS[kind].full}." for kind, name in shown.items() if kind in kinds]


def _chosen(result: Comparison) -> list[str]:
    """Ranks that were chosen, of data models that leave theirs open."""
    found = {key.data: result.chosen_ranks(key) for key in result.entries}
    return [f"{data}: rank {', '.join(map(str, ranks))}, by split." for data, ranks in found.items() if ranks]


def _unsettled(result: Comparison) -> str:
    """The fits that were stopped by the number of sweeps."""
    names = dict.fromkeys(row.name for row in result.rows if row.stop_reason == "max_iter")
    return f"Stopped at max_iter before the bound settled: {', '.join(names)}." if names else ""


def _grid(heads: tuple[str, ...], title: str) -> Any:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    for k, head in enumerate(heads):
        left = k == 0 or head in ("control", "")
        grid.add_column(head, justify="left" if left else "right", no_wrap=k > 0)
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
