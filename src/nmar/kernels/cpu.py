"""Compiled kernels (numba) for the CPU; each function equals its namesake in reference.py.

Kernels release the GIL and work on one block of lines, so that threads (fit/executor.py) share a half sweep.
Reductions over factors may be reassociated (``FAST``), never differently for another number of threads.
Scalars of a cell are float64 whatever the storage.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from nmar.kernels.spec import (
    BINOMIAL,
    GAMMA,
    GAUSSIAN,
    INVERSE_GAUSSIAN,
    KNOWN,
    NEGATIVE_BINOMIAL,
    OPEN,
    PARITY,
    PASSES,
    POISSON,
    Crossing,
    Expectation,
    Lines,
    NormalPrior,
    SideView,
    statistic_rows,
)

Array = NDArray[Any]

name = "numba"

FAST = {"reassoc", "contract", "nsz", "arcp"}  # infinities and NaN keep their meaning
LOG_2 = math.log(2.0)
LOG_2PI = math.log(2.0 * math.pi)
SMALL = 1e-8
LOG_EPSILON = math.log(1e-12)
NEGLIGIBLE = -45.0  # log of a relative weight far below double precision

compiled = nb.njit(cache=True, nogil=True, error_model="numpy")
fast = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)


@fast
def _dot(a, b):
    total = a.dtype.type(0.0)
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@fast
def _add(out, weight, b):
    for k in range(out.shape[0]):
        out[k] += weight * b[k]


@fast
def _diagonal_variance(a, va, b, vb):
    total = a.dtype.type(0.0)
    for k in range(a.shape[0]):
        total += a[k] * a[k] * vb[k] + va[k] * (b[k] * b[k] + vb[k])
    return total


@compiled
def _log_sum(a, b):
    """log Σ exp(a + b): only where the plain sum has underflowed."""
    top = -np.inf
    for k in range(a.shape[0]):
        top = max(top, np.float64(a[k]) + np.float64(b[k]))
    total = 0.0
    for k in range(a.shape[0]):
        total += math.exp(np.float64(a[k]) + np.float64(b[k]) - top)
    return top + math.log(total)


@compiled
def _digamma(x):
    """ψ(x) for x > 0: recurrence up to 6, then the asymptotic series."""
    shift = 0.0
    while x < 6.0:
        shift -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    series = r * (1 / 12.0 - r * (1 / 120.0 - r * (1 / 252.0 - r * (1 / 240.0 - r * (1 / 132.0)))))
    return shift + math.log(x) - 0.5 / x - series


@compiled
def _log_truncation(log_s, s):
    """log(e^s − 1)."""
    if s < SMALL:
        return log_s + 0.5 * s
    return s + math.log(-math.expm1(-s))


@compiled
def _truncated_mean(s):
    """s / (1 − e^{−s})."""
    if s < SMALL:
        return 1.0 + 0.5 * s
    return -s / math.expm1(-s)


@compiled
def _tail(log_s, s, start, log_factorial):
    """log Σ_{n≥M} s^n/n! and E[n | n ≥ M], M = start ≥ 2 (theory.md, Count posterior)."""
    if s >= start + 1:
        below = 0.0  # Σ_{n<M} Poisson(n; s)
        for n in range(start):
            below += math.exp(n * log_s - s - log_factorial[n])
        last = math.exp((start - 1) * log_s - s - log_factorial[start - 1])
        above = 1.0 - below
        return s + math.log(above), s * (above + last) / above
    term, total, weighted, m = 1.0, 1.0, float(start), 0
    while term > 1e-17 * total:
        m += 1
        term *= s / (start + m)
        total += term
        weighted += (start + m) * term
    return start * log_s - log_factorial[start] + math.log(total), weighted / total


@compiled
def _log_density(x, b, y, log_y, first, second):
    """f of one cell in bin b."""
    if x.family == GAUSSIAN:
        if x.mean_linkage:
            r = y - x.delta[b]
            away = r * r - 2.0 * x.phi1[b] * r * first + x.phi1[b] * x.phi1[b] * second
        else:
            away = y * y - 2.0 * y * first + second
        return x.constant[b] - 0.5 * x.inverse[b] * away
    k = x.inverse[b]
    return y * first - k * second + _log_base(x, b, y, log_y, k)


@compiled
def _log_base(x, b, y, log_y, k):
    """h(y, κφ): the part that is the same for all bins of a cell is left in, so that log Z is the density's."""
    if x.family == POISSON:
        return y * math.log(k) - math.lgamma(y + 1.0)
    if x.family == GAMMA:
        return (k - 1.0) * log_y - math.lgamma(k)
    if x.family == INVERSE_GAUSSIAN:
        return -0.5 * k * k / y + math.log(k) - 0.5 * (LOG_2PI + 3.0 * log_y)
    if x.family == NEGATIVE_BINOMIAL:
        return math.lgamma(y + k) - math.lgamma(k) - math.lgamma(y + 1.0)
    if y > k:
        return -np.inf
    return math.lgamma(k + 1.0) - math.lgamma(y + 1.0) - math.lgamma(k - y + 1.0)


