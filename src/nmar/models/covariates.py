"""Covariates of lines: the prior mean of a line's coordinates is linear in them (theory.md, Covariates).

a_i ~ N(W x_i, diag τ), each row of W with a ridge prior N(0, ρ_k I). q(W) is normal; in the eigenbasis of X'X, which
all coordinates share, its covariance is diagonal. Updates of W, τ and ρ are coordinate ascent on the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.prob.factor import Lines, NormalFactor

Array = NDArray[Any]

FLOOR = 1e-8  # of variances that are learned


@dataclass(frozen=True, eq=False)
class DesignedLines(NormalFactor):
    """Normal lines with their covariates ``x`` (n, F)."""

    x: Array

    def take(self, lines: Lines) -> DesignedLines:
        """The chosen lines."""
        return DesignedLines(self.mean[lines], self.spread[lines], self.log_det[lines], self.x[lines])

    def moved(self, lines: NormalFactor) -> DesignedLines:
        """New lines with these covariates."""
        return DesignedLines(lines.mean, lines.spread, lines.log_det, self.x)

    def blend(self, target: NormalFactor, step: float) -> DesignedLines:
        """As for other lines; covariates stay."""
        return self.moved(super().blend(target, step))


@dataclass(frozen=True, eq=False)
class LineCoefficients:
    """q(W) of one axis.

    Attributes
    ----------
    mean : (d, F) E[W]; 0 for coordinates that are not free
    spread : (d, F) variances in the eigenbasis of X'X
    basis, eigenvalues : (F, F), (F,) of X'X
    ridge : (d,) prior variance ρ of the coefficients of each coordinate
    """

    mean: Array
    spread: Array
    basis: Array
    eigenvalues: Array
    ridge: Array

    @classmethod
    def start(cls, x: Array, free: Array, variance: Array) -> LineCoefficients:
        """LineCoefficients of 0 that explain a tenth of the prior variance."""
        x = x.astype(np.float64)
        eigenvalues, basis = np.linalg.eigh(x.T @ x)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        size = x.shape[1]
        ridge = 0.1 * variance / max(float(np.mean(x**2)) * size, 1e-12)
        spread = 1.0 / (1.0 / ridge[:, None] + eigenvalues / variance[:, None])
        return cls(np.zeros((len(free), size)), spread, basis, eigenvalues, ridge)

    def prior_mean(self, x: Array) -> Array:
        """E[W] x of each line (n, d). Not by BLAS, whose threads would get in the way of the sweep's."""
        return np.einsum("nf,kf->nk", x, self.mean.astype(x.dtype))

    def variance_at(self, x: Array) -> Array:
        """x' Cov[w_k] x of each line and coordinate (n, d)."""
        return (x.astype(np.float64) @ self.basis) ** 2 @ self.spread.T

    @property
    def sd(self) -> Array:
        """(d, F) standard deviations of the coefficients."""
        return np.sqrt(np.einsum("fe,ke->kf", self.basis**2, self.spread))

    def distances(self, side: DesignedLines) -> Array:
        """Σ_i E[(a_ik − w_k x_i)²] of each coordinate (d,)."""
        away = side.mean.astype(np.float64) - self.prior_mean(side.x.astype(np.float64))
        unsure = self.spread @ self.eigenvalues
        return np.sum(away**2 + side.variances, axis=0) + unsure

    def learned(self, side: DesignedLines, variance: Array, free: Array) -> LineCoefficients:
        """q(W) given the lines, and its ridge by empirical Bayes."""
        pulls = self.basis.T @ np.einsum("nf,nk->fk", side.x.astype(np.float64), side.mean.astype(np.float64))
        spread = 1.0 / (1.0 / self.ridge[:, None] + self.eigenvalues / variance[:, None])
        turned = np.where(free[:, None], spread * (pulls.T / variance[:, None]), 0.0)
        ridge = np.where(free, np.maximum(np.mean(turned**2 + spread, axis=1), FLOOR), self.ridge)
        return replace(self, mean=turned @ self.basis.T, spread=spread, ridge=ridge)

    def divergence(self, free: Array) -> float:
        """KL(q(W) ‖ N(0, ρI)) of the free coordinates."""
        squares = self.mean**2 @ np.ones(self.mean.shape[1]) + self.spread.sum(axis=1)
        logs = np.log(self.spread / self.ridge[:, None]).sum(axis=1)
        return float(0.5 * np.sum((squares / self.ridge - self.mean.shape[1] - logs)[free]))
