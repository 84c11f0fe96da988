"""Compiled: gamma factors of the pattern, renewed and tabulated: digamma and log-gamma as vector code.

Both functions are shifted up by eight, where their asymptotic series are exact to a few ulp. The eight factors
α(α + 1)…(α + 7) pair into four quadratics of q = α² + 7α, so that the shift costs one division and no loop.
"""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.cpu_base import exact, fast, vectorised
from nmar.kernels.cpu_math import bits_of, from_bits, log, storage_exp, storage_log

SHIFT = 8.0
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
LN2 = math.log(2.0)
MULTIPLIED = 512  # mantissas, each below 2: their product is far from overflow


@exact
def _shifted(a):
    """x = α + 8, Π (α + i) and its derivative by α, i = 0 … 7."""
    q = a * (a + 7.0)
    first, second = q * (q + 12.0), (q + 6.0) * (q + 10.0)
    slope = (2.0 * a + 7.0) * (second * (2.0 * q + 12.0) + first * (2.0 * q + 16.0))
    return a + SHIFT, first * second, slope


@exact
def _digamma_series(inverse):
    """ψ(x) − log x for x ≥ 8."""
    z = inverse * inverse
    s = 1.0 / 12.0
    s = s * -z + 691.0 / 32760.0
    s = s * -z + 1.0 / 132.0
    s = s * -z + 1.0 / 240.0
    s = s * -z + 1.0 / 252.0
    s = s * -z + 1.0 / 120.0
    s = s * -z + 1.0 / 12.0
    return -0.5 * inverse - z * s


@exact
def _stirling_series(inverse):
    """log Γ(x) − (x − ½) log x + x − ½ log 2π for x ≥ 8."""
    z = inverse * inverse
    s = 691.0 / 360360.0
    s = s * -z + 1.0 / 1188.0
    s = s * -z + 1.0 / 1680.0
    s = s * -z + 1.0 / 1260.0
    s = s * -z + 1.0 / 360.0
    s = s * -z + 1.0 / 12.0
    return inverse * s


@exact
def gamma_moments(a, b):
    """Of u ~ Ga(a, b), with one division: E[u]; E[log u] as log p + q; E[log q(u)] as ½ log p' + q'.

    Returns E[u], p, q, p', q'. Logarithms are left to the caller, who can take those of products.

    E[log q] = log β + (α − 1)ψ(α) − α − log Γ(α). With both functions at x = α + 8 their logarithms meet in one:
    log x has the factor (α − 1) − (x − ½) = −8½, and log Π(α + i) and log β have 1.
    """
    x, product, slope = _shifted(a)
    whole = 1.0 / (x * product * b)
    inverse = whole * (product * b)
    series = _digamma_series(inverse) - slope * (whole * (x * b))
    per_rate = whole * (x * product)
    eighth = inverse * inverse
    eighth *= eighth
    eighth *= eighth
    ratio = b * (product * eighth)
    entropy = (a - 1.0) * series + SHIFT - HALF_LOG_2PI - _stirling_series(inverse)
    return a * per_rate, x * per_rate, series, ratio * ratio * inverse, entropy


@fast
def _sum(values):
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@fast
def sum_of_logs(values):
    """Σ log of positive normal numbers: their exponents are added and their mantissas multiplied."""
    total = 0.0
    for start in range(0, values.shape[0], MULTIPLIED):
        part = values[start : start + MULTIPLIED]
        exponents, product = 0, 1.0
        for k in range(part.shape[0]):
            bits = bits_of(part[k])
            exponents += bits >> 52
            product *= from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
        total += log(product) + LN2 * (exponents - 1023 * part.shape[0])
    return total


@vectorised
def _tabulate_line(shape, rate, i, table, room, stored):
    """The table of a line (spec.GammaTable): the functions first, then what goes over the whole line."""
    log_mean, geometric, totals = table
    for k in range(shape.shape[1]):
        a, b = np.float64(shape[i, k]), np.float64(rate[i, k])
        room[0, k], room[1, k], room[2, k], room[3, k], room[4, k] = gamma_moments(a, b)
    for k in range(shape.shape[1]):
        stored[0, k], stored[1, k] = room[1, k], room[2, k]
    totals[i, 0] = 0.5 * sum_of_logs(room[3]) + _sum(room[4])
    totals[i, 1] = sum_of_logs(room[1]) + _sum(room[2])
    totals[i, 2] = _sum(room[0])
    for k in range(shape.shape[1]):
        log_mean[i, k] = storage_log(stored[0, k]) + stored[1, k]
    for k in range(shape.shape[1]):
        geometric[i, k] = storage_exp(log_mean[i, k])


@vectorised
def tabulate_lines(shape, rate, log_mean, geometric, totals):
    """The table of every line."""
    room, stored = np.empty((5, shape.shape[1])), np.empty((2, shape.shape[1]), shape.dtype)
    table = log_mean, geometric, totals
    for i in range(shape.shape[0]):
        _tabulate_line(shape, rate, i, table, room, stored)


@vectorised
def renew_lines(allocated, exposure, activity, prior_shape, shape, rate, log_mean, geometric, totals):
    """α = prior + allocated, β = E[r] + exposure (one line for all, or one each), and their table."""
    room, stored = np.empty((5, shape.shape[1])), np.empty((2, shape.shape[1]), shape.dtype)
    table = log_mean, geometric, totals
    common = exposure.shape[0] == 1
    for i in range(allocated.shape[0]):
        at = 0 if common else i
        for k in range(allocated.shape[1]):
            shape[i, k] = prior_shape + allocated[i, k]
            rate[i, k] = activity[i] + exposure[at, k]
        _tabulate_line(shape, rate, i, table, room, stored)
