"""The count posterior of observed cells (theory.md, Count posterior; Thinned counts).

With thinning s a cell has e ~ Po(sg) events, each recorded with probability 1/s; it is observed if one was. An observed
cell has e events with weight g^e (s^e − (s−1)^e)/e!, e ≥ 1; s = 1 is the paper's zero-truncated Poisson. Counts are
summed in *bins* whose members share one dispersion:

- ``tail``: bins that begin at given counts, the last one without an end (tables constant from there on): exact;
- ``parity``: odd and even counts (the linear linkage): exact, no truncation;
- ``open``: 1 … N one by one, N large enough that what is left out is below ``EPSILON`` of the sum.

Enters: log rates and the expected log density of every bin. Leaves: log normaliser, bin probabilities, mean counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp

from nmar.arrays import Array

EPSILON = 1e-12  # relative mass that an open sum may leave out (float64)
MOST = 1 << 20  # counts that an open sum may have
SMALL = 1e-8  # below this rate the first term of each series is exact to double precision


@dataclass(frozen=True)
class CountPosterior:
    """q(n) of a block of cells."""

    log_z: Array  # (cells,) log Σ_n s^n/n! exp f(n)
    probability: Array  # (cells, bins) probability q of each bin
    mean: Array  # (cells,) E[n]


def chance(rate: Any) -> Any:
    """P(observed) at a rate, 1 − exp(−Λ)."""
    return -np.expm1(-rate)


def log_choices(count: Array, thinning: float) -> Array:
    """log(s^e − (s−1)^e) of counts e ≥ 1; 0 without thinning."""
    e = np.asarray(count, np.float64)
    if thinning == 1.0:
        return np.zeros_like(e)
    return e * np.log(thinning) + np.log(-np.expm1(e * np.log1p(-1.0 / thinning)))


def log_factorials(size: int, thinning: float = 1.0) -> Array:
    """log e! − log(s^e − (s−1)^e) for e = 0 … size − 1: what a count's weight g^e is divided by (0 at e = 0)."""
    counts = np.arange(size)
    found = gammaln(counts + 1.0)
    found[1:] -= log_choices(counts[1:], thinning)
    return found


def log_truncation(rate: Array, thinning: float = 1.0) -> Array:
    """log(e^{sg} − e^{(s−1)g}), the normaliser of an observed cell's counts, for any g > 0; log(e^g − 1) at s = 1."""
    g = np.asarray(rate, np.float64)
    tiny = g < SMALL
    safe = np.where(tiny, 1.0, g)
    with np.errstate(divide="ignore"):
        recorded = np.where(tiny, np.log(g) + 0.5 * g, safe + np.log(-np.expm1(-safe)))
    return recorded if thinning == 1.0 else recorded + (thinning - 1.0) * g


def truncated_mean(rate: Array, thinning: float = 1.0) -> Array:
    """Mean count of an observed cell: g/(1 − e^{−g}) recorded events and (s−1)g others."""
    g = np.asarray(rate, np.float64)
    tiny = g < SMALL
    safe = np.where(tiny, 1.0, g)
    recorded = np.where(tiny, 1.0 + 0.5 * g, -safe / np.expm1(-safe))
    return recorded if thinning == 1.0 else recorded + (thinning - 1.0) * g


def observed_rate(mean: Array, variance: Array) -> Array:
    """E[Λ | observed] of rates Λ that are gamma with these moments; ``mean`` where the rate is known (theory.md).

    An observed cell had an event, and among the rates that it may have larger ones have events more often. With
    t = Var Λ/E Λ, E e^{−Λ} = (1 + t)^{−E Λ/t} and E Λe^{−Λ} = E Λ (1 + t)^{−E Λ/t − 1}.
    """
    mean = np.asarray(mean, np.float64)
    t = np.maximum(variance / mean, 1e-300)  # 0 where the rate is known: log1p(t)/t is then 1
    log = np.log1p(t)
    none = mean * (log / t)  # −log P(no event)
    return np.asarray(mean * (np.expm1(-none - log) / np.expm1(-none)))


