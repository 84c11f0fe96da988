"""Compiled: q(n) of one cell whose bins are open, by streaming n = 1, 2, … (theory.md, Count posterior)."""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.cpu_base import compiled
from nmar.kernels.spec import BINOMIAL, GAMMA, GAUSSIAN, INVERSE_GAUSSIAN, POISSON

FAMILY, KIND, SEPARATE, ALLOCATE, DIAGONAL, MEAN_LINKAGE, CONCAVE = range(7)
LOG_RATE, LOG_NORM, DISPERSION, CEILING, LOW, HIGH, THINNING, BEYOND = range(8)

LOG_2PI = math.log(2.0 * math.pi)
LOG_EPSILON = math.log(1e-12)


@compiled
def digamma(x):
    """ψ(x) for x > 0: recurrence up to 6, then the asymptotic series."""
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    series = r * (1 / 12.0 - r * (1 / 120.0 - r * (1 / 252.0 - r * (1 / 240.0 - r * (1 / 132.0)))))
    return shift + math.log(x) - 0.5 / x - series


@compiled
def _log_base(family, y, k):
    """h(y, κφ) of the scalar families but the binomial."""
    if family == POISSON:
        return y * math.log(k) - math.lgamma(y + 1.0)
    if family == GAMMA:
        return (k - 1.0) * math.log(y) - math.lgamma(k)
    if family == INVERSE_GAUSSIAN:
        return -0.5 * k * k / y + math.log(k) - 0.5 * (LOG_2PI + 3.0 * math.log(y))
    return math.lgamma(y + k) - math.lgamma(k) - math.lgamma(y + 1.0)


@compiled
def _peak(family, numbers, y, psi_mean):
    """Dispersion at which f is largest."""
    if family == POISSON:
        return y / psi_mean
    if family == INVERSE_GAUSSIAN:
        g = -psi_mean
        return 0.5 * y * (g + math.sqrt(g * g + 4.0 / y))
    low = math.log(numbers[DISPERSION] * numbers[LOW])
    high = math.log(min(numbers[DISPERSION] * numbers[HIGH], 1e12))
    for _ in range(60):  # f' falls in the dispersion: bisection on its logarithm
        middle = 0.5 * (low + high)
        k = math.exp(middle)
        if family == GAMMA:
            slope = math.log(y) - psi_mean - digamma(k)
        else:
            slope = digamma(k + y) - digamma(k) - psi_mean
        if slope > 0.0:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))


@compiled
def _ceiling(flags, numbers, y, first, second):
    """F ≥ sup_n f(n) over the whole open table: f is unimodal in the dispersion."""
    family = flags[FAMILY]
    if family == GAUSSIAN:
        if flags[MEAN_LINKAGE]:
            return numbers[CEILING]
        residual = y * y - 2.0 * y * first + second
        phi = min(max(residual / numbers[DISPERSION], numbers[LOW]), numbers[HIGH])
        variance = numbers[DISPERSION] * phi
        return -0.5 * (LOG_2PI + math.log(variance)) - 0.5 * residual / variance
    if family == BINOMIAL:
        return 0.0
    least, most = numbers[DISPERSION] * numbers[LOW], numbers[DISPERSION] * numbers[HIGH]
    k = min(max(_peak(family, numbers, y, second), least), most)
    return y * first - k * second + _log_base(family, y, k)


@compiled
def stream(flags, numbers, log_factorial, slopes, by_value, log_s, y, first, second, own, group, basis, lane, q, t):
    """Sum n = 1, 2, … until the tail is bounded by ε; returns log Z, E[n], bins used (−1: table too short).

    The cell's q goes to ``q[t, :, lane]``; ``basis[:, lane]`` are its statistics.
    """
    concave = flags[CONCAVE] != 0
    ceiling = 0.0 if concave else _ceiling(flags, numbers, y, first, second)
    s = numbers[THINNING] * math.exp(log_s)
    top, total, before = -np.inf, 0.0, -np.inf
    for b in range(slopes.shape[1]):
        n = b + 1
        term = own + n * log_s - log_factorial[n]
        for v in range(slopes.shape[0]):
            term += slopes[v, b] * basis[v, lane]
        if by_value.shape[0] > 0:
            term += by_value[group, b]
        q[t, b, lane] = term
        if term > top:
            total = (total * math.exp(top - term) if total > 0.0 else 0.0) + 1.0
            top = term
        elif term > -np.inf:
            total += math.exp(term - top)
        if total > 0.0:
            rest = np.inf
            if concave:  # ratios fall, so the rest is below a geometric series
                if term < before:
                    rest = 2.0 * term - before - math.log(-math.expm1(term - before))
            elif n + numbers[BEYOND] > s:  # ratios of weights from n + 1 on are below s over this
                rest = ceiling + (n + 1) * log_s - log_factorial[n + 1] - math.log(1.0 - s / (n + numbers[BEYOND]))
            if rest <= LOG_EPSILON + top + math.log(total):
                mean = 0.0
                for a in range(n):
                    q[t, a, lane] = math.exp(q[t, a, lane] - top) / total
                    mean += q[t, a, lane] * (a + 1)
                return top + math.log(total), mean, n
        before = term
    return 0.0, 0.0, -1
