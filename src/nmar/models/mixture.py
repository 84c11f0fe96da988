"""A true mixture over rows or over columns: z_i ~ Cat(π), π ~ Dir(γ₀); y_ij ~ p(m_{z_i, j}).

The assigned axis keeps responsibilities, the other axis one profile value per cluster. A one-hot vector z has
E[z_g²] = E[z_g], so with features r on one side and moments of the profiles on the other, E[μ] and E[μ²] (which holds
the spread between clusters) are again plain inner products (theory.md, Data models).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import gammaln, psi

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.covariates import Design
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.cluster_prior import Assignment, ClusterCoefficients, DesignedAssignment, softmax
from nmar.models.covariates import FLOOR, LineCoefficients
from nmar.models.first_clusters import as_matrix, first_labels, ones_at
from nmar.models.predictive import GammaPoissonPredictive, NormalPredictive, Predictive, pick
from nmar.models.product import shape_by_moments
from nmar.models.profiles import DesignedProfile, NormalProfile
from nmar.models.protocol import CovariateEffects, DataModel, Features, Start
from nmar.prob.arrays import on_host
from nmar.prob.factor import GammaFactor


@dataclass(frozen=True, eq=False)
class MixtureShared:
    """Shared parameters of a mixture."""

    concentration: Array  # (G,) q(π) = Dir; paper γ
    prior: tuple[float, float]  # prior of the profiles: (mean, variance) of the normal, or (shape, rate) of the gamma
    # how prior probabilities of clusters depend on covariates of the clustered lines, in place of q(π); or None
    odds: ClusterCoefficients | None = None
    # how prior means of profiles depend on covariates of the other lines, or None
    profile: LineCoefficients | None = None

    @property
    def log_weights(self) -> Array:
        """E[log π]."""
        return psi(self.concentration) - psi(self.concentration.sum())


@dataclass(frozen=True)
class ClusterModel(DataModel):
    """A mixture over the lines of one axis."""

    clusters: int  # number of clusters G
    axis: int  # axis whose lines are clustered
    likelihood: str = "gaussian"  # family of the values
    concentration: float = 1.0  # prior γ₀ of each cluster weight
    tries: int = 4  # number of random starts
    # covariates of rows and of columns, or None
    designs: tuple[Design | None, Design | None] = field(default=(None, None), compare=False)

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
        """Responsibilities from k-means on the observed cells, profiles from them.

        Of cells on disk, k-means sees some lines; all others go to the nearest centre.
        """
        lines = cells.by(self.axis)
        chance = first_labels(lines, self.clusters, rng) if self.clusters > 1 else np.ones((lines.n, 1))
        soft = 0.9 * chance + 0.1 / self.clusters
        shared = self._first_shared(cells, soft)
        noise = max(lines.variance(), 1e-6)
        linear = quadratic = np.zeros((lines.n_other, self.clusters))
        for start, part in lines.blocks():
            values = as_matrix(part)
            here = soft[start : start + part.n]
            linear, quadratic = linear + values.T @ here, quadratic + ones_at(values).T @ here
        if self.likelihood == "gaussian":
            linear, quadratic = linear / noise, quadratic / noise
        profile = self._profile(linear, quadratic, shared)
        return self._designed(Assignment(soft), profile, shared, cells)

    def _designed(self, assigned: Assignment, profile: Any, shared: MixtureShared, cells: Cells) -> Start:
        """The start with covariates, where an axis has them."""
        mine, theirs = (
            None if known is None else known.lines((cells.rows, cells.cols)[axis], ("rows", "cols")[axis])
            for axis, known in ((axis, self.designs[axis]) for axis in (self.axis, 1 - self.axis))
        )
        if mine is not None:
            assigned = DesignedAssignment(assigned.probability, mine)
            shared = replace(shared, odds=ClusterCoefficients.start(assigned, self.concentration))
        if theirs is not None:
            profile = DesignedProfile(profile.mean, profile.variance, theirs)
            first = LineCoefficients.start(theirs, self._free, self._widths(shared))
            shared = replace(shared, profile=first)
        return self._sides(assigned, profile, shared)

    @property
    def _free(self) -> Array:
        return np.ones(self.clusters, np.bool_)

    def _widths(self, shared: MixtureShared) -> Array:
        """Prior variance of each cluster's profile: all have one."""
        return np.full(self.clusters, shared.prior[1])

    def _first_shared(self, cells: Cells, soft: Array) -> MixtureShared:
        concentration = self.concentration + soft.sum(axis=0)
        if self.likelihood == "gaussian":
            return MixtureShared(concentration, (0.0, max(0.1 * cells.by(self.axis).variance(), FLOOR)))
        return MixtureShared(concentration, self._gamma_prior(cells))

    def _gamma_prior(self, cells: Cells) -> tuple[float, float]:
        """Shape and rate of the profiles, as wide as the other axis's means differ."""
        mean, other = max(cells.by(self.axis).mean(), 1e-3), cells.by(1 - self.axis)
        shape = shape_by_moments(other.line_sums(), np.diff(other.indptr), mean)
        return shape, shape / mean

    def grown(self, fresh: DataModel) -> ClusterModel:
        """The same clusters, with the covariates of more lines."""
        super().grown(fresh)
        assert isinstance(fresh, ClusterModel)
        rows, cols = (old if new is None else new for old, new in zip(self.designs, fresh.designs, strict=True))
        return replace(self, designs=(rows, cols))

    def reread(self, shared: MixtureShared, cells: Cells, rows: Any, cols: Any) -> MixtureShared:
        """The gamma prior of the profiles is that of all cells, coefficients are on the covariates of all lines."""
        assigned, profile = (rows, cols) if self.axis == 0 else (cols, rows)
        if shared.odds is not None:
            shared = replace(shared, odds=shared.odds.over(assigned.x))
        if shared.profile is not None:
            shared = replace(shared, profile=shared.profile.over(profile.x, self._widths(shared)))
        return shared if self.likelihood == "gaussian" else replace(shared, prior=self._gamma_prior(cells))

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
            prior = shared.log_weights if shared.odds is None else shared.odds.logits(side.x)
            probability = softmax(prior + found.linear - half * found.quadratic)
            return replace(side, probability=probability.astype(side.probability.dtype))
        dtype = (side.mean if self.likelihood == "gaussian" else side.alpha).dtype
        more = 0.0 if shared.profile is None else shared.profile.prior_mean(side.x.astype(np.float64))
        new = self._profile(found.linear, found.quadratic, shared, more)
        if self.likelihood == "gaussian":
            return replace(side, mean=new.mean.astype(dtype), variance=new.variance.astype(dtype))
        return GammaFactor(new.alpha.astype(dtype), new.beta.astype(dtype))

    def _profile(self, linear: Array, quadratic: Array, shared: MixtureShared, more: Array | float = 0.0) -> Any:
        """1/s = 1/ρ + Σ r ω, m̂ = s(η/ρ + Σ r ωt); Poisson: shape a₀ + Σ r y, rate b₀ + Σ r ε.

        ``more`` is what covariates add to η.
        """
        a, b = shared.prior
        if self.likelihood == "gaussian":
            variance = 1.0 / (1.0 / b + quadratic)
            return NormalProfile(variance * ((a + more) / b + linear), variance)
        return GammaFactor(a + linear, b + quadratic)

    def learn(self, side: Any, axis: int, shared: MixtureShared) -> MixtureShared:
        """q(π) or the odds after the assignments; the normal profiles' coefficients and prior variance."""
        if axis == self.axis:
            if shared.odds is not None:
                return replace(shared, odds=shared.odds.learned(side))
            total = on_host(np.sum(side.probability, axis=0, dtype=np.float64))
            return replace(shared, concentration=self.concentration + total)
        if self.likelihood != "gaussian":
            return shared
        center, coefficients = shared.prior[0], shared.profile
        if coefficients is not None:
            coefficients = coefficients.learned(side, self._widths(shared), self._free)
            away = coefficients.distances(side) / len(side.mean)
        else:
            away = (side.mean.astype(np.float64) - center) ** 2 + side.variance
        return replace(shared, prior=(center, max(float(away.mean()), FLOOR)), profile=coefficients)

    def drawn_lines(self, axis: int, side: Any, shared: MixtureShared, rng: np.random.Generator) -> Any:
        """One cluster for each assigned line; one value for each number of a profile."""
        if axis == self.axis:
            which = pick(side.probability.astype(np.float64), 1, rng)[:, 0]
            return replace(side, probability=np.eye(self.clusters)[which])
        if isinstance(side, NormalProfile):
            numbers = rng.normal(side.mean, np.sqrt(side.variance))
            return replace(side, mean=numbers, variance=np.zeros(side.variance.shape))
        return side.drawn(rng)

    def divergence(self, side: Any, axis: int, shared: MixtureShared) -> float:
        """KL of assignments and π, or of the profiles."""
        if axis == self.axis:
            r = side.probability.astype(np.float64)
            entropy = np.sum(np.where(r > 0.0, r * np.log(np.maximum(r, 1e-300)), 0.0))
            if shared.odds is not None:
                return float(entropy) + shared.odds.divergence(side)
            return float(entropy - np.sum(r * shared.log_weights)) + self._dirichlet(shared)
        a, b = shared.prior
        if self.likelihood != "gaussian":
            return side.divergence(a, b, float(np.log(b)))
        v, coefficients = side.variance.astype(np.float64), shared.profile
        away = (side.mean.astype(np.float64) - a) ** 2 + v if coefficients is None else coefficients.distances(side)
        lines = float(0.5 * (np.sum(away) / b - np.sum(1.0 + np.log(v / b))))
        return lines if coefficients is None else lines + coefficients.divergence(self._free)

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
        if self._has_covariates(axis, shared):
            return self.lines_at(axis, np.zeros((1, side.x.shape[1])), side, shared)
        if axis == self.axis:
            return Assignment((shared.concentration / shared.concentration.sum())[None, :])
        a, b = (np.full((1, self.clusters), value) for value in shared.prior)
        return NormalProfile(a, b) if self.likelihood == "gaussian" else GammaFactor(a, b)

    def _has_covariates(self, axis: int, shared: MixtureShared) -> bool:
        return (shared.odds if axis == self.axis else shared.profile) is not None

    def lines_at(self, axis: int, x: Array, side: Any, shared: MixtureShared) -> Any:
        """Lines that are known by their covariates alone."""
        if axis == self.axis:
            assert shared.odds is not None
            return DesignedAssignment(softmax(shared.odds.logits(x)), x)
        assert shared.profile is not None
        coefficients = shared.profile.marginal(side, self._widths(shared))
        variance = shared.prior[1] + coefficients.variance_at(x)
        return DesignedProfile(shared.prior[0] + coefficients.prior_mean(x), variance, x)

    def design(self, axis: int) -> Design | None:
        """Covariates of the lines, where the axis has them."""
        return self.designs[axis]

    def covariate_effects(self, axis: int, side: Any, shared: MixtureShared) -> CovariateEffects | None:
        """Log odds of the clusters, or the values of their profiles."""
        design, labels = self.designs[axis], tuple(f"cluster {g + 1}" for g in range(self.clusters))
        if design is None or not self._has_covariates(axis, shared):
            return None
        if axis == self.axis:
            assert shared.odds is not None
            return CovariateEffects(labels, design.names, shared.odds.mean, shared.odds.sd(side), False)
        assert shared.profile is not None
        sd = shared.profile.marginal(side, self._widths(shared)).sd
        return CovariateEffects(labels, design.names, shared.profile.mean, sd, True)
