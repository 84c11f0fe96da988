"""The outcome of a comparison: a table of fits, and what may be said about it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.loop.finish import Fitted
from nmar.fit.options import Options
from nmar.prob.linkage import linkage
from nmar.report.gains import Gain, Judges
from nmar.report.names import base, line, setting
from nmar.report.notes import KINDS
from nmar.report.paired import PairedTest, paired_test
from nmar.report.scoring import Scores
from nmar.report.text import table
from nmar.report.verdict import Verdict, verdict

__all__ = ["BLIND", "TAIL", "TWO_STAGE", "Comparison", "Entry", "Key", "Row", "Setting", "Summary"]

TAIL, BLIND, TWO_STAGE = "tail", "blind", "two-stage"


class Key(NamedTuple):
    """Which fit; ``control`` is "" for a model itself, or the kind of control: "tail", "blind"."""

    data: str
    linkage: str
    control: str = ""

    @property
    def coupled(self) -> Key:
        """The model that this is a control of, or itself."""
        return self._replace(control="")

    @property
    def kind(self) -> str:
        """ "ignorable", "two-stage", "coupled", "tail" or "blind"."""
        return self.control or (self.linkage if self.linkage in ("ignorable", TWO_STAGE) else "coupled")

    def __str__(self) -> str:
        return f"{self.data} {self.linkage}" + (f" ({self.control})" if self.control else "")


@dataclass(frozen=True, eq=False)
class Entry:
    """One fit and its scores on the test cells."""

    fitted: Fitted
    scores: Scores
    seconds: float

    @property
    def trust(self) -> float:
        """ω of the fit."""
        return float(self.fitted.posterior.law.trust)

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
    control: str  # "", "tail" or "blind"
    name: str  # as tables show it, with the s and ω that were used
    thinning: float  # s, the mean over seeds where it was chosen
    trust: float  # ω, likewise
    log_likelihood: float  # predictive
    se: float
    plugin: float  # plug-in log likelihood, the paper's L_NM
    gain: float | None  # over ignorable
    gain_se: float | None
    gain_over_tail: float | None  # over the tail-only control of the same linkage
    gain_over_tail_se: float | None
    gain_over_two_stage: float | None
    gain_over_two_stage_se: float | None
    gain_over_blind: float | None  # over the blind control of the same linkage
    gain_over_blind_se: float | None
    gain_over_control: float | None  # over the best control of any linkage: the gain that counts
    gain_over_control_se: float | None
    best_control: str | None  # its name
    rmse: float
    seconds: float
    n_iter: int
    stop_reason: str

    @property
    def kind(self) -> str:
        """ "ignorable", "two-stage", "coupled", "tail" or "blind"."""
        return Key(self.data, self.linkage, self.control).kind


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Fits of the same data, scored on the same held-out cells.

    Attributes
    ----------
    summary : what the data look like
    setting : split, seeds and settings; held-out cells were hidden from the pattern in every fit
    entries : the fits themselves, by :class:`Key`, one per seed
    test_cells : the cells they were scored on, one :class:`~nmar.Cells` per seed
    options : what each fit was told
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

    def best_control(self, data: str) -> Key | None:
        """The best of the tail-only and blind controls and the two-stage baseline of a data model."""
        found = self.ranked([k for k in self.entries if k.data == data and k.kind in (TAIL, BLIND, TWO_STAGE)])
        return found[0] if found else None

    def blinded(self, key: Key) -> bool:
        """Whether a model given a choice trusts the pattern not at all: it is the blind control then."""
        return key.kind == "coupled" and all(entry.trust == 0.0 for entry in self.entries[key])

    def name(self, key: Key) -> str:
        """How tables call a fit: "free, s = 8, ω = 0.6", "free, s = 8 (blind)"."""
        found = self.entries[key]
        if key.kind in ("ignorable", TWO_STAGE):
            return key.linkage
        text = base(linkage(self.options[key].linkage)) + setting("s", [e.thinning for e in found])
        return f"{text} ({key.control})" if key.control else text + setting("ω", [e.trust for e in found])

    def plain(self, key: Key) -> str:
        """The same in plain words, with the name in brackets: "noise by row and column [free, s = 8 (blind)]"."""
        return f"{KINDS[key.kind].plain} [{self.name(key)}]"

    def line(self, key: Key) -> str:
        """The line of Python that fits this model to all cells, with what was chosen in the middle of the seeds."""
        told, found = self.options[key], self.entries[key]
        link = told.linkage
        if not isinstance(link, str) and link.thinning == "auto":
            told = replace(told, linkage=link.thinned(median_low(e.thinning for e in found)))
        if told.trust == "auto":
            told = replace(told, trust=median_low(e.trust for e in found))
        return line(told)

    def _row(self, key: Key) -> Row:
        found = self.entries[key]
        overall = self._judges.average([e.scores.predictive for e in found])
        reasons = dict.fromkeys(e.fitted.reason for e in found)
        return Row(
            *key,
            name=self.name(key),
            thinning=float(np.mean([e.thinning for e in found])),
            trust=float(np.mean([e.trust for e in found])),
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
        """Gains of one row by name; over controls for coupled models only."""
        best = self.best_control(key.data) if key.kind == "coupled" else None
        others = {"gain": Key(key.data, "ignorable")}
        others |= {"gain_over_tail": key._replace(control=TAIL), "gain_over_blind": key._replace(control=BLIND)}
        others |= {"gain_over_two_stage": Key(key.data, TWO_STAGE), "gain_over_control": best or key}
        found: dict[str, Any] = {"best_control": None if best is None else self.name(best)}
        for name, other in others.items():
            asked = other in self.entries and other != key and (name == "gain" or key.kind == "coupled")
            gain = self.difference(key, other) if asked else None
            found |= {name: gain.mean if gain else None, f"{name}_se": gain.se if gain else None}
        return found

    def best(self) -> Row:
        """The row with the highest held-out log likelihood (which need not be significantly the best)."""
        return max(self.rows, key=lambda row: row.log_likelihood)

    @cached_property
    def verdict(self) -> Verdict:
        """What the numbers say, in plain words and no more than they say; ``.recommended`` names the model to use."""
        return verdict(self)

    def paired_test(self, data: str | None = None) -> PairedTest:
        """The best coupled model of a data model (the first unless named) against the best of its controls."""
        return paired_test(self, data)

    def text(self, color: bool = False) -> str:
        """The table for a terminal, of at most 80 columns."""
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
        try:
            import pandas
        except ImportError:
            raise ImportError("frame() needs pandas: pip install pandas (or use .rows, a list of records)") from None
        return pandas.DataFrame([asdict(row) for row in self.rows])

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained report, whole or not at all."""
        from nmar.data.atomic import write_text
        from nmar.report.html import comparison_page

        write_text(path, comparison_page(self))
