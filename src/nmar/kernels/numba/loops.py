"""Compiled: the loops over the cells of a block, tile by tile.

A tile of cells goes through three phases while its gathered lines are in cache: inner products; the count
posterior of all lanes at once (tile.py); accumulation. Loops for short lines are compiled for their widths, so
that inner products and accumulations unroll into vector instructions (columns.py); the machine code is cached on
disk. Lines are asked for a tile early, some while the tile before is gathered and the rest while it is accumulated, so
that memory is never idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nmar.kernels.numba.base import compiled, fast, fast_entry, inlined, vectorised
from nmar.kernels.numba.cell import (
    ALLOCATE,
    DIAGONAL,
    FORM,
    FREEDOM,
    KIND,
    LOG_NORM,
    LOG_RATE,
    LOG_SCALE,
    MEAN_LINKAGE,
    SEPARATE,
    STUDENT,
    THINNING,
    stream,
)
from nmar.kernels.numba.checks import block_fits, cells_fit, held_fits
from nmar.kernels.numba.closed import closed_tile, parity_tile
from nmar.kernels.numba.columns import Columns
from nmar.kernels.numba.descend import NEAR, descend_line, empty_lines, flush
from nmar.kernels.numba.lines import add_lines, add_moments, line_dots, line_moments
from nmar.kernels.numba.math import expm1, log, sum_of, sum_of_logs
from nmar.kernels.numba.tile import (
    ALONE,
    COUNT,
    FACTOR,
    LEAST,
    LOG_S,
    LOG_Z,
    LT,
    MEAN,
    OWN,
    TERM,
    TILE,
    TM,
    S,
    prepare,
    single_tile,
    truncation,
)
from nmar.kernels.spec import KNOWN, LOCATION, OPEN, PARITY

SUMS, CELLS, LINES, NOTHING = range(4)  # what a loop over cells leaves for the data model, see expect_loop
DONE, SHORT, UNFIT = range(3)  # how it ended: the open table was too short; arrays do not fit together
REACH = 2048  # cells whose lines may wait in the last cache


@compiled
def _log_sum(a, i, b, j):
    """log Σ exp(a[i] + b[j]): only where the plain sum has underflowed."""
    top = -np.inf
    for k in range(a.shape[1]):
        top = max(top, np.float64(a[i, k]) + np.float64(b[j, k]))
    total = 0.0
    for k in range(a.shape[1]):
        total += math.exp(np.float64(a[i, k]) + np.float64(b[j, k]) - top)
    return top + math.log(total)


@compiled
def _share_directly(direct, i, mean, ml, tl, j, log_s):
    """Add E[n]ϕ of a cell whose inner product underflowed."""
    for k in range(direct.shape[1]):
        direct[i, k] += mean * math.exp(np.float64(ml[i, k]) + np.float64(tl[j, k]) - log_s)


@vectorised
def _finish_moments(flags, offset, start, cells, mf, tf, at, indices, firsts, inner):
    """First and second moments of a tile from its inner products (in ``inner`` and ``firsts[1]``)."""
    if flags[DIAGONAL]:
        for lane in range(TILE):
            firsts[1, lane] += inner[lane] * inner[lane]
    for lane in range(TILE):
        firsts[0, lane] = inner[lane]
    if flags[ALLOCATE]:
        for lane in range(cells):
            tops = np.float64(mf[at[lane]]) + np.float64(tf[indices[start + lane]])
            firsts[0, lane] = math.log(inner[lane]) + tops
    if offset.shape[0] > 0:
        for lane in range(cells):
            known = offset[start + lane]
            firsts[1, lane] += known * (2.0 * firsts[0, lane] + known)
            firsts[0, lane] += known


@vectorised
def _pad(values, start, cells, firsts, inner, ys, plain):
    """The tile's values; lanes beyond the block's last cell get harmless numbers."""
    for lane in range(cells):
        ys[lane] = np.float64(values[start + lane])
    for lane in range(cells, TILE):
        plain[lane], inner[lane], ys[lane], firsts[0, lane], firsts[1, lane] = 1.0, 1.0, 1.0, 0.0, 1.0


@fast
def _pattern_weights(work, plain, floor, cells, shares):
    """E[n] over the inner product, by which a cell's line is added to the pattern; 0 where it underflowed."""
    for lane in range(cells):
        good = plain[lane] > floor
        shares[lane] = work[MEAN, lane] / plain[lane] if good else 0.0


