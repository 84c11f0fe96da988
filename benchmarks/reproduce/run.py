"""One comparison for each pair of numbers that the paper prints; finished ones are kept and not made again.

Enters: a table's name, a folder of data, settings. Leaves: records, one per fit (or one with its error), written as a
small JSON file for each comparison as soon as it is finished.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce.paper import PRINTED, TABLES, Printed
from benchmarks.reproduce.records import Record, as_text, finished
from benchmarks.reproduce.sources import Problem, find
from nmar.data.atomic import write_text
from nmar.evaluate.compare import compare
from nmar.evaluate.comparison import Comparison, Entry, Key, Row
from nmar.evaluate.missingness import MissingnessTest, missingness_test
from nmar.models.arguments import check_choice, check_count
from nmar.models.settings import Factorization, Mixture, Regression, Settings
from nmar.prob.linkage import Curve, Free, Linear

__all__ = ["Asked", "Cell", "Reproduction", "cells_of"]

log = logging.getLogger("nmar")

LINKAGES = (Linear(), Free())  # the paper's, with c learned; and a free table
FIGURE_RANK = 10  # of figure 1's factorization: full covariances, whose own uncertainty its test needs, cost rank²
FIGURE_FOLDS, FIGURE_TESTED = 5, 3  # parts of figure 1's cells, and how many of them are held out in turn
FIGURE_SETTINGS = ("factors", "max_iter", "cells", "seed")  # that figure 1 depends on


@dataclass(frozen=True)
class Asked:
    """Settings of a reproduction.

    Attributes
    ----------
    factors : components of the pattern, rank of factorizations and clusters of mixtures; the paper's K is 160
    max_iter : sweeps of each fit, at most
    seeds : splits and starts
    cells : most cells of a data set, whole rows at random; 0: all
    seed : of splits, starts and of the choice of rows
    dtype : storage of the factors, "float32" or "float64"
    bias : Gaussian factorizations have biases, which stand for the paper's prior means other than 0

    Raises
    ------
    ValueError
        if one of them is out of its range, before anything is read or fitted
    """

    factors: int = 160
    max_iter: int = 30
    seeds: int = 1
    cells: int = 100_000
    seed: int = 0
    dtype: str = "float32"
    bias: bool = True

    def __post_init__(self) -> None:
        for name, least in (("factors", 1), ("max_iter", 1), ("seeds", 1), ("cells", 0), ("seed", 0)):
            check_count(name, getattr(self, name), least)
        check_choice("dtype", self.dtype, ("float32", "float64"))

    def of(self, table: str) -> dict[str, Any]:
        """The settings that a table depends on; figure 1 does not on all of them."""
        every = asdict(self)
        return {name: every[name] for name in FIGURE_SETTINGS} if table == "figure1" else every

    @property
    def figure_rank(self) -> int:
        """Rank of figure 1's factorization."""
        return min(self.factors, FIGURE_RANK)


