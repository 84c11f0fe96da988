"""Is the missingness worth modelling? Models with and without it and their controls, on the same cells.

Enters: cells. Leaves: a :class:`~nmar.evaluate.comparison.Comparison` with one row per fit. Gaussian models all have
noise by row and column. What modelling the missingness is worth is the gain over the best control, for a gain over the
ignorable model may be a heavier tail, whatever is missing (theory.md, Control).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.evaluate.comparison import SHUFFLED, TAIL, TASTE, TWO_STAGE, Comparison, Entry, Key, Setting, Summary
from nmar.evaluate.parts import Parts, Split
from nmar.evaluate.scoring import Scores, score
from nmar.fit.names import data_named, label, linkage_named
from nmar.fit.options import Options, coupling, is_leveled, with_levels
from nmar.fit.progress import progress
from nmar.fit.taste import describes
from nmar.fit.train import first_stage
from nmar.fit.train import train as fit_model
from nmar.models.arguments import check_choice, check_count
from nmar.models.settings import Factorization, Settings
from nmar.posterior.posterior import Posterior
from nmar.prob.families import family
from nmar.prob.linkage import Linkage

__all__ = ["compare"]

log = logging.getLogger("nmar")

# settings of every fit that may be passed on
FURTHER = ("prior", "starts", "dtype", "patience", "pattern", "noise", "tail")


def compare(
    cells: Any = None,
    data: str | Settings | Sequence[str | Settings] | None = None,
    linkages: str | Linkage | Sequence[str | Linkage] | None = None,
    control: bool = True,
    two_stage: bool = True,
    seeds: int = 3,
    factors: int = 10,
    test: float = 0.2,
    valid: float = 0.0,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    verbose: int = 0,
    seed: int = 0,
    *,
    taste: bool = True,
    tol: float | None = None,
    train: Any = None,
    test_cells: Any = None,
    valid_cells: Any = None,
    name: str = "data",
    **settings: Any,
) -> Comparison:
    """Fit the same data with and without a model of the missingness, and say what it is worth.

    For each data model and seed: the ignorable model, ``mechanism="taste"`` and the two-stage baseline (Gaussian
    only), each coupled linkage, and the control of each: choices assigned to other rows and columns at random, and one
    rate of counts for all cells. All are scored on the same held-out cells, which the missingness pattern treats as
    neither observed nor missing. Models with ``family="levels"`` are scored by log P(level), have neither two-stage
    baseline nor linkages, and are not compared with others.

    Parameters
    ----------
    cells : Cells, array-like or None, default=None
        Cells, a sparse matrix, or a dense array with NaN where a cell is missing.
    data : data model, str, sequence or None, default=None
        Data model or models, also by name ("factorization:10"). None: ``Factorization(10)``.
    linkages : str, Linkage, sequence or None, default=None
        Linkages, also by name ("free", "linear:0.3", "free,s=8"). None: "free". The ignorable one is always fitted.
    control : bool, default=True
        Whether the controls are fitted.
    two_stage : bool, default=True
        Whether to fit the two-stage baseline, where the data model is Gaussian.
    seeds : int, default=3
        Number of repetitions, each with a split and a start of its own: ``seed``, ``seed + 1`` ….
    factors : int, default=10
        Number of components of the missingness pattern. A ``pattern`` among the settings has its own.
    test : float, default=0.2
        Share of the cells that is held out for the scores.
    valid : float, default=0.0
        Share of the cells that is held out for stopping. With 0 the bound decides, which is less noisy than few cells.
    max_iter : int, default=200
        As in :class:`nmar.CCPF`.
    n_jobs : int or None, default=None
        As in :class:`nmar.CCPF`.
    backend : str, default="auto"
        As in :class:`nmar.CCPF`.
    verbose : int, default=0
        How much is shown. 0 is silent, 1 shows progress on a terminal.
    seed : int, default=0
        The first seed, a whole number from 0.
    taste : bool, default=True
        Whether to fit ``mechanism="taste"``, where the data model is Gaussian and has no covariates.
    tol : float or None, default=None
        As in :class:`nmar.CCPF`.
    train, test_cells, valid_cells : Cells, array-like or None, default=None
        A split of your own, in place of ``cells``. Seeds then change the starting points only.
    name : str, default="data"
        Name of the data in tables.
    **settings : object
        More settings of every fit, as in :class:`nmar.CCPF`: prior, starts, dtype, patience, noise, tail and pattern.
        Without ``starts`` every linkage and control is tried from all its starts.

    Returns
    -------
    Comparison
        One row for each fit, with ``text()``, ``verdict``, ``frame()`` and ``to_html(path)``.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), density=0.2, seed=0)
    >>> result = nmar.compare(cells, "factorization:2", ["linear"], factors=2, max_iter=5, seeds=1)
    >>> [(row.linkage, row.control) for row in result.rows]
    [('ignorable', ''), ('taste', ''), ('taste', 'shuffled'), ('two-stage', ''), ('linear', ''), ('linear', 'tail')]
    """
    if int(seeds) != seeds or seeds < 1:
        raise ValueError(f"seeds={seeds!r}; give the number of repetitions, at least 1")
    check_count("seed", seed, 0)
    check_count("factors", factors, 1)
    check_choice("control", control, (True, False))
    parts = Parts.of(cells, train, test_cells, valid_cells)
    common: dict[str, Any] = {
        "factors": factors,
        "n_jobs": n_jobs,
        "backend": backend,
        "max_iter": max_iter,
        "tol": tol,
        "starts": "auto",  # a control that is stuck in a poor mode would be credited to the missingness
        **_known(settings),
    }
    chosen = [linkages] if isinstance(linkages, str | Linkage) else None if linkages is None else list(linkages)
    coupled = None if chosen is None else _coupled(chosen)
    wanted = Wanted(coupled, control, two_stage or TWO_STAGE in (chosen or ()), taste, common)
    splits = [parts.split(test, valid, seed + k) for k in range(seeds)]
    whole = parts.everything(splits[0])
    models = [with_levels(model, whole) for model in _models(data)]
    plan = [one for model in models for one in wanted.plan(model, splits[0].train)]
    runner = Runner(verbose, seeds * len(plan))
    entries: dict[Key, list[Entry]] = {}
    for k, part in enumerate(splits):
        for key, options in plan:
            entry = runner.entry(part, key, replace(options, random_state=seed + k))
            entries.setdefault(key, []).append(entry)
    components = plan[0][1].factors  # of a pattern, where one is given
    setting = Setting(name, seed, seeds, components, max_iter, *splits[0].sizes(), parts.given)
    tested = tuple(part.test for part in splits)
    about = Summary.of(splits[0].train if parts.whole is None else parts.whole)
    return Comparison(about, setting, entries, tested, dict(plan))


# --- what to fit --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Which fits each data model gets."""

    linkages: tuple[Linkage, ...] | None  # None: the usual one
    control: bool
    two_stage: bool
    taste: bool
    common: dict[str, Any]

    def _options(self, model: Settings, linkage: str | Linkage, **more: Any) -> Options:
        return Options(data=model, linkage=linkage, random_state=0, **self.common, **more)

    def plan(self, model: Settings, cells: Cells) -> Iterator[tuple[Key, Options]]:
        """The fits of one data model, in the order of the table."""
        name = model.describe()
        yield Key(name, "ignorable"), self._options(model, "ignorable")
        if self.taste and describes(model):
            yield Key(name, TASTE), self._options(model, "ignorable", mechanism="taste")
            if self.control:
                shuffled = self._options(model, "ignorable", mechanism="taste", control=SHUFFLED)
                yield Key(name, TASTE, SHUFFLED), shuffled
        if self.two_stage and not is_leveled(model) and family(model.build(cells).family).location:
            yield Key(name, TWO_STAGE), self._options(model, TWO_STAGE)
        linkages = (coupling(model),) if self.linkages is None else self.linkages
        for link in linkages:
            if not link.couples:
                continue
            yield Key(name, label(link)), self._options(model, link)
            if self.control:
                yield Key(name, label(link), TAIL), self._options(model, link, control=TAIL)


