"""Compiled: a diagonal normal line from sums over its cells, by conjugate gradients.

Given the other side, the means of a mean-field line maximise a quadratic with the matrix Σ ω (bb' + diag Var[b]) plus
prior, and its variances are one over the diagonal of that matrix. A few preconditioned steps from where the means are
bring nearly all of the gain, and no step can lose. Each is one pass over the line's cells, which are still in cache.
"""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import compiled, fast, inlined
from nmar.kernels.numba.lines import add_lines, line_dots, line_moments
from nmar.kernels.numba.math import log
from nmar.kernels.numba.tile import TILE

SPAN = 32  # cells whose lines stay in the first cache
NEAR = 512  # cells whose lines stay in the second cache
RIGHT, DIAGONAL, EXTRA, DIRECTION, IMAGE = range(5)


@inlined
def descend_line(
    indices, lo, hi, mine, theirs, i, K, S, D, weight, sums, prior, steps, new, cells, room, ask, SHARE, BOTH
):  # fmt: skip
    """New means and variances of line i, whose cells are ``lo`` … ``hi``, and both moments of its cells after them.

    Enters: ``weight`` ω of the cells; in ``sums`` Σ (ωt − ωμ) b, Σ ω b² and Σ ω Var[b] of the line; its ``prior``
    (spec.NormalPrior). Leaves: the line in ``new`` (spec.NormalLines); in ``cells``, where there is room for them, E[μ]
    and its variance. Means begin at column K of a line and variances at column S. Meanwhile cells that come next are
    asked for (``ask``: from which to which, from which column on), SHARE columns in each of two steps. Where this
    line's own cells have not stayed in cache, they are asked for again, BOTH columns for the moments. D is the width of
    a section, in whole vectors.
    """
    vectors, own, dots, shares, part, total = room
    mean, variance, log_det = new
    log_det[i], gain = _prepare(i, K, mine, sums, prior, mean, variance, vectors, own)
    far, free = hi - lo > NEAR, prior[2]
    for step in range(steps):
        if not gain > 0.0:
            break
        last, curve = step == steps - 1, 0.0
        later, until, column = ask[0] - lo, ask[1] if step < 2 else 0, ask[2] + step * SHARE
        if far and last:
            later, until, column = TILE, hi, K
        also = hi if far else 0
        for start in range(lo, hi, SPAN):
            stop = min(start + SPAN, hi)
            line_dots(theirs, indices, start, stop, own, 0, K, D, dots, start, later, until, column, SHARE)
            for lane in range(stop - start):
                shares[lane] = weight[start + lane] * dots[lane]
            if last:
                curve += _inner(shares, dots, stop - start)
                continue
            add_lines(theirs, indices, start, stop, K, D, shares, part, start, TILE, also, K, D)
            if (stop - lo) % TILE == 0 or stop == hi:
                flush(total, part)
        if last:
            _last_step(i, K, curve, mean, vectors, own)
        else:
            gain = _step(i, K, gain, free, total, mean, vectors, own)
    if cells[1].shape[0] == 0:
        return
    for k in range(mean.shape[1]):
        own[0, K + k], own[0, S + k] = mean[i, k], variance[i, k]
    line_moments(
        theirs, indices, lo, hi, own, 0, K, S, D, cells[0], cells[1], 0, TILE, hi if far else 0, K, BOTH
    )  # fmt: skip


@compiled
def empty_lines(indptr, mine, K, prior, new):
    """Lines without cells fall back to their prior."""
    for i in range(indptr.shape[0] - 1):
        if indptr[i] == indptr[i + 1]:
            new[2][i] = 0.0
            for k in range(new[0].shape[1]):
                free = prior[2][k]
                own = i if prior[0].shape[0] > 1 else 0
                precision = prior[1][k] * prior[3][i] if prior[3].shape[0] > 0 else prior[1][k]
                new[0][i, k] = prior[0][own, k] if free else mine[i, K + k]
                new[1][i, k] = 1.0 / precision if free else 0.0
                new[2][i] -= math.log(precision) if free else 0.0


