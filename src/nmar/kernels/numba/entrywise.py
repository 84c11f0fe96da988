"""Compiled: the paper's algorithm 1, one cell after another (theory.md, Stochastic inference and scalings).

Enters: the natural parameters of every line as plain arrays, which are changed in place, and the cells to visit.
Leaves: n-vectors of the visited cells, from which the caller takes averaged gradients. A visit of a missing cell
moves the pattern only; one of an observed cell also moves the data model.
"""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import compiled, entry
from nmar.kernels.numba.cell import digamma

LOG_2PI = math.log(2.0 * math.pi)
SHAPE, RATE = 0, 1
PRIOR_SHAPE, ACTIVITY_SHAPE, ACTIVITY_RATE, DATA_SHAPE, SCALE_SHAPE, SCALE_RATE = range(6)


@compiled
def find(indptr, indices, i, j):
    """Place of cell (i, j) among the observed ones, or −1: bisection within the row."""
    low, high = indptr[i], indptr[i + 1]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if low < indptr[i + 1] and indices[low] == j else -1


@compiled
def _count(log_s, y, mean, second, times, poisson, sigma2, table, log_factorial, q):
    """q(n) of a cell that counts so many ``times`` into ``q``; returns E[n], E[1/φ] (Gaussian) or E[φ] (Poisson)."""
    top, last = -np.inf, table.shape[0]
    residual = y * y - 2.0 * y * mean + second
    for b in range(table.shape[0]):
        n = b + 1
        f = n * log_s - log_factorial[n]
        if poisson:
            f += times * (y * math.log(table[b]) - table[b] * second)
        else:
            f += times * (-0.5 * (LOG_2PI + math.log(sigma2 * table[b])) - 0.5 * residual / (sigma2 * table[b]))
        q[b] = f
        top = max(top, f)
    total = 0.0
    for b in range(last):
        q[b] = math.exp(q[b] - top)
        total += q[b]
    count, crossed = 0.0, 0.0
    for b in range(last):
        q[b] /= total
        count += q[b] * (b + 1)
        crossed += q[b] * (table[b] if poisson else 1.0 / table[b])
    return count, crossed


@compiled
def _share(a, i, b, j, phi):
    """ϕ_k ∝ exp(E log a_k + E log b_k); returns log Σ exp."""
    top = -np.inf
    for k in range(phi.shape[0]):
        phi[k] = digamma(a[SHAPE, i, k]) - math.log(a[RATE, i, k])
        phi[k] += digamma(b[SHAPE, j, k]) - math.log(b[RATE, j, k])
        top = max(top, phi[k])
    total = 0.0
    for k in range(phi.shape[0]):
        phi[k] = math.exp(phi[k] - top)
        total += phi[k]
    for k in range(phi.shape[0]):
        phi[k] /= total
    return top + math.log(total)


@compiled
def _move_gamma(mine, i, theirs, j, activity, tau, prior, scale, count, exposure, phi):
    """Blend one gamma line toward its target from one cell; the activity's mean is its own (exact) posterior's."""
    for k in range(phi.shape[0]):
        target_shape = prior + scale * count * phi[k]
        target_rate = activity + scale * exposure * theirs[SHAPE, j, k] / theirs[RATE, j, k]
        mine[SHAPE, i, k] += tau * (target_shape - mine[SHAPE, i, k])
        mine[RATE, i, k] += tau * (target_rate - mine[RATE, i, k])


@compiled
def _activity(lines, i, shape, rate):
    """E[r_i] given the line's weights: exact."""
    total = rate
    for k in range(lines.shape[2]):
        total += lines[SHAPE, i, k] / lines[RATE, i, k]
    return shape / total


