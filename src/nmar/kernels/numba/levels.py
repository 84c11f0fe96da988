"""Compiled: levels read as normal values, a tile of cells at a time (kernels/levels.py defines them)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nmar.kernels.levels import LEAST as LEAST_INFORMATION
from nmar.kernels.levels import SLIGHT
from nmar.kernels.numba.base import compiled, exact, fast_entry, vectorised
from nmar.kernels.numba.math import exp, log
from nmar.kernels.numba.tile import TILE
from nmar.kernels.spec import LevelCells, LevelReading
from nmar.prob.truncated import DENSITY, FAR, LEAST, NARROW, ROOT_HALF

LOW, HIGH, LOG_MASS, MEAN, SPREAD, AT_LOW, AT_HIGH, DEVIATION, HALF, OFTEN, SHARE, TOTAL, SQUARE, KNOWN = range(14)
WORK = 14
PLACE = 3.5  # (x − PLACE) / (x + PLACE) is the argument of the polynomial below
TERMS = (
    9.602063073543832e-10, -4.32716915383935e-08, -9.232797765434952e-09, 4.95695358949888e-07, -4.235150368003815e-08,
    -3.689417306645737e-06, 2.3267785631446713e-06, 2.4168076522400385e-05, -4.2781472705740954e-05,
    -0.00012146844525515733, 0.0005643841833493824, -0.00030228101957985575, -0.004215019863845735,
    0.01909933331476937, -0.04882332583245574, 0.08798315358862076, -0.11508959815999002, 0.09751909516407857,
    -0.01055559633221917, -0.14000918013776606, 1.2423492448711544,
)  # fmt: skip  # of (1 + 2x) erfcx(x), highest power first: Chebyshev interpolation of degree 20, relative error 1e-14
T = TERMS


@exact
def half_erfcx(x):
    """Half of exp(x²) erfc(x) for x ≥ 0."""
    t = (x - PLACE) / (x + PLACE)
    p = T[0] * t + T[1]
    p = p * t + T[2]
    p = p * t + T[3]
    p = p * t + T[4]
    p = p * t + T[5]
    p = p * t + T[6]
    p = p * t + T[7]
    p = p * t + T[8]
    p = p * t + T[9]
    p = p * t + T[10]
    p = p * t + T[11]
    p = p * t + T[12]
    p = p * t + T[13]
    p = p * t + T[14]
    p = p * t + T[15]
    p = p * t + T[16]
    p = p * t + T[17]
    p = p * t + T[18]
    p = p * t + T[19]
    p = p * t + T[20]
    return 0.5 * p / (1.0 + 2.0 * x)


@vectorised
def truncated_tile(work):
    """The law of a standard normal between the ends of every lane (prob/truncated.py)."""
    for lane in range(TILE):
        low, high = work[LOW, lane], work[HIGH, lane]
        turned = low + high < 0.0
        near = max(-high if turned else low, -FAR)
        far = min(-low if turned else high, abs(near) + FAR)
        width, middle = far - near, 0.5 * (near + far)
        half = exp(-0.5 * width * middle)
        ratio, decay, square = half * half, exp(-0.5 * near * near), width * width
        one, two = half_erfcx(ROOT_HALF * abs(near)), ratio * half_erfcx(ROOT_HALF * far)
        series = (1.0 + square * (0.125 + square / 128.0)) * (1.0 + (middle * middle - 1.0) * square / 24.0)
        narrow = width * (1.0 + middle) < NARROW
        scaled = near >= 0.0 or narrow
        mass = one - two if near >= 0.0 else 1.0 - decay * (one + two)
        mass = max(DENSITY * width * half * series if narrow else mass, LEAST)
        at_near = DENSITY * (1.0 if scaled else decay) / mass
        at_far = at_near * ratio
        mean = middle * (1.0 - square / 12.0) if narrow else at_near - at_far
        spread = square / 12.0 if narrow else 1.0 + near * at_near - far * at_far - mean * mean
        work[LOG_MASS, lane] = log(mass) - (0.5 * near * near if scaled else 0.0)
        work[MEAN, lane] = -mean if turned else mean
        work[SPREAD, lane] = min(max(spread, 0.0), 1.0)
        work[AT_LOW, lane] = at_far if turned else at_near
        work[AT_HIGH, lane] = at_near if turned else at_far


@compiled
def _law_of_tile(level, mean, noise, cuts, style, start, count, work):
    """Standard deviations, and the laws of a tile's cells between the cut points of each cell's style."""
    for lane in range(count):
        p, one = start + lane, style[lane]
        sd = math.sqrt(noise[p])
        work[DEVIATION, lane] = sd
        work[LOW, lane] = (cuts[one, level[p]] - mean[p]) / sd
        work[HIGH, lane] = (cuts[one, level[p] + 1] - mean[p]) / sd
    for lane in range(count, TILE):
        work[LOW, lane], work[HIGH, lane] = 0.0, 1.0
    truncated_tile(work)
    for lane in range(count):
        work[LOG_MASS, lane] -= work[HALF, lane] * (1.0 - work[SPREAD, lane])


@compiled
def _open_tile(variance, noise, weight, start, count, work):
    """Var[μ] / 2 noise and the weight of each cell."""
    for lane in range(count):
        p = start + lane
        work[HALF, lane] = 0.5 * variance[p] / noise[p]
        work[OFTEN, lane] = weight[p] if weight.shape[0] else 1.0
        work[TOTAL, lane] = 0.0
        work[SQUARE, lane] = 0.0
        work[KNOWN, lane] = 0.0


@compiled
def _shares_of_tile(styles, order, place, rank, start, count, style, work):
    """The style of each cell's line that is so many places behind its most probable one, into ``style``, and its
    probability; one style for all where ``styles`` is empty. Returns whether any cell has it."""
    most = 0.0
    for lane in range(count):
        if styles.shape[0] == 0:
            style[lane], work[SHARE, lane] = 0, 1.0
        else:
            line = place[start + lane]
            style[lane] = order[line, rank]
            work[SHARE, lane] = styles[line, style[lane]]
        most = max(most, work[SHARE, lane])
    return most > 0.0


@compiled
def _as_probabilities(logs):
    """Rows of unnormalised log probabilities, made probabilities; slight ones are 0."""
    for i in range(logs.shape[0]):
        top, total = logs[i].max(), 0.0
        for style in range(logs.shape[1]):
            share = math.exp(logs[i, style] - top)
            logs[i, style] = share if share >= SLIGHT else 0.0
            total += logs[i, style]
        for style in range(logs.shape[1]):
            logs[i, style] /= total


@fast_entry
def _find_styles(level, weight, mean, variance, noise, cuts, held, line, work, style, styles):
    """Styles of the block's lines from the probabilities of their levels: r ∝ share × Π P(level)^weight.

    Returns log Z under the styles ``held``.
    """
    total = 0.0
    for start in range(0, level.shape[0], TILE):
        count = min(TILE, level.shape[0] - start)
        _open_tile(variance, noise, weight, start, count, work)
        for one in range(cuts.shape[0]):
            style[:] = one
            _law_of_tile(level, mean, noise, cuts, style, start, count, work)
            for lane in range(count):
                found = work[OFTEN, lane] * work[LOG_MASS, lane]
                styles[line[start + lane], one] += found
                total += held[line[start + lane], one] * found
    _as_probabilities(styles)
    return total


@compiled
def _learn_tile(level, start, count, style, work, into):
    """What cut points are learned from."""
    for lane in range(count):
        one, k = style[lane], level[start + lane]
        often, sd = work[OFTEN, lane] * work[SHARE, lane], work[DEVIATION, lane]
        into[one, k, 0] += often
        into[one, k, 1] += often * work[AT_LOW, lane] / sd
        into[one, k, 2] += often * work[AT_HIGH, lane] / sd
        into[one, k, 3] += often / (sd * sd)


@fast_entry
def _read(level, weight, mean, variance, noise, cuts, styles, order, place, learns, work, style, found, sums):
    """What stands for each cell into ``found`` (3, m): value, information and square. Returns log Z.

    Each cell visits the styles of its line from the most probable one on, so that most tiles need a single visit.
    """
    total = 0.0
    for start in range(0, level.shape[0], TILE):
        count = min(TILE, level.shape[0] - start)
        _open_tile(variance, noise, weight, start, count, work)
        for rank in range(cuts.shape[0]):
            if not _shares_of_tile(styles, order, place, rank, start, count, style, work):
                break
            _law_of_tile(level, mean, noise, cuts, style, start, count, work)
            for lane in range(count):
                q, away = work[SHARE, lane], work[MEAN, lane]
                total += work[OFTEN, lane] * q * work[LOG_MASS, lane]
                work[TOTAL, lane] += q * away
                work[SQUARE, lane] += q * (work[SPREAD, lane] + away * away)
                work[KNOWN, lane] += q * (1.0 - work[SPREAD, lane])
            if learns:
                _learn_tile(level, start, count, style, work, sums)
        for lane in range(count):
            p, known = start + lane, work[KNOWN, lane]
            seen = max(known, LEAST_INFORMATION)
            found[0, p] = mean[p] + work[DEVIATION, lane] * work[TOTAL, lane] / seen
            found[1, p] = seen
            found[2, p] = noise[p] * work[SQUARE, lane] + known * known * variance[p]
    return total


def read_levels(cells: LevelCells) -> LevelReading:
    """Normal values that stand for the levels of a block's cells; see spec.py."""
    _check(cells)
    place = cells.indices
    if cells.mine.size:
        place = np.repeat(np.arange(len(cells.indptr) - 1, dtype=np.int32), np.diff(cells.indptr))
    values = (cells.level, cells.weight, cells.mean, cells.variance, cells.noise, cells.cuts)
    work, style, found = np.empty((WORK, TILE)), np.zeros(TILE, np.int64), np.empty((3, len(cells.level)))
    styles, log_z = cells.mine if cells.mine.size else cells.theirs, None
    if cells.log_share.size:
        styles = np.repeat(cells.log_share[None, :], len(cells.indptr) - 1, axis=0)
        log_z = _find_styles(*values, cells.mine, place, work, style, styles)
    order = np.argsort(-styles, axis=1, kind="stable")
    sums = np.zeros((len(cells.cuts), cells.cuts.shape[1] - 1, 4))
    total = _read(*values, styles, order, place, cells.sums, work, style, found, sums)
    log_z = total if log_z is None else log_z
    return LevelReading(found[0], found[1], found[2], log_z, styles if cells.mine.size else cells.mine, sums)


