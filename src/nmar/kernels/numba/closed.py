"""Compiled: q(n) of a tile of cells with closed bins (theory.md, Count posterior; Thinned counts).

A count e weighs g^e (s^e − (s−1)^e)/e!, which is g^e/e! without thinning. The weight of a bin of several counts is that
of its first one times a polynomial in g, and E[e] needs the polynomial's derivative: both by Horner's rule. Where that
could overflow the bin is summed from its largest weight, one lane at a time. Coefficients of all bins lie behind each
other (:func:`steps_of`), the highest powers first, in runs of ``RUN`` that begin with zeros. No logarithm of a sum is
taken: the sum multiplies the exponential of the rest. Rows of ``work`` and lanes are those of tile.py.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.numba.base import compiled, vectorised
from nmar.kernels.numba.math import exp, expm1, log
from nmar.kernels.numba.tile import (
    COUNT,
    FACTOR,
    LAST,
    LEAST,
    LOG_LEAST,
    LOG_S,
    LOG_Z,
    LT,
    OWN,
    TERM,
    TILE,
    TOP,
    TOTAL,
    S,
    add_by_value,
    both_densities,
)

Array = NDArray[Any]

LOG_2 = math.log(2.0)
NEGLIGIBLE = -45.0  # log of a relative weight far below double precision
NOTHING = -1e300

REST, FIRST, SUM, COUNTS = range(4)  # of ``bins`` (4, B, lanes): largest f from a bin on; log weight of the count that
# a sum begins at; sum of the bin's weights over it; the same sum with every weight times its count
BASE = LT  # a row that holds something else only before the counts' own law is at work
CHECK = 3  # bins after which it is asked whether later ones can matter
RUN = 4  # counts that are added in one pass over the lanes
FAR = 0.9  # ratio of neighbouring terms below which a rest is bounded by a geometric series
LOG_REST = -math.log(1.0 - FAR)
NEARLY_NOTHING = 1e-17
LARGE = 230.0  # log of a sum that may still multiply an exponential without leaving double precision


class Steps(NamedTuple):
    """The polynomial of each bin, in x = g times the ratio of its second weight to its first at g = 1."""

    starts: Array  # (B + 1,) first count of each bin; the last entry ends the table of the open last bin
    places: Array  # (B + 1,) where the coefficients of each bin begin
    coefficients: Array  # from the last count of a bin to its first
    ratios: Array  # weight of count e + 1 over that of count e, at g = 1


def steps_of(log_factorial: Array, starts: Array) -> Steps:
    """The polynomials of all bins from log e! − log(s^e − (s−1)^e); empty where bins are single counts."""
    return _polynomials(log_factorial.tobytes() if len(starts) else b"", tuple(starts.tolist()))


@lru_cache(maxsize=32)  # every block of a fit asks for the same ones
def _polynomials(factorials: bytes, starts: tuple[int, ...]) -> Steps:
    """As :func:`steps_of`."""
    nothing = np.empty(0, np.int64)
    if not starts:
        return Steps(nothing, nothing, np.empty(0), np.empty(0))
    log_factorial = np.frombuffer(factorials)
    ratios = np.exp(log_factorial[:-1] - log_factorial[1:])
    firsts = np.append(starts, len(log_factorial)).astype(np.int64)
    bins = [_coefficients(ratios[low : end - 1]) for low, end in pairwise(firsts.tolist())]
    places = np.cumsum([0, *map(len, bins)]).astype(np.int64)
    return Steps(firsts, places, np.concatenate(bins), ratios)


def _coefficients(ratios: Array) -> Array:
    """Coefficients of 1 + x + (r₂/r₁)x² + (r₂r₃/r₁²)x³ + …, highest first, in whole runs."""
    rising = np.cumprod(np.append(1.0, ratios / ratios[0])) if len(ratios) else np.ones(1)
    filled = np.zeros(-(-len(rising) // RUN) * RUN)
    filled[len(filled) - len(rising) :] = rising[::-1]
    return filled


@vectorised
def _begin_sum(bins, b, work, ratio):
    """Nothing added yet; x of every lane."""
    for lane in range(TILE):
        work[BASE, lane] = work[S, lane] * ratio
        bins[SUM, b, lane], bins[COUNTS, b, lane] = 0.0, 0.0


@vectorised
def _add_run(bins, b, work, coefficients, place):
    """Horner's rule for the next RUN coefficients, of the polynomial (SUM) and of its derivative (COUNTS)."""
    c0, c1, c2, c3 = coefficients[place], coefficients[place + 1], coefficients[place + 2], coefficients[place + 3]
    for lane in range(TILE):
        x, p, d = work[BASE, lane], bins[SUM, b, lane], bins[COUNTS, b, lane]
        d = d * x + p
        p = p * x + c0
        d = d * x + p
        p = p * x + c1
        d = d * x + p
        p = p * x + c2
        bins[COUNTS, b, lane] = d * x + p
        bins[SUM, b, lane] = p * x + c3


