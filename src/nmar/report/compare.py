"""Is the missingness worth modelling? Coupled models and three controls, on the same cells.

Enters: cells. Leaves: a :class:`~nmar.report.comparison.Comparison` with one row per fit. What modelling the
missingness is worth is coupled − best control: a gain over the ignorable model may be a heavier tail, or rows and
columns of unequal noise, whatever is missing (theory.md, Control).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.options import Options, recommended
from nmar.fit.train import train as fit_model
from nmar.models.arguments import check_count
from nmar.models.settings import Factorization, Settings
from nmar.prob.families import family
from nmar.prob.linkage import Linkage
from nmar.report.comparison import BLIND, TAIL, TWO_STAGE, Comparison, Entry, Key, Setting, Summary
from nmar.report.names import data_named, label, linkage_named
from nmar.report.parts import Parts, Split
from nmar.report.progress import progress
from nmar.report.scoring import Scores, score

__all__ = ["compare"]

log = logging.getLogger("nmar")

FURTHER = ("prior", "starts", "dtype", "patience", "pattern")  # settings of every fit that may be passed on


def compare(
    cells: Any = None,
    data: str | Settings | Sequence[str | Settings] | None = None,
    linkages: str | Linkage | Sequence[str | Linkage] | None = None,
    control: bool | str = True,
    two_stage: bool = True,
    seeds: int = 3,
    factors: int = 10,
    test: float = 0.2,
    valid: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    verbose: int = 0,
    seed: int = 0,
    *,
    trust: float | str | Sequence[float | str] = "auto",
    tol: float | None = None,
    train: Any = None,
    test_cells: Any = None,
    valid_cells: Any = None,
    name: str = "data",
    **settings: Any,
) -> Comparison:
    """Fit the same data with and without a model of the missingness, and say what it is worth.

    For each data model and seed: the ignorable model, the two-stage baseline (Gaussian only), each coupled
    linkage, and of each coupled linkage the tail-only and the blind control. All are scored on the same held-out
    cells, which the missingness pattern is told to treat as neither observed nor missing.

    Parameters
    ----------
    cells : Cells, scipy sparse matrix, or dense array with NaN where missing
    data : data model or list of them, default ``Factorization(10)``; names such as "factorization:10" will do
    linkages : linkages or names ("free", "linear:0.3", "free+tail,s=8"); None: what :class:`nmar.CCPF` takes when it
        is told none, a thinned free table with a tail. The ignorable one is always fitted
    control : True fits both controls of each coupled linkage; "tail" or "blind" only that one; False none
    two_stage : fit the two-stage baseline where the data model is Gaussian
    seeds : number of repetitions, each with a split and a start of its own: ``seed``, ``seed + 1`` …
    factors : components of the missingness pattern; a ``pattern`` among the settings has its own
    test, valid : shares of the cells held out for the scores and for stopping; ``valid=0`` stops on the bound
    max_iter, tol, n_jobs, backend : as in :class:`nmar.CCPF`
    verbose : 0 is silent, 1 shows progress on a terminal
    seed : the first seed; whole numbers from 0
    trust : how far the coupled models believe the pattern; "auto" chooses on training cells, and the blind control,
        ω = 0, is what the choice is judged against. One for all linkages, or one for each, in their order
    train, test_cells, valid_cells : a split of your own instead; seeds then change the starting points only
    name : what to call the data in tables
    **settings : more settings of every fit, as in :class:`nmar.CCPF`: prior, starts, dtype, patience, and pattern, a
        :class:`nmar.Pattern` with covariates say

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), density=0.2, seed=0)
    >>> result = nmar.compare(cells, "factorization:2", ["linear"], factors=2, max_iter=5, seeds=1)
    >>> [(row.linkage, row.control) for row in result.rows]
    [('ignorable', ''), ('two-stage', ''), ('linear', ''), ('linear', 'tail'), ('linear', 'blind')]
    """
    if int(seeds) != seeds or seeds < 1:
        raise ValueError(f"seeds={seeds!r}; give the number of repetitions, at least 1")
    check_count("seed", seed, 0)
    check_count("factors", factors, 1)
    parts = Parts.of(cells, train, test_cells, valid_cells)
    common: dict[str, Any] = {
        "factors": factors,
        "n_jobs": n_jobs,
        "backend": backend,
        "max_iter": max_iter,
        "tol": tol,
        **_known(settings),
    }
    chosen = [linkages] if isinstance(linkages, str | Linkage) else None if linkages is None else list(linkages)
    coupled = None if chosen is None else _coupled(chosen)
    trusts = _trusts(trust, coupled)
    wanted = Wanted(coupled, _controls(control), two_stage or TWO_STAGE in (chosen or ()), trusts, common)
    splits = [parts.split(test, valid, seed + k) for k in range(seeds)]
    plan = [one for model in _models(data) for one in wanted.plan(model, splits[0].train)]
    runner = Runner(verbose, seeds * len(plan))
    entries: dict[Key, list[Entry]] = {}
    for k, part in enumerate(splits):
        for key, options in plan:
            entry = runner.entry(part, key, replace(options, seed=seed + k), entries)
            entries.setdefault(key, []).append(entry)
    components = plan[0][1].factors  # of a pattern, where one is given
    setting = Setting(name, seed, seeds, components, max_iter, *splits[0].sizes(), parts.given)
    whole = parts.whole if parts.whole is not None else splits[0].train
    tested = tuple(part.test for part in splits)
    return Comparison(Summary.of(whole), setting, entries, tested, dict(plan))


# --- what to fit --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Which fits each data model gets."""

    linkages: tuple[Linkage, ...] | None  # None: the recommended one
    controls: tuple[str, ...]
    two_stage: bool
    trusts: tuple[float | str, ...]  # of each linkage
    common: dict[str, Any]

    def _options(self, model: Settings, linkage: str | Linkage, **more: Any) -> Options:
        return Options.of(data=model, linkage=linkage, random_state=0, **self.common, **more)

    def plan(self, model: Settings, cells: Cells) -> Iterator[tuple[Key, Options]]:
        """The fits of one data model, in the order of the table."""
        name = model.describe()
        yield Key(name, "ignorable"), self._options(model, "ignorable")
        if self.two_stage and family(model.build(cells).family).location:
            yield Key(name, TWO_STAGE), self._options(model, TWO_STAGE)
        linkages = (recommended(model),) if self.linkages is None else self.linkages
        for link, trust in zip(linkages, self.trusts, strict=True):
            if not link.couples:
                continue
            text = label(link, 1.0 if trust == "auto" else trust)
            yield Key(name, text), self._options(model, link, trust=trust)
            for control in self.controls:
                yield Key(name, text, control), self._options(model, link, control=control)


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
    return models