@compiled
def _closed_bins(x, log_s, s, y, log_y, first, second, q):
    """Fill q with bin probabilities of a tail or parity table; return log Z and E[n]."""
    size = x.phi2.shape[0]
    top = -np.inf
    mean_a, mean_b = 0.0, 0.0
    last_mean = 0.0
    if x.kind == PARITY:
        half = 0.5 * s
        if s < SMALL:
            odd, even, mean_a, mean_b = log_s, 2.0 * log_s - LOG_2, 1.0, 2.0
        else:
            odd = s - LOG_2 + math.log(-math.expm1(-2.0 * s))
            log_half = log_s - LOG_2 if half < SMALL else half - LOG_2 + math.log(-math.expm1(-2.0 * half))
            even = LOG_2 + 2.0 * log_half
            mean_a, mean_b = s / math.tanh(s), s / math.tanh(half)
        q[0] = odd + _log_density(x, 0, y, log_y, first, second)
        q[1] = even + _log_density(x, 1, y, log_y, first, second)
        top = max(q[0], q[1])
    elif size == 1:
        return (
            _log_truncation(log_s, s) + _log_density(x, 0, y, log_y, first, second),
            _truncated_mean(s),
        )
    else:
        for b in range(size - 1):
            q[b] = (b + 1) * log_s - x.log_factorial[b + 1] + _log_density(x, b, y, log_y, first, second)
            top = max(top, q[b])
        f = _log_density(x, size - 1, y, log_y, first, second)
        # a cheap ceiling of the tail: most cells of sparse data never need its sum
        reach = size * log_s - x.log_factorial[size] + f
        if s < 0.5 * size and reach + LOG_2 - top < NEGLIGIBLE:
            q[size - 1] = -np.inf
        else:
            tail, last_mean = _tail(log_s, s, size, x.log_factorial)
            q[size - 1] = tail + f
            top = max(top, q[size - 1])
    total, mean = 0.0, 0.0
    for b in range(size):
        gap = q[b] - top
        e = math.exp(gap) if gap > NEGLIGIBLE else 0.0
        q[b] = e
        total += e
        if x.kind == PARITY:
            mean += e * (mean_a if b == 0 else mean_b)
        else:
            mean += e * (b + 1.0 if b < size - 1 else last_mean)
    for b in range(size):
        q[b] /= total
    return top + math.log(total), mean / total


@compiled
def _peak(x, y, psi_mean):
    """Dispersion at which f is largest, scalar families other than the binomial."""
    if x.family == POISSON:
        return y / psi_mean
    if x.family == INVERSE_GAUSSIAN:
        g = -psi_mean
        return 0.5 * y * (g + math.sqrt(g * g + 4.0 / y))
    low, high = math.log(x.dispersion * x.low), math.log(min(x.dispersion * x.high, 1e12))
    for _ in range(60):  # f' falls in the dispersion: bisection on its logarithm
        middle = 0.5 * (low + high)
        k = math.exp(middle)
        if x.family == GAMMA:
            slope = math.log(y) - psi_mean - _digamma(k)
        else:
            slope = _digamma(k + y) - _digamma(k) - psi_mean
        if slope > 0.0:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))


