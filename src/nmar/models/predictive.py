"""What a data model says about single cells once it is fitted: densities, moments and draws, bin by bin of n.

A bin of the count posterior has a mean scale φ1, a mean shift δ and a dispersion factor φ2 (:class:`BinTable`).
All methods return (cells, bins) arrays; posterior/mixing.py mixes them over n ~ ZTP(Λ) (theory.md, Prediction).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, ndtri, stdtr, stdtrit

from nmar.arrays import Array
from nmar.kernels.choose import choose
from nmar.kernels.predict import log_student
from nmar.kernels.spec import EMPTY_FLOAT, Mixture
from nmar.models.noise import Noise
from nmar.prob.factor import SURE, GammaFactor
from nmar.prob.families.base import is_count
from nmar.prob.pieces import pieces

Some = Any  # components of cells: two lists of positions, or ... for all

FEWEST = 3.0  # degrees of freedom at which variances are taken, at least
NOWHERE = np.empty((0, 0))
TOGETHER = 1 << 17  # numbers in a table of components × bins: few enough for the cache


class BinTable(NamedTuple):
    """Shared law of the bins."""

    phi1: Array  # (B,)
    delta: Array  # (B,)
    phi2: Array  # (B,)
    dispersion: float  # σ² or κ


class Predictive(Protocol):
    """Distribution of the values of a block of cells given the bin of n."""

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """log p(y | bin), the data model's posterior integrated out, or plugged in by its mean."""
        ...

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """A bound on ``log_density`` over all bins there could be, (cells,); −inf where no bin can have that value.

        Parameters
        ----------
        y : ndarray
            As for ``log_density``.
        plugin : bool
            As for ``log_density``.
        table : BinTable
            Tables of some of the bins.
        limits : tuple of (float, float)
            Smallest and largest φ2 of all bins.
        """
        ...

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Mean and variance of y in each bin."""
        ...

    def cumulative(self, y: Array, table: BinTable) -> Array | None:
        """P(Y ≤ y | bin), or None where there is no closed form (intervals are then taken from draws)."""
        ...

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """One draw per cell for each given bin: (cells, draws)."""
        ...


@dataclass(frozen=True, eq=False)
class NormalPredictive:
    """μ is a mixture of C normals per cell (C = 1 but for mixtures); y ~ N(φ1 μ + δ, φ2 σ²)."""

    mean: Array  # (cells, C)
    variance: Array  # (cells, C)
    log_weight: Array | None = None  # (cells, C)
    precision: Array | None = None  # (cells,) E[λ_i] E[ρ_j], by which noise is divided; None: 1
    freedom: Array | None = None  # (cells,) degrees of freedom of a Student law; None: normal

    def at_mean(self) -> NormalPredictive:
        """The same with μ at its mean."""
        return replace(self, variance=np.zeros_like(self.variance))

    def _parts(self, table: BinTable, plugin: bool, some: Some = ...) -> tuple[Array, Array]:
        """Mean and variance (Student: squared scale) of y, of all components (cells, C, B) or of some (pairs, B)."""
        mean = self.mean[some][..., None] * table.phi1 + table.delta
        unsure = 0.0 if plugin else self.variance[some][..., None] * table.phi1**2
        return mean, np.broadcast_to(unsure + table.phi2 * table.dispersion * self._level(some), mean.shape)

    def _level(self, some: Some = ...) -> Array | float:
        """What the noise of rows and columns multiplies the variance by."""
        if self.precision is None:
            return 1.0
        return 1.0 / (self.precision[:, None, None] if some is ... else self.precision[some[0]][:, None])

    def _weights(self) -> Array:
        return np.zeros_like(self.mean) if self.log_weight is None else self.log_weight

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """Mixture of normal or Student densities; the plug-in keeps the component weights."""

        def of(cell: Array, component: Array) -> Array:
            mean, variance = self._parts(table, plugin, (cell, component))
            freedom = None if self.freedom is None else self.freedom[cell][:, None]
            return log_student((y[cell, None] - mean) ** 2, variance, freedom)

        return mixed(self._weights(), of, len(table.phi2))

    def log_mixture(self, y: Array, table: BinTable, log_weight: Array, plugin: bool) -> Array:
        """Log density of each cell, mixed over components and over bins of these log weights, (cells,)."""
        mixture = Mixture(
            np.ascontiguousarray(self.mean),
            np.zeros_like(self.mean) if plugin else np.ascontiguousarray(self.variance),
            NOWHERE if self.log_weight is None else np.ascontiguousarray(self.log_weight),
            EMPTY_FLOAT if self.precision is None else self.precision,
            EMPTY_FLOAT if self.freedom is None else self.freedom,
            log_weight,
            table.phi1,
            table.delta,
            table.phi2 * table.dispersion,
        )
        return choose().log_mixture(y, mixture)

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """The density at its best variance; where bins differ in the mean, as if y were the mean of the narrowest."""
        level = np.ones(len(y)) if self.precision is None else 1.0 / self.precision
        low, high = (table.dispersion * phi * level for phi in limits)
        if np.any(table.phi1 != 1.0) or np.any(table.delta != 0.0):
            return log_student(np.zeros(len(y)), low, self.freedom)
        unsure = 0.0 if plugin else self.variance
        square = (y[:, None] - self.mean) ** 2
        variance = np.clip(square, unsure + low[:, None], unsure + high[:, None])
        freedom = None if self.freedom is None else self.freedom[:, None]
        return logsumexp(log_student(square, variance, freedom) + self._weights(), axis=1)

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Those of μ over components, scaled and shifted; the noise is beside them.

        The variance of a Student law is taken at no fewer than ``FEWEST`` degrees of freedom.
        """
        mean, variance = over_components(self._weights(), self.mean, self.variance)
        level: Any = 1.0 if self.precision is None else 1.0 / self.precision[:, None]
        spread = variance * table.phi1**2 + table.phi2 * table.dispersion * level
        if self.freedom is not None:
            freedom = np.maximum(self.freedom, FEWEST)[:, None]
            spread = spread * freedom / (freedom - 2.0)
        return mean * table.phi1 + table.delta, spread

    def cumulative(self, y: Array, table: BinTable) -> Array:
        """Mixture of normal or Student distribution functions."""
        mean, variance = self._parts(table, plugin=False)
        z = (y[:, None, None] - mean) / np.sqrt(variance)
        below = ndtr(z) if self.freedom is None else stdtr(self.freedom[:, None, None], z)
        return np.sum(np.exp(self._weights())[:, :, None] * below, axis=1)

    def quantile(self, level: float, table: BinTable) -> Array | None:
        """Where a cell's distribution function reaches ``level``; None where it is a mixture of several."""
        if self.mean.shape[1] > 1 or len(table.phi2) > 1:
            return None
        mean, variance = (part[:, 0, 0] for part in self._parts(table, plugin=False))
        at = ndtri(level) if self.freedom is None else stdtrit(self.freedom, level)
        return np.asarray(mean + at * np.sqrt(variance))

    def between(self, edges: Array, table: BinTable, plugin: bool) -> Array:
        """P(edge k < y ≤ edge k + 1) in a table with one bin: (cells, edges − 1); to full precision in both tails."""
        mean, variance = self._parts(table, plugin)
        z = (edges - mean) / np.sqrt(variance)
        freedom = None if plugin or self.freedom is None else self.freedom[:, None, None]
        beyond = ndtr(-np.abs(z)) if freedom is None else stdtr(freedom, -np.abs(z))
        low, high, above = beyond[..., :-1], beyond[..., 1:], z > 0.0
        both, neither = above[..., :-1], ~above[..., 1:]
        found = np.where(both, low - high, np.where(neither, high - low, 1.0 - low - high))
        return np.sum(np.exp(self._weights())[:, :, None] * found, axis=1)

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """Draw a component, then μ, then y; of a Student law both at once."""
        which = pick(np.exp(self._weights()), bins.shape[1], rng)
        rows = np.arange(len(bins))[:, None]
        noise = table.phi2[bins] * table.dispersion
        if self.precision is not None:
            noise = noise / self.precision[:, None]
        mean, variance = self.mean[rows, which], self.variance[rows, which]
        if self.freedom is None:
            mu = rng.normal(mean, np.sqrt(variance))
            return rng.normal(table.phi1[bins] * mu + table.delta[bins], np.sqrt(noise))
        scale = np.sqrt(table.phi1[bins] ** 2 * variance + noise)
        return table.phi1[bins] * mean + table.delta[bins] + scale * rng.standard_t(self.freedom[:, None], bins.shape)