def _coupled(given: Sequence[str | Linkage]) -> tuple[Linkage, ...]:
    """The linkages among them that couple values and counts, each once."""
    found = [linkage_named(one, "linkages") if isinstance(one, str) else one for one in given if one != TWO_STAGE]
    return tuple({label(one): one for one in found if one.couples}.values())


def _trusts(trust: Any, linkages: tuple[Linkage, ...] | None) -> tuple[float | str, ...]:
    """The trust of each coupled linkage."""
    size = 1 if linkages is None else len(linkages)
    given = (trust,) * size if isinstance(trust, str) or not isinstance(trust, Iterable) else tuple(trust)
    if len(given) != size:
        raise ValueError(f"trust={trust!r} for {size} coupled linkages; give one for all, or one for each")
    return given


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """The further settings, if compare has nothing to say about them itself."""
    strange = sorted(set(settings) - set(FURTHER))
    if strange:
        raise TypeError(f"{strange[0]!r} is no argument of compare; further settings are {', '.join(FURTHER)}")
    return settings


def _controls(control: bool | str) -> tuple[str, ...]:
    known = {True: (TAIL, BLIND), False: (), TAIL: (TAIL,), BLIND: (BLIND,)}
    if control not in known:
        raise ValueError(f"control={control!r}; use True (both), 'tail', 'blind' or False")
    return known[control]


# --- fitting ------------------------------------------------------------------------------------------------


@dataclass
class Runner:
    """Makes the fits one after the other and says which one is under way."""

    verbose: int
    total: int
    done: int = 0

    def entry(self, part: Split, key: Key, options: Options, before: dict[Key, list[Entry]]) -> Entry:
        """A fit and its scores.

        A control has the thinning that its coupled model chose on the same split; a coupled model that chose a trust
        of 0 is the blind control already.
        """
        self.done += 1
        if key.control:
            coupled = before[key.coupled][-1]
            law, fitted = coupled.fitted.posterior.law, coupled.fitted.posterior.state.shared.linkage
            if key.control == BLIND and law.trust == 0.0:
                return replace(coupled, seconds=0.0)
            if isinstance(options.linkage, Linkage) and options.linkage.thinning == "auto":
                options = replace(options, linkage=options.linkage.thinned(fitted.events))
        return self._fit(part, options, f"{self.done} of {self.total}: {key}, seed {options.seed}")

    def _fit(self, part: Split, options: Options, text: str) -> Entry:
        log.info("fit %s", text)
        began = perf_counter()
        with progress(self.verbose, options.stop.max_iter, text) as watch:
            fitted = fit_model(part.train, options, valid=part.valid, hidden=part.test, watch=watch)
        seconds = perf_counter() - began
        scores = _finite(score(fitted.posterior, part.test), text)
        log.info("fit %s: %.4f nats per cell in %.1f s", text, scores.predictive.mean(), seconds)
        return Entry(fitted, scores, seconds)


def _finite(scores: Scores, text: str) -> Scores:
    bad = int(np.sum(~np.isfinite(scores.predictive)))
    if bad:
        raise ValueError(
            f"fit {text}: the log density of {bad:,} held-out cells is not finite; are their values possible under"
            " the data model's family?"
        )
    return scores