def _tail_sum(log_rate: Array, start: int, thinning: float) -> tuple[Array, Array]:
    """log of T_M(sg) − T_M((s−1)g) with T_M(x) = Σ_{e≥M} x^e/e!, M = ``start`` ≥ 1, and E[e | e ≥ M]."""
    g = np.exp(log_rate)
    if start == 1:
        with np.errstate(divide="ignore"):
            small = log_rate + (thinning - 0.5) * g
        return np.where(g < SMALL, small, log_truncation(g, thinning)), truncated_mean(g, thinning)
    far = thinning * g >= start + 1
    big = np.where(far, g, (start + 1.0) / thinning)
    every, unrecorded = thinning * big, (thinning - 1.0) * big
    above, without = gammainc(start, every), np.exp(-big) * gammainc(start, unrecorded)
    log_far = every + np.log(above - without)
    counted = every * gammainc(start - 1, every) - unrecorded * np.exp(-big) * gammainc(start - 1, unrecorded)
    small = np.where(far, 0.0, g)
    term, total, weighted = np.ones_like(g), np.ones_like(g), np.full_like(g, float(start))
    e = start
    while np.any(term > 1e-17 * total):  # ratios fall below sg/e, and sg < M + 1
        ratio = np.exp(log_choices(np.array(e + 1.0), thinning) - log_choices(np.array(e), thinning)) / (e + 1)
        term = term * small * ratio
        e += 1
        total = total + term
        weighted = weighted + e * term
    log_near = start * log_rate - log_factorials(start + 1, thinning)[start] + np.log(total)
    return np.where(far, log_far, log_near), np.where(far, counted / (above - without), weighted / total)


def _log_sinh(log_rate: Array) -> Array:
    s = np.exp(log_rate)
    tiny = s < SMALL
    safe = np.where(tiny, 1.0, s)
    return np.where(tiny, log_rate, safe - np.log(2.0) + np.log(-np.expm1(-2.0 * safe)))


def _parity_bins(log_rate: Array, thinning: float) -> tuple[Array, Array]:
    """Odd and even counts weigh 2 sinh(g/2) times cosh h and sinh h, h = (s − ½)g."""
    g, log_half = np.exp(log_rate), log_rate - np.log(2.0)
    h, log_h = (thinning - 0.5) * g, log_rate + np.log(thinning - 0.5)
    log_cosh = h + np.log1p(np.exp(-2.0 * h)) - np.log(2.0)
    common = np.log(2.0) + _log_sinh(log_half)
    log_w = np.stack([common + log_cosh, common + _log_sinh(log_h)], axis=1)
    half, safe = _x_coth(0.5 * g), h * np.tanh(h)
    return log_w, np.stack([safe + half, _x_coth(h) + half], axis=1)


def _x_coth(x: Array) -> Array:
    """x coth x, which is 1 at 0."""
    tiny = x < SMALL
    safe = np.where(tiny, 1.0, x)
    return np.where(tiny, 1.0, safe / np.tanh(safe))


def log_probabilities(
    rate: Array,
    kind: str,
    size: int,
    thinning: float = 1.0,
    starts: tuple[int, ...] | None = None,
    every: bool = False,
) -> Array:
    """log P(bin) of the events of cells at these rates Λ, (cells, size).

    Of observed cells, or (``every``) of all cells, observed or not: e ~ Po(sΛ), where no event at all counts as the
    first bin, whose dispersion is that of the data model itself.
    """
    if not every:
        log_w, _ = log_weights(np.log(rate), kind, size, thinning, starts)
        return log_w - log_truncation(rate, thinning)[:, None]
    events = thinning * np.asarray(rate, np.float64)
    log_w = log_weights(np.log(events), kind, size, 1.0, starts)[0] - events[:, None]
    log_w[:, 0] = np.logaddexp(log_w[:, 0], -events)
    return log_w


def log_weights(
    log_rate: Array,
    kind: str,
    size: int,
    thinning: float = 1.0,
    starts: tuple[int, ...] | None = None,
) -> tuple[Array, Array]:
    """Log prior weight Σ_{e in bin} g^e (s^e − (s−1)^e)/e! and mean count of every bin.

    Parameters
    ----------
    log_rate : ndarray of shape (cells,)
        log g.
    kind : {"tail", "parity", "open"}
        Kind of the bins.
    size : int
        Number of bins.
    thinning : float, default=1.0
        Events for each recorded one, s.
    starts : tuple of int or None, default=None
        First count of each bin of the kind "tail"; 1, 2, … unless given.

    Returns
    -------
    log_w, mean : (cells, size)
    """
    log_rate = np.asarray(log_rate, np.float64)
    if kind == "parity":
        return _parity_bins(log_rate, thinning)
    first = np.arange(1, size + 1) if starts is None else np.array(starts)
    n = np.arange(1, first[-1] + 1)
    log_w = n * log_rate[:, None] - log_factorials(first[-1] + 1, thinning)[1:]
    mean = np.broadcast_to(n.astype(float), log_w.shape).copy()
    if kind == "tail":
        log_w[:, -1], mean[:, -1] = _tail_sum(log_rate, int(first[-1]), thinning)
    return (log_w, mean) if first[-1] == size else _gathered(log_w, mean, first)


