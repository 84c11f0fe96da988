"""What predictions ask of single cells, in NumPy: the definition for compiled loops (theory.md, Prediction).

Enters: lines and positions of pairs of them, or what is known of each cell's value. Leaves: moments of the pairs, and
log densities of mixtures of normal or Student laws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from nmar.kernels.spec import Mixture, NormalPairs, RatePairs
from nmar.prob.factor import NormalFactor

Array = NDArray[Any]


def log_student(square: Array, variance: Array, freedom: Array | None) -> Array:
    """Log density of a Student law at a squared distance from its centre; normal where ``freedom`` is None."""
    if freedom is None:
        return -0.5 * (np.log(2.0 * np.pi * variance) + square / variance)
    half = 0.5 * (freedom + 1.0)
    constant = gammaln(half) - gammaln(0.5 * freedom) - 0.5 * np.log(np.pi * freedom)
    return np.asarray(constant - 0.5 * np.log(variance) - half * np.log1p(square / (freedom * variance)))


def pair_moments(pairs: NormalPairs) -> Array:
    """Sums of terms that are not negative: Cov a on E[bb'] and Cov b on E[a]E[a]'."""
    (a, va), (b, vb) = (
        (mean.astype(np.float64)[lines], spread.astype(np.float64)[lines])
        for mean, spread, lines in (
            (pairs.mean, pairs.spread, pairs.rows),
            (pairs.other_mean, pairs.other_spread, pairs.cols),
        )
    )
    if va.shape[1] in (0, a.shape[1]):
        return _independent(a, va, b, vb)
    second = NormalFactor(b, vb, np.zeros(len(b))).second_moment()
    square = NormalFactor(a, np.zeros_like(va), np.zeros(len(a))).second_moment()
    variance = np.sum(va * second, axis=1) + np.sum(square * vb, axis=1)
    return np.stack([np.sum(a * b, axis=1), variance])


def pair_rates(pairs: RatePairs) -> Array:
    """E Λ = Σ_k E u E v and Var Λ = Σ_k (E u² E v² − (E u E v)²)."""
    u, du = pairs.mean[pairs.rows], pairs.variance[pairs.rows]
    return _independent(u, du, pairs.other_mean[pairs.cols], pairs.other_variance[pairs.cols])


def _independent(a: Array, va: Array, b: Array, vb: Array) -> Array:
    variance = np.sum(a**2 * vb + va * (b**2 + vb), axis=1) if va.shape[1] else np.zeros(len(a))
    return np.stack([np.sum(a * b, axis=1), variance])


def log_mixture(y: Array, mixture: Mixture) -> Array:
    """log Σ_c Σ_b of weighted densities."""
    mean = mixture.mean[:, :, None] * mixture.phi1 + mixture.delta
    noise = mixture.noise if not mixture.precision.size else mixture.noise / mixture.precision[:, None, None]
    variance = mixture.variance[:, :, None] * mixture.phi1**2 + noise
    freedom = mixture.freedom[:, None, None] if mixture.freedom.size else None
    log = log_student((y[:, None, None] - mean) ** 2, variance, freedom)
    if mixture.of_component.size:
        log = log + mixture.of_component[:, :, None]
    if mixture.of_bin.size:
        log = log + mixture.of_bin[:, None, :]
    return np.asarray(logsumexp(log, axis=(1, 2)))
