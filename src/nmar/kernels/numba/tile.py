"""Compiled: q(n) of a tile of cells with closed bins, all lanes at once (theory.md, Count posterior).

Arrays end in a lane axis of ``TILE`` cells, so every loop over lanes is a loop over vector registers. ``work`` rows
hold log s, s, the own part of f, log Z without the logarithm of FACTOR, E[n] for the pattern and E[n] of the counts.
ALONE is log Z of the pattern where the counts have a law of their own.
"""

from __future__ import annotations

import math

from nmar.kernels.numba.base import compiled, vectorised
from nmar.kernels.numba.math import exp, expm1, log

TILE = 128
LOG_S, S, OWN, LOG_Z, FACTOR, MEAN, COUNT, TOP, TOTAL, TERM, LAST, LT, TM, ALONE = range(14)
WORK = 14

LOG_2 = math.log(2.0)
SMALL = 1e-8
NEGLIGIBLE = -45.0  # log of a relative weight far below double precision
NOTHING = -1e300
LEAST = 1e-100  # of s, whose square must not underflow
LOG_LEAST = math.log(LEAST)


@vectorised
def truncation(work):
    """log(e^s − 1) into LT and s/(1 − e^{−s}) into TM, of every lane."""
    for lane in range(TILE):
        s = work[S, lane]
        safe = max(s, SMALL)
        above = -expm1(-safe)
        tiny = s < SMALL
        work[LT, lane] = work[LOG_S, lane] + 0.5 * s if tiny else safe + log(above)
        work[TM, lane] = 1.0 + 0.5 * s if tiny else safe / above


@vectorised
def _density(q, t, b, slopes, basis, work):
    """Add f of bin b to the log weights already in ``q[t, b]``."""
    for v in range(slopes.shape[0]):
        slope = slopes[v, b]
        for lane in range(TILE):
            q[t, b, lane] += slope * basis[v, lane]


@compiled
def _tail_lane(log_s, s, start, log_factorial):
    """log Σ_{n≥M} s^n/n! and E[n | n ≥ M] of one lane with s ≥ M + 1, M = start."""
    below = 0.0  # Σ_{n<M} Poisson(n; s)
    for n in range(start):
        below += math.exp(n * log_s - s - log_factorial[n])
    last = math.exp((start - 1) * log_s - s - log_factorial[start - 1])
    above = 1.0 - below
    return s + math.log(above), s * (above + last) / above


@vectorised
def _tail_series(work, start):
    """Σ_{m≥0} s^m M!/(M+m)! into TOTAL and its count-weighted sum into LAST, lanes with s < M + 1."""
    far = 0.0
    for lane in range(TILE):
        s = work[S, lane]
        work[TERM, lane], work[TOTAL, lane], work[LAST, lane] = 1.0, 1.0, 1.0 * start
        far = max(far, s if s < start + 1 else 0.0)
    m, reach = 0, 1.0
    while reach > 1e-17:  # the widest lane decides; its terms fall faster than a geometric series
        m += 1
        reach *= far / (start + m)
        for lane in range(TILE):
            s = work[S, lane]
            term = work[TERM, lane] * (s if s < start + 1 else 0.0) / (start + m)
            work[TERM, lane] = term
            work[TOTAL, lane] += term
            work[LAST, lane] += (start + m) * term


@compiled
def _tail(q, t, work, size, log_factorial):
    """Log weight of n ≥ M into ``q[t, M − 1]`` and E[n | n ≥ M] into LAST."""
    _tail_series(work, size)
    for lane in range(TILE):
        if work[S, lane] >= size + 1:
            q[t, size - 1, lane], work[LAST, lane] = _tail_lane(work[LOG_S, lane], work[S, lane], size, log_factorial)
        else:
            q[t, size - 1, lane] = size * work[LOG_S, lane] - log_factorial[size] + math.log(work[TOTAL, lane])
            work[LAST, lane] /= work[TOTAL, lane]


@vectorised
def _counts_below(q, t, work, size, log_factorial):
    """Log weights of n = 1 … M − 1."""
    for b in range(size - 1):
        constant = -log_factorial[b + 1]
        for lane in range(TILE):
            q[t, b, lane] = (b + 1) * work[LOG_S, lane] + constant


@compiled
def parity_tile(slopes, by_value, group, start, basis, work, q, t):
    """q(n), log Z and E[n] of counts that matter by their parity alone.

    Odd counts weigh sinh s and even ones cosh s − 1, which are A(1 + e) and A² times e^s/2, with e = e^{−s} and
    A = 1 − e; their means are s(1 + e²)/(A(1 + e)) and s(1 + e)/A.
    """
    both_densities(q, t, slopes, basis)
    for b in range(2):
        add_by_value(q, t, b, by_value, group, start, basis)
    _parities(q, t, work)


@vectorised
def both_densities(q, t, slopes, basis):
    """f of both bins."""
    for lane in range(TILE):
        q[t, 0, lane], q[t, 1, lane] = slopes[0, 0] * basis[0, lane], slopes[0, 1] * basis[0, lane]
    for v in range(1, slopes.shape[0]):
        odd, even = slopes[v, 0], slopes[v, 1]
        for lane in range(TILE):
            q[t, 0, lane] += odd * basis[v, lane]
            q[t, 1, lane] += even * basis[v, lane]


