"""P(observed) that depends on the value: one cell, observed or missing (theory.md, Values that decide).

A cell with value y is seen with probability 1 − exp(−L), L = exp(η + Γ y), the chance that a Poisson count of rate L is
not 0. Enters: η with Γ E[y] in it and Γ τ, where y ~ N(m, τ²). Leaves: log P(missing) and moments of x = (y − m)/τ and
of L under the law of y given that it is missing, from which all derivatives follow:

    ℓ = log E exp(−L);   ∂ℓ/∂η = −E[L],  −∂²ℓ/∂η² = E[L] − Var[L];   ∂ℓ/∂s = −E[Lx],  −∂²ℓ/∂s² = E[Lx²] − Var[Lx]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from nmar.arrays import Array

NODES = 12  # of the quadrature over the value: ℓ is right to 1e-5 for |Γ τ| ≤ 1, to 1e-3 for |Γ τ| ≤ 3
STEPS = 3  # of Newton's method for the mode, which need not be exact
MOST = 30.0  # log rate beyond which it is cut
FEWEST = 0.02  # of E[L], the least information that a missing cell has


class Missing(NamedTuple):
    """Cells whose value was not seen."""

    log_probability: Array  # log P(missing)
    x: Array  # E[x] and E[x²] of x = (y − m)/τ, given that it is missing
    square: Array
    rate: Array  # E[L], and E[L] − Var[L]
    information: Array
    rate_x: Array  # E[Lx], E[Lx] − Cov(L, Lx), and E[Lx²] − Var[Lx]
    information_x: Array
    information_xx: Array


def missing(log_rate: Array, slope: Array, nodes: int = NODES) -> Missing:
    """Moments of missing cells, by Gauss–Hermite quadrature around the mode of their law.

    Parameters
    ----------
    log_rate : ndarray of shape (m,)
        η + Γ E[y].
    slope : ndarray of shape (m,)
        Γ τ.
    """
    z, weight = hermegauss(nodes)
    log_rate, slope = np.minimum(log_rate, MOST)[:, None], np.asarray(slope, np.float64)[:, None]
    bend = _product_log(log_rate + 2.0 * np.log(np.maximum(np.abs(slope), 1e-100)))
    scale = 1.0 / np.sqrt(1.0 + bend)
    x = -slope * np.exp(log_rate - bend) + scale * z
    rate = np.exp(np.minimum(log_rate + slope * x, 700.0))
    log = -0.5 * x**2 - rate + 0.5 * z**2 + np.log(weight / weight.sum())
    top = log.max(axis=1, keepdims=True)
    p = np.exp(log - top)
    total = p.sum(axis=1)
    p /= total[:, None]

    def mean(of: Array) -> Array:
        return np.asarray(np.sum(p * of, axis=1))

    first, first_x = mean(rate), mean(rate * x)
    return Missing(
        np.log(total) + top[:, 0] + np.log(scale[:, 0]),
        mean(x),
        mean(x**2),
        first,
        first - mean((rate - first[:, None]) ** 2),
        first_x,
        first_x - mean((rate - first[:, None]) * (rate * x - first_x[:, None])),
        mean(rate * x**2) - mean((rate * x - first_x[:, None]) ** 2),
    )


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


def seen(log_rate: Array) -> Seen:
    """log (1 − exp(−L)) and its derivatives: r = L/(e^L − 1) and h = r (r − 1 + L), at log L = η + Γ y."""
    rate = np.exp(np.minimum(log_rate, MOST))
    small = rate < 1e-5
    safe = np.where(small, 1.0, rate)
    with np.errstate(over="ignore"):
        score = np.where(small, 1.0 - 0.5 * rate, safe / np.expm1(safe))
    information = np.where(small, 0.5 * rate, score * (score - 1.0 + rate))
    log = np.where(small, log_rate - 0.5 * rate, np.log(-np.expm1(-safe)))
    return Seen(np.asarray(log), np.asarray(score), np.maximum(information, 1e-12))