@fast
def _data_weights(flags, offset, start, cells, weights, inner, shares, cellwise, firsts, every):
    """Weights of the tile's cells as sums use them, and as ``cellwise`` keeps them: all, or those of ``second``."""
    for lane in range(cells):
        known = offset[start + lane] if offset.shape[0] > 0 else 0.0
        w1, w2 = weights[0, lane] - weights[1, lane] * known, weights[1, lane]
        if cellwise.shape[1] > 0:
            p = start + lane
            cellwise[1, p] = w2
            if every:
                cellwise[0, p], cellwise[2, p] = w1, firsts[0, lane] - known
            w1 -= w2 * (firsts[0, lane] - known)
        elif flags[ALLOCATE]:
            w1 /= inner[lane]
        shares[0, lane], shares[1, lane] = w1, w2


@vectorised
def _fill_basis(flags, functions, weight, start, cells, ys, firsts, basis, own):
    """Statistics of a tile (spec.CellLaw), and the part of f that is the same in every bin (``own``), weighted."""
    for lane in range(TILE):
        basis[0, lane], own[lane] = 1.0, 0.0
    if flags[FORM] == LOCATION and flags[MEAN_LINKAGE] == 0:
        for lane in range(TILE):
            y = ys[lane]
            basis[1, lane] = y * y - 2.0 * y * firsts[0, lane] + firsts[1, lane]
    elif flags[FORM] == LOCATION:
        for lane in range(TILE):
            y, first = ys[lane], firsts[0, lane]
            basis[1, lane], basis[2, lane], basis[3, lane] = y, y * y, y * first
            basis[4, lane], basis[5, lane] = first, firsts[1, lane]
    else:
        last = functions.shape[0] + 1
        for lane in range(TILE):
            basis[last, lane], own[lane] = firsts[1, lane], ys[lane] * firsts[0, lane]
        for v in range(1, last):
            for lane in range(cells):
                basis[v, lane] = np.float64(functions[v - 1, start + lane])
            for lane in range(cells, TILE):
                basis[v, lane] = 1.0
    if weight.shape[0] > 0:
        for lane in range(cells):
            basis[0, lane] = np.float64(weight[start + lane])
        for v in range(1, basis.shape[0]):
            for lane in range(TILE):
                basis[v, lane] *= basis[0, lane]
        if flags[FORM] != LOCATION:
            for lane in range(TILE):
                own[lane] *= basis[0, lane]


@vectorised
def _add_precision(precision, start, cells, basis):
    """Residuals in units of the noise of their rows and columns."""
    if precision.shape[0] > 0:
        for v in range(1, basis.shape[0]):
            for lane in range(cells):
                basis[v, lane] *= precision[start + lane]


@compiled
def _own_slopes(law, group, start, cells, found):
    """−½/(σ²φ) of each cell of a tile, whose bin is the only one or known."""
    slopes = law[3]
    for lane in range(TILE):
        found[lane] = slopes[1, 0]
    if law[0][KIND] == KNOWN:
        for lane in range(cells):
            found[lane] = slopes[1, group[start + lane]]


@vectorised
def _student_tile(law, basis, work, noise):
    """E[ω] of the tile's cells, and log Z with a Student tail in place of the normal one; noise[1]: their slopes."""
    freedom, constant = law[1][FREEDOM], law[1][STUDENT]
    for lane in range(TILE):
        weight = basis[0, lane]
        x = -2.0 * noise[1, lane] * basis[1, lane] / (weight if weight > 0.0 else 1.0)
        noise[0, lane] = (freedom + 1.0) / (freedom + x)
        work[LOG_Z, lane] += weight * (constant + 0.5 * x - 0.5 * (freedom + 1.0) * log(1.0 + x / freedom))


