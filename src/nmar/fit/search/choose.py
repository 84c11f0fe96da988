"""Settings left to "auto", chosen by the held-out log likelihood of cells set aside.

Enters: a job whose options leave something open: the number of factors, the thinning of the linkage, the trust in the
pattern, or which start of a thinned table to take. Leaves: options with all of it decided, the linkage to start from,
and what was tried. Every value is swept a little on the other cells. The bound chooses nothing here: it pays for events
that it has to invent (theory.md, Thinned counts), and it cannot compare patterns that are exposed to different cells.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.fit.loop.run import Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.options import Options
from nmar.fit.problem import Problem
from nmar.fit.search.starts import Job, first_problem, hidden_cells, starting_states
from nmar.models.state import Shared, State
from nmar.posterior.posterior import Posterior, log_density

Array = NDArray[Any]

log = logging.getLogger("nmar")

SHARE = 0.1  # of the training cells, on which settings are judged beside the validation cells
JUDGES = 50_000  # cells set aside, at most
FIRST = 10  # sweeps of every start of a value
SECOND = 20  # more sweeps of its best start
STEP = 8  # sweeps between scores of the chosen value, until they no longer rise
PATIENCE = 16  # sweeps that the score may go without a new best
THINNINGS = (4.0, 16.0, 64.0)
FACTORS = (3, 10, 30)
THINNING = 16.0  # of a linkage whose thinning is open, while the number of factors is chosen


@dataclass(frozen=True)
class Choice:
    """One value of a setting that was tried.

    Attributes
    ----------
    setting, value : what was tried
    score : mean held-out log likelihood
    behind, se : how far behind the chosen one, with the standard error of the paired difference
    """

    setting: str
    value: Any
    score: float
    behind: float
    se: float


@dataclass(frozen=True, eq=False)
class Trial:
    """A value under way.

    Attributes
    ----------
    value, options : what is tried, and the options it stands for
    problem : the law and what a sweep reads
    start : the state it began from
    state, swept : where it has come, after how many sweeps
    scores, best_at : score of each judging cell when their mean was best, and after how many sweeps that was
    """

    value: Any
    options: Options
    problem: Problem
    start: State
    state: State
    swept: int = 0
    scores: Array = field(default_factory=lambda: np.full(1, -np.inf))
    best_at: int = 0

    @property
    def score(self) -> float:
        """Mean score."""
        return float(self.scores.mean())


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was decided.

    Attributes
    ----------
    options : with nothing left open
    start : shared parameters to start from, and ``sweeps`` how far to go; None where that was not looked for
    choices : what was tried
    """

    options: Options
    start: Shared | None
    sweeps: int | None
    choices: tuple[Choice, ...]


def ranked(setting: str, scores: dict[Any, Array]) -> tuple[Choice, ...]:
    """Values that were tried, best first, with paired distances to the best."""
    order = sorted(scores, key=lambda value: -float(scores[value].mean()))
    best = scores[order[0]]
    found = []
    for value in order:
        gap = best - scores[value]
        se = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0
        found.append(Choice(setting, value, float(scores[value].mean()), float(gap.mean()), se))
    return tuple(found)


def choose_settings(job: Job) -> Chosen:
    """Decide what the options leave open, each setting at what was decided before it.

    The last one, trust or start, also says how many sweeps are best: held-out likelihood may fall long before the bound
    stops rising (GEUVADIS: −0.947 after 33 sweeps, −0.989 after 200).
    """
    search = _Search(job)
    deciding: dict[str, Callable[[], list[Trial]]] = {
        "factors": search.try_factors,
        "thinning": search.try_thinnings,
        "trust": search.try_trusts,
        "start": search.try_starts,
    }
    choices: tuple[Choice, ...] = ()
    best: Trial | None = None
    for setting in job.options.left_open:
        trials = deciding[setting]()
        best = max(trials, key=lambda trial: trial.score)
        search.options = best.options
        if len(trials) > 1:
            choices += ranked(setting, {trial.value: trial.scores for trial in trials})
            log.info("%s: %s", setting, best.value)
    if best is None or setting not in ("trust", "start"):
        return Chosen(search.options, None, None, choices)
    best = search.exhausted(best)
    return Chosen(search.options, best.start.shared, best.best_at, choices)


