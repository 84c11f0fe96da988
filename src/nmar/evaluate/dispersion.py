"""A double generalized linear model of residuals: their mean, and the logarithm of their variance, on one regressor.

Enters: residuals of cells, a regressor, rows and columns. Leaves: both slopes, with standard errors that allow for any
dependence within rows and within columns, and beside them those of independent normal cells, which the paper's test is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from nmar.arrays import Array
from nmar.evaluate.clustered import Regression, clustered_regression

__all__ = ["Dispersion", "Slope", "double_glm"]

MOST_STEPS, SETTLED = 100, 1e-10


@dataclass(frozen=True)
class Slope:
    """A coefficient."""

    value: float  # change from the least to the most likely observed cells
    se: float  # standard error and p-value, whatever cells of one row or column have in common
    p_value: float
    naive_se: float  # the same if cells were independent and normal: too small where rows or columns differ in noise
    naive_p: float
    df: int  # degrees of freedom of ``se``

    @classmethod
    def of(cls, value: float, naive_se: float, found: Regression) -> Slope:
        """From the estimate, its error for independent cells, and the clustered regression that gives it too."""
        naive_p = 2.0 * float(norm.sf(abs(value) / naive_se))
        return cls(value, float(found.error[0]), found.p_value, naive_se, naive_p, found.df_error)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of this level."""
        reach = float(student.isf(0.5 * (1.0 - level), self.df)) * self.se
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class Dispersion:
    """Slopes of the mean and of the logarithm of the variance."""

    mean: Slope
    log_variance: Slope

    @property
    def ratio(self) -> float:
        """Variance of the most likely observed cells over that of the least likely ones."""
        return float(np.exp(self.log_variance.value))

    def ratio_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of the ratio."""
        low, high = self.log_variance.interval(level)
        return float(np.exp(low)), float(np.exp(high))

    def text(self) -> str:
        """The ratio in words."""
        low, high = self.ratio_interval()
        return f"{self.ratio:.2f} of itself (95 % interval {low:.2f} to {high:.2f})"


def double_glm(residual: Array, place: Array, rows: Array, cols: Array) -> Dispersion:
    """Fit the model by maximum likelihood.

    Parameters
    ----------
    residual : ndarray of shape (n,)
        Residuals.
    place : ndarray of shape (n,)
        Regressor; its unit is what a slope is about.
    rows, cols : ndarray of shape (n,)
        Row and column of each cell.

    Notes
    -----
    r ~ N(b₀ + b₁ x, exp(g₀ + g₁ x)). Given the variances the mean is a weighted regression; given the mean the squares
    d are a gamma regression with logarithmic link, whose scoring step is least squares of d / σ² − 1 on (1, x). At the
    maximum that step is 0, so least squares of d / σ² − 1 + g₁ x gives g₁ back, and its clustered variance is the
    sandwich variance of g₁.
    """
    design = np.column_stack([np.ones(len(residual)), place])
    gram = design.T @ design
    log_variance = np.array([np.log(np.mean(residual**2)), 0.0])
    for _ in range(MOST_STEPS):
        weight = np.exp(-(design @ log_variance))
        mean = np.linalg.solve((design * weight[:, None]).T @ design, design.T @ (weight * residual))
        squares = (residual - design @ mean) ** 2
        step = np.linalg.solve(gram, design.T @ (squares * weight - 1.0))
        log_variance = log_variance + _short(step, log_variance, design, squares)
        if np.abs(step).max() < SETTLED:
            break
    weight = np.exp(-(design @ log_variance))
    working = squares * weight - 1.0 + log_variance[1] * place
    spread = clustered_regression(working, place[:, None], rows, cols)
    level = clustered_regression(residual, place[:, None], rows, cols, weight)
    errors = (np.linalg.inv((design * weight[:, None]).T @ design), 2.0 * np.linalg.inv(gram))
    naive = [float(np.sqrt(covariance[1, 1])) for covariance in errors]
    return Dispersion(Slope.of(float(mean[1]), naive[0], level), Slope.of(float(log_variance[1]), naive[1], spread))


def _short(step: Array, at: Array, design: Array, squares: Array) -> Array:
    """The step, halved until the likelihood does not fall: heavy tails make the full one too long at first."""

    def loss(value: Array) -> float:
        log_variance = design @ value
        return float(np.sum(log_variance + squares * np.exp(-log_variance)))

    before = loss(at)
    for _ in range(30):
        if loss(at + step) <= before:
            break
        step = 0.5 * step
    return step
