"""One natural parameter for the whole matrix, all six families (theory.md, Families).

Scalar families have the conjugate prior ∝ exp(aθ − bΨ(θ)); a' = a + Σy, b' = b + κΣE[φ], with E[θ], E[Ψ] and log C
in closed form. The Gaussian, y ~ N(φ1 μ + δ, φ2/ρ), has the paper's Normal-Gamma prior, or a normal prior on μ with
a point estimate of σ². With the compound linkage this is hierarchical compound Poisson factorization.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.conjugate import ConjugatePredictive, conjugate
from nmar.models.predictive import BinTable, NormalPredictive
from nmar.models.protocol import DataModel, Features, KnownLines, Precision, Start
from nmar.prob.factor import SURE, GammaFactor
from nmar.prob.families import family
from nmar.prob.learn_dispersion import first_dispersion
from nmar.prob.statistics import Statistics

SOME = 1 << 20  # values of cells on disk from which κ starts


class Everywhere(DataModel):
    """A data model whose lines are all alike; θ lives in the globals."""

    def _ones(self, shape: tuple[int, int], shared: Any) -> Start:
        return Start(KnownLines(np.ones((shape[0], 1))), KnownLines(np.ones((shape[1], 1))), shared)

    @abstractmethod
    def _moments(self, shared: Any) -> tuple[float, float]:
        """The two moments of θ that the count posterior reads."""

    def features(self, side: KnownLines, axis: int, shared: Any) -> Features:
        """The two moments of θ on the rows' side, 1 on the columns'."""
        if axis == 1:
            return Features(side.shown, side.shown)
        first, second = self._moments(shared)
        return Features(first * side.shown, second * side.shown)

    def update(self, side: KnownLines, axis: int, shared: Any, found: Expectation, kernels: Kernels) -> KnownLines:
        """Lines have nothing to learn."""
        return side

    def prior_line(self, axis: int, side: KnownLines, shared: Any) -> KnownLines:
        """A line like any other."""
        return KnownLines(np.ones((1, 1)))


@dataclass(frozen=True)
class ConjugateShared:
    """Prior and posterior exp(aθ − bΨ(θ)), and the fixed sum of the values."""

    prior: tuple[float, float]
    posterior: tuple[float, float]
    total: float  # Σ y over the training cells


@dataclass(frozen=True)
class Element(Everywhere):
    """A scalar family with one conjugate θ."""

    likelihood: str  # name of the family
    trials: int | None = None  # κ of the binomial
    strength: float = 1.0  # prior weight of θ in observations (binomial: in trials)

    @property
    def family(self) -> str:  # type: ignore[override]
        """Family of the values."""
        return self.likelihood

    @property
    def dispersion(self) -> float | None:
        """κ where it is given."""
        return None if self.trials is None else float(self.trials)

    def first_dispersion(self, values: Array) -> float:
        """Where κ starts: the trials, or the best κ of values that share one θ."""
        return float(self.trials or first_dispersion(family(self.likelihood), values))

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """A prior with the mean of the data and the weight of ``strength`` observations."""
        prior, total = self._from_cells(cells, lead)
        kappa = self.first_dispersion(cells.by(lead).some_values(SOME))
        weight = cells.mean_weight()
        counted = cells.n_observed * (1.0 if weight is None else weight)
        posterior = (prior[0] + total, prior[1] + kappa * counted)
        if self.trials is not None:  # success probability below 1 also where counts multiply the trials
            posterior = (posterior[0], max(posterior[1], 2.0 * posterior[0]))
        return self._ones(cells.shape, ConjugateShared(prior, posterior, total))

    def _from_cells(self, cells: Cells, lead: int = 0) -> tuple[tuple[float, float], float]:
        """The prior, and the sum of the values, each as often as it counts."""
        lines, weights = cells.by(lead), cells.weights_by(lead)
        total, kappa = lines.total(), self.first_dispersion(lines.some_values(SOME))
        level, weight = max(total / lines.n_cells, 1e-6) / kappa, self.strength * kappa
        if self.trials is not None:
            level, weight = min(max(level, 1e-6), 1.0 - 1e-6), self.strength
        return (weight * level, weight), total if weights is None else lines.total(weights)

    def reread(self, shared: ConjugateShared, cells: Cells, rows: KnownLines, cols: KnownLines) -> ConjugateShared:
        """Prior and sum of all cells; the posterior follows with the next sweep."""
        prior, total = self._from_cells(cells)
        return replace(shared, prior=prior, total=total)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """θ known: a posterior as sure as a billion observations of a typical value."""
        sure = (family(self.likelihood).typical * SURE, SURE)
        return self._ones(shape, ConjugateShared(sure, sure, 0.0))

    def _moments(self, shared: ConjugateShared) -> tuple[float, float]:
        law = conjugate(self.likelihood)
        return law.theta(*shared.posterior), law.psi(*shared.posterior)

    def absorb(self, shared: ConjugateShared, stats: Statistics, table: BinTable) -> ConjugateShared:
        """a' = a + Σy, b' = b + κ Σ_n Q_n φ(n)."""
        exposure = table.dispersion * float(stats.vector("cells") @ table.phi2)
        a, b = shared.prior
        return replace(shared, posterior=(a + shared.total, b + exposure))

    def drawn_shared(self, shared: ConjugateShared, rng: np.random.Generator) -> ConjugateShared:
        """θ drawn once: a posterior as sure as a billion observations."""
        theta = conjugate(self.likelihood).draw(*shared.posterior, (), rng)
        slope = float(family(self.likelihood).mean(theta, 1.0))
        return replace(shared, posterior=(slope * SURE, SURE))

    def divergence(self, side: KnownLines, axis: int, shared: ConjugateShared) -> float:
        """KL of θ, counted with the rows."""
        if axis == 1:
            return 0.0
        law, (a, b), (a1, b1) = conjugate(self.likelihood), shared.prior, shared.posterior
        theta, psi_mean = self._moments(shared)
        value = (a1 - a) * theta - (b1 - b) * psi_mean
        return float(value - law.log_normaliser(a1, b1) + law.log_normaliser(a, b))

    def predictive(self, rows: KnownLines, cols: KnownLines, shared: ConjugateShared) -> ConjugatePredictive:
        """The conjugate predictive."""
        return ConjugatePredictive(self.likelihood, len(rows.shown), *shared.posterior)


@dataclass(frozen=True, eq=False)
class NormalShared:
    """q(μ) = N(mean, variance); q(1/σ²) = Ga(shape, rate) with the Normal-Gamma prior, else None."""

    mean: float
    variance: float
    precision: GammaFactor | None


@dataclass(frozen=True)
class NormalElement(Everywhere):
    """One Gaussian mean for the matrix."""

    # Whether to take the paper's prior μ ~ N(η, 1/(λρ)), ρ = 1/σ² ~ Ga(ζ, ω). Otherwise μ ~ N(η, 1/λ), and σ² is its
    # mode.
    normal_gamma: bool = True
    prior_mean: float = 0.0  # prior mean η, in the model's units (0 is the mean of the values)
    strength: float = 1e-3  # prior strength λ
    shape: float = 1.01  # prior shape ζ and rate ω
    rate: float = 1.0
    keeps_moments: ClassVar[bool] = True

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """The sample mean and variance."""
        lines = cells.by(0)
        spread, count = lines.variance() or 1.0, float(lines.n_cells)
        factor = None
        if self.normal_gamma:
            shape = self.shape + 0.5 * (1.0 + count)
            factor = GammaFactor(np.array([shape]), np.array([shape * spread]))
        return self._ones(cells.shape, NormalShared(lines.mean(), spread / count, factor))

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """μ = 1, known."""
        return self._ones(shape, NormalShared(1.0, 0.0, None))

    def _moments(self, shared: NormalShared) -> tuple[float, float]:
        return shared.mean, shared.mean**2 + shared.variance

    def precision(self, shared: NormalShared) -> Precision | None:
        """E[ρ] and E[log ρ]."""
        factor = shared.precision
        return None if factor is None else Precision(float(factor.mean[0]), float(factor.log_mean[0]))

    def absorb(self, shared: NormalShared, stats: Statistics, table: BinTable) -> NormalShared:
        """q(μ), then q(ρ), from the six n-vectors (paper, element distributions)."""
        cells, y, y2 = (stats.vector(name) / table.phi2 for name in ("cells", "y", "y2"))
        weight = float(cells @ table.phi1**2)  # Σ E[φ1²/φ2]
        target = float(y @ table.phi1 - cells @ (table.phi1 * table.delta))
        precision = self.precision(shared)
        rho = 1.0 / table.dispersion if precision is None else precision.mean
        prior = self.strength * (rho if self.normal_gamma else 1.0)
        total = prior + rho * weight
        mean = (prior * self.prior_mean + rho * target) / total
        moved = replace(shared, mean=mean, variance=1.0 / total)
        if shared.precision is None:
            return moved
        count = float(stats.vector("cells").sum())
        second = mean**2 + moved.variance
        delta = table.delta
        square = float(np.sum(y2 - 2.0 * delta * y + delta**2 * cells))
        pull = (mean - self.prior_mean) ** 2 + moved.variance
        rate = self.rate + 0.5 * (square - 2.0 * mean * target + second * weight + self.strength * pull)
        shape = self.shape + 0.5 * (1.0 + count)
        return replace(moved, precision=GammaFactor(np.array([shape]), np.array([rate])))

    def drawn_shared(self, shared: NormalShared, rng: np.random.Generator) -> NormalShared:
        """μ and, where it has a posterior, ρ."""
        precision = None if shared.precision is None else shared.precision.drawn(rng)
        return NormalShared(float(rng.normal(shared.mean, np.sqrt(shared.variance))), 0.0, precision)

    def divergence(self, side: KnownLines, axis: int, shared: NormalShared) -> float:
        """KL of μ and ρ, counted with the rows."""
        if axis == 1:
            return 0.0
        precision = self.precision(shared)
        rho, log_rho = (1.0, 0.0) if precision is None else precision
        pull = (shared.mean - self.prior_mean) ** 2 + shared.variance
        value = 0.5 * (self.strength * rho * pull - 1.0 - np.log(shared.variance) - np.log(self.strength) - log_rho)
        if shared.precision is None:
            return float(value)
        return float(value) + shared.precision.divergence(self.shape, self.rate, float(np.log(self.rate)))

    def predictive(self, rows: KnownLines, cols: KnownLines, shared: NormalShared) -> NormalPredictive:
        """The same mean everywhere."""
        n = len(rows.shown)
        return NormalPredictive(np.full((n, 1), shared.mean), np.full((n, 1), shared.variance))
