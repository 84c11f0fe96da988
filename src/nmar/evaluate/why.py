"""Why are values missing? What held-out cells of both kinds say about the mechanisms, in plain words.

Enters: cells. Leaves: a :class:`WhyMissing`: the mechanisms "none", "taste" and "value", without and with the factors
of the pattern, judged on cells that no fit has seen, and what each of them says of the missing values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.outside import as_frame
from nmar.data.seeds import check_seed
from nmar.evaluate.gains import Gain
from nmar.evaluate.mechanisms import HeldOut, Judged, differences, fits_by_value, hold_out, judged
from nmar.fit.job import hidden_cells
from nmar.fit.options import Options
from nmar.fit.problem import whole_seed
from nmar.fit.result import Choice
from nmar.fit.taste import describes
from nmar.models.arguments import check_count
from nmar.models.mechanism import ByValue
from nmar.models.settings import Factorization
from nmar.posterior.mechanism import LearnedMechanism, learned_mechanism
from nmar.posterior.posterior import Posterior, mean_and_variance, sample

if TYPE_CHECKING:
    import pandas

__all__ = ["Decision", "Explanation", "WhyMissing", "decide", "why_missing", "with_chosen_mechanism"]

SLIGHT = 0.1  # slope of "value" below which it says nothing that matters about missing values
SURE = 2.0  # standard errors beyond which a difference counts
SHOWN = 20_000  # missing cells whose values are drawn for the figures, at most


@dataclass(frozen=True)
class Decision:
    """Which mechanism the held-out cells support."""

    chosen: Judged  # the mechanism that is taken
    plain: Judged  # the best fit without a mechanism
    tied: Judged | None  # the other mechanism, where held-out cells do not tell the two apart
    gain: dict[str, Gain]  # gains of ``chosen`` over ``plain``: whole, value, pattern
    # the mechanism "value" where it explains which cells are seen and predicts held-out values worse
    refused: Judged | None = None
    loss: Gain | None = None  # by how much, against the best other mechanism


def decide(found: list[Judged], held: HeldOut) -> Decision:
    """The mechanism that held-out cells of both kinds support.

    A mechanism has to gain more than two standard errors in the whole, over the best fit without one, and "value" must
    not lose more than two in the values, against the best other fit. Where "taste" and "value" both gain and do not
    differ by two standard errors, "taste" is taken and the other is told.
    """
    ranked = sorted(found, key=lambda one: -float(one.parts(held)["whole"].mean()))
    best = {kind: next((one for one in ranked if one.kind == kind), None) for kind in ("none", "taste")}
    plain, taste = best["none"], best["taste"]
    assert plain is not None
    others = [one for one in (plain, taste) if one is not None]
    rival = max(others, key=lambda one: float(one.values.mean()))
    refused, loss, value = None, None, None
    for one in (one for one in ranked if one.kind == "value"):
        if differences(one, plain, held)["whole"].z <= SURE:
            break
        behind = differences(one, rival, held)["value"]
        if behind.z >= -SURE:
            value = one
            break
        refused, loss = refused or one, loss or behind
    sure = [one for one in (taste, value) if one is not None and differences(one, plain, held)["whole"].z > SURE]
    chosen, tied = (sure[0] if sure else plain), None
    if len(sure) == 2:
        ahead = differences(sure[1], sure[0], held)["whole"].z
        chosen = sure[1] if ahead > SURE else sure[0]
        tied = sure[1] if abs(ahead) <= SURE else None
    return Decision(chosen, plain, tied, differences(chosen, plain, held), None if value else refused, loss)


def that_matter(found: list[Judged]) -> list[Judged]:
    """All but those of the mechanism "value" with a slight slope, which large tables can tell from 0."""
    return [one for one in found if one.kind != "value" or abs(learned_mechanism(one.posterior).value) >= SLIGHT]


def with_chosen_mechanism(
    cells: Cells, options: Options, away: tuple[Cells, ...] = ()
) -> tuple[Options, tuple[Choice, ...]]:
    """The options with the mechanism that ``mechanism="auto"`` chooses, and what was tried, best first.

    Fits that are compared have normal noise where no tail is asked for, so that they differ in the mechanism alone.

    Parameters
    ----------
    cells : Cells
        Training cells.
    options : Options
        Settings of the fit.
    away : tuple of Cells
        Cells that are neither observed nor missing.
    """
    if not (describes(options.data) or fits_by_value(options, cells)):
        return replace(options, mechanism="none"), ()
    hidden = hidden_cells(cells, *away)
    held = hold_out(cells, whole_seed(options.random_state), hidden=hidden)
    found = list(judged(held, replace(options, tail=options.tail or False), hidden))
    chosen = decide(that_matter(found), held).chosen
    best = {chosen.kind: chosen}
    for one in sorted(found, key=lambda one: -float(one.parts(held)["whole"].mean())):
        best.setdefault(one.kind, one)
    tried = []
    for kind, one in best.items():
        behind = differences(chosen, one, held)["whole"]
        tried.append(Choice("mechanism", kind, float(one.parts(held)["whole"].mean()), behind.mean, behind.se))
    by_value = ByValue(None, chosen.pattern) if chosen.kind == "value" else chosen.kind
    return replace(options, mechanism=by_value), tuple(tried)


@dataclass(frozen=True)
class Explanation:
    """One mechanism on the held-out cells, in nats for each observed one; gains are over "none" without the pattern."""

    name: str  # "none", "taste" or "value", and "+ pattern" where its factors have a say in which cells are seen
    kind: str  # the mechanism
    whole: float  # log P(seen or not) + log p(value | observed), and its two parts
    value: float
    pattern: float
    gains: dict[str, Gain]  # gains of the whole and of the parts
    slope: float  # Γ for a spread of the observed values, and its standard deviation; 0 without one
    slope_sd: float
    mean_missing: float  # mean of the missing values under this mechanism


@dataclass(frozen=True, eq=False, repr=False)
class WhyMissing:
    """Result of :func:`why_missing`.

    Attributes
    ----------
    rows : tuple of Explanation
        The mechanisms.
    kind : {"none", "taste", "value"}
        The mechanism that held-out cells support.
    tied : str or None
        Another mechanism that explains them as well.
    shown : tuple of Explanation
        Those of the best fit without a mechanism, of ``kind`` and of ``tied``.
    verdict : str
        The result in plain words, with what it means for the missing values.
    n_seen, n_missing : int
        Held-out cells that were observed, and missing ones.
    mean_observed : float
        Mean of the observed values.
    curves : WhyCurves
        The numbers behind the figures.
    name : str
        Name of the data.
    """

    rows: tuple[Explanation, ...]
    kind: str
    tied: str | None
    shown: tuple[Explanation, ...]
    verdict: str
    n_seen: int
    n_missing: int
    mean_observed: float
    curves: WhyCurves
    name: str

    def frame(self) -> pandas.DataFrame:
        """One line for each mechanism."""
        lines = []
        for row in self.rows:
            gains = {f"{part}_gain": gain.mean for part, gain in row.gains.items()}
            errors = {f"{part}_gain_se": gain.se for part, gain in row.gains.items()}
            scores = {"mechanism": row.name, "whole": row.whole, "value": row.value, "pattern": row.pattern}
            rest = {"slope": row.slope, "slope_sd": row.slope_sd, "mean_missing": row.mean_missing}
            lines.append(scores | gains | errors | rest)
        return as_frame(lines, "frame()")

    def text(self) -> str:
        """The table and the verdict."""
        head = f"{'mechanism':16s} {'whole':>18s} {'values':>18s} {'which are seen':>18s} {'slope':>7s}  missing mean"
        cells = f"{self.n_seen:,} observed and {self.n_missing:,} missing cells held out"
        lines = [f"Gains in nats for each observed value, {cells}", "", head]
        for row in self.rows:
            gains = "".join(f" {row.gains[part]!s:>18}" for part in ("whole", "value", "pattern"))
            lines.append(f"{row.name:16s}{gains} {row.slope:+7.2f}  {_number(row.mean_missing)}")
        return "\n".join([*lines, "", self.verdict])

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page: the verdict, the table, and figures of which values are missing.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        from nmar.data.atomic import write_text
        from nmar.report.why import why_page

        write_text(path, why_page(self))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"WhyMissing({self.kind!r}{'' if self.tied is None else f', tied with {self.tied!r}'})"


@dataclass(frozen=True, eq=False)
class WhyCurves:
    """The numbers behind the figures of a :class:`WhyMissing`."""

    fitted: Array  # mean of the value of each held-out cell without a mechanism
    missing: Array  # whether it is missing
    times: Array  # how many cells each stands for
    chance: dict[str, Array]  # P(missing) of each cell by mechanism: without one, and of "value" where it was fitted
    observed: Array  # observed values
    drawn: dict[str, Array]  # A draw of each of some missing cells, by mechanism
    mechanism: LearnedMechanism | None  # that of the mechanism "value", with its curve P(observed | y)


def why_missing(
    cells: Any,
    data: Any = None,
    *,
    random_state: Any = 0,
    factors: int = 10,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    name: str = "data",
) -> WhyMissing:
    """Ask held-out cells of both kinds why values are missing.

    A tenth of all cells, observed or not, is hidden. Values may be missing because of their row and column ("none"),
    because rows choose what they like ("taste"), or because of what they are ("value"); each with rows and columns
    alone deciding how often cells are seen, and with the factors of the pattern beside them. The score of an observed
    cell is log P(observed) + log p(value | observed), that of a missing one log P(missing).

    Parameters
    ----------
    cells : Cells or array-like
        Cells, a sparse matrix, or a dense array with NaN where a cell is missing.
    data : data model, str or None, default=None
        Gaussian model of the values, as in :class:`nmar.CCPF`. None is ``Factorization(10)``.
    random_state : int, Generator or None, default=0
        Seed of the cells taken out and of the fits.
    factors : int, default=10
        Number of components of the pattern.
    max_iter : int, default=200
        Largest number of sweeps of a fit.
    n_jobs : int or None, default=None
        Number of threads.
    backend : {"auto", "numba", "reference"}, default="auto"
        Implementation of the loops.
    name : str, default="data"
        Name of the data on the page.

    Returns
    -------
    WhyMissing
        With ``verdict``, ``frame()``, ``text()`` and ``to_html(path)``.

    Notes
    -----
    All fits have normal noise by row and column, so that they differ in the mechanism alone. Held-out cells judge what
    a mechanism predicts; that the curve of P(observed) has the assumed form, with one slope for all cells, is an
    assumption. A slope below 0.1 counts as none, because it moves no missing value by much. A mechanism that gains in
    the whole and loses in the values is refused: fitted values have then become
    a description of which cells are seen.

    Examples
    --------
    >>> import numpy as np
    >>> import nmar
    >>> rng = np.random.default_rng(0)
    >>> full = rng.normal(size=(80, 1)) + rng.normal(size=(1, 30)) + 0.5 * rng.normal(size=(80, 30))
    >>> seen = rng.random(full.shape) < 1 / (1 + np.exp(-2 * full))
    >>> found = nmar.why_missing(np.where(seen, full, np.nan), nmar.Effects("both"), factors=2, max_iter=40)
    >>> found.kind
    'value'
    """
    check_seed("random_state", random_state)
    check_count("factors", factors, 1)
    given, seed = as_cells(cells), whole_seed(random_state)
    model = Factorization(10) if data is None else data
    settings: dict[str, Any] = {"factors": factors, "max_iter": max_iter, "n_jobs": n_jobs, "backend": backend}
    options = Options(data=model, linkage="ignorable", tail=False, random_state=seed, **settings)
    if not (describes(options.data) or fits_by_value(options, given)):
        raise ValueError(
            f"data={data!r} takes no mechanism; use nmar.Factorization or nmar.Effects with family='gaussian'"
        )
    held = hold_out(given, seed)
    found = list(judged(held, options))
    made = decide(that_matter(found), held)
    rows = tuple(_explanation(one, found[0], held) for one in found)
    kinds = (made.chosen.kind, None if made.tied is None else made.tied.kind)
    names = [one.name for one in (made.plain, made.chosen, made.tied) if one is not None]
    shown = tuple(row for row in rows if row.name in names)
    mean, cells_out = float(given.values.mean()), (len(held.seen), len(held.row))
    curves = _curves(found, made, held, seed)
    return WhyMissing(rows, *kinds, shown, verdict(made, rows, mean), *cells_out, mean, curves, name)


def _explanation(one: Judged, base: Judged, held: HeldOut) -> Explanation:
    mechanism = learned_mechanism(one.posterior)
    parts = {name: float(each.mean()) for name, each in one.parts(held).items()}
    mean = float(mean_and_variance(_about_missing(one.posterior), held.row, held.col)[0].mean())
    slope = (mechanism.value, mechanism.value_sd) if one.kind == "value" else (0.0, 0.0)
    return Explanation(one.name, one.kind, **parts, gains=differences(one, base, held), slope=slope[0],
                       slope_sd=slope[1], mean_missing=mean)  # fmt: skip


def _about_missing(known: Posterior) -> Posterior:
    """The fit, asked about missing cells."""
    if known.state.shared.mechanism is not None:
        return replace(known, law=replace(known.law, given="missing"))
    return replace(known, law=replace(known.law, target="all"))


def _curves(found: list[Judged], made: Decision, held: HeldOut, seed: int) -> WhyCurves:
    shown = {"none": made.plain, made.chosen.kind: made.chosen}
    values = [one for one in found if one.kind == "value"]
    if made.tied is not None:
        shown[made.tied.kind] = made.tied
    if values and "value" not in shown and made.refused is None:
        shown["value"] = max(values, key=lambda one: float(one.parts(held)["whole"].mean()))
    missing = np.repeat([False, True], [len(held.seen), len(held.row)])
    chance = {
        kind: np.concatenate([-np.expm1(one.chances.seen), np.exp(one.chances.missing)])
        for kind, one in shown.items()
        if kind != "taste"
    }
    rng = np.random.default_rng([seed, 2])
    some = rng.choice(len(held.row), min(SHOWN, len(held.row)), replace=False)
    drawn = {
        kind: sample(_about_missing(one.posterior), held.row[some], held.col[some], 1, rng)[:, 0]
        for kind, one in shown.items()
    }
    by_value = learned_mechanism(shown["value"].posterior) if "value" in shown else None
    any_cell = replace(made.plain.posterior, law=replace(made.plain.posterior.law, target="all", given=None))
    fitted = mean_and_variance(any_cell, *held.positions)[0]
    observed = np.concatenate([held.train.values, held.seen.values])
    return WhyCurves(fitted, missing, np.where(missing, held.times, 1.0), chance, observed, drawn, by_value)


def verdict(made: Decision, rows: tuple[Explanation, ...], observed: float) -> str:
    """The decision in plain words, with what it means for the missing values."""
    of = {row.name: row for row in rows}
    plain, chosen = of[made.plain.name], of[made.chosen.name]
    before, after = _number(plain.mean_missing), _number(chosen.mean_missing)
    seen = f"the observed ones average {_number(observed)}"
    gain = f"{made.gain['whole']} nats for each observed value"
    if made.chosen.kind == "none":
        words = [f"No mechanism beyond rows and columns is seen: missing values average {before}; {seen}."]
    elif made.chosen.kind == "taste":
        words = [
            f"What rows and columns choose tells about their values ({gain}): missing values average {after}, not"
            f" {before}; {seen}."
        ]
    else:
        low = "low" if chosen.slope > 0.0 else "high"
        words = [
            f"Values decide whether they are seen: {low} values are seen less ({gain}, slope {chosen.slope:+.2f} ±"
            f" {chosen.slope_sd:.2f}). Missing values average {after}, not {before}; {seen}."
        ]
    if made.tied is not None:
        other = of[made.tied.name]
        words.append(
            f"Held-out cells do not tell it from mechanism='{other.kind}', under which they average"
            f" {_number(other.mean_missing)}: what is known of how the data came about has to decide."
        )
    if made.refused is not None and made.loss is not None:
        refused = of[made.refused.name]
        words.append(
            f"mechanism='value' is refused: it says better which cells are seen ({refused.gains['pattern']}), but"
            f" predicts held-out values worse ({made.loss}), so that its values describe which cells are seen."
        )
    return " ".join(words)


def _number(value: float) -> str:
    return f"{value:#.3g}" if abs(value) < 100.0 else f"{value:,.0f}"