@compiled
def _ceiling(x, y, log_y, first, second):
    """F ≥ sup_n f(n) over the whole open table."""
    if x.family == GAUSSIAN:
        if x.mean_linkage:
            return x.ceiling
        residual = y * y - 2.0 * y * first + second
        precision = x.inverse[0] * x.phi2[0]
        phi = min(max(residual * precision, x.low), x.high)
        at_one = x.constant[0] + 0.5 * math.log(x.phi2[0])
        return at_one - 0.5 * math.log(phi) - 0.5 * residual * precision / phi
    if x.family == BINOMIAL:
        return 0.0
    k = min(max(_peak(x, y, second), x.dispersion * x.low), x.dispersion * x.high)
    return y * first - k * second + _log_base(x, 0, y, log_y, k)


@compiled
def _open_bins(x, log_s, s, y, log_y, first, second, q):
    """Stream n = 1, 2, … until the tail is bounded by ε; return log Z, E[n], bins used (−1: table too short)."""
    size = x.phi2.shape[0]
    ceiling = 0.0 if x.concave else _ceiling(x, y, log_y, first, second)
    top, total, before = -np.inf, 0.0, -np.inf
    for b in range(size):
        n = b + 1
        term = n * log_s - x.log_factorial[n] + _log_density(x, b, y, log_y, first, second)
        q[b] = term
        if term > top:
            total = (total * math.exp(top - term) if total > 0.0 else 0.0) + 1.0
            top = term
        elif term > -np.inf:
            total += math.exp(term - top)
        if total > 0.0:
            if x.concave:  # ratios fall, so the rest is below a geometric series
                log_ratio = term - before
                rest = term + log_ratio - math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else np.inf
            elif n + 2 > s:
                rest = ceiling + (n + 1) * log_s - x.log_factorial[n + 1] - math.log(1.0 - s / (n + 2))
            else:
                rest = np.inf
            if rest <= LOG_EPSILON + top + math.log(total):
                mean = 0.0
                for a in range(n):
                    q[a] = math.exp(q[a] - top) / total
                    mean += q[a] * (a + 1)
                return top + math.log(total), mean, n
        before = term
    return 0.0, 0.0, -1


@compiled
def _cross(x, q, used, y, group):
    """Weights of ``first`` and ``second`` that cross to the data model (errata F2 and F4)."""
    if x.kind == KNOWN:
        w = x.inverse[group]
        return (y * w, w) if x.family == GAUSSIAN else (y, w)
    linear, quadratic = 0.0, 0.0
    if x.family == GAUSSIAN:
        if x.mean_linkage:
            for b in range(used):
                w = q[b] * x.inverse[b] * x.phi1[b]
                linear += w * (y - x.delta[b])
                quadratic += w * x.phi1[b]
            return linear, quadratic
        for b in range(used):
            quadratic += q[b] * x.inverse[b]
        return y * quadratic, quadratic
    for b in range(used):
        quadratic += q[b] * x.inverse[b]
    return y, quadratic


@compiled
def _count_cell(x, log_s, y, first, second, group, q):
    """One cell's E-step: (log Z, E[n] for the pattern, E[n] for the counts, bins used)."""
    log_y = math.log(y) if x.family == GAMMA or x.family == INVERSE_GAUSSIAN else 0.0
    s = math.exp(log_s)
    rate_log, rate = (x.log_rate, math.exp(x.log_rate)) if x.separate else (log_s, s)
    used = x.phi2.shape[0]
    if x.kind == KNOWN:
        log_z, mean = _log_density(x, group, y, log_y, first, second), 1.0
    elif x.kind == OPEN:
        log_z, mean, used = _open_bins(x, rate_log, rate, y, log_y, first, second, q)
    else:
        q[0] = 1.0
        log_z, mean = _closed_bins(x, rate_log, rate, y, log_y, first, second, q)
    if x.separate:
        log_z += _log_truncation(log_s, s) - (0.0 if x.kind == KNOWN else x.log_norm)
        return log_z, _truncated_mean(s), mean, used
    return log_z, mean, mean, used


