"""Compiled: a diagonal normal line from the weights of its cells, a group of coordinates at a time.

Given the other side, the means of a mean-field line maximise a quadratic, and its variances are one over the diagonal
of the same matrix. Each group of coordinates is put at its joint optimum with the others held: block coordinate ascent,
exact where the line has no more than one group.
"""

from __future__ import annotations

import numpy as np

from nmar.kernels.cpu_base import compiled, fast, inlined
from nmar.kernels.cpu_group import group_move, group_solve, group_sums
from nmar.kernels.cpu_math import log
from nmar.kernels.spec import GROUP

HALF = GROUP // 2
RUN = 128  # cells summed in the storage type before they go to float64


@inlined
def descend_line(
    indices, lo, hi, mine, theirs, i, K, D, cellwise, spread, prior_mean, prior_precision, free,
    mean, variance, log_det, room,
):  # fmt: skip
    """New means and variances of line i, whose cells are ``lo`` … ``hi``; each cell's moments follow them.

    Enters: ``cellwise`` ωt, ω and E[μ] of the cells. Leaves: E[μ] after the update, ``spread`` its variance, and the
    line in ``mean``, ``variance`` and ``log_det``.
    """
    part, total, moves = room
    log_det[i] = 0.0
    for k in range(D):
        mean[i, k] = mine[i, K + k]
        variance[i, k] = 0.0
    for p in range(lo, hi):
        spread[p] = 0.0
    for first in range(0, D, GROUP):
        size = min(GROUP, D - first)
        total[:] = 0.0
        for start in range(lo, hi, RUN):
            group_sums(
                theirs, indices, start, min(start + RUN, hi), K + first, K + D + first,
                cellwise[0], cellwise[1], cellwise[2], part,
            )  # fmt: skip
            _add(total, part)
        log_det[i] += _solve_group(total, i, first, size, prior_mean, prior_precision, free, mean, variance, moves)
        group_move(theirs, indices, lo, hi, K + first, K + D + first, moves, cellwise[2], spread)


@fast
def _add(total, part):
    for row in range(GROUP + 2):
        for k in range(GROUP):
            total[row, k] += part[row, k]


@compiled
def _solve_group(total, i, first, size, prior_mean, prior_precision, free, mean, variance, moves):
    """The joint optimum of a group: (Σ ωbb' + Σ ω Var[b] + prior) step = what its present means leave unexplained.

    Returns the log determinant of the group's covariance. Lanes without a free coordinate become rows of the identity.
    """
    gram, pull, noise = total[:GROUP], total[GROUP], total[GROUP + 1]
    moves[:] = 0.0
    product = np.ones(2)  # of the precisions, in halves that cannot overflow
    for k in range(GROUP):
        at = first + k
        if k < size and free[at]:
            old = np.float64(mean[i, at])
            pull[k] += prior_precision[at] * (prior_mean[at] - old) - noise[k] * old
            gram[k, k] += noise[k] + prior_precision[at]
            variance[i, at] = 1.0 / gram[k, k]
            product[k // HALF] *= gram[k, k]
        else:
            gram[k, :] = 0.0
            gram[:, k] = 0.0
            gram[k, k], pull[k] = 1.0, 0.0
    group_solve(total)
    for k in range(size):
        at = first + k
        mean[i, at] += pull[k]
        moves[0, k] = pull[k]
        moves[1, k] = mean[i, at] * mean[i, at] + variance[i, at]
        moves[2, k] = variance[i, at]
    return -log(product[0]) - log(product[1])
