"""Questions about cells that stay on disk: blocks of rows as tasks, their answers added in the order of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.models.context import Executor
from nmar.posterior.posterior import Posterior, log_density
from nmar.posterior.recommend import Ranked, recommend

BLOCK = 1 << 18  # cells that a task scores, about
ROWS = 1 << 12  # rows that a task recommends to


class Scored(NamedTuple):
    """What a task reads: a model, cells on disk, and where their rows and columns lie in the model."""

    posterior: Posterior
    cells: Cells
    rows: Array
    cols: Array
    plugin: bool

    @property
    def label(self) -> str:
        """What dashboards call its tasks."""
        return "score"


def score_rows(given: Scored, block: tuple[int, int]) -> tuple[float, float]:
    """Sum of the log densities of the cells of some rows, each as often as it counts, and how often that is."""
    lines, start = given.cells.by(0).lines(*block), block[0]
    i, j = given.rows[lines.major() + start], given.cols[lines.indices]
    each = log_density(given.posterior, i, j, lines.values, given.plugin)
    weights = given.cells.weights_by(0)
    if weights is None:
        return float(each.sum()), float(len(each))
    indptr = given.cells.by(0).indptr
    counted = weights[int(indptr[block[0]]) : int(indptr[block[1]])]
    return float(each @ counted), float(counted.sum())


def mean_log_density(given: Scored, executor: Executor) -> float:
    """Mean log likelihood of all cells."""
    found = executor.map(score_rows, given, given.cells.by(0).chunks(BLOCK))
    return sum(total for total, _ in found) / sum(count for _, count in found)


def recommend_all(given: Ranked, lines: Array, executor: Executor) -> tuple[Array, Array]:
    """Positions and scores of the best columns of many rows, some rows at a time."""
    parts = executor.map(recommend, given, [lines[k : k + ROWS] for k in range(0, len(lines), ROWS)])
    width = max((which.shape[1] for which, _ in parts), default=0)

    def widened(part: Array, fill: Any) -> Array:
        made = np.full((len(part), width), fill, part.dtype)
        made[:, : part.shape[1]] = part
        return made

    return np.concatenate([widened(which, -1) for which, _ in parts]), np.concatenate(
        [widened(score, np.nan) for _, score in parts]
    )
