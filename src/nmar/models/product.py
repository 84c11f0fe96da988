"""Poisson factorization of the values: y_ij ~ Po(φ(n_ij) Σ_k a_ik b_jk), hierarchical gamma lines.

E[θ] is the allocation bound log Σ_k exp(E log a) exp(E log b); y is shared among components in proportion. The
rate of a line sums exposures over its *observed* cells only (theory.md, Gaussian crossing, last paragraph).
A line may be known (all ones): then the model is a row, or a column, effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells, Compressed
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.predictive import GammaPoissonPredictive
from nmar.models.protocol import DataModel, Features, Start
from nmar.prob.factor import SURE, GammaFactor
from nmar.prob.tree import LineRecord


def shape_by_moments(sums: Array, degree: Array, mean: float) -> float:
    """Shape of a gamma prior of line means: mean² over their variance beyond Poisson noise.

    ``sums`` and ``degree`` are a line's sum of values and number of cells; ``mean`` is the mean of all values.
    """
    cells = np.maximum(degree, 1)
    between = float(np.sum(cells * (sums / cells - mean) ** 2 - mean)) / float(cells.sum())
    return float(np.clip(mean**2 / max(between, 1e-9), 0.1, 1e4))


@dataclass(frozen=True, eq=False)
class ProductSide(LineRecord):
    """Gamma lines with a gamma scale each; a known side has ``scale`` None and lines that are ones for certain."""

    weights: GammaFactor  # q(a_ik)
    scale: GammaFactor | None  # q of the rate of a line's prior

    def blend(self, target: ProductSide, step: float) -> ProductSide:
        """Move natural parameters a fraction ``step`` to ``target``."""
        if self.scale is None or target.scale is None:
            return target
        return ProductSide(self.weights.blend(target.weights, step), self.scale.blend(target.scale, step))


@dataclass(frozen=True)
class Product(DataModel):
    """Poisson factorization with gamma lines."""

    family: ClassVar[str] = "poisson"
    allocates: ClassVar[bool] = True

    rank: int  # number of components
    shape: float = 0.3  # prior shape of the lines
    scale_shape: float = 0.3  # shape and rate of the prior of each line's rate
    scale_rate: float = 1.0
    known: tuple[bool, bool] = (False, False)  # axes whose lines are all ones (effects)

    @property
    def streams(self) -> bool:
        """Nothing is shared."""
        return True

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """The means of the lines, shared at random among the components on the leading side alone.

        Products then start at the best that one component can do, whatever the scale of the counts: from lines that
        are random on both sides, updates need more sweeps the larger the counts are.
        """
        overall = max(cells.by(0).mean(), 1e-3)
        sides: dict[int, ProductSide] = {}
        for axis in (lead, 1 - lead):
            sides[axis] = self._start(cells.by(axis), axis, overall, None if axis != lead else rng)
        return Start(sides[0], sides[1], None)

    def grown(self, fresh: DataModel) -> Product:
        """The same lines with priors by moments of more cells."""
        if not isinstance(fresh, Product) or (fresh.rank, fresh.known) != (self.rank, self.known):
            raise ValueError(f"data builds {fresh!r} in place of {self!r}; fit again to change the data model")
        return fresh

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Known lines drawn at a level that gives values of a few."""
        sides = []
        for axis, n in enumerate(shape):
            if self.known[axis]:
                sides.append(self._known(n))
                continue
            weights = rng.gamma(2.0, 1.0 / np.sqrt(self.rank), (n, self.rank))
            factor = GammaFactor(np.full(weights.shape, SURE), SURE / weights)
            sides.append(ProductSide(factor, self._scale(factor)))
        return Start(sides[0], sides[1], None)

    def _start(self, lines: Compressed, axis: int, overall: float, rng: np.random.Generator | None) -> ProductSide:
        """Lines whose products are (row mean)(column mean)/overall; equal shares where no generator is given."""
        n = len(lines.indptr) - 1
        if self.known[axis]:
            return self._known(n)
        total = lines.line_sums()
        level = (total + overall) / (np.diff(lines.indptr) + 1.0)  # as if each line had one more cell
        if not self.known[1 - axis]:
            level = level * np.sqrt(self.rank / overall)  # both sides alike: so are their priors
        share = np.full((n, self.rank), 1.0 / self.rank)
        if rng is not None:
            alike = max(10.0, self.shape)  # as different as the prior has components, or less
            share = rng.gamma(alike, 1.0, share.shape)
            share = share / share.sum(axis=1, keepdims=True)
        shape = np.repeat(self.shape + 1.0 + total[:, None] / self.rank, self.rank, axis=1)
        weights = GammaFactor(shape, shape / (level[:, None] * share))
        return ProductSide(weights, self._scale(weights))

    def _known(self, n: int) -> ProductSide:
        return ProductSide(GammaFactor(np.ones((n, self.rank)), np.ones((n, self.rank))), None)

    def _scale(self, weights: GammaFactor) -> GammaFactor:
        rate = self.scale_rate + np.sum(weights.mean, axis=1)
        shape = np.full_like(rate, self.scale_shape + self.rank * self.shape)
        return GammaFactor(shape.astype(weights.alpha.dtype), rate.astype(weights.alpha.dtype))

    def features(self, side: ProductSide, axis: int, shared: None) -> Features:
        """exp E[log a] (its largest entry per line taken out) and E[a]."""
        if side.scale is None:
            ones = np.ones_like(side.weights.alpha)
            return Features(ones, ones, np.zeros_like(ones[:, 0]))
        logs = side.weights.log_mean
        top = logs.max(axis=1)
        return Features(np.exp(logs - top[:, None]), side.weights.mean, top)

    def update(self, side: ProductSide, axis: int, shared: None, found: Expectation, kernels: Kernels) -> ProductSide:
        """shape = prior + Σ y ϕ, rate = E[scale] + Σ_observed E[φ] E[b]: errata F4."""
        if side.scale is None:
            return side
        dtype = side.weights.alpha.dtype
        rate = side.scale.mean[:, None].astype(np.float64) + found.quadratic
        weights = GammaFactor((self.shape + found.linear).astype(dtype), rate.astype(dtype))
        return ProductSide(weights, self._scale(weights))

    def predictive(self, rows: ProductSide, cols: ProductSide, shared: None) -> GammaPoissonPredictive:
        """E[λ] and Var[λ] = Σ_k (E[a²]E[b²] − (E[a]E[b])²) of paired lines."""
        a, b = self._moments(rows), self._moments(cols)
        mean = np.sum(a[0] * b[0], axis=1)
        variance = np.sum(a[1] * b[1] + a[1] * b[0] ** 2 + a[0] ** 2 * b[1], axis=1)
        return GammaPoissonPredictive(mean[:, None], variance[:, None])

    @staticmethod
    def _moments(side: ProductSide) -> tuple[Array, Array]:
        if side.scale is None:
            return side.weights.alpha, np.zeros_like(side.weights.alpha)
        return side.weights.mean.astype(np.float64), side.weights.variance.astype(np.float64)

    def prior_line(self, axis: int, side: ProductSide, shared: None) -> ProductSide:
        """The line of an id that was never seen: as spread as one observation, at the mean of the seen ones."""
        if side.scale is None:
            return side.take(slice(0, 1))
        shape = np.full((1, self.rank), self.shape)
        mean = side.weights.mean.mean(axis=0, keepdims=True)
        weights = GammaFactor(shape, shape / mean)
        return ProductSide(weights, self._scale(weights))

    def drawn_lines(self, axis: int, side: ProductSide, shared: None, rng: np.random.Generator) -> ProductSide:
        """Weights; ones stay ones.

        Scales stay as they are, as prior variances do. Their posterior reaches down to 0, and a line without counts
        whose scale is drawn there has weights without bound.
        """
        return side if side.scale is None else ProductSide(side.weights.drawn(rng), side.scale)

    def divergence(self, side: ProductSide, axis: int, shared: None) -> float:
        """KL of the lines and their scales."""
        if side.scale is None:
            return 0.0
        scale = side.scale
        lines = side.weights.divergence(self.shape, scale.mean[:, None], scale.log_mean[:, None])
        return lines + scale.divergence(self.scale_shape, self.scale_rate, float(np.log(self.scale_rate)))
