"""docs/benchmarks.md and its plots from the file of measurements; every number in them is computed from that file."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import figures, prose
from benchmarks.peers.libraries import LIBRARIES
from benchmarks.peers.summary import (
    Record,
    Row,
    Spread,
    by_library,
    digits,
    first,
    groups,
    median_trace,
    read,
    rows,
    slope,
    straight,
    threaded,
)

COUNTERPART = {"pattern": "nmar-pattern", "values": "nmar-coupled"}  # to which other libraries of the kind are compared
MULTIPLY_ADDS = 4  # of a cell and factor: an inner product and an accumulation, by rows and by columns
SCALING = {  # what a part goes by, its heading, and what is the same throughout
    "rows": ("cells", "cells, with rows in proportion", "{cols:,} columns, as many cells a row, K = {factors}"),
    "cells": ("cells", "cells, rows and columns being the same", "{rows:,} × {cols:,}, K = {factors}"),
    "factors": ("factors", "factors", "{rows:,} × {cols:,}, {cells:,} cells"),
}
NATS = 0.005  # a likelihood is reached when it is this close to the best of its trace


def write(options: argparse.Namespace) -> None:
    """Write the page and its plots."""
    records = read(options.out)
    docs: Path = options.docs
    given = {name: float(value) for name, value in (each.split("=", 1) for each in options.rmse)}
    parts = groups(records, "part")
    blocks = [prose.HEAD, *machine(parts), *libraries(records), *problems(parts.get(("problems",), []), docs)]
    blocks += target(parts.get(("target",), []), docs, given, options.slack)
    for part in SCALING:
        blocks += scaling(parts.get((part,), []), part, docs)
    (docs / "benchmarks.md").write_text("\n".join(blocks))


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    made = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in made) + "\n"


def machine(parts: dict[tuple[Any, ...], list[Record]]) -> list[str]:
    """The machine on which the measurements were made."""
    known = parts[("machine",)][-1]
    loads = [line["load_before"] for part in parts.values() for line in part if "load_before" in line]
    lines = [
        ("processor", known["processor"]),
        ("cores", known["cores"]),
        ("caches of a core", ", ".join(known["caches"])),
        ("memory", f"{known['memory_gb']:.0f} GB"),
        ("system", known["system"]),
        ("Python", known["python"]),
        ("begun on", known["date"]),
    ]
    if loads:
        lines.append(("load average before a measurement", f"{Spread.of(loads)}"))
    return ["## Machine\n", table(("", ""), lines)]


def libraries(records: Iterable[Record]) -> list[str]:
    """Versions and settings."""
    tried = groups((record for record in records if "library" in record), "library")
    lines = []
    for name, library in LIBRARIES.items():
        if (name,) in tried:
            versions = sorted({r["version"] for r in tried[(name,)] if r.get("version")})
            lines.append((library.title, ", ".join(versions) or "–", library.kind, library.about))
    return ["## Libraries\n", prose.LIBRARIES, table(("library", "version", "kind", "what is run"), lines)]


def name_of(problem: str, record: Record) -> str:
    """A problem with its sizes."""
    shape = f"{record['rows']:,} × {record['cols']:,}, {record['cells']:,} cells"
    if problem[0].isdigit():
        return f"Simulated, {shape}"
    return f"{problem}{' (simulated)' * record['simulated']}: {shape}"


def problems(records: list[Record], docs: Path) -> list[str]:
    """A table and a plot for each problem and number of factors, and the limits."""
    if not records:
        return []
    blocks, measured = ["## Problems\n", prose.PROBLEMS], []
    for (problem, factors), same in groups(records, "problem", "factors").items():
        title = f"{name_of(problem, same[0])}, K = {factors}"
        limits = {threads: gather for threads, gather, *_ in limit_lines(same)}
        found = rows(same)
        picture = f"benchmarks_{problem}_{factors}.png"
        blocks += [f"### {title}\n", problem_table(found, limits)]
        if any(row.seconds for row in found):
            figures.bars(docs / picture, found, title, limits)
            blocks.append(f"![{title}]({picture})\n")
        measured += [(problem, factors, same[0], line) for line in limit_lines(same)]
    return blocks + limit_table(measured)


def problem_table(found: Sequence[Row], limits: dict[int, float]) -> str:
    """One line a library and number of threads."""
    medians = {(row.library, row.threads): row.seconds.median for row in found if row.seconds}
    lines = []
    for row in found:
        if row.seconds is None:
            lines.append((row.title, row.threads, row.status, "–", "–", "–"))
            continue
        mine = medians.get((COUNTERPART[LIBRARIES[row.library].kind], row.threads))
        limit = limits.get(row.threads)
        ratio = digits(row.seconds.median / mine) if mine else "–"
        share = f"{digits(100 * limit / row.seconds.median, 2)} %" if limit else "–"
        lines.append((row.title, row.threads, row.seconds, ratio, share, digits(row.peak_gb)))
    head = ("library", "threads", "seconds a sweep", "× nmar", "share of the limit", "peak GB")
    return table(head, lines)


def limit_lines(records: list[Record]) -> list[tuple[int, float, float, float, float]]:
    """Threads, gather seconds, bandwidth by rows and by columns, multiply-adds a second: medians over repeats."""
    names = ("gather_seconds", "gather_by_rows_gb_s", "gather_by_cols_gb_s", "multiply_adds_per_second")
    done = (record for record in records if record["task"] == "limits" and record["status"] == "done")
    found = groups(done, "threads")
    return [
        (threads, *(statistics.median(record[name] for record in found[(threads,)]) for name in names))
        for (threads,) in sorted(found)
    ]


def limit_table(measured: Sequence[tuple[str, int, Record, tuple[int, float, float, float, float]]]) -> list[str]:
    """What the machine allows on each problem."""
    if not measured:
        return []
    lines = []
    for problem, factors, record, (threads, gather, by_rows, by_cols, rate) in measured:
        arithmetic = MULTIPLY_ADDS * record["cells"] * factors / rate
        bandwidths = (f"{by_rows:.1f}", f"{by_cols:.1f}")
        lines.append((problem, factors, threads, *bandwidths, digits(gather), f"{rate / 1e9:.1f}", digits(arithmetic)))
    head = ("problem", "K", "threads", "GB/s by rows", "GB/s by columns", "gather-only sweep, s")
    head += ("10⁹ multiply-adds a second", "multiply-adds of a sweep, s")
    return ["## Limits\n", prose.LIMITS.format(multiply_adds=MULTIPLY_ADDS), table(head, lines)]


def target(records: list[Record], docs: Path, given: dict[str, float], slack: float) -> list[str]:
    """Seconds until held-out cells are predicted well enough."""
    if not records:
        return []
    blocks = ["## Time to a target\n", prose.TARGET.format(slack=100 * slack, nats=NATS)]
    for (problem, factors), same in groups(records, "problem", "factors").items():
        done = [record for record in same if record["status"] == "done"]
        title = f"{name_of(problem, same[0])}, K = {factors}"
        blocks.append(f"### {title}\n")
        if not done:
            blocks.append(table(("library", ""), [(LIBRARIES[r["library"]].title, r["status"]) for r in same]))
            continue
        enough = given.get(problem, common_error(done, slack))
        lines = [target_line(name, threads, runs, enough) for (name, threads), runs in by_library(same)]
        head = ("library", "threads", "best RMSE", f"seconds to {enough:.4f}", "sweeps")
        blocks.append(table((*head, "log likelihood", "seconds to it", "chosen"), lines))
        picture = f"benchmarks_target_{problem}.png"
        found = {key: median_trace(runs) for key, runs in by_library(done)}
        figures.traces(docs / picture, found, title, enough)
        blocks.append(f"![{title}]({picture})\n")
    return blocks


def best_error(record: Record) -> float:
    """The smallest error of a trace."""
    return min(point["rmse"] for point in record["trace"])


def common_error(done: Iterable[Record], slack: float) -> float:
    """The error that every library reaches, and a little more."""
    return (1.0 + slack) * max(best_error(record) for record in done)


def target_line(name: str, threads: int, runs: Sequence[Record], enough: float) -> tuple[Any, ...]:
    """One line of the table: best error, time to the target, and the same for the likelihood where there is one."""
    done = [record for record in runs if record["status"] == "done"]
    title = LIBRARIES[name].title
    if not done:
        return (title, threads, runs[-1]["status"], *["–"] * 5)
    error = statistics.median(best_error(record) for record in done)
    seconds, count = reached(done, "rmse", enough)
    likelihood, later = "–", "–"
    if "log_likelihood" in done[0]["trace"][0]:
        best = max(point["log_likelihood"] for record in done for point in record["trace"])
        likelihood, later = f"{best - NATS:.4f}".replace("-", "−"), reached(done, "log_likelihood", best - NATS)[0]
    chosen = ", ".join(f"`{key}={value:g}`" for key, value in done[0]["choice"].items()) or "–"
    return title, threads, f"{error:.4f}", seconds, count, likelihood, later, chosen


def reached(done: Sequence[Record], name: str, enough: float) -> tuple[str, str]:
    """Seconds with their spread, and sweeps, until a value is reached."""
    points = [first(record["trace"], name, enough) for record in done]
    if None in points:
        return "not reached", "–"
    seconds = Spread.of([point["seconds"] for point in points])
    return str(seconds), digits(statistics.median(point["sweeps"] for point in points))


def scaling(records: list[Record], part: str, docs: Path) -> list[str]:
    """Seconds of a sweep against cells or factors: a table for each number of threads, a plot for the largest."""
    if not records:
        return []
    by, heading, fixed = SCALING[part]
    label, unit, name = {"cells": ("cells", 1e6, "millions"), "factors": ("factors K", 1.0, "factors")}[by]
    about = fixed.format(**records[0])
    found = [row for same in groups(records, by).values() for row in rows(same)]
    most = max(row.threads for row in found)
    blocks = [f"## Time against {heading}\n", prose.SCALING.format(about=about, unit=name)]
    for threads in sorted({row.threads for row in found}):
        blocks += [
            f"{threaded(threads)}:\n",
            scaling_table([r for r in found if r.threads == threads], by, unit),
        ]
    if any(row.seconds for row in found if row.threads == most):
        title = f"Simulated, {about}, {threaded(most)}"
        figures.lines(docs / f"benchmarks_{part}.png", [row for row in found if row.threads == most], by, title, label)
        blocks.append(f"![Time against {heading}](benchmarks_{part}.png)\n")
    return blocks


def scaling_table(found: Sequence[Row], by: str, unit: float) -> str:
    """A line each library, a column each size, then how time goes with sizes in some unit."""
    sizes = sorted({getattr(row, by) for row in found})
    lines = []
    for name in LIBRARIES:
        mine = {getattr(row, by): row for row in found if row.library == name}
        if not mine:
            continue
        done = [size for size in sizes if size in mine and mine[size].seconds]
        seconds = [mine[size].seconds.median for size in done]
        steep, line = slope(done, seconds), straight([size / unit for size in done], seconds)
        cells = [("–" if size not in mine else mine[size].seconds or mine[size].short_status) for size in sizes]
        ends = ("–", "–") if steep is None else (f"{steep:.2f}", "{:.3g} + {:.3g} x, {:.0%}".format(*line))
        lines.append((LIBRARIES[name].title, *cells, *ends))
    return table(("library", *(f"{size:,}" for size in sizes), "slope", "straight line, error"), lines)
