"""Any scikit-learn regressor as the data-generating model (theory.md, Crossing).

The coupling hands the data model a weighted least squares problem, weight ω and target t for every cell, so any
learner that fits one can generate the data. It has no posterior: Var[μ] = 0, and the bound need not rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.predictive import NormalPredictive
from nmar.models.protocol import Block, DataModel, Features, KnownLines, Start


@dataclass(frozen=True, eq=False)
class RegressorShared:
    """The fitted estimator, and its predictions for the training cells."""

    estimator: Any
    design: Array  # (cells, F) features of the training cells, row-major; no cells after the fit
    offset: Array  # (cells,) E[μ]


@dataclass(frozen=True, eq=False)
class Learner(DataModel):
    """An estimator with ``fit(X, y, sample_weight=…)`` and ``predict(X)`` on features of rows and columns."""

    estimator: Any
    row_features: Array | None
    col_features: Array | None
    cellwise: ClassVar[bool] = True

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Fitted to the values with equal weights."""
        rows, cols = self._sides(cells.shape)
        design = _design(rows.shown[cells.row_index], cols.shown[cells.col_index])
        values = cells.values.astype(np.float64)
        return Start(rows, cols, self._fit(design, values, np.ones(len(values))))

    def _sides(self, shape: tuple[int, int]) -> tuple[KnownLines, KnownLines]:
        given = (self.row_features, self.col_features)
        made = [np.empty((n, 0)) if f is None else np.asarray(f) for n, f in zip(shape, given, strict=True)]
        return KnownLines(made[0]), KnownLines(made[1])

    def _fit(self, design: Array, target: Array, weight: Array) -> RegressorShared:
        from sklearn.base import clone

        return _predicted(clone(self.estimator).fit(design, target, sample_weight=weight), design)

    def grown(self, fresh: DataModel) -> Learner:
        """The same kind of estimator with features of more lines."""
        if not isinstance(fresh, Learner) or self._widths() != fresh._widths():
            raise ValueError(f"data builds {fresh!r} in place of {self!r}; fit again to change estimator or features")
        return fresh

    def _widths(self) -> tuple[int | None, ...]:
        """Numbers of features of a row and of a column."""
        return tuple(None if f is None else np.shape(f)[1] for f in (self.row_features, self.col_features))

    def known_lines(self, axis: int) -> KnownLines | None:
        """Features, where the axis has them."""
        features = (self.row_features, self.col_features)[axis]
        return None if features is None else KnownLines(np.asarray(features))

    def reread(self, shared: RegressorShared, cells: Cells, rows: KnownLines, cols: KnownLines) -> RegressorShared:
        """Features of other cells and the estimator's predictions for them."""
        return _predicted(shared.estimator, _design(rows.shown[cells.row_index], cols.shown[cells.col_index]))

    def without_cells(self, shared: RegressorShared) -> RegressorShared:
        """The estimator alone."""
        return RegressorShared(shared.estimator, shared.design[:0], shared.offset[:0])

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """The estimator fitted to a random linear function of the features."""
        rows, cols = self._sides(shape)
        i, j = rng.integers(shape[0], size=2000), rng.integers(shape[1], size=2000)
        design = _design(rows.shown[i], cols.shown[j])
        target = design @ rng.normal(size=design.shape[1])
        return Start(rows, cols, self._fit(design, target, np.ones(len(target))))

    def features(self, side: KnownLines, axis: int, shared: RegressorShared) -> Features:
        """None: moments come cell by cell."""
        nothing = np.empty((len(side.shown), 0))
        return Features(nothing, nothing)

    def expect(
        self, kernels: Kernels, block: Block, side: KnownLines, axis: int, shared: RegressorShared
    ) -> Expectation:
        """Weights of the cells; the estimator is fitted to all of them at once by ``refit``."""
        return kernels.weigh(block.lines, block.mine, block.theirs, block.cell_law)

    def update(
        self, side: KnownLines, axis: int, shared: RegressorShared, found: Expectation, kernels: Kernels
    ) -> KnownLines:
        """Features are known."""
        return side

    def offset(self, shared: RegressorShared) -> Array:
        """Predictions for the training cells."""
        return shared.offset

    def refit(self, shared: RegressorShared, weights: Array) -> RegressorShared:
        """Weighted least squares: target t = ωt/ω, weight ω."""
        linear, weight = weights
        target = (linear + weight * shared.offset) / weight  # the kernel takes the offset off
        return self._fit(shared.design, target, weight / weight.mean())

    def divergence(self, side: KnownLines, axis: int, shared: RegressorShared) -> float:
        """No posterior, no divergence."""
        return 0.0

    def predictive(self, rows: KnownLines, cols: KnownLines, shared: RegressorShared) -> NormalPredictive:
        """The estimator's predictions, without uncertainty of their own."""
        mean = np.asarray(shared.estimator.predict(_design(rows.shown, cols.shown)), np.float64)
        return NormalPredictive(mean[:, None], np.zeros((len(mean), 1)))

    def prior_line(self, axis: int, side: KnownLines, shared: RegressorShared) -> KnownLines:
        """The mean features."""
        return KnownLines(side.shown.mean(axis=0, keepdims=True))


def _predicted(estimator: Any, design: Array) -> RegressorShared:
    """A fitted estimator with its predictions for cells of these features."""
    offset = np.asarray(estimator.predict(design), np.float64) if len(design) else np.empty(0)
    return RegressorShared(estimator, design, offset)


def _design(rows: Array, cols: Array) -> Array:
    """Features of cells: those of the row, then those of the column."""
    return np.concatenate([rows, cols], axis=1)