@vectorised
def _student_basis(law, basis, slopes):
    """Statistics with q(ω) at its best for the present residuals, and what ν is learned from (the last one)."""
    freedom, scale = law[1][FREEDOM], law[1][LOG_SCALE]
    for lane in range(TILE):
        weight = basis[0, lane]
        x = -2.0 * slopes[lane] * basis[1, lane] / (weight if weight > 0.0 else 1.0)
        mean = (freedom + 1.0) / (freedom + x)
        basis[1, lane] *= mean
        basis[2, lane] = weight * (scale - log(0.5 * (freedom + x)) - mean)


@vectorised
def _add_noise(precision, start, cells, basis, weights, noise):
    """Weights of the tile's cells with their noise, and ω E[(y − μ)²] of each (noise[1])."""
    for lane in range(cells):
        noise[1, lane] = weights[1, lane] * noise[0, lane] * basis[1, lane] / max(basis[0, lane], LEAST)
        weights[0, lane] *= noise[0, lane]
        weights[1, lane] *= noise[0, lane]
    if precision.shape[0] > 0:
        for lane in range(cells):
            weights[0, lane] *= precision[start + lane]
            weights[1, lane] *= precision[start + lane]


@fast
def _rescale_line(noise, i, squares, lo, hi, weight, sums):
    """Weights and sums of a line with its new noise: λ̂ is updated before the line itself."""
    mean, shape, rate = noise
    if mean.shape[0] == 0:
        return
    change = shape[i] / (rate * mean[i] + 0.5 * squares[i])
    for p in range(lo, hi):
        weight[p] *= weight.dtype.type(change)
    for section in range(3):
        for k in range(sums[section].shape[0]):
            sums[section][k] *= change


@compiled
def _log_rates(flags, work, plain, floor, at, cells, indices, start, ml, tl):
    """s of the tile's cells and its logarithm, by log-sum-exp where the inner product underflowed.

    Of counts that matter by their parity the logarithm is 0 unless s is tiny: nobody looks at it.
    """
    if flags[KIND] == PARITY and not flags[SEPARATE]:
        for lane in range(TILE):
            work[LOG_S, lane], work[S, lane] = 0.0, plain[lane]
        for lane in range(cells):
            if plain[lane] < LEAST and plain[lane] > floor:
                work[LOG_S, lane] = math.log(plain[lane])
    else:
        for lane in range(TILE):
            safe = plain[lane] if plain[lane] > floor else 1.0
            work[LOG_S, lane], work[S, lane] = log(safe), plain[lane]
    for lane in range(cells):
        if not plain[lane] > floor:
            work[LOG_S, lane] = _log_sum(ml, at[lane], tl, indices[start + lane])
            work[S, lane] = math.exp(work[LOG_S, lane])


@compiled
def _before_counts(law, work):
    """E[n] and log Z of the pattern where it has a law of its own, and then log s and s of the counts' law."""
    flags, numbers, single = law[0], law[1], law[3].shape[1] == 1
    if flags[SEPARATE] or single:
        truncation(work)
    for lane in range(TILE):
        work[MEAN, lane], work[ALONE, lane], work[FACTOR, lane] = 1.0, 0.0, 1.0
    if flags[SEPARATE]:
        for lane in range(TILE):
            work[MEAN, lane], work[ALONE, lane] = work[TM, lane], work[LT, lane]
            work[LOG_S, lane], work[S, lane] = numbers[LOG_RATE], math.exp(numbers[LOG_RATE])
        truncation(work)