@compiled
def _log_rate(dot, floor, mine, i, theirs, j):
    if dot > floor:
        return math.log(np.float64(dot)) + np.float64(mine.top[i]) + np.float64(theirs.top[j])
    return _log_sum(mine.log_weights[i], theirs.log_weights[j])


@compiled
def _moments(lines, mine, theirs, x, i, j, p):
    """First and second moment of one cell, and the plain inner product of ``first``."""
    plain = np.float64(_dot(mine.first[i], theirs.first[j]))
    if x.diagonal:
        spread = _diagonal_variance(mine.first[i], mine.second[i], theirs.first[j], theirs.second[j])
        first, second = plain, plain * plain + np.float64(spread)
    else:
        first, second = plain, np.float64(_dot(mine.second[i], theirs.second[j]))
    if x.allocate:
        first = math.log(plain) + np.float64(mine.first_top[i]) + np.float64(theirs.first_top[j])
    if lines.offset.shape[0] > 0:
        second += lines.offset[p] * (2.0 * first + lines.offset[p])
        first += lines.offset[p]
    return first, second, plain


@compiled
def _share(row, direct, mean, dot, floor, mine, i, theirs, j, log_s):
    """Add E[n]ϕ of one cell: into ``row`` (to be multiplied by u), or ``direct`` where the sum underflowed."""
    if dot > floor:
        _add(row, mean / dot, theirs.weights[j])
    else:
        for k in range(direct.shape[0]):
            direct[k] += mean * math.exp(
                np.float64(mine.log_weights[i, k]) + np.float64(theirs.log_weights[j, k]) - log_s
            )


@compiled
def _expect(lines, mine, theirs, x, floor, pattern, linear, quadratic, probability, used):
    total, count = 0.0, 0.0
    row, line, square = np.zeros(pattern.shape[1]), np.zeros(linear.shape[1]), np.zeros(quadratic.shape[1])
    has_group = lines.group.shape[0] > 0
    for i in range(lines.indptr.shape[0] - 1):
        row[:], line[:], square[:] = 0.0, 0.0, 0.0
        for p in range(lines.indptr[i], lines.indptr[i + 1]):
            j = lines.indices[p]
            dot = _dot(mine.weights[i], theirs.weights[j])
            log_s = _log_rate(dot, floor, mine, i, theirs, j)
            y = np.float64(lines.values[p])
            first, second, plain = _moments(lines, mine, theirs, x, i, j, p)
            group = lines.group[p] if has_group else 0
            log_z, mean, counted, n = _count_cell(x, log_s, y, first, second, group, probability[p])
            if n < 0:
                return 0.0, 0.0, True
            if x.kind == OPEN:
                used[p] = n
            total += log_z
            count += counted
            w1, w2 = _cross(x, probability[p], n, y, group)
            if lines.offset.shape[0] > 0:
                w1 -= w2 * lines.offset[p]
            if x.allocate:
                w1 /= plain
            _share(row, pattern[i], mean, dot, floor, mine, i, theirs, j, log_s)
            _add(line, w1, theirs.first[j])
            _add(square, w2, theirs.second[j])
        for k in range(row.shape[0]):
            pattern[i, k] += row[k] * mine.weights[i, k]
        for k in range(line.shape[0]):
            linear[i, k] = line[k] * mine.first[i, k] if x.allocate else line[k]
        quadratic[i] = square
    return total, count, False


