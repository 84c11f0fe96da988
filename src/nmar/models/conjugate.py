"""Conjugate priors ∝ exp(aθ − bΨ(θ)) of the scalar families: expectations, normalisers, predictives.

Each row of the table of theory.md, Families, is one small class; nothing needs quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, log_ndtr, psi

from nmar.models.predictive import BinTable
from nmar.prob.family import NegativeBinomial, family
from nmar.prob.family_base import is_count, log_root

Array = NDArray[Any]


class Conjugate(Protocol):
    """A family's conjugate law."""

    def theta(self, a: float, b: float) -> float:
        """E[θ]."""
        ...

    def psi(self, a: float, b: float) -> float:
        """E[Ψ(θ)]."""
        ...

    def slope(self, a: float, b: float) -> float:
        """E[Ψ'(θ)]."""
        ...

    def spread(self, a: float, b: float) -> tuple[float, float]:
        """E[Ψ''(θ)] and Var[Ψ'(θ)]: noise of a value at κφ = 1 and uncertainty of its mean; infinite where b ≤ 1."""
        ...

    def log_normaliser(self, a: Any, b: Any) -> Any:
        """log C(a, b) = log ∫ exp(aθ − bΨ(θ)) dθ."""
        ...

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        """Draws of θ."""
        ...


def _above_one(b: float, numerator: float) -> float:
    """numerator / (b − 1), or infinity: a moment that exists only where b > 1."""
    return numerator / (b - 1.0) if b > 1.0 else np.inf


class _Poisson:
    """e^θ ~ Ga(a, b)."""

    def theta(self, a: float, b: float) -> float:
        return float(psi(a) - np.log(b))

    def psi(self, a: float, b: float) -> float:
        return a / b

    def slope(self, a: float, b: float) -> float:
        return a / b

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return a / b, a / b**2

    def log_normaliser(self, a: Any, b: Any) -> Any:
        return gammaln(a) - a * np.log(b)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return np.log(rng.gamma(a, 1.0 / b, size))


class _Gamma:
    """−θ ~ Ga(b + 1, a)."""

    def theta(self, a: float, b: float) -> float:
        return -(b + 1.0) / a

    def psi(self, a: float, b: float) -> float:
        return float(np.log(a) - psi(b + 1.0))

    def slope(self, a: float, b: float) -> float:
        return a / b

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return _above_one(b, a**2 / b), _above_one(b, a**2 / b**2)

    def log_normaliser(self, a: Any, b: Any) -> Any:
        return gammaln(b + 1.0) - (b + 1.0) * np.log(a)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return -rng.gamma(b + 1.0, 1.0 / a, size)


class _Binomial:
    """p = logistic(θ) ~ Beta(a, b − a), b > a."""

    def theta(self, a: float, b: float) -> float:
        return float(psi(a) - psi(b - a))

    def psi(self, a: float, b: float) -> float:
        return float(psi(b) - psi(b - a))

    def slope(self, a: float, b: float) -> float:
        return a / b

    def spread(self, a: float, b: float) -> tuple[float, float]:
        failed = a * (b - a) / (b + 1.0)
        return failed / b, failed / b**2

    def log_normaliser(self, a: Any, b: Any) -> Any:
        return betaln(a, b - a)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        p = np.clip(rng.beta(a, b - a, size), 1e-300, 1.0 - 1e-16)
        return np.log(p) - np.log1p(-p)


class _NegativeBinomial:
    """p = e^θ ~ Beta(a, b + 1)."""

    def theta(self, a: float, b: float) -> float:
        return float(psi(a) - psi(a + b + 1.0))

    def psi(self, a: float, b: float) -> float:
        return float(psi(a + b + 1.0) - psi(b + 1.0))

    def slope(self, a: float, b: float) -> float:
        return a / b

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return _above_one(b, a * (a + b) / b), _above_one(b, a * (a + b) / b**2)

    def log_normaliser(self, a: Any, b: Any) -> Any:
        return betaln(a, b + 1.0)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return np.log(np.clip(rng.beta(a, b + 1.0, size), 1e-300, 1.0 - 1e-16))