@compiled
def _known_tile(law, group, start, cells, basis, work):
    """log Z and E[n] of a tile whose counts are known."""
    slopes = law[3]
    for lane in range(cells):
        f = work[OWN, lane]
        for v in range(slopes.shape[0]):
            f += slopes[v, group[start + lane]] * basis[v, lane]
        work[LOG_Z, lane], work[COUNT, lane] = f, 1.0


@compiled
def _open_tile(law, group, start, cells, basis, work, q, t, used):
    """q(n), log Z and E[n] of a tile with open bins. False: table too short."""
    for lane in range(cells):
        p = start + lane
        which = group[p] if group.shape[0] > 0 else 0
        z, mean, bins = stream(law, work[LOG_S, lane], work[OWN, lane], which, basis, lane, q, t)
        if bins < 0:
            return False
        work[LOG_Z, lane], work[COUNT, lane], used[p] = z, mean, bins
    return True


@compiled
def _after_counts(flags, numbers, work):
    """E[n] of the pattern is that of the counts, or has its own share of log Z."""
    norm = 0.0 if flags[KIND] == KNOWN else numbers[LOG_NORM]
    for lane in range(TILE):
        if flags[SEPARATE]:
            work[LOG_Z, lane] += work[ALONE, lane] - norm
        else:
            work[MEAN, lane] = work[COUNT, lane]


@compiled
def _count_alone(work, plain, floor, at, cells, indices, start, ml, tl):
    """E[n] of a tile whose cells have no values, n being zero-truncated Poisson. Returns Σ log Z = Σ log(e^s − 1).

    The logarithm of s is needed, and left in LOG_S, where the inner product underflowed only.
    """
    _truncated(work, plain)
    for lane in range(cells):
        if not plain[lane] > floor:
            log_s = _log_sum(ml, at[lane], tl, indices[start + lane])
            s = math.exp(log_s)
            work[LOG_S, lane], work[S, lane] = log_s, 0.5 * s + log_s  # log(e^s − 1) of a tiny s, but for log 1
            work[TM, lane], work[TERM, lane] = 1.0 + 0.5 * s, 1.0
    for lane in range(cells, TILE):
        work[S, lane], work[TERM, lane] = 0.0, 1.0
    for lane in range(TILE):
        work[MEAN, lane], work[COUNT, lane] = work[TM, lane], work[TM, lane]
    return sum_of_logs(work[TERM]) + sum_of(work[S])


@vectorised
def _truncated(work, plain):
    """s, 1 − e^{−s} (TERM) and their ratio E[n] (TM) of every lane."""
    for lane in range(TILE):
        s = plain[lane]
        above = -expm1(-s)
        work[S, lane], work[TERM, lane], work[TM, lane] = s, above, s / above


@compiled
def _cross_tile(law, values, group, start, cells, q, t, used, basis, weights):
    """What crosses to the data model: weights of ``first`` (row 0) and ``second`` (row 1): errata F2 and F4."""
    flags, _, _, _, linear, shift, quadratic, _, _, _ = law
    location, kind = flags[FORM] == LOCATION, flags[KIND]
    moves = location and flags[MEAN_LINKAGE] != 0
    for lane in range(cells):
        weights[0, lane], weights[1, lane] = 0.0, 0.0
    if kind == KNOWN:
        for lane in range(cells):
            weights[1, lane] = quadratic[group[start + lane]]
    elif kind == OPEN:
        for lane in range(cells):
            for b in range(used[start + lane]):
                weights[1, lane] += q[t, b, lane] * quadratic[b]
                if moves:
                    weights[0, lane] += q[t, b, lane] * (linear[b] * np.float64(values[start + lane]) - shift[b])
    else:
        for b in range(quadratic.shape[0]):
            for lane in range(cells):
                weights[1, lane] += q[t, b, lane] * quadratic[b]
        if moves:
            for b in range(quadratic.shape[0]):
                for lane in range(cells):
                    weights[0, lane] += q[t, b, lane] * (linear[b] * np.float64(values[start + lane]) - shift[b])
    if not moves:
        for lane in range(cells):
            weights[0, lane] = np.float64(values[start + lane]) * (weights[1, lane] if location else 1.0)
    for lane in range(cells):
        weights[0, lane] *= basis[0, lane]  # how often the cell counts
        weights[1, lane] *= basis[0, lane]


