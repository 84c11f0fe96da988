"""Compiled: the posterior of thinned counts of a tile of cells with closed bins (theory.md, Thinned counts).

A count e weighs g^e (s^e − (s−1)^e)/e!. A bin of several counts is summed from the end where its terms are largest:
upwards from its first count where they fall before its last, else downwards from the last, so that no term overflows.
From one count to the next a term is multiplied by g and a constant; the constants of all bins lie behind each other
(:func:`steps_of`), in runs of ``RUN`` filled up with zeros. Rows of ``work`` and lanes are those of cpu_tile.py.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.cpu_base import compiled, vectorised
from nmar.kernels.cpu_cell import THINNING
from nmar.kernels.cpu_math import exp, expm1, log
from nmar.kernels.cpu_tile import (
    COUNT,
    FACTOR,
    LAST,
    LEAST,
    LOG_2,
    LOG_LEAST,
    LOG_S,
    LOG_Z,
    LT,
    NEGLIGIBLE,
    NOTHING,
    OWN,
    TERM,
    TILE,
    TM,
    TOP,
    TOTAL,
    S,
    add_by_value,
    both_densities,
)

Array = NDArray[Any]

REST, WEIGHT, MEAN = range(3)  # of ``bins`` (3, B, lanes): largest f from a bin on; log weight and mean count of it
BASE, UPWARDS = LT, TM  # rows that hold something else only before the counts' own law is at work
CHECK = 3  # bins after which it is asked whether later ones can matter
RUN = 4  # counts that are added in one pass over the lanes
FAR = 0.9  # ratio of neighbouring terms below which a rest is bounded by a geometric series
LOG_REST = -math.log(1.0 - FAR)
NEARLY_NOTHING = 1e-17


class Steps(NamedTuple):
    """What multiplies g from one count to the next, for every bin."""

    starts: Array  # (B + 1,) first count of each bin; the last entry ends the table of the open last bin
    places: Array  # (B + 1,) where the constants of each bin begin
    up: Array  # from the first count upwards
    down: Array  # from the last count downwards
    log_shares: Array  # (M,) log probability of each level of a tail


def steps_of(log_factorial: Array, starts: Array, shares: Array) -> Steps:
    """The constants of all bins from log e! − log(s^e − (s−1)^e); empty where bins are single counts."""
    if not len(starts):
        nothing = np.empty(0, np.int64)
        return Steps(nothing, nothing, np.empty(0), np.empty(0), np.log(shares))
    first = np.append(starts, len(log_factorial)).astype(np.int64)
    ratios = np.exp(log_factorial[:-1] - log_factorial[1:])  # of count e + 1 to count e
    places, up, down = [0], [], []
    for low, end in pairwise(first.tolist()):
        length = -(-(end - low - 1) // RUN) * RUN
        filled = np.zeros((2, length))
        inside = ratios[low : end - 1]
        filled[0, : len(inside)], filled[1, : len(inside)] = inside, 1.0 / inside[::-1]
        up.append(filled[0])
        down.append(filled[1])
        places.append(places[-1] + length)
    return Steps(first, np.array(places, np.int64), np.concatenate(up), np.concatenate(down), np.log(shares))


@vectorised
def _begin_bin(work, last_ratio):
    """Which end of a bin its sum begins at: its last count where terms still rise there."""
    for lane in range(TILE):
        g = work[S, lane]
        rising = g * last_ratio > 1.0
        work[UPWARDS, lane] = 0.0 if rising else 1.0
        work[BASE, lane] = 1.0 / g if rising else g
        work[TERM, lane], work[TOTAL, lane], work[LAST, lane] = 1.0, 1.0, 0.0


@vectorised
def _add_run(work, steps_up, steps_down, place, count):
    """Add RUN more counts, the next of which is ``count`` counts from the first."""
    up0, up1, up2, up3 = steps_up[place], steps_up[place + 1], steps_up[place + 2], steps_up[place + 3]
    down0, down1, down2, down3 = steps_down[place], steps_down[place + 1], steps_down[place + 2], steps_down[place + 3]
    for lane in range(TILE):
        base, upwards = work[BASE, lane], work[UPWARDS, lane] > 0.5
        t0 = work[TERM, lane] * (base * (up0 if upwards else down0))
        t1 = t0 * (base * (up1 if upwards else down1))
        t2 = t1 * (base * (up2 if upwards else down2))
        t3 = t2 * (base * (up3 if upwards else down3))
        work[TERM, lane] = t3
        work[TOTAL, lane] += (t0 + t1) + (t2 + t3)
        work[LAST, lane] += (count * t0 + (count + 1.0) * t1) + ((count + 2.0) * t2 + (count + 3.0) * t3)


@vectorised
def _end_bin(bins, b, work, low, high, log_low, log_high):
    """Log weight and mean count of a bin whose counts have been added."""
    for lane in range(TILE):
        upwards, inner = work[UPWARDS, lane] > 0.5, work[LAST, lane] / work[TOTAL, lane]
        first = low * work[LOG_S, lane] - log_low if upwards else high * work[LOG_S, lane] - log_high
        bins[WEIGHT, b, lane] = first + log(work[TOTAL, lane])
        bins[MEAN, b, lane] = low + inner if upwards else high - inner


@compiled
def _wide_bin(bins, b, work, log_factorial, steps):
    """Log weight and mean count of a bin of several counts that ends."""
    starts, places, up, down, _ = steps
    low, high = starts[b], starts[b + 1] - 1
    _begin_bin(work, up[places[b] + high - low - 1])
    for place in range(places[b], places[b + 1], RUN):
        _add_run(work, up, down, place, place - places[b] + 1.0)
    _end_bin(bins, b, work, 1.0 * low, 1.0 * high, log_factorial[low], log_factorial[high])


@vectorised
def _begin_tail(work, limit):
    """The first term of the last bin; lanes beyond ``limit`` take no part in its series. Returns the largest rate."""
    most = 0.0
    for lane in range(TILE):
        g = work[S, lane] if work[S, lane] < limit else 0.0
        work[BASE, lane], work[UPWARDS, lane] = g, 1.0
        work[TERM, lane], work[TOTAL, lane], work[LAST, lane] = 1.0, 1.0, 0.0
        most = max(most, g)
    return most


@compiled
def _tail(bins, b, work, log_factorial, steps, thinning):
    """The last bin, which has no end: a series where sg < M + 1, else all counts less those below M."""
    starts, places, up, down, _ = steps
    low = starts[b]
    limit = (low + 1.0) / thinning
    most, reach = _begin_tail(work, limit), 1.0
    for place in range(places[b], places[b + 1], RUN):
        _add_run(work, up, down, place, place - places[b] + 1.0)
        for step in range(RUN):
            reach *= most * up[place + step]
        if reach < NEARLY_NOTHING:  # the widest lane decides; its terms fall faster and faster
            break
    _end_bin(bins, b, work, 1.0 * low, 1.0 * low, log_factorial[low], log_factorial[low])
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
        share = exp(bins[WEIGHT, b, lane] - work[LAST, lane])
        work[TERM, lane] += share
        work[TOTAL, lane] += share * bins[MEAN, b, lane]


@vectorised
def _close_tail(bins, last, work, limit, thinning):
    for lane in range(TILE):
        g = max(work[S, lane], limit)
        above = max(1.0 - work[TERM, lane], LEAST)
        mean, far = (thinning - 1.0) * g - g / expm1(-g), work[S, lane] >= limit
        bins[WEIGHT, last, lane] = work[LAST, lane] + log(above) if far else bins[WEIGHT, last, lane]
        bins[MEAN, last, lane] = (mean - work[TOTAL, lane]) / above if far else bins[MEAN, last, lane]


@vectorised
def _densities(q, t, slopes, basis):
    """f of every pair of bin and level."""
    for pair in range(slopes.shape[1]):
        constant, first = slopes[0, pair], slopes[min(1, slopes.shape[0] - 1), pair]
        for lane in range(TILE):
            q[t, pair, lane] = constant * basis[0, lane] + first * basis[1, lane]
        for v in range(2, slopes.shape[0]):
            slope = slopes[v, pair]
            for lane in range(TILE):
                q[t, pair, lane] += slope * basis[v, lane]


@vectorised
def _largest_after(q, t, size, levels, bins, work):
    """The largest f, at any level of the tail, of all bins from each CHECK-th one on."""
    for lane in range(TILE):
        work[TERM, lane] = NOTHING
    for b in range(size - 1, 0, -1):
        for pair in range(b * levels, (b + 1) * levels):
            for lane in range(TILE):
                work[TERM, lane] = max(work[TERM, lane], q[t, pair, lane])
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
def _complete_single(q, t, pair, work, count, constant):
    """f of a bin of one count and its log weight, and the largest term so far."""
    for lane in range(TILE):
        term = q[t, pair, lane] + (count * work[LOG_S, lane] + constant)
        q[t, pair, lane] = term
        work[TOP, lane] = max(work[TOP, lane], term)


@vectorised
def _complete_wide(q, t, pair, work, weight, constant):
    """The same of a bin whose log weight is known."""
    for lane in range(TILE):
        term = q[t, pair, lane] + (weight[lane] + constant)
        q[t, pair, lane] = term
        work[TOP, lane] = max(work[TOP, lane], term)


@vectorised
def _exponentiate(q, t, pair, work):
    """A term over the largest one, added to the total."""
    for lane in range(TILE):
        e = exp(q[t, pair, lane] - work[TOP, lane])
        q[t, pair, lane] = e
        work[TERM, lane] += e


@vectorised
def _count_single(work, count):
    for lane in range(TILE):
        work[TOTAL, lane] += work[TERM, lane]
        work[COUNT, lane] += work[TERM, lane] * count
        work[TERM, lane] = 0.0


@vectorised
def _count_wide(work, mean):
    for lane in range(TILE):
        work[TOTAL, lane] += work[TERM, lane]
        work[COUNT, lane] += work[TERM, lane] * mean[lane]
        work[TERM, lane] = 0.0


@compiled
def _normalise(q, t, work, bins, starts, used, levels):
    """Terms of the bins used to probabilities; log Z and the mean count."""
    for lane in range(TILE):
        work[TOTAL, lane], work[COUNT, lane], work[TERM, lane] = 0.0, 0.0, 0.0
    for b in range(used):
        for pair in range(b * levels, (b + 1) * levels):
            _exponentiate(q, t, pair, work)
        if starts[b + 1] == starts[b] + 1:
            _count_single(work, 1.0 * starts[b])
        else:
            _count_wide(work, bins[MEAN, b])
    _divide(q, t, work, used * levels)


@vectorised
def _divide(q, t, work, used):
    for lane in range(TILE):
        work[LOG_Z, lane] = work[OWN, lane] + work[TOP, lane]
        work[FACTOR, lane] = work[TOTAL, lane]
        work[TOTAL, lane] = 1.0 / work[TOTAL, lane]
        work[COUNT, lane] *= work[TOTAL, lane]
    for pair in range(used):
        for lane in range(TILE):
            q[t, pair, lane] *= work[TOTAL, lane]
    for pair in range(used, q.shape[1]):
        for lane in range(TILE):
            q[t, pair, lane] = 0.0


@compiled
def thinned_tile(law, group, start, basis, work, bins, q, t):
    """q, log Z and the mean count (COUNT) of a tile; bins are visited until no later count can matter in any lane."""
    numbers, log_factorial, slopes, by_value, steps = law[1], law[2], law[3], law[7], law[8]
    starts, log_shares = steps[0], steps[4]
    levels = log_shares.shape[0]
    size, used = slopes.shape[1] // levels, 0
    _densities(q, t, slopes, basis)
    if by_value.shape[0] > 0:
        for pair in range(slopes.shape[1]):
            add_by_value(q, t, pair, by_value, group, start)
    _largest_after(q, t, size, levels, bins, work)
    for lane in range(TILE):
        work[TOP, lane] = NOTHING
    while used < size:
        low = starts[used]
        if used % CHECK == 0 and used > 0:
            ratio = math.exp(log_factorial[low] - log_factorial[low + 1])
            if not _matters(work, bins, used, 1.0 * low, log_factorial[low], ratio):
                break
        single = starts[used + 1] == low + 1
        if used == size - 1:
            _tail(bins, used, work, log_factorial, steps, numbers[THINNING])
        elif not single:
            _wide_bin(bins, used, work, log_factorial, steps)
        for level in range(levels):
            if single:
                _complete_single(q, t, used * levels + level, work, 1.0 * low, log_shares[level] - log_factorial[low])
            else:
                _complete_wide(q, t, used * levels + level, work, bins[WEIGHT, used], log_shares[level])
        used += 1
    _normalise(q, t, work, bins, starts, used, levels)


@compiled
def thinned_parity_tile(law, group, start, basis, work, q, t):
    """q, log Z and the mean count of counts that matter by their parity alone: see cpu_tile.parity_tile."""
    both_densities(q, t, law[3], basis)
    for b in range(2):
        add_by_value(q, t, b, law[7], group, start)
    _parities(q, t, work, law[1][THINNING])


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
        minus = -expm1(-2.0 * h)
        plus = 2.0 - minus
        total = odd * plus + even * minus
        inverse = 1.0 / total
        work[COUNT, lane] = 0.5 * g * (2.0 - above) / above + h * inverse * (odd * minus + even * plus)
        work[LOG_Z, lane] = work[OWN, lane] + max(q[t, 0, lane], q[t, 1, lane]) + (thinning * g - LOG_2)
        work[FACTOR, lane] = above * total
        q[t, 0, lane] = odd * plus * inverse
        q[t, 1, lane] = even * minus * inverse
