"""A true mixture over rows or over columns: z_i ~ Cat(π), π ~ Dir(γ₀); y_ij ~ p(m_{z_i, j}).

The assigned axis keeps responsibilities, the other axis one profile value per cluster. A one-hot vector z has
E[z_g²] = E[z_g], so with features r on one side and moments of the profiles on the other, E[μ] and E[μ²] (which holds
the spread between clusters) are again plain inner products (theory.md, Data models).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import gammaln, logsumexp, psi

from nmar.data.cells import Cells
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.predictive import GammaPoissonPredictive, NormalPredictive, Predictive
from nmar.models.product import shape_by_moments
from nmar.models.protocol import DataModel, Features, Start
from nmar.prob.factor import GammaFactor, Lines

Array = NDArray[Any]

FLOOR = 1e-8  # smallest prior variance of the profiles
LLOYD = 10  # rounds of k-means after the seeds are chosen


@dataclass(frozen=True, eq=False)
class Assignment:
    """Responsibilities of the clusters for each line."""

    probability: Array  # (n, G) q(z_i = g)

    def take(self, lines: Lines) -> Assignment:
        """The chosen lines."""
        return Assignment(self.probability[lines])

    def blend(self, target: Assignment, step: float) -> Assignment:
        """Geometric mean: natural parameters are log probabilities."""
        logs = (1.0 - step) * np.log(self.probability + 1e-300) + step * np.log(target.probability + 1e-300)
        return Assignment(softmax(logs).astype(self.probability.dtype))


@dataclass(frozen=True, eq=False)
class NormalProfile:
    """Profile values of the clusters for each line: q(m_gj) = N(mean, variance)."""

    mean: Array  # (n, G)
    variance: Array

    def take(self, lines: Lines) -> NormalProfile:
        """The chosen lines."""
        return NormalProfile(self.mean[lines], self.variance[lines])

    def blend(self, target: NormalProfile, step: float) -> NormalProfile:
        """Blend precision and precision × mean."""
        precision = (1.0 - step) / self.variance + step / target.variance
        right = (1.0 - step) * self.mean / self.variance + step * target.mean / target.variance
        return NormalProfile(right / precision, 1.0 / precision)


@dataclass(frozen=True, eq=False)
class MixtureShared:
    """Shared parameters of a mixture.

    Attributes
    ----------
    concentration : (G,) q(π) = Dir; paper γ
    prior : prior of the profiles: (mean, variance) of the normal, or (shape, rate) of the gamma
    """

    concentration: Array
    prior: tuple[float, float]

    @property
    def log_weights(self) -> Array:
        """E[log π]."""
        return psi(self.concentration) - psi(self.concentration.sum())


def softmax(logits: Array) -> Array:
    """Rows of probabilities; never exactly 0, so that a cluster can come back."""
    return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


@dataclass(frozen=True)
class ClusterModel(DataModel):
    """A mixture over the lines of one axis.

    Parameters
    ----------
    clusters : number of clusters G
    axis : axis whose lines are clustered
    likelihood : "gaussian" or "poisson"
    concentration : prior γ₀ of each cluster weight
    tries : random starts
    """

    clusters: int
    axis: int
    likelihood: str = "gaussian"
    concentration: float = 1.0
    tries: int = 4

    @property
    def family(self) -> str:  # type: ignore[override]
        """Family of the values."""
        return self.likelihood

    @property
    def restarts(self) -> int:
        """Mixtures have many modes."""
        return 1 if self.clusters == 1 else self.tries

    # --- start --------------------------------------------------------------------------------------------------

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Responsibilities from k-means on the observed cells, profiles from them."""
        values = self._values(cells)
        chance = _seed(values, self.clusters, rng) if self.clusters > 1 else np.ones((values.shape[0], 1))
        soft = 0.9 * chance + 0.1 / self.clusters
        shared = self._first_shared(values, soft)
        pattern = values.copy()
        pattern.data = np.ones_like(pattern.data)
        noise = max(float(np.var(values.data)), 1e-6)
        linear, quadratic = values.T @ soft, pattern.T @ soft
        if self.likelihood == "gaussian":
            linear, quadratic = linear / noise, quadratic / noise
        profile = self._profile(linear, quadratic, shared)
        return self._sides(Assignment(soft), profile, shared)

    def _values(self, cells: Cells) -> Any:
        """The cells as a sparse matrix whose rows are the assigned lines."""
        lines = cells.by(self.axis)
        shape = (lines.n, lines.n_other)
        return csr_matrix((lines.values.astype(np.float64), lines.indices, lines.indptr), shape=shape)

    def _first_shared(self, values: Any, soft: Array) -> MixtureShared:
        concentration = self.concentration + soft.sum(axis=0)
        if self.likelihood == "gaussian":
            return MixtureShared(concentration, (0.0, max(0.1 * float(np.var(values.data)), FLOOR)))
        return MixtureShared(concentration, _gamma_prior(values))

    def reread(self, shared: MixtureShared, cells: Cells, rows: Any, cols: Any) -> MixtureShared:
        """The gamma prior of the profiles is that of all cells; that of normal ones is learned."""
        return shared if self.likelihood == "gaussian" else replace(shared, prior=_gamma_prior(self._values(cells)))

    def _sides(self, assigned: Any, profile: Any, shared: Any) -> Start:
        return Start(assigned, profile, shared) if self.axis == 0 else Start(profile, assigned, shared)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Labels from equal weights, profiles from N(0, 4) or Ga(2, 1/2), all known."""
        n, m = shape[self.axis], shape[1 - self.axis]
        labels = rng.integers(self.clusters, size=n)
        assigned = Assignment(np.eye(self.clusters)[labels])
        shared = MixtureShared(np.ones(self.clusters), (0.0, 4.0))
        if self.likelihood == "gaussian":
            drawn = 2.0 * rng.normal(size=(m, self.clusters))
            return self._sides(assigned, NormalProfile(drawn, np.zeros_like(drawn)), shared)
        rate = rng.gamma(2.0, 2.0, (m, self.clusters))
        known = GammaFactor(np.full(rate.shape, 1e9), 1e9 / rate)
        return self._sides(assigned, known, replace(shared, prior=(2.0, 0.5)))

    # --- fit ----------------------------------------------------------------------------------------------------

    def features(self, side: Any, axis: int, shared: MixtureShared) -> Features:
        """Responsibilities twice, or the first two moments of the profiles (Poisson: E log m and E m)."""
        if axis == self.axis:
            return Features(side.probability, side.probability)
        if self.likelihood == "gaussian":
            return Features(side.mean, side.mean**2 + side.variance)
        return Features(side.log_mean, side.mean)

    def update(self, side: Any, axis: int, shared: MixtureShared, found: Expectation, kernels: Kernels) -> Any:
        """log r = E log π + Σ_j [ωt m̂ − ½ω(m̂² + s)] for assigned lines; conjugate profiles for the others."""
        if axis == self.axis:
            half = 0.5 if self.likelihood == "gaussian" else 1.0
            logits = shared.log_weights + found.linear - half * found.quadratic
            return Assignment(softmax(logits).astype(side.probability.dtype))
        dtype = (side.mean if self.likelihood == "gaussian" else side.alpha).dtype
        new = self._profile(found.linear, found.quadratic, shared)
        if self.likelihood == "gaussian":
            return NormalProfile(new.mean.astype(dtype), new.variance.astype(dtype))
        return GammaFactor(new.alpha.astype(dtype), new.beta.astype(dtype))

    def _profile(self, linear: Array, quadratic: Array, shared: MixtureShared) -> Any:
        """1/s = 1/ρ + Σ r ω, m̂ = s(η/ρ + Σ r ωt); Poisson: shape a₀ + Σ r y, rate b₀ + Σ r ε."""
        a, b = shared.prior
        if self.likelihood == "gaussian":
            variance = 1.0 / (1.0 / b + quadratic)
            return NormalProfile(variance * (a / b + linear), variance)
        return GammaFactor(a + linear, b + quadratic)

    def learn(self, side: Any, axis: int, shared: MixtureShared) -> MixtureShared:
        """q(π) after the assignments; the normal profiles' prior variance by empirical Bayes."""
        if axis == self.axis:
            total = side.probability.sum(axis=0, dtype=np.float64)
            return replace(shared, concentration=self.concentration + total)
        if self.likelihood != "gaussian":
            return shared
        center = shared.prior[0]
        away = (side.mean.astype(np.float64) - center) ** 2 + side.variance
        return replace(shared, prior=(center, max(float(away.mean()), FLOOR)))

    def divergence(self, side: Any, axis: int, shared: MixtureShared) -> float:
        """KL of assignments and π, or of the profiles."""
        if axis == self.axis:
            r = side.probability.astype(np.float64)
            entropy = np.sum(np.where(r > 0.0, r * np.log(np.maximum(r, 1e-300)), 0.0))
            return float(entropy - np.sum(r * shared.log_weights)) + self._dirichlet(shared)
        a, b = shared.prior
        if self.likelihood == "gaussian":
            v = side.variance.astype(np.float64)
            away = (side.mean.astype(np.float64) - a) ** 2 + v
            return float(0.5 * np.sum(away / b - 1.0 - np.log(v) + np.log(b)))
        return side.divergence(a, b, float(np.log(b)))

    def _dirichlet(self, shared: MixtureShared) -> float:
        """KL(Dir(γ) ‖ Dir(γ₀))."""
        g, g0 = shared.concentration, self.concentration
        value = gammaln(g.sum()) - gammaln(g).sum()
        value -= gammaln(g0 * self.clusters) - self.clusters * gammaln(g0)
        return float(value + np.sum((g - g0) * shared.log_weights))

    # --- ask ----------------------------------------------------------------------------------------------------

    def predictive(self, rows: Any, cols: Any, shared: MixtureShared) -> Predictive:
        """The mixture itself: a weight, a mean and a variance per cluster."""
        assigned, profile = (rows, cols) if self.axis == 0 else (cols, rows)
        with np.errstate(divide="ignore"):
            log_weight = np.log(assigned.probability.astype(np.float64))
        mean, variance = profile.mean.astype(np.float64), profile.variance.astype(np.float64)
        if self.likelihood == "gaussian":
            return NormalPredictive(mean, variance, log_weight)
        return GammaPoissonPredictive(mean, variance, log_weight)

    def prior_line(self, axis: int, side: Any, shared: MixtureShared) -> Any:
        """Cluster weights for an unseen assigned line, the profiles' prior for an unseen other line."""
        if axis == self.axis:
            return Assignment((shared.concentration / shared.concentration.sum())[None, :])
        a, b = (np.full((1, self.clusters), value) for value in shared.prior)
        return NormalProfile(a, b) if self.likelihood == "gaussian" else GammaFactor(a, b)


