"""Moments of missing cells whose rate of being seen depends on their value: prob/detection.py, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from nmar.kernels.numba.base import fast_entry, inlined
from nmar.kernels.numba.math import exp, log
from nmar.prob.detection import MOST, NODES, SMALL, STEPS

LANES = 64  # cells worked on together
MOMENTS = 9
FARTHEST = 300.0  # log rate at a node, at most
_z, _w = hermegauss(NODES)
_NODE, _LOG_WEIGHT = _z, np.log(_w / _w.sum()) + 0.5 * _z**2


@inlined
def _minus_log_missing(rate, over, inverse):
    """log(1 + u L)/u; ``inverse`` is 1/u."""
    z = over * rate
    return rate * (1.0 - z * (0.5 - z / 3.0)) if z < SMALL else log(1.0 + z) * inverse


@inlined
def _place_nodes(log_rate, slope, over, start, cells, eta, middle, scale, height):
    """Mode of each cell's law, the width of the nodes around it, and the logarithm of its density there."""
    for lane in range(cells):
        s, base = slope[start + lane], min(log_rate[start + lane], MOST)
        log_z = base + 2.0 * log(max(abs(s), 1e-100))
        z = exp(min(log_z, 1.0))
        large = log_z - log(max(log_z, 1.0))
        w = z / (1.0 + z) if log_z < 1.0 else large
        for _ in range(STEPS):
            w = w * (1.0 + log_z - log(w)) / (1.0 + w)
        x = -s * exp(base - w)
        for _ in range(STEPS):
            rate = exp(base + s * x)
            one = 1.0 / (1.0 + over * rate)
            x -= (x + s * rate * one) / (1.0 + s * s * rate * one * one)
        rate = exp(base + s * x)
        one = 1.0 / (1.0 + over * rate)
        eta[lane], middle[lane], scale[lane] = base, x, 1.0 / math.sqrt(1.0 + s * s * rate * one * one)
        height[lane] = -0.5 * x * x - _minus_log_missing(rate, over, 1.0 / max(over, 1e-100))


@inlined
def _sum_nodes(slope, over, start, cells, eta, middle, scale, height, sums, node, log_weight):
    """Weighted sums of 1, x, x², R, R² − H, Rx, (R² − H)x, (R² − H)x² and ∂f/∂u over the nodes of each cell."""
    sums[:, :cells] = 0.0
    inverse = 1.0 / max(over, 1e-100)
    for q in range(node.shape[0]):
        z, weight = node[q], log_weight[q]
        for lane in range(cells):
            x = middle[lane] + scale[lane] * z
            rate = exp(min(eta[lane] + slope[start + lane] * x, FARTHEST))
            away = _minus_log_missing(rate, over, inverse)
            p = exp(weight - 0.5 * x * x - away - height[lane])
            small = over * rate
            one = 1.0 / (1.0 + small)
            by_rate = rate * one
            series = rate * rate * (0.5 - small * (2.0 / 3.0 - 0.75 * small))
            by_over = series if small < SMALL else (away - by_rate) * inverse
            px, pr, square = p * x, p * by_rate, p * by_rate * (by_rate - one)
            sums[0, lane] += p
            sums[1, lane] += px
            sums[2, lane] += px * x
            sums[3, lane] += pr
            sums[4, lane] += square
            sums[5, lane] += pr * x
            sums[6, lane] += square * x
            sums[7, lane] += square * x * x
            sums[8, lane] += p * by_over


@fast_entry
def missing_moments(log_rate, slope, over, node, log_weight, found):
    """Fill ``found`` (9, m) as prob.detection.Missing names its rows."""
    eta, middle, scale, height = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    sums = np.empty((MOMENTS, LANES))
    for start in range(0, log_rate.shape[0], LANES):
        cells = min(LANES, log_rate.shape[0] - start)
        _place_nodes(log_rate, slope, over, start, cells, eta, middle, scale, height)
        _sum_nodes(slope, over, start, cells, eta, middle, scale, height, sums, node, log_weight)
        for lane in range(cells):
            at, total = start + lane, 1.0 / sums[0, lane]
            rate, rate_x = sums[3, lane] * total, sums[5, lane] * total
            found[0, at] = math.log(sums[0, lane] * scale[lane]) + height[lane]
            found[1, at] = sums[1, lane] * total
            found[2, at] = sums[2, lane] * total
            found[3, at] = rate
            found[4, at] = rate * rate - sums[4, lane] * total
            found[5, at] = rate_x
            found[6, at] = rate * rate_x - sums[6, lane] * total
            found[7, at] = rate_x * rate_x - sums[7, lane] * total
            found[8, at] = sums[8, lane] * total


def moments_of_missing(log_rate, slope, over):
    """(9, m) moments of missing cells; see spec.py."""
    found = np.empty((MOMENTS, len(log_rate)))
    rates, slopes = np.ascontiguousarray(log_rate), np.ascontiguousarray(slope)
    missing_moments(rates, slopes, float(over), _NODE, _LOG_WEIGHT, found)
    return found