@compiled
def _descend(lines, mine, theirs, x, floor, prior, pattern, probability, used, mean_out, variance_out):
    total, count = 0.0, 0.0
    widest = 0
    for i in range(lines.indptr.shape[0] - 1):
        widest = max(widest, lines.indptr[i + 1] - lines.indptr[i])
    d = mine.first.shape[1]
    weight, residual = np.empty(widest), np.empty(widest)
    row = np.zeros(pattern.shape[1])
    has_group = lines.group.shape[0] > 0
    for i in range(lines.indptr.shape[0] - 1):
        start, stop = lines.indptr[i], lines.indptr[i + 1]
        row[:] = 0.0
        for p in range(start, stop):
            j = lines.indices[p]
            dot = _dot(mine.weights[i], theirs.weights[j])
            log_s = _log_rate(dot, floor, mine, i, theirs, j)
            y = np.float64(lines.values[p])
            first, second, plain = _moments(lines, mine, theirs, x, i, j, p)
            group = lines.group[p] if has_group else 0
            log_z, mean, counted, n = _count_cell(x, log_s, y, first, second, group, probability[p])
            if n < 0:
                return 0.0, 0.0, True
            if x.kind == OPEN:
                used[p] = n
            total += log_z
            count += counted
            w1, w2 = _cross(x, probability[p], n, y, group)
            weight[p - start], residual[p - start] = w2, w1 - w2 * first
            _share(row, pattern[i], mean, dot, floor, mine, i, theirs, j, log_s)
        for k in range(row.shape[0]):
            pattern[i, k] += row[k] * mine.weights[i, k]
        for k in range(d):
            mean_out[i, k] = mine.first[i, k]
            variance_out[i, k] = 0.0
        for _ in range(PASSES):
            for k in range(d):
                if prior.free[k]:
                    _descend_coordinate(lines, theirs, prior, i, k, weight, residual, mean_out, variance_out)
    return total, count, False


@fast
def _descend_coordinate(lines, theirs, prior, i, k, weight, residual, mean_out, variance_out):
    """The exact optimum of coordinate k of line i with the others held."""
    start, stop = lines.indptr[i], lines.indptr[i + 1]
    noise, precision, pull = 0.0, prior.precision[k], 0.0
    for p in range(start, stop):
        b = np.float64(theirs.first[lines.indices[p], k])
        noise += weight[p - start] * theirs.second[lines.indices[p], k]
        precision += weight[p - start] * b * b
        pull += residual[p - start] * b
    precision += noise
    old = np.float64(mean_out[i, k])
    step = (pull - noise * old + prior.precision[k] * (prior.mean[k] - old)) / precision
    for p in range(start, stop):
        residual[p - start] -= weight[p - start] * theirs.first[lines.indices[p], k] * step
    mean_out[i, k] = old + step
    variance_out[i, k] = 1.0 / precision


@compiled
def _statistics(lines, mine, theirs, x, probability, used, vectors, by_group):
    has_group = lines.group.shape[0] > 0
    per_value = x.family == NEGATIVE_BINOMIAL or x.family == BINOMIAL
    basis = np.ones(vectors.shape[0])
    for i in range(lines.indptr.shape[0] - 1):
        for p in range(lines.indptr[i], lines.indptr[i + 1]):
            j = lines.indices[p]
            y = np.float64(lines.values[p])
            first, second, _ = _moments(lines, mine, theirs, x, i, j, p)
            if x.family == GAUSSIAN:
                if x.mean_linkage:
                    basis[1], basis[2], basis[3] = y, y * y, y * first
                    basis[4], basis[5] = first, second
                else:
                    basis[1] = y * y - 2.0 * y * first + second
            elif per_value:
                basis[1] = second
            else:
                basis[2] = second
                if x.family == POISSON:
                    basis[1] = y
                elif x.family == GAMMA:
                    basis[1] = math.log(y)
                else:
                    basis[1] = 1.0 / y
            if x.kind == KNOWN:
                for v in range(basis.shape[0]):
                    vectors[v, lines.group[p]] += basis[v]
                continue
            n = used[p] if x.kind == OPEN else probability.shape[1]
            for v in range(basis.shape[0]):
                for b in range(n):
                    vectors[v, b] += probability[p, b] * basis[v]
            if per_value and has_group:
                for b in range(n):
                    by_group[lines.group[p], b] += probability[p, b]


