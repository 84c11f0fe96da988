"""Records of a reproduction as Markdown, as columns of a table file, and as a figure.

Enters: records (see ``run``). Leaves: text, columns, or files. Nothing is fitted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce import figures
from benchmarks.reproduce.paper import FIGURE1_P, TABLES
from benchmarks.reproduce.records import Record
from benchmarks.reproduce.run import FIGURE_FOLDS, FIGURE_TESTED, Asked
from nmar.data import write_frame
from nmar.data.atomic import write_text, write_with
from nmar.evaluate.missingness import Bin
from nmar.report.text import gain

__all__ = ["markdown", "write"]

SIDE = ("data set of the paper", "read here", "model", "paper: alone", "coupled", "gain", "ours: alone", "coupled",
        "gain ± se", "free − ignorable", "coupled − best control", "best control")  # fmt: skip
FITS = ("data", "model", "fit", "paper", "plug-in", "predictive ± se", "over ignorable", "over own control",
        "over two-stage", "c", "RMSE", "R²", "sweeps", "seconds")  # fmt: skip
TESTS = ("data set of the paper", "read here", "held-out cells", "paper's p", "p as in the paper", "p",
         "variance ratio", "standardised", "variance, lowest bin", "highest bin")  # fmt: skip
ABOUT_TESTS = """\
"p as in the paper": of the slope of the log variance in a double generalized linear model of the residuals, all cells
independent and normal. "p": of nmar.missingness_test, which rejects at a level of 5 % in 4.8 % of simulated draws in
which nothing is linked, and in 7.2 % of such draws where rows and columns are observed unequally often and differ in
noise (docs/experiments/missingness_test.md). "variance ratio": of the most over the least likely observed cells,
residuals as they are; "standardised": residuals over their predictive standard deviation; intervals of 95 %, rows and
columns allowed to differ."""
NOTE = """\
Log likelihoods in nats per held-out observed cell. "alone" ignores the missingness, "coupled" has the paper's linear
linkage with c learned, "free" a free table; all have one dispersion for all cells, as in the paper. Side by side stand
plug-in values, which are what the paper's formula gives; gains are of the predictive values, paired by cell, ± one
standard error over cells, rows and columns. "best control": of ignorable, tail-only and two-stage, for the better of
the two coupled models.
Normal densities of whole numbers may exceed 1 where one value is very common: such log likelihoods say little."""


def write(table: str, groups: Sequence[list[Record]], asked: Asked, folder: Path) -> list[Path]:
    """Write the Markdown, the Parquet file and the figure of a table; returns their paths.

    Parameters
    ----------
    table : "table2", "table3", "table4" or "figure1"
    groups : the records of each comparison
    asked : the settings
    folder : where to put them; it is made if it does not exist
    """
    folder.mkdir(parents=True, exist_ok=True)
    text, values, drawing = (folder / f"{table}.{ending}" for ending in ("md", "parquet", "png"))
    write_text(text, markdown(table, groups, asked))
    write_frame(values, columns([record for rows in groups for record in rows]))
    figure = _drawn(table, groups)
    if figure is None:
        return [text, values]
    write_with(drawing, lambda file: figure.savefig(file, dpi=120))
    return [text, values, drawing]


def columns(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Columns of equal length; what a record lacks is null. Bins are left to the Markdown's figure and the JSON."""
    names = [name for name in dict.fromkeys(name for one in records for name in one) if name != "bins"]
    return {name: [one.get(name) for one in records] for name in names}


# --- Markdown -----------------------------------------------------------------------------------------------


def markdown(table: str, groups: Sequence[list[Record]], asked: Asked) -> str:
    """The page of a table: what was read, the paper beside ours, every fit, and what failed."""
    good, failed = (
        [rows for rows in groups if "error" not in rows[0]],
        [rows[0] for rows in groups if "error" in rows[0]],
    )
    parts = [f"# {TABLES[table]}", _settings(table, asked)]
    if good and table == "figure1":
        parts += [ABOUT_TESTS, _grid(TESTS, [_test(rows[0]) for rows in good])]
    elif good:
        parts += [NOTE, "## Side by side", _grid(SIDE, [_side(rows) for rows in good])]
    if good:
        parts += ["## What was read", _grid(("data", "relation", "rows", "columns", "cells used", "of"), _read(good))]
    if good and table != "figure1":
        parts += ["## Every fit", _grid(FITS, [_fit(one) for rows in good for one in rows])]
    if failed:
        lines = [(one["column"], f"{one['model']} {one['axis']}".strip(), one["error"]) for one in failed]
        parts += ["## Not run", _grid(("data set of the paper", "model", "why"), lines)]
    return "\n\n".join(parts) + "\n"


def _settings(table: str, asked: Asked) -> str:
    """The settings that a table depends on, in a line."""
    whole = "every cell" if not asked.cells else f"at most {asked.cells:,} cells of each data set, whole rows at random"
    if table == "figure1":
        folds = f"{FIGURE_TESTED} of {FIGURE_FOLDS} folds of the cells held out in turn"
        fits = f"the pattern with K = {asked.factors}, the values with a rank of {asked.figure_rank}"
        return f"Fits of {fits}, at most {asked.max_iter} sweeps, {folds}, {whole}."
    bare = "" if asked.bias else " Factorizations have no biases."
    return f"K = {asked.factors}, at most {asked.max_iter} sweeps, {asked.seeds} split(s) and start(s), {whole}.{bare}"


def _grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in (heads, *lines)]
    return "\n".join([rows[0], "|" + "---|" * len(heads), *rows[1:]])


