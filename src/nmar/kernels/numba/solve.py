"""Compiled: normal posteriors of many lines by Cholesky, without a Python object per line."""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import entry, fast


@entry
def solve_lines(linear, quadratic, constant, prior, mean, spread, log_det):
    prior_mean, prior_precision, free, scale = prior
    d = linear.shape[1]
    root_half = 1.0 / math.sqrt(2.0)
    which = np.flatnonzero(free)
    m = which.shape[0]
    full, lower, inverse = np.empty((d, d)), np.zeros((m, m)), np.zeros((m, m))
    right, half = np.empty(m), np.empty(m)
    for i in range(linear.shape[0]):
        at, own = 0, i if prior_mean.shape[0] > 1 else 0
        times = scale[i] if scale.shape[0] > 0 else 1.0
        for a in range(d):
            for b in range(a, d):
                value = np.float64(quadratic[i, at])
                full[a, b] = value if a == b else value * root_half
                full[b, a] = full[a, b]
                at += 1
        for a in range(m):
            right[a] = linear[i, which[a]] + times * prior_precision[which[a]] * prior_mean[own, which[a]]
            for b in range(d):
                if not free[b]:
                    right[a] -= full[which[a], b] * constant[b]
        log_det[i] = -_cholesky(full, which, prior_precision, times, lower)
        _invert_lower(lower, inverse)
        for a in range(m):  # Cov = L^{-T} L^{-1}
            half[a] = 0.0
            for b in range(a + 1):
                half[a] += inverse[a, b] * right[b]
        for a in range(d):
            mean[i, a] = constant[a]
        for a in range(m):
            total = 0.0
            for c in range(a, m):
                total += inverse[c, a] * half[c]
            mean[i, which[a]] = total
        spread[i] = 0.0
        for a in range(m):
            for b in range(a, m):
                total = 0.0
                for c in range(b, m):
                    total += inverse[c, a] * inverse[c, b]
                row, col = which[a], which[b]
                at = row * d - (row * (row - 1)) // 2 + col - row
                spread[i, at] = total if a == b else total * math.sqrt(2.0)


@fast
def _cholesky(full, which, prior_precision, times, lower):
    """Lower factor of the free block plus the prior; returns the log determinant of the product."""
    m = which.shape[0]
    log_det = 0.0
    for a in range(m):
        for b in range(a + 1):
            value = full[which[a], which[b]]
            if a == b:
                value += times * prior_precision[which[a]]
            for c in range(b):
                value -= lower[a, c] * lower[b, c]
            if a == b:
                lower[a, a] = math.sqrt(value)
                log_det += math.log(value)
            else:
                lower[a, b] = value / lower[b, b]
    return log_det


@fast
def _invert_lower(lower, inverse):
    m = lower.shape[0]
    for b in range(m):
        inverse[b, b] = 1.0 / lower[b, b]
        for a in range(b + 1, m):
            total = 0.0
            for c in range(b, a):
                total += lower[a, c] * inverse[c, b]
            inverse[a, b] = -total / lower[a, a]