def with_noise(found: Predictive, noise: Noise, rows: GammaFactor | None, cols: GammaFactor | None) -> Predictive:
    """Predictions with the noise of rows and columns: a Student law, for levels are known only so well.

    1/dof = 1/(2 shape of q(λ_i)) + 1/(2 shape of q(ρ_j)) + 1/ν (theory.md, Noise).
    """
    if not isinstance(found, NormalPredictive):
        raise TypeError(f"{type(found).__name__} cannot have noise by row and column; use noise='constant'")
    known = [side for side in (rows, cols) if side is not None]
    cells = len(found.mean)
    precision, inverse = np.ones(cells), np.full(cells, 1.0 / noise.freedom if noise.freedom else 0.0)
    for side in known:
        precision = precision * np.asarray(side.mean, np.float64)
        inverse = inverse + 0.5 / np.asarray(side.alpha, np.float64)
    return replace(found, precision=precision, freedom=1.0 / np.maximum(inverse, 1.0 / SURE))


@dataclass(frozen=True, eq=False)
class GammaPoissonPredictive:
    """λ has mean m and variance v per component; y ~ Po(φ λ) with λ a gamma of that mean and variance.

    The gamma is an approximation to the law of a product of gamma lines, as is the Gaussian variance.
    """

    mean: Array  # (cells, C)
    variance: Array  # (cells, C)
    log_weight: Array | None = None

    def _weights(self) -> Array:
        return np.zeros_like(self.mean) if self.log_weight is None else self.log_weight

    def _size(self, some: Some = ...) -> Array:
        """Size m²/v of the negative binomial (φ cancels), kept within what lgamma resolves."""
        return np.minimum(self.mean[some] ** 2 / np.maximum(self.variance[some], 1e-300), 1e9)[..., None]

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """Poisson at the mean rate, or negative binomial; −inf where the value is no count."""
        inside = is_count(y)
        count = np.where(inside, y, 0.0)

        def of(cell: Array, component: Array) -> Array:
            at, mean = count[cell, None], self.mean[cell, component, None] * table.phi2
            if plugin:
                return at * np.log(mean) - mean - gammaln(at + 1.0)
            size = self._size((cell, component))
            log = gammaln(at + size) - gammaln(size) - gammaln(at + 1.0)
            return log - size * np.log1p(mean / size) + at * (np.log(mean) - np.log(size + mean))

        found = mixed(self._weights(), of, len(table.phi2))
        found[~inside] = -np.inf
        return found

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """A probability is at most 1."""
        return np.where(is_count(y), 0.0, -np.inf)

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Mean φm, variance φm + φ²v, with mean and variance of λ over components."""
        mean, variance = over_components(self._weights(), self.mean, self.variance)
        return mean * table.phi2, mean * table.phi2 + variance * table.phi2**2

    def cumulative(self, y: Array, table: BinTable) -> Array:
        """Negative binomial distribution function, by the incomplete beta function."""
        from scipy.special import betainc

        size, mean = self._size(), self.mean[:, :, None] * table.phi2
        at = np.floor(np.maximum(y, 0.0))[:, None, None]
        below = betainc(np.broadcast_to(size, mean.shape), at + 1.0, size / (size + mean))
        part = np.sum(np.exp(self._weights())[:, :, None] * below, axis=1)
        return np.where(y[:, None] < 0.0, 0.0, part)

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """Draw a component, a rate, then a count."""
        which = pick(np.exp(self._weights()), bins.shape[1], rng)
        rows = np.arange(len(bins))[:, None]
        mean, size = self.mean[rows, which], self._size()[:, :, 0][rows, which]
        return rng.poisson(table.phi2[bins] * rng.gamma(size, mean / size)).astype(float)


def mixed(log_weight: Array, log_density: Callable[[Array, Array], Array], bins: int) -> Array:
    """log Σ_c w_c p_c in each bin, (cells, B), over the components that have any weight.

    Parameters
    ----------
    log_weight : ndarray of shape (cells, C)
        Log weights of the components.
    log_density : callable
        log p of a list of cells and of a component for each, (pairs, B).
    bins : int
        Number of bins B.
    """
    cell, component = np.nonzero(log_weight > -np.inf)
    weight = log_weight[cell, component][:, None]
    edges = np.searchsorted(cell, np.arange(len(log_weight) + 1))
    out = np.empty((len(log_weight), bins))
    for part in pieces(len(log_weight), max(1, TOGETHER * len(log_weight) // max(1, len(cell) * bins))):
        pairs, starts = slice(edges[part.start], edges[part.stop]), edges[part] - edges[part.start]
        log = log_density(cell[pairs], component[pairs]) + weight[pairs]
        top = np.maximum.reduceat(log, starts, axis=0)
        top[top == -np.inf] = 0.0
        log -= top[cell[pairs] - part.start]
        with np.errstate(divide="ignore"):
            out[part] = top + np.log(np.add.reduceat(np.exp(log, out=log), starts, axis=0))
    return out


def over_components(log_weight: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of a mixture, by the laws of total expectation and variance: (cells, 1) each."""
    weight = np.exp(log_weight)
    overall = np.sum(weight * mean, axis=1, keepdims=True)
    return overall, np.sum(weight * (variance + (mean - overall) ** 2), axis=1, keepdims=True)


def pick(probability: Array, draws: int, rng: np.random.Generator) -> Array:
    """Indices (cells, draws) drawn from each row of ``probability`` (cells, choices)."""
    cells, choices = probability.shape
    edges, row = np.cumsum(probability, axis=1), np.arange(cells)[:, None]
    edges = edges / edges[:, -1:] + row  # one rising sequence for all rows: no array of cells × draws × choices
    found = np.searchsorted(edges.ravel(), (rng.random((cells, draws)) + row).ravel()).reshape(cells, draws)
    return np.clip(found - row * choices, 0, choices - 1)


__all__ = ["BinTable", "GammaPoissonPredictive", "NormalPredictive", "Predictive", "pick"]