@compiled
def _move_normal(mine, i, mean, free, prior, tau, scale, weight, target, other_mean, other_var, printed):
    """Blend one diagonal normal line: precision and precision × mean, or as printed mean and variance (F5)."""
    size = free.shape[0]
    inner = 0.0
    for k in range(size):
        inner += mean[k] * other_mean[k]
    for k in range(size):
        if not free[k]:
            continue
        m, v = other_mean[k], other_var[k]
        precision = prior[1, k] + scale * weight * (m * m + v)
        pull = prior[1, k] * prior[0, k] + scale * (target * m - weight * m * (inner - mean[k] * m))
        if printed:
            old_mean, old_var = mine[1, i, k] / mine[0, i, k], 1.0 / mine[0, i, k]
            new_mean = old_mean + tau * (pull / precision - old_mean)
            new_var = old_var + tau * (1.0 / precision - old_var)
            mine[0, i, k], mine[1, i, k] = 1.0 / new_var, new_mean / new_var
        else:
            mine[0, i, k] += tau * (precision - mine[0, i, k])
            mine[1, i, k] += tau * (pull - mine[1, i, k])


@compiled
def _moments(lines, i, free, constant, mean, var):
    """Means and variances of a diagonal normal line from its natural parameters."""
    for k in range(free.shape[0]):
        if free[k]:
            var[k] = 1.0 / lines[0, i, k]
            mean[k] = lines[1, i, k] * var[k]
        else:
            var[k], mean[k] = 0.0, constant[k]


@entry
def visit_normal(
    places, shape, indptr, indices, values, weights, degree, u, v, seen, a, b, free, constant, prior, hyper, rates,
    exposed, sigma2, table, constants, vectors, printed,
):  # fmt: skip
    """Visit cells ``places`` (i·J + j) in order; Gaussian, diagonal lines. Returns observed visits.

    ``u``, ``v`` (2, lines, K) shapes and rates; ``a``, ``b`` (2, lines, d) precisions and precision × mean;
    ``degree`` four vectors, the observed cells of rows and columns and those that are not hidden; ``seen`` four vectors
    of counters (rows and columns, all visits and observed ones); ``weights`` how often each observed cell counts among
    the values, or nothing; ``vectors`` (2, N): Σ q(n)
    and Σ q(n) E[(y − μ)²]; ``prior`` (axis, mean or precision, d); ``rates`` t0 and ξ; ``exposed`` how often lines are
    exposed to a missing and to an observed cell; ``constants`` log n!, less log(s^n − (s−1)^n) with thinning.
    """
    K, d = u.shape[2], free.shape[1]
    phi, q = np.empty(K), np.empty(table.shape[0])
    am, av, bm, bv = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    activity_shape, observed = hyper[ACTIVITY_SHAPE] + K * hyper[PRIOR_SHAPE], 0
    for place in places:
        i, j = place // shape[1], place % shape[1]
        p = find(indptr, indices, i, j)
        log_s, count = _share(u, i, v, j, phi), 0.0
        if p >= 0:
            observed += 1
            _moments(a, i, free[0], constant[0], am, av)
            _moments(b, j, free[1], constant[1], bm, bv)
            mean, variance = 0.0, 0.0
            for k in range(d):
                mean += am[k] * bm[k]
                variance += am[k] * am[k] * bv[k] + av[k] * (bm[k] * bm[k] + bv[k])
            if printed:  # F1: Λ = Σ E[u]E[v] in place of s
                log_s = _log_rate(u, i, v, j)
            y, times = values[p], weights[p] if weights.shape[0] > 0 else 1.0
            second = mean * mean + variance
            count, crossed = _count(log_s, y, mean, second, times, False, sigma2, table, constants, q)
            for n in range(table.shape[0]):
                vectors[0, n] += times * q[n]
                vectors[1, n] += times * q[n] * (y * y - 2.0 * y * mean + second)
            weight = times * crossed / sigma2
            row_scale = shape[1] if printed else degree[0][i]
            col_scale = shape[0] if printed else degree[1][j]
            tau_row = (rates[0] + seen[2][i]) ** -rates[1]
            tau_col = (rates[0] + seen[3][j]) ** -rates[1]
            _move_normal(a, i, am, free[0], prior[0], tau_row, row_scale, weight, weight * y, bm, bv, printed)
            _move_normal(b, j, bm, free[1], prior[1], tau_col, col_scale, weight, weight * y, am, av, printed)
            seen[2][i] += 1
            seen[3][j] += 1
        _visit_pattern(i, j, degree, u, v, seen, hyper, rates, activity_shape, count, exposed[1 if p >= 0 else 0], phi)
    return observed


