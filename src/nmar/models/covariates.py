"""Covariates of lines: the prior mean of a line's coordinates is linear in them (theory.md, Covariates).

a_i ~ N(W x_i, diag τ), each row of W with a ridge prior N(0, ρ_k I). q(W) is normal; in the eigenbasis of X'X, which
all coordinates share, its covariance is diagonal. Updates of W, τ and ρ are coordinate ascent on the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from nmar.arrays import Array
from nmar.prob.arrays import on_host
from nmar.prob.factor import NormalFactor

FLOOR = 1e-8  # of variances that are learned


class Designed(Protocol):
    """Lines with a normal posterior and covariates."""

    @property
    def mean(self) -> Array:
        """(n, d)."""
        ...

    @property
    def variances(self) -> Array:
        """(n, d)."""
        ...

    @property
    def x(self) -> Array:
        """(n, F) covariates."""
        ...


def eigenbasis(x: Array) -> tuple[Array, Array]:
    """Eigenvectors (F, F) and eigenvalues (F,) of X'X."""
    x = x.astype(np.float64)
    values, vectors = np.linalg.eigh(on_host(x.T @ x))
    return vectors, np.maximum(values, 0.0)


def linear(x: Array, coefficients: Array) -> Array:
    """x W' of each line (n, d). Not by BLAS, whose threads would compete with those of the sweep."""
    return np.einsum("nf,kf->nk", x, coefficients.astype(x.dtype))


@dataclass(frozen=True, eq=False)
class DesignedLines(NormalFactor):
    """Normal lines with their covariates ``x`` (n, F)."""

    x: Array

    def moved(self, lines: NormalFactor) -> DesignedLines:
        """New lines with these covariates."""
        return DesignedLines(lines.mean, lines.spread, lines.log_det, self.x)


@dataclass(frozen=True, eq=False)
class LineCoefficients:
    """q(W) of one axis."""

    mean: Array  # (d, F) E[W]; 0 for coordinates that are not free
    spread: Array  # (d, F) variances in the eigenbasis of X'X
    basis: Array  # (F, F) eigenvectors of X'X
    eigenvalues: Array  # (F,) eigenvalues of X'X
    ridge: Array  # (d,) prior variance ρ of the coefficients of each coordinate

    @classmethod
    def start(cls, x: Array, free: Array, variance: Array) -> LineCoefficients:
        """LineCoefficients of 0 that explain a tenth of the prior variance."""
        basis, eigenvalues = eigenbasis(x)
        size = x.shape[1]
        ridge = 0.1 * variance / max(float(np.mean(x.astype(np.float64) ** 2)) * size, 1e-12)
        spread = 1.0 / (1.0 / ridge[:, None] + eigenvalues / variance[:, None])
        return cls(np.zeros((len(free), size)), spread, basis, eigenvalues, ridge)

    def over(self, x: Array, variance: Array) -> LineCoefficients:
        """The same coefficients for other lines; themselves where those have the same X'X."""
        basis, eigenvalues = eigenbasis(x)
        if np.array_equal(eigenvalues, self.eigenvalues):
            return self
        spread = 1.0 / (1.0 / self.ridge[:, None] + eigenvalues / variance[:, None])
        return replace(self, basis=basis, eigenvalues=eigenvalues, spread=spread)

    def marginal(self, side: Designed, variance: Array) -> LineCoefficients:
        """Coefficients as unsure as they are with the lines integrated out: for predictions and standard deviations.

        q(W) takes the lines for known, so its variances are too small where lines have few cells. A line of posterior
        variance s tells (1 − s/τ)/τ in place of 1/τ about its prior mean. Exact, given the other side, where that is
        the same for all lines or there is one covariate; else each eigenvector of X'X has the mean of its lines.
        """
        squares = (side.x.astype(np.float64) @ self.basis) ** 2
        unsure = squares.T @ side.variances.astype(np.float64) / np.maximum(squares.sum(axis=0), 1e-300)[:, None]
        known = np.clip(1.0 - unsure.T / variance[:, None], 0.0, 1.0) / variance[:, None]
        return replace(self, spread=1.0 / (1.0 / self.ridge[:, None] + self.eigenvalues * known))

    def prior_mean(self, x: Array) -> Array:
        """E[W] x of each line (n, d)."""
        return linear(x, self.mean)

    def variance_at(self, x: Array) -> Array:
        """x' Cov[w_k] x of each line and coordinate (n, d)."""
        return (x.astype(np.float64) @ self.basis) ** 2 @ self.spread.T

    @property
    def sd(self) -> Array:
        """(d, F) standard deviations of the coefficients."""
        return np.sqrt(np.einsum("fe,ke->kf", self.basis**2, self.spread))

    def distances(self, side: Designed) -> Array:
        """Σ_i E[(a_ik − w_k x_i)²] of each coordinate (d,)."""
        away = side.mean.astype(np.float64) - self.prior_mean(side.x.astype(np.float64))
        unsure = self.spread @ self.eigenvalues
        return on_host(np.sum(away**2 + side.variances, axis=0)) + unsure

    def learned(self, side: Designed, variance: Array, free: Array, weight: Array | None = None) -> LineCoefficients:
        """q(W) given the lines, and its ridge by empirical Bayes; ``weight`` is how often each line counts."""
        x = side.x.astype(np.float64)
        basis, eigenvalues = self.basis, self.eigenvalues
        if weight is not None:
            basis, eigenvalues = eigenbasis(np.sqrt(weight)[:, None] * x)
            x = weight[:, None] * x
        sums = on_host(np.einsum("nf,nk->fk", x, side.mean.astype(np.float64)))
        pulls = basis.T @ sums
        spread = 1.0 / (1.0 / self.ridge[:, None] + eigenvalues / variance[:, None])
        turned = np.where(free[:, None], spread * (pulls.T / variance[:, None]), 0.0)
        ridge = np.where(free, np.maximum(np.mean(turned**2 + spread, axis=1), FLOOR), self.ridge)
        return LineCoefficients(turned @ basis.T, spread, basis, eigenvalues, ridge)

    def divergence(self, free: Array) -> float:
        """KL(q(W) ‖ N(0, ρI)) of the free coordinates."""
        squares = self.mean**2 @ np.ones(self.mean.shape[1]) + self.spread.sum(axis=1)
        logs = np.log(self.spread / self.ridge[:, None]).sum(axis=1)
        return float(0.5 * np.sum((squares / self.ridge - self.mean.shape[1] - logs)[free]))
