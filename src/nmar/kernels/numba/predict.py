"""Compiled: what predictions ask of single cells: moments of pairs of lines, and mixtures of normal or Student laws.

Pairs come by position and in any order; a row that stays for some pairs is unfolded once. Densities go over tiles of
cells, all lanes at once, so that exp and log become vector code.
"""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.numba.base import exact, fast, fast_entry, vectorised
from nmar.kernels.numba.checks import check_mixture, check_pairs, unfit_pairs
from nmar.kernels.numba.gamma import shifted
from nmar.kernels.numba.math import exp, log
from nmar.kernels.spec import Mixture, NormalPairs, RatePairs

LANES = 64  # cells worked on together
LOG_2PI = math.log(2.0 * math.pi)
NOTHING = -1e300  # below the logarithm of any density
ROOT_HALF = math.sqrt(0.5)


@fast
def _inside(rows, cols, n_rows, n_cols):
    """Whether all positions are those of lines."""
    outside = 0
    for p in range(rows.shape[0]):
        outside += not (-n_rows <= rows[p] < n_rows and -n_cols <= cols[p] < n_cols)
    return outside == 0


@fast
def _unfold(mean, spread, i, whole, second):
    """Covariance of a line as a matrix, and its packed second moment."""
    d, at = mean.shape[1], 0
    for p in range(d):
        for q in range(p, d):
            value, product = np.float64(spread[i, at]), np.float64(mean[i, p]) * np.float64(mean[i, q])
            if p == q:
                whole[p, p], second[at] = value, value + product
            else:
                whole[p, q] = whole[q, p] = value * ROOT_HALF
                second[at] = value + product / ROOT_HALF
            at += 1


@fast
def _full_pair(mean, spread, j, first, whole, second):
    """E and Var of ⟨a, b⟩: Cov b on E[aa'] and Cov a on E[b]E[b]', sums of non-negative terms."""
    d, total, variance = first.shape[0], 0.0, 0.0
    for p in range(d):
        total += first[p] * mean[j, p]
    for k in range(second.shape[0]):
        variance += second[k] * spread[j, k]
    for p in range(d):
        row = 0.0
        for q in range(d):
            row += whole[p, q] * mean[j, q]
        variance += row * mean[j, p]
    return total, variance


@fast
def _means(a, i, b, j):
    """E of ⟨a, b⟩."""
    total = 0.0
    for k in range(a.shape[1]):
        total += np.float64(a[i, k]) * np.float64(b[j, k])
    return total


@fast
def _diagonal_pair(a, va, i, b, vb, j):
    """The same of lines whose coordinates are independent."""
    total, variance = 0.0, 0.0
    for k in range(a.shape[1]):
        x, y = np.float64(a[i, k]), np.float64(b[j, k])
        total += x * y
        variance += x * x * vb[j, k] + va[i, k] * (y * y + vb[j, k])
    return total, variance


@fast_entry
def normal_pairs(pairs, found):
    """Fill ``found`` (2, m) with E and Var of ⟨a_i, b_j⟩."""
    a, va, b, vb, rows, cols = pairs
    if not _inside(rows, cols, a.shape[0], b.shape[0]):
        return False
    d, diagonal = a.shape[1], va.shape[1] == a.shape[1]
    first, whole, second = np.empty(d), np.empty((d, d)), np.empty(va.shape[1])
    for p in range(rows.shape[0]):
        i, j = rows[p], cols[p]
        if va.shape[1] == 0:
            found[0, p], found[1, p] = _means(a, i, b, j), 0.0
            continue
        if diagonal:
            found[0, p], found[1, p] = _diagonal_pair(a, va, i, b, vb, j)
            continue
        if p == 0 or i != rows[p - 1]:
            _unfold(a, va, i, whole, second)
            for k in range(d):
                first[k] = a[i, k]
        found[0, p], found[1, p] = _full_pair(b, vb, j, first, whole, second)
    return True


@fast_entry
def rate_pairs(pairs, found):
    """Fill ``found`` (2, m) with E and Var of Σ_k u_ik v_jk of independent u and v."""
    u, du, v, dv, rows, cols = pairs
    if not _inside(rows, cols, u.shape[0], v.shape[0]):
        return False
    for p in range(rows.shape[0]):
        i, j = rows[p], cols[p]
        if du.shape[1] == 0:
            found[0, p], found[1, p] = _means(u, i, v, j), 0.0
        else:
            found[0, p], found[1, p] = _diagonal_pair(u, du, i, v, dv, j)
    return True


