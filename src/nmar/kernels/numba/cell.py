"""Compiled: q(n) of one cell whose bins are open, by streaming n = 1, 2, … (theory.md, Count posterior)."""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import compiled
from nmar.kernels.spec import GRID_RATIO, LOCATION

FORM, KIND, SEPARATE, ALLOCATE, DIAGONAL, MEAN_LINKAGE, CONCAVE = range(7)
LOG_RATE, LOG_NORM, DISPERSION, CEILING, LOW, HIGH, THINNING, BEYOND, FREEDOM, STUDENT, LOG_SCALE = range(11)

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
def _on_grid(grid, i, basis, lane):
    """f of a cell, less its own part, at one dispersion of the grid."""
    f = 0.0
    for v in range(grid.shape[0]):
        f += grid[v, i] * basis[v, lane]
    return f


@compiled
def _grid_ceiling(grid, basis, lane):
    """As reference.grid_ceiling: f is concave in the dispersion, so its largest value is found by bisection."""
    low, high = 0, grid.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if _on_grid(grid, middle + 1, basis, lane) > _on_grid(grid, middle, basis, lane):
            low = middle + 1
        else:
            high = middle
    at = _on_grid(grid, low, basis, lane)
    if low == 0 or low == grid.shape[1] - 1:
        return at
    before, after = _on_grid(grid, low - 1, basis, lane), _on_grid(grid, low + 1, basis, lane)
    return at + max(GRID_RATIO * (at - before), (at - after) / GRID_RATIO)


@compiled
def _ceiling(flags, numbers, grid, own, basis, lane):
    """F ≥ sup_n f(n) over the whole open table."""
    if grid.shape[1] > 0:
        return own + _grid_ceiling(grid, basis, lane)
    if flags[FORM] != LOCATION or flags[MEAN_LINKAGE]:
        return numbers[CEILING] * basis[0, lane]
    weight = basis[0, lane]
    residual = basis[1, lane] / weight if weight > 0.0 else 0.0  # f is unimodal in the variance
    phi = min(max(residual / numbers[DISPERSION], numbers[LOW]), numbers[HIGH])
    variance = numbers[DISPERSION] * phi
    return weight * (-0.5 * (LOG_2PI + math.log(variance)) - 0.5 * residual / variance)


@compiled
def stream(law, log_s, own, group, basis, lane, q, t):
    """Sum n = 1, 2, … until the tail is bounded by ε; returns log Z, E[n], bins used (−1: table too short).

    The cell's q goes to ``q[t, :, lane]``; ``basis[:, lane]`` are its statistics.
    """
    flags, numbers, log_factorial, slopes, _, _, _, by_value, _, grid = law
    concave = flags[CONCAVE] != 0
    ceiling = 0.0 if concave else _ceiling(flags, numbers, grid, own, basis, lane)
    s = numbers[THINNING] * math.exp(log_s)
    top, total, before = -np.inf, 0.0, -np.inf
    for b in range(slopes.shape[1]):
        n = b + 1
        term = own + n * log_s - log_factorial[n]
        for v in range(slopes.shape[0]):
            term += slopes[v, b] * basis[v, lane]
        if by_value.shape[0] > 0:
            term += by_value[group, b] * basis[0, lane]
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