class _Search:
    """Trials on the training cells less some, which judge them together with the validation cells."""

    def __init__(self, job: Job) -> None:
        share = min(SHARE, JUDGES / job.cells.n_observed)
        inner, _, aside = job.cells.split(test=share, valid=0.0, seed=0)
        self.judges = [aside] if job.valid is None else [aside, job.valid]
        parts = self.judges if job.hidden is None else [*self.judges, job.hidden]
        self.job = replace(job, cells=inner, hidden=hidden_cells(inner, *parts), valid=None, keep=None)
        self.options = job.options

    @property
    def _over(self) -> bool:
        """Whether there is no time left for another value."""
        return self.job.seconds_left == 0.0

    def try_factors(self) -> list[Trial]:
        """Numbers of factors, judged by which cells are observed as well as by their values."""
        link = self.options.link
        start = self.options if link.thinning != "auto" else replace(self.options, linkage=link.thinned(THINNING))
        trials: list[Trial] = []
        for factors in FACTORS:
            if trials and (self._over or factors > min(self.job.cells.shape)):
                break
            trial = self._try(factors, replace(start, factors=factors))
            scores = trial.scores + self._pattern_scores(self._posterior(trial))
            trials.append(replace(trial, scores=scores, options=replace(self.options, factors=factors)))
        return trials

    def try_thinnings(self) -> list[Trial]:
        """Rungs of the ladder, each from the one below it, until the score falls."""
        trials: list[Trial] = []
        for thinning in THINNINGS:
            if trials and self._over:
                break
            options, start = replace(self.options, linkage=self.options.link.thinned(thinning)), None
            if trials:
                below = trials[-1].state
                start = State(below.sides, replace(below.shared, linkage=below.shared.linkage.thinned(thinning)))
            trials.append(self._try(thinning, options, start))
            if len(trials) > 1 and trials[-1].score < trials[-2].score:
                break
        return trials

    def try_trusts(self) -> list[Trial]:
        """Trust in the pattern, from blind to full."""
        trials: list[Trial] = []
        for trust in trusts(self.job.cells):
            if trials and self._over:
                break
            trials.append(self._try(trust, replace(self.options, trust=trust)))
        return trials

    def try_starts(self) -> list[Trial]:
        """Starts of a thinned table, whose settings are all given."""
        return [self._try("start", self.options)]

    def _try(self, value: Any, options: Options, start: State | None = None) -> Trial:
        """The best of all starts, or a given one."""
        job = replace(self.job, options=options)
        problem = first_problem(job)
        states = starting_states(job, problem) if start is None else [start]
        trials = [self._swept(Trial(value, options, problem, state, state), FIRST) for state in states]
        return self._swept(max(trials, key=lambda trial: trial.score), SECOND)

    def exhausted(self, trial: Trial) -> Trial:
        """Sweep on until the score no longer rises."""
        most = self.options.stop.max_iter
        while trial.swept < most and trial.swept - trial.best_at < PATIENCE and not self._over:
            trial = self._swept(trial, STEP)
        return replace(trial, best_at=min(trial.best_at, most))

    def _swept(self, trial: Trial, sweeps: int) -> Trial:
        """The trial so many sweeps on, scored every STEP or so."""
        context = self.job.context(trial.problem.law, trial.problem.observed)
        for count in _parts(sweeps):
            fit = run(Progress(trial.state), context, self._stop(count), self.job.show, stopped=self.job.control)
            trial = replace(trial, state=fit.state, swept=trial.swept + fit.trace.iterations)
            scores = np.concatenate([score(self._posterior(trial), cells) for cells in self.judges])
            if float(scores.mean()) > trial.score:
                trial = replace(trial, scores=scores, best_at=trial.swept)
        return trial

    def _posterior(self, trial: Trial) -> Posterior:
        return Posterior(trial.problem.law, trial.state, self.job.cells.rows, self.job.cells.cols)

    def _stop(self, sweeps: int) -> StopRule:
        return StopRule(max_iter=sweeps, tol=0.0, max_time=self.job.seconds_left)

    def _pattern_scores(self, posterior: Posterior) -> Array:
        """log P(observed) of the judging cells, less what missing cells cost for each observed one."""
        i, j = self.job.cells.positions()
        u, v = (side.pattern.weights.column_sums for side in posterior.state.sides)
        missing = (float(u @ v) - float(posterior.rates(i, j).sum())) / len(i)
        known = [cells.align(posterior.rows, posterior.cols, unknown="drop") for cells in self.judges]
        rates = np.concatenate([posterior.rates(*cells.positions()) for cells in known])
        return np.log(-np.expm1(-rates)) - missing


def _parts(sweeps: int) -> list[int]:
    """Sweeps between scores: as equal as can be, about STEP."""
    parts = max(1, round(sweeps / STEP))
    return [sweeps // parts + (k < sweeps % parts) for k in range(parts)]


def score(posterior: Posterior, cells: Cells) -> Array:
    """Predictive log likelihood of each cell that lies on the posterior's axes; 0 where no values are modelled.

    Of cells with weights, as often as it counts, so that the mean is the weighted one.
    """
    known = cells.align(posterior.rows, posterior.cols, unknown="drop")
    if not len(known):
        raise ValueError("valid has no cell whose row and column are in the training cells")
    if not posterior.law.data.has_values:
        return np.zeros(len(known))
    i, j = known.positions()
    found, weights = log_density(posterior, i, j, known.values), known.weights
    return found if weights is None else found * (weights / weights.mean())


def trusts(cells: Cells) -> tuple[float, float, float]:
    """Blind, in between, and full trust.

    In between, the missing cells and the image of the observed ones at the overall density weigh the same to a typical
    observed cell: ω Σ_all Λ = (1 − ω)/d Σ_Ω Λ, with Λ_ij in proportion to the degrees of its row and its column.

    Examples
    --------
    >>> cells = Cells.from_arrays([0, 0, 1, 1], [0, 1, 0, 2], [1.0, 2.0, 3.0, 4.0])
    >>> trusts(cells)
    (0.0, 0.5294117647058824, 1.0)
    """
    rows, cols = (np.diff(cells.by(axis).indptr).astype(np.float64) for axis in (0, 1))
    i, j = cells.positions()
    observed = float(np.sum(rows[i] * cols[j])) / cells.density
    ratio = observed / (float(rows.sum()) * float(cols.sum()))
    return 0.0, ratio / (1.0 + ratio), 1.0
