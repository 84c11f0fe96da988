"""Is the missingness worth modelling? Ignorable, two-stage, coupled and control, on the same cells.

Enters: cells. Leaves: a :class:`~nmar.report.comparison.Comparison` with one row per fit. The honest gain of
modelling missingness is coupled − control, since part of any gain over the ignorable model is only a heavier
tail (theory.md, Control).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from nmar.data.cells import Cells
from nmar.data.split import split as split_cells
from nmar.fit.options import Options
from nmar.fit.stop import StopRule
from nmar.fit.train import train as fit_model
from nmar.models.settings import Factorization, Settings
from nmar.prob.linkage import Linkage, linkage
from nmar.report.comparison import Comparison, Entry, Key, Setting, Summary
from nmar.report.progress import progress
from nmar.report.scoring import Array, as_cells, score

__all__ = ["compare"]

log = logging.getLogger("nmar")

TWO_STAGE = "two-stage"


def compare(
    cells: Any = None,
    data: Settings | Sequence[Settings] | None = None,
    linkages: Sequence[str | Linkage] = ("ignorable", "linear", "free"),
    control: bool = True,
    two_stage: bool = True,
    seeds: int = 1,
    factors: int = 10,
    test: float = 0.2,
    valid: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    verbose: int = 0,
    seed: int = 0,
    *,
    tol: float = 1e-4,
    train: Any = None,
    test_cells: Any = None,
    valid_cells: Any = None,
    name: str = "data",
) -> Comparison:
    """Fit the same data with and without a model of the missingness, and say what it is worth.

    For each data model and seed: the ignorable model, the two-stage baseline (Gaussian only), each coupled
    linkage, and the tail-only control of each coupled linkage. All are scored on the same held-out cells,
    which the missingness pattern is told to treat as neither observed nor missing.

    Parameters
    ----------
    cells : Cells, scipy sparse matrix, or dense array with NaN where missing
    data : data model or list of them, default ``Factorization(10)``
    linkages : names or linkages; the ignorable one is always fitted, it is the yardstick
    control : fit the tail-only control of each coupled linkage
    two_stage : fit the two-stage baseline where the data model is Gaussian
    seeds : number of random splits, ``seed``, ``seed + 1`` …; gains are averaged over them
    factors : components of the missingness pattern
    test, valid : shares of the cells held out for the scores and for stopping; ``valid=0`` stops on the bound
    max_iter, tol, n_jobs, backend : as in :class:`nmar.CCPF`
    verbose : 0 is silent, 1 shows progress on a terminal
    train, test_cells, valid_cells : a split of your own instead; seeds then change the starting points only
    name : what to call the data in tables

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), density=0.2, seed=0)
    >>> data = nmar.Factorization(2)
    >>> result = nmar.compare(cells, data, ["linear"], factors=2, max_iter=5, two_stage=False)
    >>> [(row.linkage, row.control) for row in result.rows]
    [('ignorable', False), ('linear', False), ('linear', True)]
    """
    if int(seeds) != seeds or seeds < 1:
        raise ValueError(f"seeds={seeds!r}; give the number of random splits, at least 1")
    parts = Parts.of(cells, train, test_cells, valid_cells)
    models = _models(data)
    stop = StopRule(max_iter, tol)
    common: dict[str, Any] = {"factors": factors, "n_jobs": n_jobs, "backend": backend, "stop": stop}
    entries: dict[Key, list[Entry]] = {}
    tested: list[Cells] = []
    first: Split | None = None
    for now in range(seed, seed + seeds):
        part = parts.split(test, valid, now)
        first = first or part
        tested.append(part.test)
        for model in models:
            for key, link in _plan(model, part.train, linkages, control, two_stage):
                options = Options(model, link, control=key.control, seed=now, **common)
                entries.setdefault(key, []).append(_fit(part, options, verbose, str(key)))
    assert first is not None
    setting = Setting(name, seed, seeds, factors, max_iter, *_sizes(first), parts.given)
    whole = parts.whole if parts.whole is not None else first.train
    return Comparison(Summary.of(whole), setting, entries, tuple(tested))


class Split(NamedTuple):
    """Who trains, who stops, who judges."""

    train: Cells
    valid: Cells | None
    test: Cells


@dataclass(frozen=True, eq=False)
class Parts:
    """Where splits come from: cells to be split at random, or parts the user made."""

    whole: Cells | None
    train: Cells | None = None
    test: Cells | None = None
    valid: Cells | None = None

    @classmethod
    def of(cls, cells: Any, train: Any, test: Any, valid: Any) -> Parts:
        """Check that one of the two was given."""
        made = {"train": train, "test_cells": test, "valid_cells": valid}
        parts = {k: None if v is None else as_cells(v, k) for k, v in made.items()}
        if train is None and test is None and valid is None:
            if cells is None:
                raise ValueError("cells is None; pass cells to split, or train= and test_cells=")
            return cls(as_cells(cells))
        if train is None or test is None:
            raise ValueError("a split of your own needs both train= and test_cells= (valid_cells= is optional)")
        whole = None if cells is None else as_cells(cells)
        return cls(whole, parts["train"], parts["test_cells"], parts["valid_cells"])

    @property
    def given(self) -> bool:
        """Whether the user made the split."""
        return self.train is not None

    def split(self, test: float, valid: float, seed: int) -> Split:
        """The parts for one seed."""
        if self.train is not None and self.test is not None:
            if self.valid is not None or valid == 0:
                return Split(self.train, self.valid, self.test)
            kept, stopping, _ = split_cells(self.train, 0.0, valid, seed)
            return Split(kept, stopping, self.test)
        assert self.whole is not None
        if test <= 0:
            raise ValueError(f"test={test!r}; some cells must be held out to compare on")
        kept, stopping, held_out = split_cells(self.whole, test, valid, seed)
        return Split(kept, stopping if len(stopping) else None, held_out)


def _models(data: Settings | Sequence[Settings] | None) -> list[Settings]:
    if data is None:
        return [Factorization(10)]
    models = list(data) if isinstance(data, Iterable) else [data]
    names = [model.describe() for model in models]
    if not models or len(set(names)) < len(names):
        raise ValueError(f"data={names}; give at least one data model, and each only once")
    return models


def _plan(
    model: Settings, cells: Cells, linkages: Sequence[str | Linkage], control: bool, two_stage: bool
) -> Iterator[tuple[Key, str | Linkage]]:
    """The fits of one data model, in the order of the table."""
    name = model.describe()
    chosen = [linkages] if isinstance(linkages, str | Linkage) else list(linkages)
    coupled = {label(one): one for one in chosen if one != TWO_STAGE}
    yield Key(name, "ignorable", False), "ignorable"
    coupled.pop("ignorable", None)
    if (two_stage or TWO_STAGE in chosen) and model.build(cells).family == "gaussian":
        yield Key(name, TWO_STAGE, False), TWO_STAGE
    for text, one in coupled.items():
        yield Key(name, text, False), one
        if control:
            yield Key(name, text, True), one


def label(one: str | Linkage) -> str:
    """A short name: "free", "linear(c=0.3)", "free+shift"."""
    found = linkage(one)
    c = getattr(found, "c", None)
    fixed = f"(c={c:g})" if c is not None else ""
    return f"{found.name}{fixed}" + (f"+{found.mean}" if found.mean else "")


def _fit(part: Split, options: Options, verbose: int, text: str) -> Entry:
    began = perf_counter()
    with progress(verbose, options.stop.max_iter, text) as watch:
        fitted = fit_model(part.train, options, valid=part.valid, hidden=part.test, watch=watch)
    seconds = perf_counter() - began
    scores = score(fitted.posterior, part.test)
    log.info("%s: %.4f nats per cell in %.1f s", text, scores.predictive.mean(), seconds)
    return Entry(fitted, scores, seconds)


def _sizes(part: Split) -> tuple[int, int, int, int]:
    """Cells for training, stopping, judging; and how many of the last have no training cell on a line."""
    row = np.isin(_ids(part.test, 0), _ids(part.train, 0))
    col = np.isin(_ids(part.test, 1), _ids(part.train, 1))
    stopping = 0 if part.valid is None else len(part.valid)
    return len(part.train), stopping, len(part.test), int(np.sum(~(row & col)))


def _ids(cells: Cells, axis: int) -> Array:
    """The row or column id of each cell, as text where ids are of mixed kinds."""
    ids, index = ((cells.row_ids, cells.row_index), (cells.col_ids, cells.col_index))[axis]
    found = ids[index]
    return found.astype(str) if found.dtype == object else found