def _gamma_prior(values: Any) -> tuple[float, float]:
    """Shape and rate of the profiles, as wide as the other axis's means differ."""
    mean = max(float(np.mean(values.data)), 1e-3)
    degree = np.bincount(values.indices, minlength=values.shape[1])
    sums = np.bincount(values.indices, weights=values.data, minlength=values.shape[1])
    shape = shape_by_moments(sums, degree, mean)
    return shape, shape / mean


def _seed(values: Any, clusters: int, rng: np.random.Generator) -> Array:
    """k-means++ and a few rounds of Lloyd's algorithm on the observed cells only: one-hot labels (n, G).

    Distances are means over a line's own observed cells; centres are shrunken towards the column means, because a
    single line says nothing about the columns it lacks.
    """
    pattern = values.copy()
    pattern.data = np.ones_like(pattern.data)
    degree = np.maximum(np.asarray(pattern.sum(axis=1)).ravel(), 1.0)
    column = np.asarray(values.sum(axis=0)).ravel() / (np.asarray(pattern.sum(axis=0)).ravel() + 1.0)
    centered = values.copy()
    centered.data = values.data - column[values.indices]
    square = np.asarray(centered.multiply(centered).sum(axis=1)).ravel()
    centers = np.zeros((values.shape[1], 0))
    nearest = square / degree
    for _ in range(clusters):
        chance = np.maximum(nearest, 0.0) * degree
        pick = rng.choice(len(degree), p=chance / chance.sum() if chance.sum() > 0 else None)
        like = _like(centered, pick)  # lines that agree with the pick fill in the columns it lacks
        centers = np.column_stack([centers, _centers(centered, pattern, like[:, None])])
        nearest = _distances(centered, pattern, square, centers, degree).min(axis=1)
    for _ in range(LLOYD):
        label = _distances(centered, pattern, square, centers, degree).argmin(axis=1)
        centers = _centers(centered, pattern, np.eye(clusters)[label])
    return np.eye(clusters)[label]


def _like(centered: Any, pick: int) -> Array:
    """Weight of each line in the neighbourhood of one: its share of agreement, 1 for the line itself."""
    agree = np.asarray((centered @ centered[pick].T).todense()).ravel()
    own = max(float(agree[pick]), 1e-12)
    weight = np.clip(agree / own, 0.0, 1.0)
    weight[weight < 0.1] = 0.0
    weight[pick] = 1.0
    return weight


def _centers(centered: Any, pattern: Any, weight: Array) -> Array:
    return (centered.T @ weight) / (pattern.T @ weight + 1.0)


def _distances(centered: Any, pattern: Any, square: Array, centers: Array, degree: Array) -> Array:
    return (square[:, None] - 2.0 * (centered @ centers) + pattern @ centers**2) / degree[:, None]
