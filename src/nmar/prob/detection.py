"""P(observed) that depends on the value: one cell, observed or missing (theory.md, Values that decide).

A cell with value y has a count of mean L = exp(η + Γ y), and is seen if the count is not 0. The count is Poisson, or,
where its rate varies from cell to cell as a gamma variable of mean L and variance u L², negative binomial:

    P(missing | y) = exp f(L),   f(L) = −log(1 + u L)/u,   which is −L for u = 0; u = 1 is the logistic curve
    R = −∂f/∂η = L/(1 + u L),    H = −∂²f/∂η² = L/(1 + u L)²

Enters: η with Γ E[y] in it and Γ τ, where y ~ N(m, τ²), and u. Leaves: log P(missing) and moments of x = (y − m)/τ
under the law of y given that it is missing, from which all derivatives follow:

    ℓ = log E exp f;   ∂ℓ/∂η = −E[R],  −∂²ℓ/∂η² = E[H] − Var[R];   ∂ℓ/∂s = −E[Rx],  −∂²ℓ/∂s² = E[Hx²] − Var[Rx]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from nmar.arrays import Array

NODES = 12  # of the quadrature over the value: ℓ is right to 1e-5 for |Γ τ| ≤ 1, to 1e-3 for |Γ τ| ≤ 3
STEPS = 3  # of Newton's method for the mode, which need not be exact
MOST = 30.0  # log rate beyond which it is cut
SMALL = 1e-3  # u L below which functions of it are power series
FEWEST = 0.02  # of E[R], the least information that a missing cell has


class Missing(NamedTuple):
    """Cells whose value was not seen."""

    log_probability: Array  # log P(missing)
    x: Array  # E[x] and E[x²] of x = (y − m)/τ, given that it is missing
    square: Array
    rate: Array  # E[R], and E[H] − Var[R]
    information: Array
    rate_x: Array  # E[Rx], E[Hx] − Cov(R, Rx), and E[Hx²] − Var[Rx]
    information_x: Array
    information_xx: Array
    over: Array  # E[∂f/∂u], the derivative of log P(missing) in u


def missing(log_rate: Array, slope: Array, over: float = 0.0, nodes: int = NODES) -> Missing:
    """Moments of missing cells, by Gauss–Hermite quadrature around the mode of their law.

    Parameters
    ----------
    log_rate : ndarray of shape (m,)
        η + Γ E[y].
    slope : ndarray of shape (m,)
        Γ τ.
    over : float
        u.
    """
    z, weight = hermegauss(nodes)
    log_rate, slope = np.minimum(log_rate, MOST)[:, None], np.asarray(slope, np.float64)[:, None]
    middle, scale = _mode(log_rate, slope, over)
    x = middle + scale * z
    rate = np.exp(np.minimum(log_rate + slope * x, 300.0))
    log = -0.5 * x**2 + log_missing(rate, over) + 0.5 * z**2 + np.log(weight / weight.sum())
    top = log.max(axis=1, keepdims=True)
    p = np.exp(log - top)
    total = p.sum(axis=1)
    p /= total[:, None]

    def mean(of: Array) -> Array:
        return np.asarray(np.sum(p * of, axis=1))

    score, bend = _falls(rate, over)
    first, first_x = mean(score), mean(score * x)
    return Missing(
        np.log(total) + top[:, 0] + np.log(scale[:, 0]),
        mean(x),
        mean(x**2),
        first,
        mean(bend) - mean((score - first[:, None]) ** 2),
        first_x,
        mean(bend * x) - mean((score - first[:, None]) * (score * x - first_x[:, None])),
        mean(bend * x**2) - mean((score * x - first_x[:, None]) ** 2),
        mean(_by_over(rate, over)),
    )


def _mode(log_rate: Array, slope: Array, over: float) -> tuple[Array, Array]:
    """About where −x²/2 + f is largest, and its width there: from the mode for u = 0, by Newton's method."""
    x = -slope * np.exp(log_rate - _product_log(log_rate + 2.0 * np.log(np.maximum(np.abs(slope), 1e-100))))
    for _ in range(STEPS):
        score, bend = _falls(np.exp(log_rate + slope * x), over)
        x = x - (x + slope * score) / (1.0 + slope**2 * bend)
    return x, 1.0 / np.sqrt(1.0 + slope**2 * _falls(np.exp(log_rate + slope * x), over)[1])


def _falls(rate: Array, over: float) -> tuple[Array, Array]:
    """R and H."""
    one = 1.0 / (1.0 + over * rate)
    return rate * one, rate * one * one


def log_missing(rate: Array, over: float) -> Array:
    """f(L) = −log(1 + u L)/u."""
    z = over * rate
    return np.asarray(np.where(z < SMALL, -rate * (1.0 - z / 2.0 + z**2 / 3.0), -np.log1p(z) / max(over, 1e-100)))


def _by_over(rate: Array, over: float) -> Array:
    """∂f/∂u = log(1 + u L)/u² − L/(u (1 + u L))."""
    z, u = over * rate, max(over, 1e-100)
    series = rate**2 * (0.5 - 2.0 * z / 3.0 + 0.75 * z**2)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.where(z < SMALL, series, (np.log1p(z) / u - rate / (1.0 + z)) / u))


def _product_log(log_z: Array) -> Array:
    """w > 0 with w + log w = ``log_z``, by Newton's method: −w/s is the mode of exp(−x²/2 − exp(η + s x))."""
    z = np.exp(np.minimum(log_z, 1.0))
    w = np.where(log_z < 1.0, z / (1.0 + z), log_z - np.log(np.maximum(log_z, 1.0)))
    for _ in range(STEPS):
        w = w * (1.0 + log_z - np.log(w)) / (1.0 + w)
    return np.asarray(w)


class Seen(NamedTuple):
    """Cells whose value was seen."""

    log_probability: Array  # log P(observed | y)
    score: Array  # its derivative in η, and its second derivative with the sign changed
    information: Array
    over: Array  # its derivative in u


def seen(log_rate: Array, over: float = 0.0) -> Seen:
    """log P, P = 1 − exp f, and its derivatives: r = R (1 − P)/P and h = r (R/P − 1/(1 + u L)), at log L = η + Γ y."""
    rate = np.exp(np.minimum(log_rate, MOST))
    small = rate < 1e-5
    safe = np.where(small, 1.0, rate)
    log_away, (score, _) = log_missing(safe, over), _falls(safe, over)
    chance = -np.expm1(log_away)
    odds = np.exp(log_away) / chance
    first = np.where(small, 1.0 - 0.5 * (1.0 + over) * rate, score * odds)
    second = np.where(small, 0.5 * (1.0 + over) * rate, first * (score / chance - 1.0 / (1.0 + over * safe)))
    log = np.where(small, log_rate - 0.5 * (1.0 + over) * rate, np.log(chance))
    by_over = np.where(small, -0.5 * rate, -odds * _by_over(safe, over))
    return Seen(np.asarray(log), np.asarray(first), np.maximum(second, 1e-12), by_over)
