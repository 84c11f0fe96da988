"""Variational factors: arrays of gamma and normal distributions, one line each.

Enters: shapes and rates, means and covariances. Leaves: expectations, divergences from the prior, and convex
combinations of natural parameters. Nothing here knows about cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from nmar.arrays import Array
from nmar.prob.arrays import on_host
from nmar.prob.pieces import pieces
from nmar.prob.tree import LineRecord

Lines = slice | NDArray[Any]

PIECE = 1 << 11  # lines summed at a time
SURE = 1e9  # shape of a gamma factor that is a known number for all practical purposes
LEAST = 1e-70  # of a drawn number, so that products of two have squares above 0


class Summed(LineRecord, ABC):
    """Lines whose sums over all of them are wanted: found once, in pieces that fit the cache."""

    @property
    @abstractmethod
    def _lines(self) -> int:
        """How many there are."""

    @abstractmethod
    def _part(self, piece: tuple[int, int]) -> Array:
        """The sums of some lines, float64."""

    @cached_property
    def _sums(self) -> Array:
        return self._add_up(_one_by_one)

    def sum_up(self, run: Callable[..., list[Array]]) -> None:
        """Find the sums now and keep them; ``run(task, common, parts)`` may use several threads."""
        self.__dict__["_sums"] = self._add_up(run)

    def _add_up(self, run: Callable[..., list[Array]]) -> Array:
        parts = run(_sum_part, self, [(piece.start, piece.stop) for piece in pieces(self._lines, PIECE)])
        return reduce(np.add, parts, self._part((0, 0)))


def _sum_part(lines: Summed, piece: tuple[int, int]) -> Array:
    return lines._part(piece)


def _one_by_one(task: Callable[[Any, Any], Array], common: Any, parts: Iterable[Any]) -> list[Array]:
    return [task(common, part) for part in parts]


@dataclass(frozen=True, eq=False)
class GammaFactor(Summed):
    """Independent gamma distributions: ``q(u) = Ga(alpha, beta)``, elementwise."""

    alpha: Array  # paper α^u
    beta: Array  # paper β^u

    @property
    def mean(self) -> Array:
        """E[u]."""
        return self.alpha / self.beta

    @property
    def log_mean(self) -> Array:
        """E[log u] = ψ(α) − log β."""
        return psi(self.alpha) - np.log(self.beta)

    @property
    def variance(self) -> Array:
        """Var[u]."""
        return self.alpha / self.beta**2

    @property
    def column_sums(self) -> Array:
        """Σ_i E[u_ik] over the lines (K,)."""
        return self._sums

    @property
    def _lines(self) -> int:
        return len(self.alpha)

    def _part(self, piece: tuple[int, int]) -> Array:
        lines = slice(*piece)
        return on_host(np.sum(self.alpha[lines] / self.beta[lines], axis=0, dtype=np.float64))

    @property
    def totals(self) -> Array:
        """Over the last axis: Σ E[log q(u)], Σ E[log u] and Σ E[u] of each line; float64 whatever the storage."""
        a, b = self.alpha.astype(np.float64), self.beta.astype(np.float64)
        log_mean = psi(a) - np.log(b)
        of_itself = a * np.log(b) - gammaln(a) + (a - 1.0) * log_mean - a
        return np.stack([each.sum(axis=-1) for each in (of_itself, log_mean, a / b)], axis=-1)

    def divergence(self, shape: float, rate: Array | float, log_rate: Array | float) -> float:
        """KL(q ‖ Ga(shape, ϱ)) summed, the prior's rate ϱ entering by its E[ϱ] and E[log ϱ] (theory.md, Bound)."""
        lines = GammaFactor(self.alpha[..., None], self.beta[..., None])
        return gamma_divergence(lines.totals, 1, shape, rate, log_rate)

    def blend(self, target: GammaFactor, step: float) -> GammaFactor:
        """Move natural parameters (alpha and beta are affine in them) a fraction ``step`` to ``target``."""
        return GammaFactor(
            (1.0 - step) * self.alpha + step * target.alpha, (1.0 - step) * self.beta + step * target.beta
        )

    def drawn(self, rng: np.random.Generator) -> GammaFactor:
        """One draw of every number, as a factor that is all but sure of it."""
        numbers = rng.gamma(self.alpha.astype(np.float64)) / self.beta
        return GammaFactor(np.full(numbers.shape, SURE), SURE / np.maximum(numbers, LEAST))


def gamma_divergence(totals: Array, size: int, shape: float, rate: Array | float, log_rate: Array | float) -> float:
    """KL of lines of ``size`` gamma factors from Ga(shape, ϱ), summed, from their totals (see GammaFactor.totals)."""
    of_itself, log_mean, mean = np.moveaxis(totals, -1, 0)
    prior = size * (shape * log_rate - gammaln(shape)) + (shape - 1.0) * log_mean - rate * mean
    return float(np.sum(of_itself - prior))


@cache  # asked for by every block
def pair_indices(size: int) -> tuple[Array, Array]:
    """Row and column of each entry of a packed symmetric matrix, upper triangle by rows."""
    return np.triu_indices(size)


@cache
def pack_scale(size: int) -> Array:
    """1 on the diagonal and √2 off it: packed matrices then have ⟨A, B⟩ = tr(AB) as their plain dot product."""
    i, j = pair_indices(size)
    return np.where(i == j, 1.0, np.sqrt(2.0))


def pack(matrices: Array) -> Array:
    """Symmetric matrices (n, d, d) as scaled vectors (n, d(d+1)/2)."""
    size = matrices.shape[-1]
    i, j = pair_indices(size)
    return matrices[..., i, j] * pack_scale(size).astype(matrices.dtype)


