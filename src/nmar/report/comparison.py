"""The outcome of a comparison: a table of fits, and what may be said about it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.train import Fitted
from nmar.report.scoring import Array, Gain, Scores, average
from nmar.report.text import table
from nmar.report.verdict import verdict

__all__ = ["Comparison", "Entry", "Key", "Row", "Setting", "Summary"]


class Key(NamedTuple):
    """Which fit."""

    data: str
    linkage: str
    control: bool

    def __str__(self) -> str:
        return f"{self.data} {self.linkage}" + (" (control)" if self.control else "")


@dataclass(frozen=True, eq=False)
class Entry:
    """One fit and its scores on the test cells."""

    fitted: Fitted
    scores: Scores
    seconds: float


@dataclass(frozen=True)
class Summary:
    """What the data look like."""

    rows: int
    cols: int
    observed: int
    density: float
    mean: float
    sd: float
    low: float
    high: float

    @classmethod
    def of(cls, cells: Cells) -> Summary:
        """Summary of cells."""
        y = np.asarray(cells.values, np.float64)
        spread = (float(y.mean()), float(y.std()), float(y.min()), float(y.max()))
        return cls(*cells.shape, cells.n_observed, cells.density, *spread)


@dataclass(frozen=True)
class Setting:
    """How the comparison was run; ``cold`` is the number of test cells on a line without training cells."""

    name: str
    seed: int
    seeds: int
    factors: int
    max_iter: int
    n_train: int
    n_valid: int
    n_test: int
    cold: int
    given: bool


@dataclass(frozen=True)
class Row:
    """One line of the table; log likelihoods and gains are in nats per test cell."""

    data: str
    linkage: str
    control: bool  # the tail-only control of this linkage
    log_likelihood: float  # predictive
    se: float  # standard error over test cells
    plugin: float  # plug-in log likelihood, the paper's L_NM
    gain: float | None  # over ignorable, paired by cell
    gain_se: float | None
    gain_over_control: float | None  # over the control of the same linkage, paired by cell
    gain_over_control_se: float | None
    rmse: float
    seconds: float
    n_iter: int
    stop_reason: str

    @property
    def name(self) -> str:
        """Linkage, and whether it is a control."""
        return f"{self.linkage} (control)" if self.control else self.linkage


@dataclass(frozen=True, eq=False)
class Comparison:
    """Fits of the same data, scored on the same held-out cells.

    Attributes
    ----------
    summary : what the data look like
    setting : split, seeds and settings; held-out cells were hidden from the pattern in every fit
    entries : the fits themselves, by :class:`Key`, one per seed
    test_cells : the cells they were scored on, one :class:`~nmar.Cells` per seed
    """

    summary: Summary
    setting: Setting
    entries: dict[Key, list[Entry]]
    test_cells: tuple[Cells, ...]

    @cached_property
    def rows(self) -> list[Row]:
        """One record per fit, in the order of fitting."""
        return [self._row(key) for key in self.entries]

    @cached_property
    def _cell_keys(self) -> list[Array]:
        """A number for each test cell, the same in every seed."""
        return [c.row_index.astype(np.int64) * c.shape[1] + c.col_index for c in self.test_cells]

    def difference(self, one: Key, other: Key) -> Gain:
        """Mean log likelihood of ``one`` minus ``other``, nats per cell, paired cell by cell."""
        pairs = zip(self.entries[one], self.entries[other], strict=True)
        return average([a.scores.predictive - b.scores.predictive for a, b in pairs], self._cell_keys)

    def _row(self, key: Key) -> Row:
        found = self.entries[key]
        overall = average([e.scores.predictive for e in found], self._cell_keys)
        yardstick, tail = Key(key.data, "ignorable", False), key._replace(control=True)
        gain = None if key == yardstick else self.difference(key, yardstick)
        beyond = None if key.control or tail not in self.entries else self.difference(key, tail)
        reasons = dict.fromkeys(e.fitted.reason for e in found)
        return Row(
            *key,
            log_likelihood=overall.mean,
            se=overall.se,
            plugin=float(np.mean([e.scores.plugin.mean() for e in found])),
            gain=gain.mean if gain else None,
            gain_se=gain.se if gain else None,
            gain_over_control=beyond.mean if beyond else None,
            gain_over_control_se=beyond.se if beyond else None,
            rmse=float(np.mean([e.scores.rmse for e in found])),
            seconds=float(np.mean([e.seconds for e in found])),
            n_iter=round(float(np.mean([e.fitted.trace.iterations for e in found]))),
            stop_reason="/".join(reasons),
        )

    def best(self) -> Row:
        """The row with the highest held-out log likelihood (which need not be significantly the best)."""
        return max(self.rows, key=lambda row: row.log_likelihood)

    def verdict(self) -> str:
        """What the numbers say, in plain words and no more than they say."""
        return verdict(self)

    def text(self, color: bool = False) -> str:
        """The table for a terminal."""
        return table(self, color)

    def __str__(self) -> str:
        return f"{self.text()}\n\n{self.verdict()}"

    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise ImportError("frame() needs pandas: pip install pandas (or use .rows, a list of records)") from None
        return pandas.DataFrame([asdict(row) for row in self.rows])

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained report, whole or not at all."""
        from nmar.report.atomic import write_text
        from nmar.report.html import comparison_page

        write_text(path, comparison_page(self))
