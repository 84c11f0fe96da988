"""The outcome of a comparison: a table of fits, and what may be said about it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nmar.data.cells import Cells
from nmar.data.outside import as_frame
from nmar.evaluate.gains import Gain, Judges
from nmar.evaluate.notes import KINDS, MODELLED
from nmar.evaluate.paired import PairedTest, paired_test
from nmar.evaluate.scoring import Scores
from nmar.evaluate.verdict import Verdict, verdict
from nmar.evaluate.written import line
from nmar.fit.options import Options, is_leveled
from nmar.fit.result import Fitted

__all__ = [
    "SHUFFLED",
    "TAIL",
    "TASTE",
    "TWO_STAGE",
    "Comparison",
    "Entry",
    "Key",
    "Row",
    "Setting",
    "Summary",
]

SHUFFLED, TAIL, TASTE, TWO_STAGE = "shuffled", "tail", "taste", "two-stage"


class Key(NamedTuple):
    """Which fit; ``control`` is "" for a model itself, or its control, "tail" or "shuffled"."""

    data: str
    linkage: str
    control: str = ""

    @property
    def kind(self) -> str:
        """ "ignorable", "taste", "two-stage", "coupled", "tail" or "shuffled"."""
        return self.control or (self.linkage if self.linkage in ("ignorable", TASTE, TWO_STAGE) else "coupled")

    def __str__(self) -> str:
        return f"{self.data} {self.linkage}" + (f" ({self.control})" if self.control else "")


@dataclass(frozen=True, eq=False)
class Entry:
    """One fit and its scores on the test cells."""

    fitted: Fitted
    scores: Scores
    seconds: float

    @property
    def thinning(self) -> float:
        """s of the fit."""
        return float(self.fitted.posterior.state.shared.linkage.events)


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
    factors: int | str
    max_iter: int
    n_train: int
    n_valid: int
    n_test: int
    cold: int
    given: bool


@dataclass(frozen=True)
class Row:
    """One line of the table; log likelihoods and gains are in nats per test cell, gains paired by cell."""

    data: str
    linkage: str
    control: str  # "", "tail" or "shuffled"
    name: str  # as tables show it
    thinning: float  # s
    log_likelihood: float  # predictive
    se: float
    plugin: float  # plug-in log likelihood, the paper's L_NM
    gain: float | None  # over ignorable
    gain_se: float | None
    gain_over_own: float | None  # over the control of the same model: tail-only, or shuffled choices
    gain_over_own_se: float | None
    gain_over_two_stage: float | None
    gain_over_two_stage_se: float | None
    gain_over_control: float | None  # over the best of all its controls: the gain that counts
    gain_over_control_se: float | None
    best_control: str | None  # its name
    rmse: float
    seconds: float
    n_iter: int
    stop_reason: str

    @property
    def kind(self) -> str:
        """ "ignorable", "taste", "two-stage", "coupled", "tail" or "shuffled"."""
        return Key(self.data, self.linkage, self.control).kind


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Fits of the same data, scored on the same held-out cells.

    Attributes
    ----------
    summary : Summary
        What the data look like.
    setting : Setting
        Split, seeds and settings; held-out cells were hidden from the pattern in every fit.
    entries : dict of Key to list of Entry
        The fits themselves, by :class:`Key`, one per seed.
    test_cells : tuple of Cells
        The cells they were scored on, one :class:`~nmar.Cells` per seed.
    options : dict of Key to Options
        Settings of each fit.
    """

    summary: Summary
    setting: Setting
    entries: dict[Key, list[Entry]]
    test_cells: tuple[Cells, ...]
    options: dict[Key, Options]

    @cached_property
    def rows(self) -> list[Row]:
        """One record per fit, in the order of fitting."""
        return [self._row(key) for key in self.entries]

    @cached_property
    def _judges(self) -> Judges:
        return Judges.of(self.test_cells)

    @cached_property
    def _means(self) -> dict[Key, float]:
        return {k: float(np.mean([e.scores.predictive.mean() for e in v])) for k, v in self.entries.items()}

    def difference(self, one: Key, other: Key) -> Gain:
        """Mean log likelihood of ``one`` minus ``other``, nats per cell, paired cell by cell."""
        pairs = zip(self.entries[one], self.entries[other], strict=True)
        return self._judges.average([a.scores.predictive - b.scores.predictive for a, b in pairs])

    def ranked(self, keys: list[Key]) -> list[Key]:
        """Keys from the highest to the lowest mean log likelihood."""
        return sorted(keys, key=lambda key: -self._means[key])

    def modelled(self, data: str) -> list[Key]:
        """The models of a data model in which what is missing tells about the values, the best one first."""
        return self.ranked([key for key in self.entries if key.data == data and key.kind in MODELLED])

    def controls(self, model: Key) -> list[Key]:
        """What a model is judged against, the best one first.

        The ignorable model, the tail-only controls and the two-stage baseline; taste also against its shuffled control.
        """
        kinds = ("ignorable", TAIL, TWO_STAGE) + ((SHUFFLED,) if model.kind == TASTE else ())
        return self.ranked([key for key in self.entries if key.data == model.data and key.kind in kinds])

    def best_control(self, model: Key) -> Key:
        """The best of the controls of a model: the gain over it is the one that counts."""
        return self.controls(model)[0]

    @staticmethod
    def own_control(model: Key) -> Key:
        """The same model with nothing to learn from what is missing, whether it was fitted or not."""
        return model._replace(control=SHUFFLED if model.kind == TASTE else TAIL)

    def name(self, key: Key) -> str:
        """How tables call a fit: "free, s = 8", "free, s = 8 (tail)"."""
        return f"{key.linkage} ({key.control})" if key.control else key.linkage

    def plain(self, key: Key) -> str:
        """The same in plain words, with the name in brackets: "heavier tails everywhere [free (tail)]"."""
        return f"{KINDS[key.kind].plain} [{self.name(key)}]"

    def line(self, key: Key) -> str:
        """The line of Python that fits this model to all cells."""
        return line(self.options[key])

    @property
    def leveled(self) -> bool:
        """Whether values are levels, and scores log P(level)."""
        return all(is_leveled(options.data) for options in self.options.values())

    @property
    def unit(self) -> str:
        """What gains are in."""
        return "nats of log P(level) per cell" if self.leveled else "nats per cell"

    def chosen_ranks(self, key: Key) -> list[int]:
        """The rank of each fit, where it was chosen by the data."""
        if not self.options[key].open_rank:
            return []
        return [each.fitted.posterior.law.data.rank for each in self.entries[key]]  # type: ignore[attr-defined]

    def _row(self, key: Key) -> Row:
        found = self.entries[key]
        overall = self._judges.average([e.scores.predictive for e in found])
        reasons = dict.fromkeys(e.fitted.reason for e in found)
        return Row(
            *key,
            name=self.name(key),
            thinning=found[0].thinning,
            log_likelihood=overall.mean,
            se=overall.se,
            plugin=float(np.mean([e.scores.plugin.mean() for e in found])),
            rmse=float(np.mean([e.scores.rmse for e in found])),
            seconds=float(np.mean([e.seconds for e in found])),
            n_iter=round(float(np.mean([e.fitted.trace.iterations for e in found]))),
            stop_reason="/".join(reasons),
            **self._gains(key),
        )

    def _gains(self, key: Key) -> dict[str, Any]:
        """Gains of one row by name; over controls where the missingness is modelled."""
        best = self.best_control(key) if key.kind in MODELLED else None
        others = {"gain": Key(key.data, "ignorable"), "gain_over_own": self.own_control(key)}
        others |= {"gain_over_two_stage": Key(key.data, TWO_STAGE), "gain_over_control": best or key}
        found: dict[str, Any] = {"best_control": None if best is None else self.name(best)}
        for name, other in others.items():
            asked = other in self.entries and other != key and (name == "gain" or key.kind in MODELLED)
            gain = self.difference(key, other) if asked else None
            found |= {name: gain.mean if gain else None, f"{name}_se": gain.se if gain else None}
        return found

    def best(self) -> Row:
        """The row with the highest held-out log likelihood (which need not be significantly the best)."""
        return max(self.rows, key=lambda row: row.log_likelihood)

    def recommended(self) -> Row:
        """The row of the model to use, which need not have the highest log likelihood (see ``verdict``)."""
        told = self.verdict
        return next(row for row in self.rows if (row.data, row.name) == (told.data, told.recommended))

    @cached_property
    def verdict(self) -> Verdict:
        """What the numbers say, in plain words and no more than they say; ``.recommended`` names the model to use."""
        return verdict(self)

    def paired_test(self, data: str | None = None) -> PairedTest:
        """The best model of the missingness (of the first data model, unless named) against its best control."""
        return paired_test(self, data)

    def text(self, color: bool = False) -> str:
        """The table for a terminal, of at most 80 columns."""
        from nmar.report.text import table

        return table(self, color)

    def __str__(self) -> str:
        return f"{self.text()}\n\n{self.verdict}"

    def __repr__(self) -> str:
        models, about = len(self.entries), self.summary
        return f"Comparison({self.setting.name!r}, {about.rows} rows × {about.cols} cols, {models} models)"

    def _repr_html_(self) -> str:
        """The verdict and the gains, for a notebook."""
        from nmar.report.notebook import comparison_html

        return comparison_html(self)

    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return as_frame([asdict(row) for row in self.rows], "frame()")

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained report, whole or not at all."""
        from nmar.data.atomic import write_text
        from nmar.report.html import comparison_page

        write_text(path, comparison_page(self))
