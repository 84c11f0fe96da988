"""Covariates of clustered lines: prior probabilities of the clusters (theory.md, Covariates of a mixture).

P(z_i = g) = softmax(b + W x_i)_g, the columns of W with a ridge prior of variance ρ, b with the Dirichlet prior of the
weights at mean covariates. log Σ exp is bounded by Böhning's quadratic, whose curvature ½(I − 11'/G) is the same
everywhere: q(W) is then normal and, in the eigenbasis of X'X, diagonal and alike for all contrasts of clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from nmar.arrays import Array
from nmar.models.covariates import FLOOR, eigenbasis, linear
from nmar.prob.arrays import on_host
from nmar.prob.tree import LineRecord

ROUNDS = 5  # steps of b, W and ρ after each half sweep: the bound's curvature is larger than the function's


def softmax(logits: Array) -> Array:
    """Rows of probabilities; never exactly 0, so that a cluster can come back."""
    shares = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    return shares / np.sum(shares, axis=1, keepdims=True)


def log_totals(logits: Array) -> Array:
    """log Σ_g exp of each row."""
    top = np.max(logits, axis=1, keepdims=True)
    return np.log(np.sum(np.exp(logits - top), axis=1)) + top[:, 0]


@dataclass(frozen=True, eq=False)
class Assignment(LineRecord):
    """Responsibilities of the clusters for each line."""

    probability: Array  # (n, G) q(z_i = g)

    def blend(self, target: Assignment, step: float) -> Assignment:
        """Geometric mean: natural parameters are log probabilities."""
        logs = (1.0 - step) * np.log(self.probability + 1e-300) + step * np.log(target.probability + 1e-300)
        return replace(self, probability=softmax(logs).astype(self.probability.dtype))


@dataclass(frozen=True, eq=False)
class DesignedAssignment(Assignment):
    """Responsibilities of lines with their covariates ``x`` (n, F)."""

    x: Array


@dataclass(frozen=True, eq=False)
class ClusterCoefficients:
    """How the log odds of the clusters depend on covariates."""

    level: Array  # (G,) log odds at mean covariates, with sum 0 (b)
    mean: Array  # (G, F) E[W]; each column sums to 0
    spread: Array  # (F,) variance of each contrast of clusters, in the eigenbasis of X'X
    basis: Array  # (F, F) eigenvectors of X'X
    eigenvalues: Array  # (F,) eigenvalues of X'X
    ridge: float  # prior variance ρ of the coefficients
    concentration: float  # prior γ₀ of the weights at mean covariates

    @classmethod
    def start(cls, side: DesignedAssignment, concentration: float) -> ClusterCoefficients:
        """No effect of covariates; the clusters' sizes at mean covariates."""
        basis, eigenvalues = eigenbasis(side.x)
        sizes = np.log(concentration + side.probability.sum(axis=0, dtype=np.float64))
        ridge = 1.0 / len(eigenvalues)
        spread = 1.0 / (1.0 / ridge + 0.5 * eigenvalues)
        mean = np.zeros((len(sizes), len(eigenvalues)))
        return cls(sizes - sizes.mean(), mean, spread, basis, eigenvalues, ridge, concentration)

    def logits(self, x: Array) -> Array:
        """E[b + W x] of each line (n, G)."""
        return self.level + linear(x.astype(np.float64), self.mean)

    def over(self, x: Array) -> ClusterCoefficients:
        """The same coefficients for other lines; themselves where those have the same X'X."""
        basis, eigenvalues = eigenbasis(x)
        if np.array_equal(eigenvalues, self.eigenvalues):
            return self
        spread = 1.0 / (1.0 / self.ridge + 0.5 * eigenvalues)
        return replace(self, basis=basis, eigenvalues=eigenvalues, spread=spread)

    def learned(self, side: DesignedAssignment) -> ClusterCoefficients:
        """Some steps of b, q(W) and ρ given the responsibilities; none lowers the bound."""
        found = self
        for _ in range(ROUNDS):
            found = found._with_level(side)._with_coefficients(side)._with_ridge()
        return found

    def _with_level(self, side: DesignedAssignment) -> ClusterCoefficients:
        """b moves by the slope over Böhning's curvature; Dirichlet's prior is Gγ₀ lines, shared by all clusters."""
        prior = self.concentration * (1.0 - len(self.level) * softmax(self.level[None, :])[0])
        slope = on_host(np.sum(self._surplus(side), axis=0)) + prior
        return replace(self, level=self.level + 2.0 * slope / (len(side.x) + len(self.level) * self.concentration))

    def _with_coefficients(self, side: DesignedAssignment) -> ClusterCoefficients:
        """S⁻¹ = I/ρ + ½X'X,  Ŵ = [Σ_i (r_i − p_i) x_i' + ½W X'X] S."""
        pull = on_host(np.einsum("ng,nf->gf", self._surplus(side), side.x.astype(np.float64)))
        spread = 1.0 / (1.0 / self.ridge + 0.5 * self.eigenvalues)
        turned = (pull + 0.5 * (self.mean @ self.basis * self.eigenvalues) @ self.basis.T) @ self.basis * spread
        return replace(self, mean=turned @ self.basis.T, spread=spread)

    def _surplus(self, side: DesignedAssignment) -> Array:
        """r − p: responsibilities less prior probabilities."""
        return side.probability - softmax(self.logits(side.x))

    @property
    def _squares(self) -> float:
        """E‖W‖²."""
        return float(np.sum(self.mean**2) + self._contrasts * self.spread.sum())

    @property
    def _contrasts(self) -> int:
        return len(self.level) - 1

    def _with_ridge(self) -> ClusterCoefficients:
        return replace(self, ridge=max(self._squares / (self._contrasts * len(self.spread)), FLOOR))

    def divergence(self, side: DesignedAssignment) -> float:
        """−Σ r·E[b + Wx] + the bound of Σ log Σ exp, KL of q(W) from its ridge, and − log prior of b."""
        logits = self.logits(side.x)
        lines = float(np.sum(log_totals(logits))) - float(np.sum(side.probability * logits))
        curved = 0.25 * self._contrasts * float(self.spread @ self.eigenvalues)
        logs = float(np.log(self.spread / self.ridge).sum())
        ridge = 0.5 * (self._squares / self.ridge - self._contrasts * (len(self.spread) + logs))
        size, each = len(self.level), self.concentration
        normaliser = gammaln(size * each) - size * gammaln(each)
        prior = normaliser + each * float(np.sum(self.level - log_totals(self.level[None, :])))
        return lines + curved + ridge - float(prior)

    def sd(self, side: DesignedAssignment) -> Array:
        """(G, F) standard deviations, from the information in the lines less what their unknown clusters leave out.

        Those of q(W) are too small, because Böhning's curvature is up to several times that of log Σ exp.
        """
        p, r, x = softmax(self.logits(side.x)), side.probability.astype(np.float64), side.x.astype(np.float64)
        clusters, size = self.mean.shape
        known = np.empty((clusters, size, clusters, size))
        for g in range(clusters):
            for h in range(clusters):
                weight = p[:, g] * ((g == h) - p[:, h]) - r[:, g] * ((g == h) - r[:, h])
                known[g, :, h] = x.T @ (weight[:, None] * x)
        values, vectors = np.linalg.eigh(known.reshape(clusters * size, clusters * size))
        covariance = (vectors / (np.maximum(values, 0.0) + 1.0 / self.ridge)) @ vectors.T
        across = np.eye(clusters) - 1.0 / clusters  # coefficients of a covariate sum to 0
        blocks = covariance.reshape(clusters, size, clusters, size)
        return np.sqrt(np.einsum("gh,hfkf,gk->gf", across, blocks, across))