def _check(cells: LevelCells) -> None:
    """Make sure that arrays fit together, so that nothing is read past one."""
    many, (styles, ends) = len(cells.level), cells.cuts.shape
    each: list[Any] = [cells.indices, cells.mean, cells.variance, cells.noise]
    if any(len(part) != many for part in each) or len(cells.weight) not in (0, many) or cells.indptr[-1] != many:
        raise ValueError(f"cells differ in number: {[len(part) for part in each]}, levels of {many}")
    if many and not (cells.level.min() >= 0 and cells.level.max() < ends - 1):
        span = f"from {cells.level.min()} to {cells.level.max()}"
        raise ValueError(f"levels {span}; there are {ends - 1}, counted from 0")
    lines = len(cells.indptr) - 1
    if cells.mine.size and cells.mine.shape != (lines, styles):
        raise ValueError(f"styles of {cells.mine.shape[0]} lines and {cells.mine.shape[1]} styles, not {lines, styles}")
    last = int(cells.indices.max(initial=0))
    if cells.theirs.size and (cells.theirs.shape[1] != styles or last >= len(cells.theirs)):
        raise ValueError(f"styles of the other side have shape {cells.theirs.shape}; there are {styles} styles")
    if len(cells.log_share) not in (0, styles):
        raise ValueError(f"prior of {len(cells.log_share)} styles; there are {styles}")