def _models(data: Any) -> list[Settings]:
    if data is None:
        return [Factorization(10)]
    given = [data] if isinstance(data, str) or not isinstance(data, Iterable) else list(data)
    models = [data_named(one) if isinstance(one, str) else one for one in given]
    strange = [one for one in models if not (hasattr(one, "build") and hasattr(one, "describe"))]
    if strange:
        raise ValueError(f"data={strange[0]!r} is not a data model; use nmar.Factorization(10) or 'factorization:10'")
    names = [model.describe() for model in models]
    if not models or len(set(names)) < len(names):
        raise ValueError(f"data={names}; give at least one data model, and each only once")
    if len({is_leveled(model) for model in models}) > 1:
        raise ValueError(
            f"data={names} has models of levels, which are scored by log P(level), beside models of numbers, scored by"
            " log densities; no difference of the two means anything. Compare them apart"
        )
    return models


def _coupled(given: Sequence[str | Linkage]) -> tuple[Linkage, ...]:
    """The linkages among them that couple values and counts, each once."""
    found = [linkage_named(one, "linkages") if isinstance(one, str) else one for one in given if one != TWO_STAGE]
    return tuple({label(one): one for one in found if one.couples}.values())


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """The further settings, if compare has nothing to say about them itself."""
    strange = sorted(set(settings) - set(FURTHER))
    if strange:
        raise TypeError(f"{strange[0]!r} is no argument of compare; further settings are {', '.join(FURTHER)}")
    return settings