@compiled
def _log_rate(u, i, v, j):
    total = 0.0
    for k in range(u.shape[2]):
        total += u[SHAPE, i, k] * v[SHAPE, j, k] / (u[RATE, i, k] * v[RATE, j, k])
    return math.log(total)


@compiled
def _visit_pattern(i, j, degree, u, v, seen, hyper, rates, activity_shape, count, exposed, phi):
    """Move both pattern lines of a cell, missing (count 0) or not: rows count J cells and columns I, less those hidden.

    ``exposed`` is how often the lines are exposed to such a cell: once, or s times where it is observed.
    """
    tau_row = (rates[0] + seen[0][i]) ** -rates[1]
    tau_col = (rates[0] + seen[1][j]) ** -rates[1]
    row = _activity(u, i, activity_shape, hyper[ACTIVITY_RATE])
    col = _activity(v, j, activity_shape, hyper[ACTIVITY_RATE])
    before = u[:, i : i + 1].copy()
    _move_gamma(u, i, v, j, row, tau_row, hyper[PRIOR_SHAPE], degree[2][i], count, exposed, phi)
    _move_gamma(v, j, before, 0, col, tau_col, hyper[PRIOR_SHAPE], degree[3][j], count, exposed, phi)
    seen[0][i] += 1
    seen[1][j] += 1


@entry
def visit_poisson(
    places, shape, indptr, indices, values, weights, degree, u, v, seen, a, b, hyper, rates, exposed, table, constants,
    vectors, printed,
):  # fmt: skip
    """As :func:`visit_normal` for Poisson factorization; ``a``, ``b`` shapes and rates; ``vectors`` (3, N)."""
    K, d = u.shape[2], a.shape[2]
    phi, allocation, q = np.empty(K), np.empty(d), np.empty(table.shape[0])
    activity_shape, observed = hyper[ACTIVITY_SHAPE] + K * hyper[PRIOR_SHAPE], 0
    scale_shape = hyper[SCALE_SHAPE] + d * hyper[DATA_SHAPE]
    for place in places:
        i, j = place // shape[1], place % shape[1]
        p = find(indptr, indices, i, j)
        log_s, count = _share(u, i, v, j, phi), 0.0
        if p >= 0:
            observed += 1
            theta, rate, y = _share(a, i, b, j, allocation), math.exp(_log_rate(a, i, b, j)), values[p]
            times = weights[p] if weights.shape[0] > 0 else 1.0
            if printed:
                log_s = _log_rate(u, i, v, j)
            count, exposure = _count(log_s, y, theta, rate, times, True, 1.0, table, constants, q)
            for n in range(table.shape[0]):
                vectors[0, n] += times * q[n]
                vectors[1, n] += times * q[n] * y
                vectors[2, n] += times * q[n] * rate
            if printed:  # F4: E[n] in place of E[φ]
                exposure = count
            row_scale = shape[1] if printed else degree[0][i]
            col_scale = shape[0] if printed else degree[1][j]
            tau_row = (rates[0] + seen[2][i]) ** -rates[1]
            tau_col = (rates[0] + seen[3][j]) ** -rates[1]
            row = _activity(a, i, scale_shape, hyper[SCALE_RATE])
            col = _activity(b, j, scale_shape, hyper[SCALE_RATE])
            before = a[:, i : i + 1].copy()
            _move_gamma(a, i, b, j, row, tau_row, hyper[DATA_SHAPE], row_scale, times * y, times * exposure, allocation)
            _move_gamma(
                b, j, before, 0, col, tau_col, hyper[DATA_SHAPE], col_scale, times * y, times * exposure, allocation
            )
            seen[2][i] += 1
            seen[3][j] += 1
        _visit_pattern(i, j, degree, u, v, seen, hyper, rates, activity_shape, count, exposed[1 if p >= 0 else 0], phi)
    return observed
