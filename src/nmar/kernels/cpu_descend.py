"""Compiled: a diagonal normal line from the weights of its cells, a group of coordinates at a time.

Given the other side, the means of a mean-field line maximise a quadratic, and its variances are one over the diagonal
of the same matrix. Each group of coordinates is put at its joint optimum with the others held: block coordinate ascent,
exact where the line has no more than one group.
"""

from __future__ import annotations

import numpy as np

from nmar.kernels.cpu_base import compiled, fast, inlined
from nmar.kernels.cpu_group import group_pass, group_solve
from nmar.kernels.cpu_math import log
from nmar.kernels.spec import GROUP

HALF = GROUP // 2
FEW = 4  # coordinates of a last group that is summed with less: biases, as a rule
NEAR = 512  # cells whose lines stay in the second cache
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
    linear, weight, expected = cellwise[0], cellwise[1], cellwise[2]
    log_det[i], far = 0.0, hi - lo > NEAR
    for k in range(D):
        mean[i, k] = mine[i, K + k]
        variance[i, k] = 0.0
    for p in range(lo, hi):
        spread[p] = 0.0
    for first in range(0, D, GROUP):
        for start in range(lo, max(hi, lo + 1), RUN):
            _pass(
                theirs, indices, start, min(start + RUN, hi), K, first, D, moves, linear, weight, expected, spread,
                part, far,
            )  # fmt: skip
            if hi - lo > RUN:
                _add(total, part, start > lo)
        if hi - lo > RUN:
            log_det[i] += _solve_group(total, i, first, D, prior_mean, prior_precision, free, mean, variance, moves)
        else:
            log_det[i] += _solve_group(part, i, first, D, prior_mean, prior_precision, free, mean, variance, moves)
    last = K + (D - 1) // GROUP * GROUP
    group_pass(
        theirs, indices, lo, hi, last, last, D, moves, linear, weight, expected, spread, part, far, True, 0
    )  # fmt: skip


@inlined
def _pass(theirs, indices, lo, hi, K, first, D, moves, linear, weight, mean, spread, part, far):
    """Follow the step of the group before, if there was one, and sum for the group at coordinate ``first``."""
    here, before = K + first, K + first - GROUP
    if first == 0:
        group_pass(
            theirs, indices, lo, hi, here, here, D, moves, linear, weight, mean, spread, part, far, False, GROUP
        )  # fmt: skip
    elif D - first <= FEW:
        group_pass(
            theirs, indices, lo, hi, before, here, D, moves, linear, weight, mean, spread, part, far, True, FEW
        )  # fmt: skip
    else:
        group_pass(
            theirs, indices, lo, hi, before, here, D, moves, linear, weight, mean, spread, part, far, True, GROUP
        )  # fmt: skip


@fast
def _add(total, part, more):
    """Sums of a run of cells to those of the line so far."""
    for row in range(GROUP + 2):
        for k in range(GROUP):
            total[row, k] = total[row, k] + part[row, k] if more else part[row, k]


@compiled
def _solve_group(system, i, first, D, prior_mean, prior_precision, free, mean, variance, moves):
    """The joint optimum of a group: (Σ ωbb' + Σ ω Var[b] + prior) step = what its present means leave unexplained.

    Returns the log determinant of the group's covariance. Lanes without a free coordinate become rows of the identity.
    """
    size = min(GROUP, D - first)
    low, high = 1.0, 1.0  # products of the precisions, in halves that cannot overflow
    for k in range(GROUP):
        at = first + k
        if k < size and free[at]:
            old, noise = np.float64(mean[i, at]), system[GROUP + 1, k]
            system[GROUP, k] += prior_precision[at] * (prior_mean[at] - old) - noise * old
            system[k, k] += noise + prior_precision[at]
            variance[i, at] = 1.0 / system[k, k]
            if k < HALF:
                low *= system[k, k]
            else:
                high *= system[k, k]
        else:
            for other in range(GROUP):
                system[k, other], system[other, k] = 0.0, 0.0
            system[k, k], system[GROUP, k] = 1.0, 0.0
    group_solve(system)
    for k in range(GROUP):
        moves[0, k], moves[1, k], moves[2, k] = 0.0, 0.0, 0.0
    for k in range(size):
        at, step = first + k, system[GROUP, k]
        mean[i, at] += step
        moves[0, k] = step
        moves[1, k] = mean[i, at] * mean[i, at] + variance[i, at]
        moves[2, k] = variance[i, at]
    return -log(low) - log(high)