# --- fitting ------------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """Makes the fits one after the other and says which one is under way."""

    verbose: int
    total: int
    done: int = 0
    patterns: dict[int, Posterior] = field(default_factory=dict)  # of first stages, by seed
    ranks: dict[tuple[str, int], int] = field(default_factory=dict)  # that the ignorable model chose, by data and seed

    def entry(self, part: Split, key: Key, options: Options) -> Entry:
        """A fit and its scores."""
        self.done += 1
        text = f"{self.done} of {self.total}: {key}, seed {options.random_state}"
        log.info("fit %s", text)
        began = perf_counter()
        with progress(self.verbose, options.max_iter, text) as watch:
            first = self._first(part, options) if key.kind in (TASTE, SHUFFLED, TWO_STAGE) else None
            place = key.data, int(options.random_state)
            if options.open_rank and place in self.ranks:
                options = options.settled(rank=self.ranks[place])
            fitted = fit_model(part.train, options, valid=part.valid, hidden=part.test, watch=watch, pattern=first)
        if options.open_rank:
            self.ranks[place] = fitted.posterior.law.data.rank  # type: ignore[attr-defined]
        seconds = perf_counter() - began
        scores = _finite(score(fitted.posterior, part.test), text)
        log.info("fit %s: %.4f nats per cell in %.1f s", text, scores.predictive.mean(), seconds)
        return Entry(fitted, scores, seconds)

    def _first(self, part: Split, options: Options) -> Posterior:
        """The pattern of a first stage, fitted once for all models of a split."""
        seed = int(options.random_state)
        if seed not in self.patterns:
            self.patterns[seed] = first_stage(part.train, options, part.valid, part.test)
        return self.patterns[seed]


def _finite(scores: Scores, text: str) -> Scores:
    bad = int(np.sum(~np.isfinite(scores.predictive)))
    if bad:
        raise ValueError(
            f"fit {text}: the log density of {bad:,} held-out cells is not finite; are their values possible under"
            " the data model's family?"
        )
    return scores