@vectorised
def _end_up(bins, b, work, low, log_low):
    """What a sum upwards from the first count leaves."""
    for lane in range(TILE):
        bins[FIRST, b, lane] = low * work[LOG_S, lane] - log_low
        bins[COUNTS, b, lane] = low * bins[SUM, b, lane] + work[BASE, lane] * bins[COUNTS, b, lane]


@compiled
def _from_largest(bins, b, lane, work, low, high, thinning, log_factorial, ratios):
    """Sums of one lane's bin from near its largest weight, up and down, until the rest is nothing."""
    g = work[S, lane]
    middle = np.int64(min(max(thinning * g, 1.0 * low), 1.0 * high))
    total, counts = 1.0, 1.0 * middle
    term, e = 1.0, middle
    while e < high and term > NEARLY_NOTHING:
        term *= g * ratios[e]
        e += 1
        total += term
        counts += e * term
    term, e = 1.0, middle
    while e > low and term > NEARLY_NOTHING:
        e -= 1
        term /= g * ratios[e]
        total += term
        counts += e * term
    bins[FIRST, b, lane] = middle * work[LOG_S, lane] - log_factorial[middle]
    bins[SUM, b, lane], bins[COUNTS, b, lane] = total, counts


@compiled
def _wide_bin(bins, b, work, most, log_factorial, steps, thinning):
    """Sums of a bin of several counts that ends; ``most`` is the largest g of the tile."""
    starts, places, coefficients, ratios = steps
    low, high = starts[b], starts[b + 1] - 1
    limit = math.exp(LARGE / (high - low)) / ratios[low]
    _begin_sum(bins, b, work, ratios[low])
    for place in range(places[b], places[b + 1], RUN):
        _add_run(bins, b, work, coefficients, place)
    _end_up(bins, b, work, 1.0 * low, log_factorial[low])
    if most > limit:
        for lane in range(TILE):
            if work[S, lane] > limit:
                _from_largest(bins, b, lane, work, low, high, thinning, log_factorial, ratios)


@vectorised
def _begin_tail(bins, b, work, ratio, limit):
    """As _begin_sum; lanes beyond ``limit`` take no part in the series. Returns the largest base."""
    most = 0.0
    for lane in range(TILE):
        x = work[S, lane] * ratio if work[S, lane] < limit else 0.0
        work[BASE, lane] = x
        bins[SUM, b, lane], bins[COUNTS, b, lane] = 0.0, 0.0
        most = max(most, x)
    return most


@compiled
def _tail(bins, b, work, log_factorial, steps, thinning):
    """The last bin, which has no end: a series where sg < M + 1, else all counts less those below M."""
    starts, places, coefficients, ratios = steps
    low = starts[b]
    limit = (low + 1.0) / thinning
    most = _begin_tail(bins, b, work, ratios[low], limit)
    place, power = places[b + 1] - RUN, most**RUN
    reach = power
    while place > places[b] and reach * coefficients[place] > NEARLY_NOTHING:  # the lane of the largest g decides
        place -= RUN
        reach *= power
    while place < places[b + 1]:
        _add_run(bins, b, work, coefficients, place)
        place += RUN
    _end_up(bins, b, work, 1.0 * low, log_factorial[low])
    for lane in range(TILE):
        if work[S, lane] >= limit:
            _all_less_below(bins, b, work, log_factorial, starts, limit, thinning)
            break


@compiled
def _all_less_below(bins, last, work, log_factorial, starts, limit, thinning):
    """The last bin of lanes with sg ≥ M + 1: e^{sg}(1 − e^{−g}) less the weights of the other bins, which are less."""
    for lane in range(TILE):
        work[TERM, lane], work[TOTAL, lane] = 0.0, 0.0  # share of the counts below M, and their part of the mean
        g = max(work[S, lane], limit)
        work[LAST, lane] = thinning * g + log(-expm1(-g))
    for b in range(last):
        low = starts[b]
        if starts[b + 1] == low + 1:
            _add_single(work, 1.0 * low, log_factorial[low])
        else:
            _add_wide(work, bins, b)
    _close_tail(bins, last, work, limit, thinning)