@compiled
def _solve_normal(linear, quadratic, constant, prior_mean, prior_precision, free, mean, spread, log_det):
    d = linear.shape[1]
    root_half = 1.0 / math.sqrt(2.0)
    which = np.flatnonzero(free)
    m = which.shape[0]
    full, lower, inverse = np.empty((d, d)), np.zeros((m, m)), np.zeros((m, m))
    right, half = np.empty(m), np.empty(m)
    for i in range(linear.shape[0]):
        at = 0
        for a in range(d):
            for b in range(a, d):
                value = np.float64(quadratic[i, at])
                full[a, b] = value if a == b else value * root_half
                full[b, a] = full[a, b]
                at += 1
        for a in range(m):
            right[a] = linear[i, which[a]] + prior_precision[which[a]] * prior_mean[which[a]]
            for b in range(d):
                if not free[b]:
                    right[a] -= full[which[a], b] * constant[b]
        log_det[i] = -_cholesky(full, which, prior_precision, lower)
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
def _cholesky(full, which, prior_precision, lower):
    """Lower factor of the free block plus the prior; returns the log determinant of the product."""
    m = which.shape[0]
    log_det = 0.0
    for a in range(m):
        for b in range(a + 1):
            value = full[which[a], which[b]]
            if a == b:
                value += prior_precision[which[a]]
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


def _floor(dtype: Any) -> float:
    """Inner products at or below this may have lost terms to underflow."""
    return 1e-290 if dtype == np.float64 else 1e-30


def _held(lines: Lines, crossing: Crossing) -> tuple[Array, Array]:
    """Room for q(n) of a block (known bins need none) and the bins each cell uses."""
    cells = len(lines.indices)
    width = 1 if crossing.kind == KNOWN else len(crossing.phi2)
    return np.empty((cells, width)), np.empty(cells if crossing.kind == OPEN else 0, np.int32)


def expect(lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing) -> Expectation:
    """E-step and accumulation of one block; see spec.py."""
    n = len(lines.indptr) - 1
    pattern = np.zeros((n, mine.weights.shape[1]))
    linear, quadratic = np.empty((n, mine.first.shape[1])), np.empty((n, mine.second.shape[1]))
    probability, used = _held(lines, crossing)
    log_z, count, short = _expect(
        lines,
        mine,
        theirs,
        crossing,
        _floor(mine.weights.dtype),
        pattern,
        linear,
        quadratic,
        probability,
        used,
    )
    return Expectation(pattern, linear, quadratic, log_z, count, probability, used, short)


def statistics(
    lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, held: Expectation
) -> tuple[Array, Array]:
    """n-vectors of the block with q(n) held; see spec.py."""
    size = len(crossing.phi2)
    vectors = np.zeros((statistic_rows(crossing.family, crossing.mean_linkage), size))
    by_group = np.zeros((crossing.groups, size))
    _statistics(lines, mine, theirs, crossing, held.probability, held.used, vectors, by_group)
    return vectors, by_group


def solve_normal(
    linear: Array, quadratic: Array, constant: Array, prior: NormalPrior
) -> tuple[Array, Array, Array]:
    """Normal posterior of each line by Cholesky; see reference.py."""
    n, d = linear.shape
    mean, spread, log_det = np.empty((n, d)), np.empty((n, d * (d + 1) // 2)), np.zeros(n)
    _solve_normal(
        linear, quadratic, constant, prior.mean, prior.precision, prior.free, mean, spread, log_det
    )
    return mean, spread, log_det


def descend(
    lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, prior: NormalPrior
) -> tuple[Expectation, Array, Array]:
    """Coordinate descent on diagonal normal lines; see reference.py."""
    n, d = mine.first.shape
    pattern, mean, variance = np.zeros((n, mine.weights.shape[1])), np.empty((n, d)), np.empty((n, d))
    probability, used = _held(lines, crossing)
    floor = _floor(mine.weights.dtype)
    log_z, count, short = _descend(
        lines, mine, theirs, crossing, floor, prior, pattern, probability, used, mean, variance
    )
    nothing = np.empty((n, 0))
    found = Expectation(pattern, nothing, nothing, log_z, count, probability, used, short)
    return found, mean, variance
