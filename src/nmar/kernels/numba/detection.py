"""Moments of missing cells whose rate of being seen depends on their value: prob/detection.py, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from nmar.kernels.numba.base import fast_entry, inlined
from nmar.kernels.numba.math import exp, log
from nmar.prob.detection import MOST, NODES, STEPS

LANES = 64  # cells worked on together
MOMENTS = 8
_z, _w = hermegauss(NODES)
_NODE, _LOG_WEIGHT = _z, np.log(_w / _w.sum()) + 0.5 * _z**2


@inlined
def _place_nodes(log_rate, slope, start, cells, eta, middle, scale, height):
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
        eta[lane], middle[lane], scale[lane] = base, x, 1.0 / math.sqrt(1.0 + w)
        height[lane] = -0.5 * x * x - exp(base + s * x)


@inlined
def _sum_nodes(slope, start, cells, eta, middle, scale, height, sums, node, log_weight):
    """Weighted sums of 1, x, x², L, L², Lx, L²x, Lx², L²x² over the nodes of each cell."""
    sums[:, :cells] = 0.0
    for q in range(node.shape[0]):
        z, weight = node[q], log_weight[q]
        for lane in range(cells):
            x = middle[lane] + scale[lane] * z
            rate = exp(eta[lane] + slope[start + lane] * x)
            p = exp(weight - 0.5 * x * x - rate - height[lane])
            px, pr = p * x, p * rate
            sums[0, lane] += p
            sums[1, lane] += px
            sums[2, lane] += px * x
            sums[3, lane] += pr
            sums[4, lane] += pr * rate
            sums[5, lane] += pr * x
            sums[6, lane] += pr * rate * x
            sums[7, lane] += pr * x * x
            sums[8, lane] += pr * rate * x * x


@fast_entry
def missing_moments(log_rate, slope, node, log_weight, found):
    """Fill ``found`` (8, m) as prob.detection.Missing names its rows."""
    eta, middle, scale, height = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    sums = np.empty((9, LANES))
    for start in range(0, log_rate.shape[0], LANES):
        cells = min(LANES, log_rate.shape[0] - start)
        _place_nodes(log_rate, slope, start, cells, eta, middle, scale, height)
        _sum_nodes(slope, start, cells, eta, middle, scale, height, sums, node, log_weight)
        for lane in range(cells):
            at, total = start + lane, 1.0 / sums[0, lane]
            rate, rate_x = sums[3, lane] * total, sums[5, lane] * total
            found[0, at] = math.log(sums[0, lane] * scale[lane]) + height[lane]
            found[1, at] = sums[1, lane] * total
            found[2, at] = sums[2, lane] * total
            found[3, at] = rate
            found[4, at] = rate - (sums[4, lane] * total - rate * rate)
            found[5, at] = rate_x
            found[6, at] = rate_x - (sums[6, lane] * total - rate * rate_x)
            found[7, at] = sums[7, lane] * total - (sums[8, lane] * total - rate_x * rate_x)


def moments_of_missing(log_rate, slope):
    """(8, m) moments of missing cells; see spec.py."""
    found = np.empty((MOMENTS, len(log_rate)))
    missing_moments(np.ascontiguousarray(log_rate), np.ascontiguousarray(slope), _NODE, _LOG_WEIGHT, found)
    return found