@vectorised
def _add_single(work, count, log_factorial):
    for lane in range(TILE):
        share = exp(count * work[LOG_S, lane] - log_factorial - work[LAST, lane])
        work[TERM, lane] += share
        work[TOTAL, lane] += share * count


@vectorised
def _add_wide(work, bins, b):
    for lane in range(TILE):
        share = exp(bins[FIRST, b, lane] - work[LAST, lane])
        work[TERM, lane] += share * bins[SUM, b, lane]
        work[TOTAL, lane] += share * bins[COUNTS, b, lane]


@vectorised
def _close_tail(bins, last, work, limit, thinning):
    for lane in range(TILE):
        g = max(work[S, lane], limit)
        above = max(1.0 - work[TERM, lane], LEAST)
        mean, far = (thinning - 1.0) * g - g / expm1(-g), work[S, lane] >= limit
        bins[FIRST, last, lane] = work[LAST, lane] if far else bins[FIRST, last, lane]
        bins[SUM, last, lane] = above if far else bins[SUM, last, lane]
        bins[COUNTS, last, lane] = mean - work[TOTAL, lane] if far else bins[COUNTS, last, lane]


@vectorised
def _densities(q, t, slopes, basis):
    """f of every bin."""
    for b in range(slopes.shape[1]):
        constant, first = slopes[0, b], slopes[min(1, slopes.shape[0] - 1), b]
        for lane in range(TILE):
            q[t, b, lane] = constant * basis[0, lane] + first * basis[1, lane]
        for v in range(2, slopes.shape[0]):
            slope = slopes[v, b]
            for lane in range(TILE):
                q[t, b, lane] += slope * basis[v, lane]


@vectorised
def _largest_after(q, t, size, bins, work):
    """The largest f of all bins from each CHECK-th one on."""
    for lane in range(TILE):
        work[TERM, lane] = NOTHING
    for b in range(size - 1, 0, -1):
        for lane in range(TILE):
            work[TERM, lane] = max(work[TERM, lane], q[t, b, lane])
        if b % CHECK == 0:
            for lane in range(TILE):
                bins[REST, b, lane] = work[TERM, lane]


@vectorised
def _matters(work, bins, b, low, log_low, ratio):
    """Whether counts from ``low`` on can matter in any lane, given the terms so far (TOP)."""
    worst = NOTHING
    for lane in range(TILE):
        rest = low * work[LOG_S, lane] - log_low + LOG_REST + bins[REST, b, lane] - work[TOP, lane]
        worst = max(worst, rest if work[S, lane] * ratio < FAR else 0.0)
    return worst > NEGLIGIBLE


@vectorised
def _complete_singles(q, t, b, end, work, count, log_factorial):
    """f of bins of one count and their log weights, and the largest term so far; ``count`` is the first bin's."""
    for each in range(b, end):
        e = count + (each - b)
        constant = -log_factorial[e]
        for lane in range(TILE):
            term = q[t, each, lane] + (e * work[LOG_S, lane] + constant)
            q[t, each, lane] = term
            work[TOP, lane] = max(work[TOP, lane], term)


@vectorised
def _complete_wide(q, t, b, work, first):
    """The same of a bin of several counts, with the log weight of the count its sum begins at."""
    for lane in range(TILE):
        term = q[t, b, lane] + first[lane]
        q[t, b, lane] = term
        work[TOP, lane] = max(work[TOP, lane], term)


@vectorised
def _take_singles(q, t, b, end, work, count):
    """Terms over the largest one, added to the total and to the mean count."""
    for each in range(b, end):
        n = 1.0 * (count + (each - b))
        for lane in range(TILE):
            e = exp(q[t, each, lane] - work[TOP, lane])
            q[t, each, lane] = e
            work[TOTAL, lane] += e
            work[COUNT, lane] += e * n


@vectorised
def _take_wide(q, t, b, work, total, counts):
    """The same of a bin of several counts."""
    for lane in range(TILE):
        e = exp(q[t, b, lane] - work[TOP, lane])
        q[t, b, lane] = e * total[lane]
        work[TOTAL, lane] += e * total[lane]
        work[COUNT, lane] += e * counts[lane]


@compiled
def _normalise(q, t, work, bins, starts, used):
    """Terms of the bins used to probabilities; log Z and the mean count."""
    for lane in range(TILE):
        work[TOTAL, lane], work[COUNT, lane] = 0.0, 0.0
    b = 0
    while b < used:
        end = _singles(starts, b, used)
        if end > b:
            _take_singles(q, t, b, end, work, starts[b])
        else:
            _take_wide(q, t, b, work, bins[SUM, b], bins[COUNTS, b])
        b = max(end, b + 1)
    _divide(q, t, work, used)