@fast
def flush(total, part):
    """Move what a run of cells added to the float64 sums of the line."""
    for k in range(total.shape[0]):
        total[k] += part[k]
        part[k] = part.dtype.type(0.0)


@fast
def _prepare(i, K, mine, sums, prior, mean, variance, vectors, own):
    """The system of a line and the first direction, preconditioned by the diagonal.

    Returns the log determinant of the line's covariance and r'z, whose half bounds what is to be gained.
    """
    prior_mean, prior_precision, free, scale = prior
    times = scale[i] if scale.shape[0] > 0 else 1.0
    line = i if prior_mean.shape[0] > 1 else 0
    gain, log_det = 0.0, 0.0
    for k in range(mean.shape[1]):
        old, noise = np.float64(mine[i, K + k]), sums[2][k]
        mean[i, k] = mine[i, K + k]
        vectors[EXTRA, k] = noise + times * prior_precision[k]
        vectors[DIAGONAL, k] = sums[1][k] + vectors[EXTRA, k]
        right = sums[0][k] + times * prior_precision[k] * (prior_mean[line, k] - old) - noise * old
        vectors[RIGHT, k] = right if free[k] else 0.0
    for k in range(mean.shape[1]):
        inverse = 1.0 / vectors[DIAGONAL, k]
        variance[i, k] = inverse if free[k] else 0.0
        vectors[DIRECTION, k] = vectors[RIGHT, k] * inverse
        gain += vectors[RIGHT, k] * vectors[DIRECTION, k]
        own[0, K + k] = vectors[DIRECTION, k]
    for k in range(mean.shape[1]):
        log_det -= log(vectors[DIAGONAL, k]) if free[k] else 0.0
    return log_det, gain


@fast
def _inner(a, b, count):
    total = 0.0
    for lane in range(count):
        total += np.float64(a[lane]) * b[lane]
    return total


@fast
def _last_step(i, K, curve, mean, vectors, own):
    """Go to the best point along the last direction, whose image nobody needs: ``curve`` is Σ ω (b'd)² of the cells."""
    along = 0.0
    for k in range(mean.shape[1]):
        direction = np.float64(own[0, K + k])
        along += vectors[RIGHT, k] * direction
        curve += vectors[EXTRA, k] * direction * direction
    size = along / curve if curve > 0.0 else 0.0  # a direction may be nothing in the storage type
    for k in range(mean.shape[1]):
        mean[i, k] += size * np.float64(own[0, K + k])


@fast
def _step(i, K, gain, free, total, mean, vectors, own):
    """Go to the best point along the direction, as it is stored, and find the next one. Returns the new r'z."""
    along, curve = 0.0, 0.0
    for k in range(mean.shape[1]):
        direction = np.float64(own[0, K + k])
        image = total[k] + vectors[EXTRA, k] * direction
        vectors[IMAGE, k] = image if free[k] else 0.0
        along += vectors[RIGHT, k] * direction
        curve += vectors[IMAGE, k] * direction
    size, after = along / curve if curve > 0.0 else 0.0, 0.0  # a direction may be nothing in the storage type
    for k in range(mean.shape[1]):
        mean[i, k] += size * np.float64(own[0, K + k])
        vectors[RIGHT, k] -= size * vectors[IMAGE, k]
        after += vectors[RIGHT, k] * vectors[RIGHT, k] / vectors[DIAGONAL, k]
    for k in range(mean.shape[1]):
        vectors[DIRECTION, k] = vectors[RIGHT, k] / vectors[DIAGONAL, k] + after / gain * vectors[DIRECTION, k]
        own[0, K + k] = vectors[DIRECTION, k]
    for k in range(total.shape[0]):
        total[k] = 0.0
    return after