@exact
def log_gamma_half(x):
    """log Γ(x + ½) − log Γ(x) − ½ log x for x > 0, from x + 8 down (theory.md, Prediction)."""
    z, below, _ = shifted(x)
    _, above, _ = shifted(x + 0.5)
    inverse = 1.0 / z
    square, ratio = inverse * inverse, below / above
    s = -5461.0 / 425984.0
    s = s * square + 691.0 / 180224.0
    s = s * square - 31.0 / 18432.0
    s = s * square + 17.0 / 14336.0
    s = s * square - 1.0 / 640.0
    s = s * square + 1.0 / 192.0
    s = s * square - 1.0 / 8.0
    return 0.5 * log(ratio * ratio * (z / x)) + inverse * s


@exact
def _log1p(x):
    """log(1 + x) for x ≥ 0, with what 1 + x rounds away."""
    u = 1.0 + x
    return log(u) + (x - (u - 1.0)) / u


@vectorised
def _constants(freedom, start, cells, constant):
    """log of a Student density's constant, times √scale; of a normal one where there are no degrees of freedom."""
    if freedom.shape[0] == 0:
        for lane in range(cells):
            constant[lane] = -0.5 * LOG_2PI
    else:
        for lane in range(cells):
            constant[lane] = log_gamma_half(0.5 * freedom[start + lane]) - 0.5 * LOG_2PI


@vectorised
def _densities(y, mixture, start, cells, c, b, constant, term):
    """Log density of component c in bin b of each cell, with the weight of both."""
    mean, variance, of_component, precision, freedom, of_bin, phi1, delta, noise = mixture
    for lane in range(cells):
        p = start + lane
        spread = variance[p, c] * phi1[b] * phi1[b]
        spread += noise[b] / precision[p] if precision.shape[0] > 0 else noise[b]
        away = y[p] - phi1[b] * mean[p, c] - delta[b]
        square = away * away / spread
        if freedom.shape[0] > 0:
            v = freedom[p]
            square = (v + 1.0) * _log1p(square / v)
        term[lane] = constant[lane] - 0.5 * (log(spread) + square)
    if of_component.shape[0] > 0:
        for lane in range(cells):
            term[lane] += of_component[start + lane, c]
    if of_bin.shape[0] > 0:
        for lane in range(cells):
            term[lane] += of_bin[start + lane, b]


@fast_entry
def mixture_densities(y, mixture, found):
    """Fill ``found`` (m,) with log Σ_c Σ_b of weighted normal or Student densities."""
    components, bins = mixture.mean.shape[1], mixture.phi1.shape[0]
    constant, term, top, total = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for start in range(0, y.shape[0], LANES):
        cells = min(LANES, y.shape[0] - start)
        _constants(mixture.freedom, start, cells, constant)
        top[:cells], total[:cells] = NOTHING, 0.0
        for c in range(components):
            for b in range(bins):
                _densities(y, mixture, start, cells, c, b, constant, term)
                _add_terms(term, cells, top, total)
        for lane in range(cells):
            found[start + lane] = top[lane] + math.log(total[lane]) if top[lane] > NOTHING else -np.inf


@vectorised
def _add_terms(term, cells, top, total):
    """Add exp of the terms to sums that are kept relative to their largest term."""
    for lane in range(cells):
        higher = max(top[lane], term[lane])
        total[lane] = total[lane] * exp(top[lane] - higher) + exp(term[lane] - higher)
        top[lane] = higher


def pair_moments(pairs: NormalPairs):
    """E and Var of ⟨a, b⟩; see spec.py."""
    check_pairs(pairs)
    found = np.empty((2, len(pairs.rows)))
    if not normal_pairs(pairs, found):
        raise IndexError(unfit_pairs(pairs))
    return found


def pair_rates(pairs: RatePairs):
    """E and Var of the rates of pairs; see spec.py."""
    check_pairs(pairs)
    found = np.empty((2, len(pairs.rows)))
    if not rate_pairs(pairs, found):
        raise IndexError(unfit_pairs(pairs))
    return found


def log_mixture(y, mixture: Mixture):
    """Log densities; see spec.py."""
    check_mixture(y, mixture)
    found = np.empty(len(y))
    mixture_densities(y, mixture, found)
    return found