@compiled
def _singles(starts, b, most):
    """The first bin from b on that has several counts, or ``most``."""
    while b < most and starts[b + 1] == starts[b] + 1:
        b += 1
    return b


@vectorised
def _divide(q, t, work, used):
    for lane in range(TILE):
        work[LOG_Z, lane] = work[OWN, lane] + work[TOP, lane]
        work[FACTOR, lane] = work[TOTAL, lane]
        work[TOTAL, lane] = 1.0 / work[TOTAL, lane]
        work[COUNT, lane] *= work[TOTAL, lane]
    for b in range(used):
        for lane in range(TILE):
            q[t, b, lane] *= work[TOTAL, lane]
    for b in range(used, q.shape[1]):
        for lane in range(TILE):
            q[t, b, lane] = 0.0


@vectorised
def _begin_tops(work):
    """No term yet; returns the largest g of the tile."""
    most = 0.0
    for lane in range(TILE):
        work[TOP, lane] = NOTHING
        most = max(most, work[S, lane])
    return most


@compiled
def closed_tile(tables, group, start, basis, work, bins, q, t):
    """q, log Z and the mean count (COUNT) of a tile; bins are visited until no later count can matter in any lane."""
    thinning, log_factorial, slopes, by_value, steps = tables
    starts, size, used = steps[0], slopes.shape[1], 0
    _densities(q, t, slopes, basis)
    if by_value.shape[0] > 0:
        for b in range(size):
            add_by_value(q, t, b, by_value, group, start, basis)
    _largest_after(q, t, size, bins, work)
    most = _begin_tops(work)
    while used < size:
        low = starts[used]
        checked = used % CHECK == 0 and used > 0
        if checked and not _matters(work, bins, used, 1.0 * low, log_factorial[low], steps[3][low]):
            break
        end = _singles(starts, used, min(size, used + CHECK - used % CHECK))
        if end > used:
            _complete_singles(q, t, used, end, work, low, log_factorial)
        else:
            if used == size - 1:
                _tail(bins, used, work, log_factorial, steps, thinning)
            else:
                _wide_bin(bins, used, work, most, log_factorial, steps, thinning)
            _complete_wide(q, t, used, work, bins[FIRST, used])
        used = max(end, used + 1)
    _normalise(q, t, work, bins, starts, used)


@compiled
def parity_tile(slopes, by_value, thinning, group, start, basis, work, q, t):
    """q, log Z and the mean count of counts that matter by their parity alone."""
    both_densities(q, t, slopes, basis)
    for b in range(2):
        add_by_value(q, t, b, by_value, group, start, basis)
    _parities(q, t, work, thinning)


@vectorised
def _parities(q, t, work, thinning):
    """Odd counts weigh A(1 + E) and even ones A(1 − E) times e^{sg}/2, A = 1 − e^{−g}, E = e^{−2h}, h = (s − ½)g.

    Their means are h(1 − E)/(1 + E) and h(1 + E)/(1 − E), and (g/2)(1 + e^{−g})/A more.
    """
    for lane in range(TILE):
        below = min(work[LOG_S, lane] - LOG_LEAST, 0.0)  # g of a single count, gh of two: all that matters there
        q[t, 0, lane] += below
        q[t, 1, lane] += 2.0 * below
        work[TERM, lane] = exp(-abs(q[t, 1, lane] - q[t, 0, lane]))
    for lane in range(TILE):
        g, apart, less = max(work[S, lane], LEAST), q[t, 1, lane] - q[t, 0, lane], work[TERM, lane]
        odd, even = (less, 1.0) if apart > 0.0 else (1.0, less)  # densities over the larger of the two
        h, above = (thinning - 0.5) * g, -expm1(-g)
        minus = above if thinning == 1.0 else -expm1(-2.0 * h)
        plus = 2.0 - minus
        total = odd * plus + even * minus
        inverse = 1.0 / (above * total)
        work[COUNT, lane] = inverse * (0.5 * g * (2.0 - above) * total + h * above * (odd * minus + even * plus))
        work[LOG_Z, lane] = work[OWN, lane] + max(q[t, 0, lane], q[t, 1, lane]) + (thinning * g - LOG_2)
        work[FACTOR, lane] = above * total
        q[t, 0, lane] = odd * plus * above * inverse
        q[t, 1, lane] = even * minus * above * inverse
