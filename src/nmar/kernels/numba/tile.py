"""Compiled: what count posteriors of a tile of cells share, and that of a single bin (theory.md, Count posterior).

Arrays end in a lane axis of ``TILE`` cells, so every loop over lanes is a loop over vector registers. ``work`` rows
hold log s, s, the own part of f, log Z without the logarithm of FACTOR, E[n] for the pattern and E[n] of the counts.
ALONE is log Z of the pattern where the counts have a law of their own.
"""

from __future__ import annotations

import math

from nmar.kernels.numba.base import compiled, vectorised
from nmar.kernels.numba.math import expm1, log

TILE = 128
LOG_S, S, OWN, LOG_Z, FACTOR, MEAN, COUNT, TOP, TOTAL, TERM, LAST, LT, TM, ALONE = range(14)
WORK = 14

SMALL = 1e-8
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
def both_densities(q, t, slopes, basis):
    """f of both bins."""
    for lane in range(TILE):
        q[t, 0, lane], q[t, 1, lane] = slopes[0, 0] * basis[0, lane], slopes[0, 1] * basis[0, lane]
    for v in range(1, slopes.shape[0]):
        odd, even = slopes[v, 0], slopes[v, 1]
        for lane in range(TILE):
            q[t, 0, lane] += odd * basis[v, lane]
            q[t, 1, lane] += even * basis[v, lane]


@compiled
def single_tile(slopes, by_value, group, start, basis, work, q, t):
    """log Z and E[n] of a tile whose counts have one bin; ``work`` holds log Z and E[n] of the counts alone."""
    for lane in range(TILE):
        q[t, 0, lane] = 0.0
    for v in range(slopes.shape[0]):
        for lane in range(TILE):
            q[t, 0, lane] += slopes[v, 0] * basis[v, lane]
    add_by_value(q, t, 0, by_value, group, start, basis)
    for lane in range(TILE):
        work[LOG_Z, lane] = work[OWN, lane] + q[t, 0, lane] + work[LT, lane]
        work[COUNT, lane] = work[TM, lane]
        q[t, 0, lane] = 1.0


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
