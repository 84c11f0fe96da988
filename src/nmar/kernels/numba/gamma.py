"""Compiled: gamma factors of the pattern, renewed and tabulated: digamma and log-gamma as vector code.

Both functions are shifted up by eight, where their asymptotic series are exact to a few ulp. The eight factors
α(α + 1)…(α + 7) pair into four quadratics of q = α² + 7α, so that the shift costs one division and no loop.
"""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import entry, exact, vectorised
from nmar.kernels.numba.math import storage_exp, storage_log, sum_of, sum_of_logs

SHIFT = 8.0
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@exact
def shifted(a):
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
    x, product, slope = shifted(a)
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


@vectorised
def _tabulate_line(shape, rate, i, table, room):
    """The table of a line (spec.GammaTable): the functions first, then what goes over the whole line."""
    (log_mean, geometric, totals), (moments, stored) = table, room
    for k in range(shape.shape[1]):
        a, b = np.float64(shape[i, k]), np.float64(rate[i, k])
        moments[0, k], moments[1, k], moments[2, k], moments[3, k], moments[4, k] = gamma_moments(a, b)
    for k in range(shape.shape[1]):
        stored[0, k], stored[1, k] = moments[1, k], moments[2, k]
    totals[i, 0] = 0.5 * sum_of_logs(moments[3]) + sum_of(moments[4])
    totals[i, 1] = sum_of_logs(moments[1]) + sum_of(moments[2])
    totals[i, 2] = sum_of(moments[0])
    for k in range(shape.shape[1]):
        log_mean[i, k] = storage_log(stored[0, k]) + stored[1, k]
    for k in range(shape.shape[1]):
        geometric[i, k] = storage_exp(log_mean[i, k])


@entry
def tabulate_lines(shape, rate, table, room):
    """The table of every line."""
    for i in range(shape.shape[0]):
        _tabulate_line(shape, rate, i, table, room)


@entry
def update_gamma_lines(update, shape, rate, table, room):
    """α = prior + allocated, β = E[r] + exposure (one line for all, or one each), and their table."""
    allocated, exposure, activity, prior_shape = update
    common = exposure.shape[0] == 1
    for i in range(allocated.shape[0]):
        at = 0 if common else i
        for k in range(allocated.shape[1]):
            shape[i, k] = prior_shape + allocated[i, k]
            rate[i, k] = activity[i] + exposure[at, k]
        _tabulate_line(shape, rate, i, table, room)