def unpack(vectors: Array, size: int) -> Array:
    """Inverse of :func:`pack`."""
    i, j = pair_indices(size)
    out = np.empty((*vectors.shape[:-1], size, size), vectors.dtype, like=vectors)
    plain = vectors / pack_scale(size).astype(vectors.dtype)
    out[..., i, j] = plain
    out[..., j, i] = plain
    return out


@dataclass(frozen=True, eq=False)
class NormalFactor(Summed):
    """One normal distribution per line, over ``d`` coordinates of which some may be known constants."""

    mean: Array  # E[a_i]
    spread: Array  # Cov[a_i]; zero where a coordinate is a known constant
    log_det: Array  # (n,) log determinant of the covariance over the free coordinates

    @property
    def diagonal(self) -> bool:
        """Whether the factor keeps variances only (d = 1 is stored the same way either way)."""
        return self.spread.shape[1] == self.mean.shape[1]

    @property
    def variances(self) -> Array:
        """(n, d) marginal variances."""
        if self.diagonal:
            return self.spread
        i, j = pair_indices(self.mean.shape[1])
        return self.spread[:, i == j]

    def second_moment(self) -> Array:
        """Packed E[a a'] of a full factor."""
        i, j = pair_indices(self.mean.shape[1])
        scale = pack_scale(self.mean.shape[1]).astype(self.mean.dtype)
        product = np.take(self.mean, i, axis=1)
        product *= np.take(self.mean, j, axis=1)
        product *= scale
        product += self.spread
        return product

    def distances(self, center: Array) -> Array:
        """Σ_i E[(a_ik − center_k)²] of each coordinate (d,)."""
        first, second = self._sums
        return second - 2.0 * center * first + len(self.mean) * center**2

    @property
    def _lines(self) -> int:
        return len(self.mean)

    def _part(self, piece: tuple[int, int]) -> Array:
        """Σ_i E[a_ik] and Σ_i E[a_ik²]."""
        mean, spread = self.mean[slice(*piece)], self.take(slice(*piece)).variances
        first, second = (np.sum(x, axis=0, dtype=np.float64) for x in (mean, mean * mean + spread))
        return np.stack([on_host(first), on_host(second)])

    def divergence(self, free: Array, prior_mean: Array, prior_variance: Array) -> float:
        """KL(q ‖ N(prior_mean, diag(prior_variance))) over the free coordinates, summed over lines."""
        if not free.any():
            return 0.0
        return self.divergence_at(free, self.distances(prior_mean), prior_variance)

    def divergence_at(self, free: Array, distances: Array, prior_variance: Array) -> float:
        """The same from Σ_i E[(a_ik − prior mean)²] of each coordinate (d,)."""
        v = prior_variance[free]
        lines, d = len(self.mean), int(free.sum())
        total = np.sum(distances[free] / v) - np.sum(self.log_det, dtype=np.float64) - lines * d
        return float(0.5 * (total + lines * np.sum(np.log(v))))

    def drawn(self, rng: np.random.Generator) -> NormalFactor:
        """One draw of every line, as lines without uncertainty."""
        lines = self.mean.astype(np.float64)
        free = np.asarray(self.variances[:1] > 0.0).any(axis=0)  # the others are known constants
        for piece in pieces(len(lines) if free.any() else 0, PIECE):
            noise = rng.normal(size=(piece.stop - piece.start, int(free.sum())))
            if self.diagonal:
                noise *= np.sqrt(self.spread[piece][:, free])
            else:
                whole = unpack(self.spread[piece].astype(np.float64), lines.shape[1])
                noise = np.einsum("nij,nj->ni", np.linalg.cholesky(whole[:, free][:, :, free]), noise)
            lines[piece, free] += noise
        nothing = np.zeros(self.spread.shape)
        return replace(self, mean=lines, spread=nothing, log_det=np.zeros(len(lines)))

    def blend(self, target: NormalFactor, step: float) -> NormalFactor:
        """Move natural parameters, precision and precision × mean, a fraction ``step`` to ``target`` (errata F5).

        Known coordinates, which have no variance, are the target's.
        """
        free = on_host(target.variances[:1] > 0.0).any(axis=0)
        if not free.any():
            return target
        mean, dtype = target.mean.astype(np.float64), self.mean.dtype
        ends = ((self, 1.0 - step), (target, step))
        if self.diagonal:
            precision = sum(w / f.spread[:, free].astype(np.float64) for f, w in ends)
            pull = sum(w * f.mean[:, free] / f.spread[:, free].astype(np.float64) for f, w in ends)
            mean[:, free] = pull / precision
            spread = np.zeros_like(mean)
            spread[:, free] = 1.0 / precision
            log_det = -np.sum(np.log(precision), axis=1)
        else:
            size = mean.shape[1]
            inside = np.ix_(np.arange(len(mean)), np.flatnonzero(free), np.flatnonzero(free))
            parts = [w * np.linalg.inv(unpack(f.spread.astype(np.float64), size)[inside]) for f, w in ends]
            means = [f.mean[:, free, None].astype(np.float64) for f, _ in ends]
            precision, pull = parts[0] + parts[1], (parts[0] @ means[0] + parts[1] @ means[1])[..., 0]
            covariance = np.zeros((len(mean), size, size), like=mean)
            covariance[inside] = np.linalg.inv(precision)
            mean[:, free] = np.einsum("nij,nj->ni", covariance[inside], pull)
            spread = pack(covariance)
            log_det = -np.linalg.slogdet(precision)[1]
        log_det = log_det.astype(self.log_det.dtype)
        return replace(self, mean=mean.astype(dtype), spread=spread.astype(dtype), log_det=log_det)