def _number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _model(one: Record) -> str:
    return f"{one['model']} {one['axis']}".strip()


def _of(rows: list[Record], kind: str, linkage: str = "") -> Record | None:
    """The fit of a kind, and of a linkage where there are several."""
    found = [one for one in rows if one["kind"] == kind and one["linkage"].startswith(linkage)]
    return found[0] if found else None


def _side(rows: list[Record]) -> tuple[str, ...]:
    alone, coupled, free = _of(rows, "ignorable"), _of(rows, "coupled", "linear"), _of(rows, "coupled", "free")
    assert alone is not None and coupled is not None and free is not None
    best = max((coupled, free), key=lambda one: one["log_likelihood"])
    printed = (alone["paper"], coupled["paper"])
    difference = None if None in printed else printed[1] - printed[0]
    return (
        alone["column"],
        alone["data"],
        _model(alone) + ("" if alone["table"] != "table4" else f" on {alone['fit'].partition(':')[2]} covariates"),
        _number(printed[0], 3),
        _number(printed[1], 3),
        "–" if difference is None else f"{difference:+.3f}",
        _number(alone["plugin"], 3),
        _number(coupled["plugin"], 3),
        gain(coupled["gain"], coupled["gain_se"]),
        gain(free["gain"], free["gain_se"]),
        gain(best["gain_over_control"], best["gain_over_control_se"]),
        best["best_control"] or "–",
    )


def _read(groups: Sequence[list[Record]]) -> list[tuple[str, ...]]:
    """Each data set once."""
    seen = {rows[0]["data"]: rows[0] for rows in groups}
    return [
        (name, one["relation"], *(f"{one[count]:,}" for count in ("rows", "cols", "cells", "available")))
        for name, one in seen.items()
    ]


def _fit(one: Record) -> tuple[str, ...]:
    over = [gain(one[name], one[f"{name}_se"]) for name in
            ("gain", "gain_over_own", "gain_over_two_stage")]  # fmt: skip
    return (
        one["data"],
        _model(one),
        one["name"],
        _number(one["paper"], 3),
        _number(one["plugin"]),
        f"{one['log_likelihood']:.4f} ± {one['se']:.4f}",
        *over,
        _number(one["c"], 3),
        _beside(one["rmse"], one["paper_rmse"]),
        _beside(one["r2"], one["paper_r2"]),
        str(one["n_iter"]),
        f"{one['seconds']:.0f}",
    )


def _beside(ours: float | None, printed: float | None) -> str:
    return _number(ours, 3) + ("" if printed is None else f" (paper {printed:.3f})")


def _test(one: Record) -> tuple[str, ...]:
    first, last = one["bins"][0], one["bins"][-1]
    ratios = [
        f"{one[name]:.2f} ({one[name + '_low']:.2f} to {one[name + '_high']:.2f})" for name in ("raw_ratio", "ratio")
    ]
    return (
        one["column"],
        one["data"],
        f"{one['n_test']:,}",
        f"≤ {FIGURE1_P:g}",
        f"{one['raw_naive_p']:.2g}",
        f"{one['p_value']:.2g}",
        *ratios,
        *(f"{b['residual_variance']:.3f} (expected {b['expected_variance']:.3f})" for b in (first, last)),
    )


# --- figures ------------------------------------------------------------------------------------------------


def _drawn(table: str, groups: Sequence[list[Record]]) -> Any:
    """The figure, or None where nothing was fitted."""
    good = [rows for rows in groups if "error" not in rows[0]]
    if table == "figure1":
        figure, (left, right) = figures.page(2, (10.4, 3.8))
        if good:
            found = [(rows[0]["data"], [Bin(**one) for one in rows[0]["bins"]]) for rows in good]
            figures.spreads(found, left)
        figures.linkage_family(expected_curves(), right)
        return figure
    if not good:
        return None
    figure, (only,) = figures.page(1, (8.0, 1.8 + 0.5 * len(good)))
    figures.differences([_marks(rows) for rows in good], only)
    return figure


def _marks(rows: list[Record]) -> tuple[str, list[tuple[str, float, float]]]:
    """The paper's gain, ours with the same linkage and with a free table, and what is left over the best control."""
    alone, coupled, free = _of(rows, "ignorable"), _of(rows, "coupled", "linear"), _of(rows, "coupled", "free")
    assert alone is not None and coupled is not None and free is not None
    best = max((coupled, free), key=lambda one: one["log_likelihood"])
    marks = [] if alone["paper"] is None else [("paper, coupled − alone", coupled["paper"] - alone["paper"], 0.0)]
    marks += [
        ("ours, linear − ignorable", coupled["gain"], coupled["gain_se"]),
        ("ours, free − ignorable", free["gain"], free["gain_se"]),
        ("ours, coupled − best control", best["gain_over_control"], best["gain_over_control_se"]),
    ]
    return f"{alone['column']} ({alone['data']}), {_model(alone)}", marks


def expected_curves() -> list[tuple[str, float, Any, Any]]:
    """E[φ] by the paper's formulas at its four values of c (its figure 1b), also where a dispersion is not positive.

    Linear: 1 − c P; exponential: 1 − c + c Λ / P, with P = P(observed) = 1 − exp(−Λ).
    """
    probability = np.linspace(0.001, 0.999, 300)
    over = -np.log1p(-probability) / probability
    slopes = (("linear", -probability), ("exponential", over - 1.0))
    return [(name, c, probability, 1.0 + c * slope) for name, slope in slopes for c in (0.5, 0.125, -0.125, -0.5)]