def _gathered(log_w: Array, mean: Array, first: Array) -> tuple[Array, Array]:
    """Weights and mean counts of wider bins, from those of single counts."""
    parts = [slice(start - 1, stop - 1) for start, stop in zip(first, [*first[1:], log_w.shape[1] + 1], strict=True)]
    total = np.stack([logsumexp(log_w[:, part], axis=1) for part in parts], axis=1)
    share = [np.exp(log_w[:, part] - total[:, b, None]) for b, part in enumerate(parts)]
    counted = [np.sum(share[b] * mean[:, part], axis=1) / share[b].sum(axis=1) for b, part in enumerate(parts)]
    return total, np.stack(counted, axis=1)


def posterior(
    log_rate: Array,
    kind: str,
    log_density: Array,
    thinning: float = 1.0,
    starts: tuple[int, ...] | None = None,
) -> CountPosterior:
    """q of every bin given its expected log density f (cells, bins); see the module's docstring."""
    log_w, mean = log_weights(log_rate, kind, log_density.shape[1], thinning, starts)
    terms = log_w + log_density
    log_z = logsumexp(terms, axis=1)
    probability = np.exp(terms - log_z[:, None])
    probability /= probability.sum(axis=1, keepdims=True)
    return CountPosterior(log_z, probability, np.sum(probability * mean, axis=1))


def complete(log_rate: Array, log_z: Array, ceiling: Array, size: int, thinning: float = 1.0) -> Array:
    """Whether an open sum of ``size`` terms has left out less than ``EPSILON``, cell by cell.

    Parameters
    ----------
    log_rate, log_z : ndarray of shape (cells,)
        log s, and the log of the sum so far.
    ceiling : (cells,)
        F ≥ sup_n f(n). With it the bound on the tail holds whatever the table:
        F + w_n + log s − log(n+1) − log(1 − s/(n+2)) ≤ log ε + log Z_n.
    thinning : float, default=1.0
        Events for each recorded one, s. Ratios of weights from e = n + 1 on are then below sg/(n+1), because
        (s^e − (s−1)^e)/(e s^e) falls.
    """
    s = thinning * np.exp(log_rate)
    over = size + (2 if thinning == 1.0 else 1)
    inside = over > s
    gap = np.where(inside, 1.0 - s / over, 1.0)
    left = ceiling + (size + 1) * log_rate - log_factorials(size + 2, thinning)[-1] - np.log(gap)
    return inside & (left <= np.log(EPSILON) + log_z)


def open_size(rate: float, thinning: float = 1.0, table: Callable[[int], Array] = np.ones, most: int = MOST) -> int:
    """Counts to sum so that less than ``EPSILON`` of Σ_n w_n φ(n)² is left out at this rate and at smaller ones.

    Parameters
    ----------
    rate : float
        Largest rate g of recorded events.
    thinning : float, default=1.0
        Events for each recorded one, s.
    table : callable, default=numpy.ones
        Table φ(1..n) of a given n: ones for the mass alone, the linkage's tables for second moments.
    most : int, default=MOST
        Largest answer.

    Notes
    -----
    The weights, and tables that rise, have falling ratios, so that what is left out is below a geometric series. A
    table that goes up and down is replaced by its running maximum.
    """
    size = min(64, most)
    while True:
        grown = np.maximum.accumulate(np.maximum(table(size), 1.0))
        terms = np.arange(1, size + 1) * np.log(rate) - log_factorials(size + 1, thinning)[1:] + 2.0 * np.log(grown)
        ratio = terms[-1] - terms[-2]
        if ratio < 0.0:
            left = terms[-1] + ratio - np.log(-np.expm1(ratio))
            if left <= np.log(EPSILON) + logsumexp(terms):
                return size
        if size >= most:
            return most
        size = min(2 * size, most)