@cache
def expect_loop(constants: Columns | None, leaves: int) -> Callable[..., Any]:
    """The E-step of a block, for lines of these columns alone or (None) for any.

    What it leaves:

    SUMS    Σ w1 first and Σ w2 second of each line;
    CELLS   each cell's two weights and first moment (``cellwise``), for regressors;
    LINES   the same, and diagonal normal lines updated from them as soon as a line's last cell is done, while what
            was gathered is still in cache; ``cellwise`` then holds the first moments after the update and ``spread``
            the variances of the cells' means;
    NOTHING where there is no data model: the cells have no values.
    """
    nothing = 0
    fixed, modelled = constants is not None, leaves != NOTHING
    given = tuple(constants or ())

    def expect(lines, mine, theirs, law, floor, found, kept, prior, steps, noise, new, room, columns):
        K, D1, D2, first, second, features, half, quarter, little, most, share, window = given if fixed else columns
        indptr, indices, values, group, offset, functions, weight, precision = lines
        (mp, ml, mf), (tp, tl, tf) = mine, theirs
        flags, numbers, log_factorial, slopes, _, _, _, by_value, steps_of_bins, _ = law
        (pattern, first_out, second_out, squares), (q, used, cellwise, spread) = found, kept
        parts, totals, tile, line_space = room
        work, basis, plain, inner, ys, at, firsts, weights, underflow, shares, moved, bins, scatter = tile
        log_z, count = 0.0, 0.0
        if not block_fits(lines, mine, theirs, law, first + features, modelled):
            return 0.0, 0.0, UNFIT
        sums, moments = (totals[1], totals[2], totals[3]), (cellwise[2], spread)
        n, i, run, prefetched = indices.shape[0], np.intp(0), 0, np.intp(0)  # a plain 0 would be a type of its own
        if leaves == LINES:
            empty_lines(indptr, mp, first, prior, new)
        for t in range((n + TILE - 1) // TILE):
            start = t * TILE
            cells, held = min(TILE, n - start), min(t, q.shape[0] - 1)  # q(n) of one tile where none is kept
            began, lane = i, 0
            while lane < cells:
                while start + lane >= indptr[i + 1]:
                    i += 1
                lo, hi = start + lane, min(indptr[i + 1], start + cells)
                line_dots(tp, indices, lo, hi, mp, i, 0, K, plain, start, TILE, n, 0, quarter)
                if modelled:
                    _line_features(
                        leaves == LINES or flags[DIAGONAL] != 0, tp, indices, lo, hi, mp, i, first, second, D1, D2,
                        inner, firsts[1], start, n, quarter, quarter,
                    )  # fmt: skip
                for each in range(lane, hi - start):
                    at[each] = i
                lane = hi - start
            _pad(values, start, cells, firsts, inner, ys, plain)
            if modelled:
                _finish_moments(flags, offset, start, cells, mf, tf, at, indices, firsts, inner)
                _fill_basis(flags, functions, weight, start, cells, ys, firsts, basis, work[OWN])
                _add_precision(precision, start, cells, basis)
                _log_rates(flags, work, plain, floor, at, cells, indices, start, ml, tl)
                for each in range(TILE):
                    underflow[each] = work[LOG_S, each]
                if cells < TILE:
                    prepare(work, cells)
                _before_counts(law, work)
                if flags[KIND] == KNOWN:
                    _known_tile(law, group, start, cells, basis, work)
                elif flags[KIND] != OPEN:
                    if slopes.shape[1] == 1:
                        single_tile(slopes, by_value, group, start, basis, work, q, held)
                    elif flags[KIND] == PARITY:
                        parity_tile(slopes, by_value, numbers[THINNING], group, start, basis, work, q, held)
                    else:
                        tables = numbers[THINNING], log_factorial, slopes, by_value, steps_of_bins
                        closed_tile(tables, group, start, basis, work, bins, q, held)
                elif not _open_tile(law, group, start, cells, basis, work, q, held, used):
                    return 0.0, 0.0, SHORT
                if numbers[FREEDOM] > 0.0:
                    _own_slopes(law, group, start, cells, scatter[1])
                    _student_tile(law, basis, work, scatter)
                _after_counts(flags, numbers, work)
                log_z += sum_of(work[LOG_Z, :cells]) + sum_of_logs(work[FACTOR, :cells])
            else:
                log_z += _count_alone(work, plain, floor, at, cells, indices, start, ml, tl)
                for each in range(cells):
                    underflow[each] = work[LOG_S, each]
            _pattern_weights(work, plain, floor, cells, shares)
            if modelled:
                _cross_tile(law, values, group, start, cells, q, held, used, basis, weights)
                if squares.shape[0] > 0:
                    _add_noise(precision, start, cells, basis, weights, scatter)
                    for lane in range(cells):
                        squares[at[lane]] += scatter[1, lane]
                _data_weights(flags, offset, start, cells, weights, inner, moved, cellwise, firsts, leaves == CELLS)
            count += sum_of(work[COUNT, :cells])
            for lane in range(cells):
                if not plain[lane] > floor:
                    _share_directly(pattern, at[lane], work[MEAN, lane], ml, tl, indices[start + lane], underflow[lane])
            line = began
            while line <= i:
                lo, hi = max(indptr[line], start), min(indptr[line + 1], start + cells)
                while lo < hi:  # sums go to float64 after as many cells of the line as a tile has, wherever it begins
                    cut = min(hi, lo + TILE - run)
                    soon = _until(indptr, line, hi, prefetched, n, leaves == LINES)
                    add_lines(tp, indices, lo, cut, 0, K, shares, parts[0], start, TILE, soon, half, little)
                    if leaves == SUMS:
                        add_lines(tp, indices, lo, cut, first, D1, moved[0], parts[1], start, 0, 0, 0, nothing)
                        add_lines(tp, indices, lo, cut, second, D2, moved[1], parts[2], start, 0, 0, 0, nothing)
                    if leaves == LINES:
                        add_moments(
                            tp, indices, lo, cut, first, second, D1, moved[0], moved[1], parts[1], parts[2], parts[3],
                            start, TILE, soon, half + little, most,
                        )  # fmt: skip
                    run += cut - lo
                    ended = cut == indptr[line + 1]
                    if ended or run == TILE:
                        for section in range(4):
                            flush(totals[section], parts[section])
                        run = 0
                    if ended and leaves == LINES:
                        _rescale_line(noise, line, squares, indptr[line], hi, cellwise[1], sums)
                        begin, until, prefetched = _next(indptr, line, prefetched, start + cells, n, window)
                        descend_line(
                            indices, indptr[line], hi, mp, tp, line, first, second, D1, cellwise[1], sums, prior, steps,
                            new, moments, line_space, (begin, until, half), share, features,
                        )  # fmt: skip
                    if ended:
                        _close(totals, mp, line, first, flags, pattern, first_out, second_out)
                    lo = cut
                line += 1
        return log_z, count, DONE

    return fast_entry(expect)


@inlined
def _line_features(
    diagonal, theirs, indices, lo, hi, mine, i, first, second, D1, D2, inner, seconds, start, n, column, COLUMNS
):  # fmt: skip
    """Inner products of ``first`` and of ``second`` for the cells of a line; the mean's variance if it is diagonal."""
    if diagonal:
        line_moments(
            theirs, indices, lo, hi, mine, i, first, second, D1, inner, seconds, start, TILE, n, column, COLUMNS
        )  # fmt: skip
    else:
        line_dots(theirs, indices, lo, hi, mine, i, first, D1, inner, start, TILE, n, column, COLUMNS)
        line_dots(theirs, indices, lo, hi, mine, i, second, D2, seconds, start, 0, 0, 0, 0)


@fast
def _close(totals, mp, i, first, flags, pattern, first_out, second_out):
    """Write the finished sums of a line and clear them."""
    for k in range(pattern.shape[1]):
        pattern[i, k] += totals[0][k] * mp[i, k]
    for k in range(first_out.shape[1]):
        first_out[i, k] = totals[1][k] * (mp[i, first + k] if flags[ALLOCATE] else 1.0)
    for k in range(second_out.shape[1]):
        second_out[i, k] = totals[2][k]
    for section in range(4):
        for k in range(totals[section].shape[0]):
            totals[section][k] = 0.0


@inlined
def _until(indptr, line, hi, prefetched, n, updates):
    """Before which cell a run of cells asks for lines: not at all where the update of its line will, or has."""
    by_update = hi == indptr[line + 1] and hi - indptr[line] <= NEAR
    return 0 if updates and (by_update or hi + TILE <= prefetched) else n


@inlined
def _next(indptr, line, prefetched, end, n, window):
    """Cells that are asked for while a line is updated: from where, up to where, and what then need not be asked again.

    They are as many as the line has, after those already asked for. Those asked for during a long line will have
    left the second cache by the time they are needed, and are asked for once more from the last.
    """
    begin = max(prefetched, end)
    length = indptr[line + 1] - indptr[line]
    if length > NEAR:
        return begin, min(begin + length, n, end + REACH), prefetched
    prefetched = min(begin + length, n, end + window)
    return begin, prefetched, prefetched


@inlined
def _gather_features(
    flags, indptr, indices, mp, tp, i, start, cells, first, second, D1, D2, features, inner, seconds, at
):  # fmt: skip
    """Inner products of the features of a tile's cells and the line of each; returns the line of the last."""
    lane = 0
    while lane < cells:
        while start + lane >= indptr[i + 1]:
            i += 1
        lo, hi = start + lane, min(indptr[i + 1], start + cells)
        _line_features(
            flags[DIAGONAL] != 0, tp, indices, lo, hi, mp, i, first, second, D1, D2, inner, seconds, start,
            indices.shape[0], first, features,
        )  # fmt: skip
        for each in range(lane, hi - start):
            at[each] = i
        lane = hi - start
    return i


@cache
def moments_loop(constants: Columns | None) -> Callable[..., Any]:
    """E[μ] and E[μ²] of the cells of a block."""
    fixed, given = constants is not None, tuple(constants or ())

    def moments(lines, mine, theirs, law, found, tile, columns):
        _, D1, D2, first, second, features, _, _, _, _, _, _ = given if fixed else columns
        indptr, indices, _, _, offset, _, _, _ = lines
        (mp, _, mf), (tp, _, tf), flags = mine, theirs, law[0]
        _, _, _, inner, _, at, firsts, _, _, _, _, _, _ = tile
        if not block_fits(lines, mine, theirs, law, first + features, True):
            return UNFIT
        n, i = indices.shape[0], np.intp(0)
        for t in range((n + TILE - 1) // TILE):
            start = t * TILE
            cells = min(TILE, n - start)
            i = _gather_features(
                flags, indptr, indices, mp, tp, i, start, cells, first, second, D1, D2, features, inner, firsts[1], at
            )
            _finish_moments(flags, offset, start, cells, mf, tf, at, indices, firsts, inner)
            for lane in range(cells):
                found[0, start + lane], found[1, start + lane] = firsts[0, lane], firsts[1, lane]
        return DONE

    return fast_entry(moments)


@cache
def statistics_loop(constants: Columns | None, gathers: bool) -> Callable[..., Any]:
    """n-vectors of a block with q(n) held, from gathered lines or from ``known`` and ``spread`` of inner products."""
    fixed, given = constants is not None, tuple(constants or ())

    def statistics(lines, mine, theirs, law, q, used, moments, vectors, by_group, tile, columns):
        _, D1, D2, first, second, features, _, _, _, _, _, _ = given if fixed else columns
        indptr, indices, values, group, offset, functions, weight, precision = lines
        (mp, _, mf), (tp, _, tf), (known, spread), flags = mine, theirs, moments, law[0]
        work, basis, plain, inner, ys, at, firsts, _, _, _, _, _, scatter = tile
        if not block_fits(lines, mine, theirs, law, first + features, True):
            return UNFIT
        if not held_fits(lines, law, q, used, moments, gathers):
            return UNFIT
        n, i, kind = indices.shape[0], np.intp(0), flags[KIND]
        for t in range((n + TILE - 1) // TILE):
            start = t * TILE
            cells = min(TILE, n - start)
            _pad(values, start, cells, firsts, inner, ys, plain)
            if not gathers:
                for lane in range(cells):
                    inner[lane], firsts[1, lane] = known[start + lane], spread[start + lane]
            else:
                i = _gather_features(
                    flags,
                    indptr,
                    indices,
                    mp,
                    tp,
                    i,
                    start,
                    cells,
                    first,
                    second,
                    D1,
                    D2,
                    features,
                    inner,
                    firsts[1],
                    at,
                )
            _finish_moments(flags, offset, start, cells, mf, tf, at, indices, firsts, inner)
            _fill_basis(flags, functions, weight, start, cells, ys, firsts, basis, work[OWN])
            _add_precision(precision, start, cells, basis)
            if law[1][FREEDOM] > 0.0:
                _own_slopes(law, group, start, cells, scatter[1])
                _student_basis(law, basis, scatter[1])
            for v in range(vectors.shape[0]):
                for lane in range(cells, TILE):
                    basis[v, lane] = 0.0
            _add_statistics(kind, basis, group, start, cells, q, t, used, vectors, by_group)
        return DONE

    return fast_entry(statistics)


@inlined
def _add_statistics(kind, basis, group, start, cells, q, t, used, vectors, by_group):
    """Σ over a tile of q(n) times each cell's statistics."""
    if kind == KNOWN:
        for lane in range(cells):
            for v in range(vectors.shape[0]):
                vectors[v, group[start + lane]] += basis[v, lane]
        return
    if kind == OPEN:
        for lane in range(cells):
            for b in range(used[start + lane]):
                for v in range(vectors.shape[0]):
                    vectors[v, b] += q[t, b, lane] * basis[v, lane]
                if by_group.shape[0] > 0:
                    by_group[group[start + lane], b] += q[t, b, lane] * basis[0, lane]
        return
    for v in range(vectors.shape[0]):
        for b in range(vectors.shape[1]):
            added = 0.0
            for lane in range(TILE):
                added += q[t, b, lane] * basis[v, lane]
            vectors[v, b] += added
    if by_group.shape[0] > 0:
        for lane in range(cells):
            for b in range(vectors.shape[1]):
                by_group[group[start + lane], b] += q[t, b, lane] * basis[0, lane]


@cache
def add_loop(constants: Columns | None) -> Callable[..., Any]:
    """Σ over each line's cells of the other side's vectors, which have no features."""
    fixed, given = constants is not None, tuple(constants or ())

    def add(indptr, indices, theirs, ones, part, out, columns):
        K, _, _, _, _, _, _, _, _, _, _, _ = given if fixed else columns
        if not cells_fit(indptr, indices, theirs.shape[0]):
            return UNFIT
        n = indices.shape[0]
        for i in range(indptr.shape[0] - 1):
            for start in range(indptr[i], indptr[i + 1], TILE):
                stop = min(start + TILE, indptr[i + 1])
                add_lines(theirs, indices, start, stop, 0, K, ones, part, start, TILE // 4, n, 0, K)
                flush(out[i], part)
        return DONE

    return fast_entry(add)