class _InverseGaussian:
    """x = √(−2θ) has density ∝ x exp(bx − ax²/2); z = b/√a, D = z + N(z)/Φ(z)."""

    @staticmethod
    def _parts(a: Any, b: Any) -> tuple[Any, Any, Any]:
        z = b / np.sqrt(a)
        log_cumulative = log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_cumulative)
        return z, z + ratio, log_cumulative

    def theta(self, a: float, b: float) -> float:
        z, d, _ = self._parts(a, b)
        return float(-(z**2 + 2.0 + z / d) / (2.0 * a))

    def psi(self, a: float, b: float) -> float:
        z, d, _ = self._parts(a, b)
        return float(-(z + 1.0 / d) / np.sqrt(a))

    def slope(self, a: float, b: float) -> float:
        _, d, _ = self._parts(a, b)
        return float(np.sqrt(a) / d)

    def spread(self, a: float, b: float) -> tuple[float, float]:
        # E[1/x³] and Var[1/x] diverge at x = 0 however improbable it is: x below a hundredth of the mode is left out
        x, mass = self._grid(a, b)
        mean = float(mass @ (1.0 / x))
        return float(mass @ x**-3.0), float(mass @ (1.0 / x - mean) ** 2)

    @staticmethod
    def _grid(a: float, b: float) -> tuple[Array, Array]:
        """Places x and their probabilities."""
        top, reach = (b + np.sqrt(b * b + 4.0 * a)) / (2.0 * a), 12.0 / np.sqrt(a)
        grid = np.linspace(max(top - reach, 0.01 * top), top + reach, 20_001)
        logs = np.log(grid) + b * grid - 0.5 * a * grid**2
        mass = np.exp(logs - logs.max())
        return grid, mass / mass.sum()

    def log_normaliser(self, a: Any, b: Any) -> Any:
        z, d, log_cumulative = self._parts(a, b)
        return 0.5 * np.log(2.0 * np.pi) - np.log(a) + 0.5 * z**2 + log_cumulative + np.log(d)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        x, mass = self._grid(a, b)  # by inversion on a fine grid
        return -0.5 * np.interp(rng.random(size), np.cumsum(mass), x) ** 2


LAWS: dict[str, Conjugate] = {
    "poisson": _Poisson(),
    "gamma": _Gamma(),
    "binomial": _Binomial(),
    "negative_binomial": _NegativeBinomial(),
    "inverse_gaussian": _InverseGaussian(),
}


def conjugate(name: str) -> Conjugate:
    """The conjugate law of a family."""
    return LAWS[name]


def _gamma_peak(a: float, b: float, y: Array, start: Array) -> Array:
    """ψ(x + b + 1) − ψ(x) = log(1 + a/y), the equation of a negative binomial."""
    return NegativeBinomial().peak(b + 1.0, np.log1p(a / y))


def _inverse_gaussian_peak(a: float, b: float, y: Array, start: Array) -> Array:
    """1/x − x/y + E[√(−2θ) | y, x] = 0; the slope falls, since that mean rises by at most 1/(a + y) < 1/y."""

    def slope(x: Array) -> tuple[Array, Array]:
        z, d, _ = _InverseGaussian._parts(a + y, b + x)
        return 1.0 / x - x / y + (z + 1.0 / d) / np.sqrt(a + y), -1.0 / x**2 - 1.0 / y + 1.0 / (a + y)

    return log_root(slope, start)


# dispersion x at which log p(y | x) is largest with θ integrated out, given a, b, y and a place to start from
PEAKS = {"gamma": _gamma_peak, "inverse_gaussian": _inverse_gaussian_peak}


@dataclass(frozen=True, eq=False)
class ConjugatePredictive:
    """Cells of one shared θ: p(y | bin) = e^{h(y, κφ)} C(a + y, b + κφ) / C(a, b)."""

    name: str
    cells: int
    a: float
    b: float

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """θ integrated out, or at its mean."""
        return self._log_at(y[:, None], table.dispersion * table.phi2, plugin)

    def _log_at(self, y: Array, x: Array, plugin: bool) -> Array:
        """log p(y) at dispersions x = κφ."""
        law, own = family(self.name), conjugate(self.name)
        if plugin:
            return law.log_density(y, own.theta(self.a, self.b), x)
        base = law.log_base(y, x)
        inside = np.isfinite(base)  # elsewhere the normaliser may not exist
        y, x = np.broadcast_arrays(y, x)
        rise = own.log_normaliser(self.a + np.where(inside, y, 0.0), self.b + x)
        return np.where(inside, base + rise - own.log_normaliser(self.a, self.b), -np.inf)

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """A probability is at most 1; a density has one peak in the dispersion, clipped to the table's range."""
        law = family(self.name)
        if law.discrete:
            return np.where(is_count(y), 0.0, -np.inf)
        safe = np.where(y > 0.0, y, 1.0)
        at_mean = law.peak(safe, law.log_partition(conjugate(self.name).theta(self.a, self.b)))
        best = at_mean if plugin else PEAKS[self.name](self.a, self.b, safe, at_mean)
        x = np.clip(best, table.dispersion * limits[0], table.dispersion * limits[1])
        return np.where(y > 0.0, self._log_at(safe, x, plugin), -np.inf)

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Mean κφ E[Ψ'] and variance κφ E[Ψ''] + (κφ)² Var[Ψ'], θ's own uncertainty included."""
        x = table.dispersion * table.phi2
        own = conjugate(self.name)
        noise, unsure = own.spread(self.a, self.b)
        mean, variance = x * own.slope(self.a, self.b), x * noise + x**2 * unsure
        shape = (self.cells, len(x))
        return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)

    def cumulative(self, y: Array, table: BinTable) -> None:
        """No closed form for all families: intervals come from draws."""

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """Draw θ, then y."""
        theta = conjugate(self.name).draw(self.a, self.b, bins.shape, rng)
        return family(self.name).sample(theta, table.dispersion * table.phi2[bins], rng)
