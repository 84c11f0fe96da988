"""The count posterior q(n) of observed cells (theory.md, Count posterior).

Counts n ≥ 1 are summed in *bins* whose members share one dispersion:

- ``tail``: n = 1 … M−1 one by one and all n ≥ M together (tables constant from M on): exact, no truncation;
- ``parity``: odd and even n (the linear linkage): exact, no truncation;
- ``open``: n = 1 … N one by one, N large enough that what is left out is below ``EPSILON`` of the sum.

Enters: log rates and the expected log density of every bin. Leaves: log normaliser, bin probabilities, E[n].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, logsumexp

Array = NDArray[Any]

EPSILON = 1e-12  # relative mass that an open sum may leave out (float64)
SMALL = 1e-8  # below this rate the first term of each series is exact to double precision


@dataclass(frozen=True)
class CountPosterior:
    """q(n) of a block of cells.

    Attributes
    ----------
    log_z : (cells,)
        log Σ_n s^n/n! exp f(n).
    probability : (cells, bins)
        q of each bin.
    mean : (cells,)
        E[n].
    """

    log_z: Array
    probability: Array
    mean: Array


def log_truncation(rate: Array) -> Array:
    """log(e^s − 1), the normaliser of the zero-truncated Poisson without its e^s, for any s > 0."""
    s = np.asarray(rate, np.float64)
    tiny = s < SMALL
    safe = np.where(tiny, 1.0, s)
    with np.errstate(divide="ignore"):
        return np.where(tiny, np.log(s) + 0.5 * s, safe + np.log(-np.expm1(-safe)))


def truncated_mean(rate: Array) -> Array:
    """E[n] of a zero-truncated Poisson: s / (1 − e^{−s})."""
    s = np.asarray(rate, np.float64)
    tiny = s < SMALL
    safe = np.where(tiny, 1.0, s)
    return np.where(tiny, 1.0 + 0.5 * s, -safe / np.expm1(-safe))


def _tail_sum(log_rate: Array, start: int) -> tuple[Array, Array]:
    """log Σ_{n≥M} s^n/n! and E[n | n ≥ M] for M = ``start`` ≥ 1."""
    s = np.exp(log_rate)
    if start == 1:
        tiny = s < SMALL
        return np.where(tiny, log_rate + 0.5 * s, log_truncation(np.where(tiny, 1.0, s))), truncated_mean(s)
    far = s >= start + 1
    big = np.where(far, s, start + 1.0)
    above = gammainc(start, big)
    log_far = big + np.log(above)
    mean_far = big * gammainc(start - 1, big) / above
    small = np.where(far, 0.0, s)
    term, total, weighted = np.ones_like(s), np.ones_like(s), np.full_like(s, float(start))
    m = 0
    while np.any(term > 1e-17 * total) and m < 400:
        m += 1
        term = term * small / (start + m)
        total = total + term
        weighted = weighted + (start + m) * term
    log_near = start * log_rate - gammaln(start + 1) + np.log(total)
    return np.where(far, log_far, log_near), np.where(far, mean_far, weighted / total)


def _log_sinh(log_rate: Array) -> Array:
    s = np.exp(log_rate)
    tiny = s < SMALL
    safe = np.where(tiny, 1.0, s)
    return np.where(tiny, log_rate, safe - np.log(2.0) + np.log(-np.expm1(-2.0 * safe)))


def _parity_bins(log_rate: Array) -> tuple[Array, Array]:
    """log sinh s, log(cosh s − 1); s coth s, s coth(s/2)."""
    s = np.exp(log_rate)
    tiny = s < SMALL
    safe = np.where(tiny, 1.0, s)
    log_w = np.stack([_log_sinh(log_rate), np.log(2.0) + 2.0 * _log_sinh(log_rate - np.log(2.0))], axis=1)
    odd = np.where(tiny, 1.0, safe / np.tanh(safe))
    even = np.where(tiny, 2.0, safe / np.tanh(0.5 * safe))
    return log_w, np.stack([odd, even], axis=1)


def log_weights(log_rate: Array, kind: str, size: int) -> tuple[Array, Array]:
    """Log prior weight Σ_{n in bin} s^n/n! and mean count of every bin.

    Parameters
    ----------
    log_rate : (cells,)
        log s.
    kind : {"tail", "parity", "open"}
    size : number of bins

    Returns
    -------
    log_w, mean : (cells, size)
    """
    log_rate = np.asarray(log_rate, np.float64)
    if kind == "parity":
        return _parity_bins(log_rate)
    n = np.arange(1, size + 1)
    log_w = n * log_rate[:, None] - gammaln(n + 1)
    mean = np.broadcast_to(n.astype(float), log_w.shape).copy()
    if kind == "tail":
        log_w[:, -1], mean[:, -1] = _tail_sum(log_rate, size)
    return log_w, mean


def posterior(log_rate: Array, kind: str, log_density: Array) -> CountPosterior:
    """q(n) given the expected log density f of every bin (cells, bins); see the module's docstring."""
    log_w, mean = log_weights(log_rate, kind, log_density.shape[1])
    terms = log_w + log_density
    log_z = logsumexp(terms, axis=1)
    probability = np.exp(terms - log_z[:, None])
    probability /= probability.sum(axis=1, keepdims=True)
    return CountPosterior(log_z, probability, np.sum(probability * mean, axis=1))


def complete(log_rate: Array, log_z: Array, ceiling: Array, size: int) -> Array:
    """Whether an open sum of ``size`` terms has left out less than ``EPSILON``, cell by cell.

    Parameters
    ----------
    log_rate, log_z : (cells,)
        log s, and the log of the sum so far.
    ceiling : (cells,)
        F ≥ sup_n f(n). With it the bound on the tail holds whatever the table:
        F + w_n + log s − log(n+1) − log(1 − s/(n+2)) ≤ log ε + log Z_n.
    """
    s = np.exp(log_rate)
    inside = size + 2 > s
    gap = np.where(inside, 1.0 - s / (size + 2), 1.0)
    left = ceiling + (size + 1) * log_rate - gammaln(size + 2) - np.log(gap)
    return inside & (left <= np.log(EPSILON) + log_z)