@vectorised
def _parities(q, t, work):
    """As :func:`parity_tile`, from f of both bins in ``q``. Short loops: LLVM makes vector code of each."""
    for lane in range(TILE):
        below = min(work[LOG_S, lane] - LOG_LEAST, 0.0)  # s of a single count, s²/2 of two: all that matters there
        q[t, 0, lane] += below
        q[t, 1, lane] += 2.0 * below
        work[TERM, lane] = exp(-abs(q[t, 1, lane] - q[t, 0, lane]))
    for lane in range(TILE):
        s, apart, less = max(work[S, lane], LEAST), q[t, 1, lane] - q[t, 0, lane], work[TERM, lane]
        odd, even = (less, 1.0) if apart > 0.0 else (1.0, less)  # densities over the larger of the two
        above = -expm1(-s)
        e = 1.0 - above
        total = odd * (1.0 + e) + even * above
        inverse = 1.0 / (above * total)
        work[COUNT, lane] = s * inverse * (odd * (1.0 + e * e) + even * above * (1.0 + e))
        work[LOG_Z, lane] = work[OWN, lane] + max(q[t, 0, lane], q[t, 1, lane]) + (s - LOG_2)
        work[FACTOR, lane] = above * total
        q[t, 0, lane] = odd * (1.0 + e) * above * inverse
        q[t, 1, lane] = even * above * above * inverse


@vectorised
def _top(q, t, work, size):
    """Largest term of each lane."""
    for lane in range(TILE):
        work[TOP, lane] = NOTHING
    for b in range(size):
        for lane in range(TILE):
            work[TOP, lane] = max(work[TOP, lane], q[t, b, lane])


@vectorised
def _normalise(q, t, work, size):
    """Terms to probabilities, log Z and E[n]."""
    for lane in range(TILE):
        work[TOTAL, lane], work[COUNT, lane] = 0.0, 0.0
    for b in range(size):
        for lane in range(TILE):
            e = exp(q[t, b, lane] - work[TOP, lane])
            count = b + 1.0
            if b == size - 1:
                count = work[LAST, lane]
            q[t, b, lane] = e
            work[TOTAL, lane] += e
            work[COUNT, lane] += e * count
    for lane in range(TILE):
        work[LOG_Z, lane] = work[OWN, lane] + work[TOP, lane]
        work[FACTOR, lane] = work[TOTAL, lane]
        work[TOTAL, lane] = 1.0 / work[TOTAL, lane]
        work[COUNT, lane] *= work[TOTAL, lane]
    for b in range(size):
        for lane in range(TILE):
            q[t, b, lane] *= work[TOTAL, lane]


@compiled
def _needs_tail(q, t, work, size, log_factorial, slopes, basis):
    """Whether n ≥ M can matter in any lane; most tiles of sparse data never need its sum."""
    for lane in range(TILE):
        reach = size * work[LOG_S, lane] - log_factorial[size] + LOG_2
        for v in range(slopes.shape[0]):
            reach += slopes[v, size - 1] * basis[v, lane]
        if work[S, lane] >= 0.5 * size or reach - work[TOP, lane] > NEGLIGIBLE:
            return True
    return False


@compiled
def closed_tile(log_factorial, slopes, by_value, group, start, basis, work, q, t):
    """q(n), log Z and E[n] (COUNT) of a tile; ``work`` holds log s and s at which the counts are weighed."""
    size = slopes.shape[1]
    if size == 1:
        for lane in range(TILE):
            q[t, 0, lane] = 0.0
        _density(q, t, size - 1, slopes, basis, work)
        add_by_value(q, t, size - 1, by_value, group, start, basis)
        for lane in range(TILE):
            work[LOG_Z, lane] = work[OWN, lane] + q[t, 0, lane] + work[LT, lane]
            work[COUNT, lane] = work[TM, lane]
            q[t, 0, lane] = 1.0
        return
    _counts_below(q, t, work, size, log_factorial)
    for b in range(size - 1):
        _density(q, t, b, slopes, basis, work)
        add_by_value(q, t, b, by_value, group, start, basis)
    _top(q, t, work, size - 1)
    if by_value.shape[0] > 0 or _needs_tail(q, t, work, size, log_factorial, slopes, basis):
        _tail(q, t, work, size, log_factorial)
        _density(q, t, size - 1, slopes, basis, work)
        add_by_value(q, t, size - 1, by_value, group, start, basis)
    else:
        for lane in range(TILE):
            q[t, size - 1, lane], work[LAST, lane] = NOTHING, 0.0
    _top(q, t, work, size)
    _normalise(q, t, work, size)


@compiled
def add_by_value(q, t, b, by_value, group, start, basis):
    """h(y, κφ) of the families kept by distinct value, times the cell's weight."""
    if by_value.shape[0] > 0:
        for lane in range(min(TILE, group.shape[0] - start)):
            q[t, b, lane] += by_value[group[start + lane], b] * basis[0, lane]


@compiled
def prepare(work, cells):
    """Lanes beyond the block's last cell get harmless numbers."""
    for lane in range(cells, TILE):
        for row in range(WORK):
            work[row, lane] = 0.0
        work[LOG_S, lane], work[S, lane], work[FACTOR, lane] = 0.0, 1.0, 1.0
