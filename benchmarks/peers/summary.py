"""From single measurements to medians with their spread."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.libraries import LIBRARIES

Record = dict[str, Any]


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of repeated measurements."""

    median: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(numbers: Sequence[float]) -> Spread:
        """Of at least one number."""
        return Spread(statistics.median(numbers), min(numbers), max(numbers), len(numbers))

    def __str__(self) -> str:
        return f"{digits(self.median)} [{digits(self.low)}–{digits(self.high)}], {self.count}"


@dataclass(frozen=True)
class Row:
    """One library on one problem.

    Attributes
    ----------
    seconds : of a sweep; None where there is no measurement
    status : "done", or why there is none
    """

    library: str
    threads: int
    cells: int
    factors: int
    seconds: Spread | None
    peak_gb: float | None
    status: str

    @property
    def title(self) -> str:
        """Name in tables."""
        return LIBRARIES[self.library].title

    @property
    def short_status(self) -> str:
        """The status without its reasons."""
        return self.status.split(":")[0].split(" (")[0]

    @property
    def label(self) -> str:
        """Name with the number of threads."""
        return f"{self.title}, {threaded(self.threads)}"


def threaded(threads: int) -> str:
    """1 thread, 2 threads."""
    return f"{threads} thread" + "s" * (threads > 1)


def digits(number: float, count: int = 3) -> str:
    """So many significant digits, without an exponent."""
    if number >= 10**count:
        return f"{number:,.0f}"
    return np.format_float_positional(number, precision=count, fractional=False, trim="-")


def read(path: Path) -> list[Record]:
    """All records of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def groups(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Records by the values of some of their fields, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        found.setdefault(tuple(record[name] for name in names), []).append(record)
    return found


def rows(records: Iterable[Record]) -> list[Row]:
    """Sweeps of one problem and number of factors, libraries in their usual order."""
    made = []
    for (library, threads), same in by_library(record for record in records if record["task"] == "sweeps"):
        done = [record for record in same if record["status"] == "done"]
        seconds = Spread.of([record["seconds"] for record in done]) if done else None
        peak = max(record["peak_gb"] for record in done) if done else None
        status = "done" if done else same[-1]["status"]
        made.append(Row(library, threads, same[0]["cells"], same[0]["factors"], seconds, peak, status))
    return made


def median_trace(runs: Sequence[Record]) -> list[Record]:
    """The trace of runs that differ in their times only, with median times."""
    points = zip(*(record["trace"] for record in runs), strict=True)
    return [{**same[0], "seconds": statistics.median(point["seconds"] for point in same)} for same in points]


def by_library(records: Iterable[Record]) -> list[tuple[tuple[str, int], list[Record]]]:
    """Records of each library and number of threads, in the usual order."""
    order = list(LIBRARIES)
    found = groups(records, "library", "threads")
    return sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))


def slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Of log y against log x by least squares; None for fewer than three points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) >= 3 else None


def straight(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float] | None:
    """a and b of the line a + bx with the smallest relative errors, and the largest of them; None for few points."""
    if len(x) < 3:
        return None
    across, down = np.array(x, float), np.array(y)
    design = np.stack([1.0 / down, across / down], axis=1)
    a, b = np.linalg.lstsq(design, np.ones(len(down)), rcond=None)[0]
    return float(a), float(b), float(np.max(np.abs(design @ [a, b] - 1.0)))


def first(trace: Sequence[Record], name: str, enough: float) -> Record | None:
    """The first point of a trace that reaches a value; an error falls towards it, a likelihood rises."""
    sign = -1.0 if name == "rmse" else 1.0
    return next((point for point in trace if sign * point[name] >= sign * enough), None)