@dataclass(frozen=True)
class Cell:
    """One comparison: a data set and a data model."""

    table: str
    column: str
    model: str
    axis: str
    source: str  # what to look for: the column, "regression" or "genres"
    printed: Printed | None

    @property
    def name(self) -> str:
        """A name for its file: "table3-yelp-PMF"."""
        more = "genres" if self.source == "genres" else self.axis
        return "-".join(part for part in (self.table, self.column, self.model, more) if part)

    def data(self, asked: Asked, problem: Problem) -> Settings:
        """The data model: the paper's, with a diagonal covariance and normal priors."""
        k = asked.factors
        family: Any = "poisson" if self.model in ("PMM", "HPF") else "gaussian"
        if self.table == "table2":
            axis: Any = "rows" if self.axis == "samples" else "cols"
            return Mixture(min(k, problem.cells.shape[axis == "cols"] // 2), axis, family, restarts=1)
        if self.table == "table4":
            return Regression(problem.covariates)
        covariance: Any = "full" if family == "poisson" else "diagonal"
        return Factorization(min(k, *problem.cells.shape), family, covariance, asked.bias, student=False)


def cells_of(table: str) -> list[Cell]:
    """The comparisons of a table; of figure 1, its data sets."""
    if table == "figure1":
        return [Cell(table, column, "PMF", "", column, None) for column in ("movielens", "amazon", "yelp")]
    found = [
        Cell(table, one.column, one.model, one.axis, "regression" if table == "table4" else one.column, one)
        for one in PRINTED
        if one.table == table
    ]
    if table == "table4":
        found.append(Cell(table, "movielens", "Regression", "", "genres", None))
    return found


@dataclass(frozen=True)
class Reproduction:
    """Makes the comparisons of tables, or reads those that are finished.

    Attributes
    ----------
    data : folder of the data
    output : folder of the results; each finished comparison is in ``cells/`` there, with what it came of
    asked : settings
    n_jobs : threads
    """

    data: Path
    output: Path
    asked: Asked
    n_jobs: int | None = None

    def records(self, table: str) -> Iterator[list[Record]]:
        """The records of each comparison of a table, as they are finished; those of a failed one hold its error."""
        if table not in TABLES:
            raise ValueError(f"table={table!r}; use one of {', '.join(TABLES)}")
        for cell in cells_of(table):
            yield self.record(cell)

    def record(self, cell: Cell) -> list[Record]:
        """One comparison, from its file where it was finished with these settings and data.

        One that fails is a record with the error, so that no line of a table is left out in silence, and has no file:
        it is tried again, and what was finished before with other settings or data stays.
        """
        file = self.output / "cells" / f"{cell.name}.json"
        try:
            problem = find(cell.column, self.data, self.asked.cells, self.asked.seed, cell.source)
            read = {"data": problem.name, "fingerprint": problem.fingerprint}
            origin = {"asked": self.asked.of(cell.table), "read": read}
            kept = finished(file, origin)
            if kept is not None:
                log.info("%s: finished before", cell.name)
                return kept
            log.info("%s: fitting", cell.name)
            about = {**_about(cell), **_used(problem)}
            rows = [{**about, **row} for row in self.fitted(cell, problem)]
            text = as_text(origin, rows)
        except Exception as error:  # a table goes on with its next line
            log.info("%s: %s", cell.name, error)
            return [{**_about(cell), "error": f"{type(error).__name__}: {error}"}]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)
        return rows

    def fitted(self, cell: Cell, problem: Problem) -> list[Record]:
        asked = self.asked
        if cell.table == "figure1":
            return [tested(self.test_of(problem))]
        result = compare(
            **problem.parts(),
            data=cell.data(asked, problem),
            linkages=LINKAGES,
            taste=False,
            noise="constant",  # as in the paper
            seeds=asked.seeds,
            seed=asked.seed,
            factors=asked.factors,
            max_iter=asked.max_iter,
            n_jobs=self.n_jobs,
            prior="paper",
            dtype=asked.dtype,
            name=problem.name,
        )
        return [
            Line(result, key, row, cell.printed).record for key, row in zip(result.entries, result.rows, strict=True)
        ]

    def test_of(self, problem: Problem) -> MissingnessTest:
        asked = self.asked
        return missingness_test(
            problem.cells,
            asked.seed,
            factors=asked.factors,
            rank=asked.figure_rank,
            folds=FIGURE_FOLDS,
            tested=FIGURE_TESTED,
            max_iter=asked.max_iter,
            n_jobs=self.n_jobs,
        )


def _about(cell: Cell) -> Record:
    return {"table": cell.table, "column": cell.column, "model": cell.model, "axis": cell.axis}


def _used(problem: Problem) -> Record:
    """What the numbers rest on."""
    rows, cols = problem.cells.shape
    used = {"rows": rows, "cols": cols, "cells": len(problem.cells), "available": problem.available}
    return {"data": problem.name, "relation": problem.relation, **used}


def tested(result: MissingnessTest) -> Record:
    fields = ("statistic", "p_value", "slope", "slope_se", "n_test", "folds")
    found = {name: getattr(result, name) for name in fields}
    for name, one in (("", result.dispersion), ("raw_", result.raw_dispersion)):
        found |= {f"{name}ratio": one.ratio, f"{name}ratio_low": one.ratio_interval()[0]}
        found |= {f"{name}ratio_high": one.ratio_interval()[1], f"{name}naive_p": one.log_variance.naive_p}
    return {**found, "bins": [asdict(one) for one in result.bins]}


@dataclass(frozen=True)
class Line:
    """One fit of a comparison as a record, with the number of the paper that belongs beside it."""

    result: Comparison
    key: Key
    row: Row
    printed: Printed | None

    @property
    def record(self) -> Record:
        """Numbers and texts by name."""
        kept = ("name", "log_likelihood", "plugin", "se", "gain", "gain_se", "gain_over_own", "gain_over_own_se",
                "gain_over_two_stage", "gain_over_two_stage_se",
                "gain_over_control", "gain_over_control_se", "best_control", "rmse", "seconds",
                "n_iter", "stop_reason")  # fmt: skip
        about = {"fit": self.key.data, "kind": self.row.kind, "linkage": self.key.linkage, **self._paper}
        about |= {"c": self._c, "r2": self._r2, "n_test": self.result.setting.n_test}
        return {**about, **{name: getattr(self.row, name) for name in kept}}

    @cached_property
    def _entries(self) -> list[Entry]:
        return self.result.entries[self.key]

    @property
    def _paper(self) -> dict[str, float | None]:
        """The paper's numbers: beside the ignorable model, and beside its own coupled one."""
        place = {"ignorable": 0, "linear": 1}.get(self.key.linkage) if not self.key.control else None
        one = self.printed
        if one is None or place is None:
            return {"paper": None, "paper_rmse": None, "paper_r2": None}
        rmse, r2 = (None if pair is None else pair[place] for pair in (one.rmse, one.r2))
        return {"paper": (one.alone, one.coupled)[place], "paper_rmse": rmse, "paper_r2": r2}

    @property
    def _c(self) -> float | None:
        """The learned c, the mean over seeds."""
        linkages = [one.fitted.posterior.state.shared.linkage for one in self._entries]
        found = [link.parameter for link in linkages if isinstance(link, Curve)]
        return float(np.mean(found)) if found else None

    @property
    def _r2(self) -> float | None:
        """Share of the variance of the held-out values that the prediction explains, the mean over seeds.

        None where they do not vary.
        """
        spread = np.array([np.var(part.values) for part in self.result.test_cells])
        if not spread.all():
            return None
        return float(np.mean(1.0 - np.array([one.scores.squared_error.mean() for one in self._entries]) / spread))
