"""NumPy kernels: the definition that every other backend must equal.

Vectorised over the cells of a block, so temporaries are as large as a block, never as the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import gammaln, logsumexp, psi

from nmar.kernels.layout import (
    SideView,
    bare_view,
    empty,
    empty_vectors,
    empty_view,
    features,
    fill_view,
    gather_first,
    own_memory,
    place,
    refill_view,
)
from nmar.kernels.levels import read_levels
from nmar.kernels.predict import log_mixture, pair_moments, pair_rates
from nmar.kernels.spec import (
    EMPTY_INT,
    GRID_RATIO,
    KINDS,
    KNOWN,
    LOCATION,
    NATURAL,
    NO_NOISE,
    NO_VALUES,
    OPEN,
    CellLaw,
    Expectation,
    GammaTable,
    GammaUpdate,
    LineNoise,
    Lines,
    NormalLines,
    NormalPrior,
)
from nmar.prob import counts
from nmar.prob.detection import missing
from nmar.prob.factor import GammaFactor, pack, unpack
from nmar.prob.families.gaussian import expected_square

Array = NDArray[Any]

name = "reference"

__all__ = [  # offered as they are, see spec.py
    "bare_view",
    "empty",
    "empty_vectors",
    "empty_view",
    "features",
    "fill_view",
    "gather_first",
    "log_mixture",
    "own_memory",
    "pair_moments",
    "pair_rates",
    "place",
    "read_levels",
    "refill_view",
]


def _major(lines: Lines) -> Array:
    return np.repeat(np.arange(len(lines.indptr) - 1), np.diff(lines.indptr))


def _accumulate(lines: Lines, weight: Array, theirs: Array) -> Array:
    """Σ_cells weight × the other side's line, per line of the block."""
    shape = (len(lines.indptr) - 1, len(theirs))
    return csr_matrix((weight, lines.indices, lines.indptr), shape=shape) @ theirs.astype(np.float64)


def _rates(lines: Lines, mine: SideView, theirs: SideView) -> tuple[Array, Array]:
    """log s and the allocation ϕ (cells, K) by log-sum-exp, so that no weight can underflow."""
    logs = mine.log_weights[_major(lines)].astype(np.float64) + theirs.log_weights[lines.indices]
    log_s = logsumexp(logs, axis=1)
    return log_s, np.exp(logs - log_s[:, None])


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("pk,pk->p", a.astype(np.float64), b.astype(np.float64))


def moments(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> tuple[Array, Array]:
    """E[μ], E[μ²] of each cell (Gaussian), or E[θ], E[Ψ(θ)] (scalar families)."""
    i, j = _major(lines), lines.indices
    first, second = _dot(mine.first[i], theirs.first[j]), np.zeros(len(i))
    if cell_law.diagonal:
        a, b = mine.first[i].astype(np.float64), theirs.first[j].astype(np.float64)
        va, vb = mine.second[i].astype(np.float64), theirs.second[j].astype(np.float64)
        second = first**2 + np.sum(a**2 * vb + va * (b**2 + vb), axis=1)
    else:
        second = _dot(mine.second[i], theirs.second[j])
    if cell_law.allocate:
        first = np.log(first) + mine.first_top[i] + theirs.first_top[j]
    if lines.offset.size:
        second = second + 2.0 * lines.offset * first + lines.offset**2
        first = first + lines.offset
    return first, second


def moments_of_missing(log_rate: Array, slope: Array, over: float) -> Array:
    """Moments of missing cells; see spec.py."""
    return np.array(missing(log_rate, slope, over))


def _weight(lines: Lines) -> Array:
    """How often each cell counts among the values."""
    return lines.weight.astype(np.float64) if lines.weight.size else np.ones(len(lines.values))


def _own(cell_law: CellLaw, lines: Lines, first: Array) -> Array:
    """The part of a cell's log density that is the same in every bin."""
    y = lines.values.astype(np.float64)
    return _weight(lines) * y * first if cell_law.form == NATURAL else np.zeros(len(y))


def _student(cell_law: CellLaw, lines: Lines, basis: Array) -> tuple[Array, Array, Array]:
    """log p under the Student tail less that of the normal, E[ω] and E[log ω] of each cell (theory.md, Noise)."""
    nu, weight = cell_law.tail, basis[0]
    slope = cell_law.slopes[1, lines.group if cell_law.kind == KNOWN else 0]  # of the only bin, or the known one
    x = -2.0 * slope * basis[1] / np.where(weight > 0.0, weight, 1.0)
    constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(0.5 * nu)
    gain = constant + 0.5 * x - 0.5 * (nu + 1.0) * np.log1p(x / nu)
    return weight * gain, (nu + 1.0) / (nu + x), psi(0.5 * (nu + 1.0)) - np.log(0.5 * (nu + x))


def _noise(cell_law: CellLaw, lines: Lines, basis: Array) -> Array:
    """What the noise of rows and columns and the tail multiply the weight of each cell by: E[λ] E[ρ] E[ω]."""
    precision = lines.precision if lines.precision.size else np.ones(len(lines.indices))
    return precision * _student(cell_law, lines, basis)[1] if cell_law.tail else precision


def log_density(lines: Lines, cell_law: CellLaw, first: Array, second: Array) -> Array:
    """f of every cell and bin (cells, bins)."""
    basis = _basis(cell_law, lines, first, second)
    density = basis.T @ cell_law.slopes + _own(cell_law, lines, first)[:, None]
    if cell_law.tail:
        density = density + _student(cell_law, lines, basis)[0][:, None]
    if not len(cell_law.by_value):
        return density
    return density + _weight(lines)[:, None] * cell_law.by_value[lines.group]


def _ceiling(cell_law: CellLaw, lines: Lines, first: Array, second: Array) -> Array:
    """F ≥ sup_n f(n) over the whole open table."""
    basis = _basis(cell_law, lines, first, second)
    if cell_law.grid.size:
        return _own(cell_law, lines, first) + grid_ceiling(basis.T @ cell_law.grid)
    weight = basis[0]
    if cell_law.form != LOCATION or cell_law.mean_linkage:
        return weight * cell_law.ceiling
    residual = basis[1] / np.where(weight > 0.0, weight, 1.0)
    # f is unimodal in the variance: its peak clipped to the table's range
    phi = np.clip(residual / cell_law.dispersion, cell_law.low, cell_law.high)
    variance = cell_law.dispersion * phi
    return weight * (-0.5 * np.log(2.0 * np.pi * variance) - 0.5 * residual / variance)


def grid_ceiling(f: Array) -> Array:
    """A bound on each row of a function that is concave in the dispersion, from its values on the law's grid.

    The largest value lies beside the grid's largest one, m, and below both chords that end in m, prolonged. The grid
    begins before the table's range and ends after it, so that its ends are bounds as they are.
    """
    cells, last = np.arange(len(f)), f.shape[1] - 1
    m = np.argmax(f, axis=1)
    at, before, after = f[cells, m], f[cells, np.maximum(m - 1, 0)], f[cells, np.minimum(m + 1, last)]
    rise = np.maximum(GRID_RATIO * (at - before), (at - after) / GRID_RATIO)
    return at + np.where((m == 0) | (m == last), 0.0, rise)


def _count_posterior(
    cell_law: CellLaw, log_rate: Array, lines: Lines, first: Array, second: Array
) -> tuple[counts.CountPosterior, bool]:
    y = lines.values.astype(np.float64)
    size = cell_law.bins
    density = log_density(lines, cell_law, first, second)
    if cell_law.kind == KNOWN:
        q = np.zeros((len(y), size))
        q[np.arange(len(y)), lines.group] = 1.0
        chosen = density[np.arange(len(y)), lines.group]
        return counts.CountPosterior(chosen, q, np.ones(len(y))), False
    starts = tuple(cell_law.starts.tolist()) or None
    found = counts.posterior(log_rate, KINDS[cell_law.kind], density, cell_law.thinning, starts)
    if cell_law.kind != OPEN:
        return found, False
    ceiling = _ceiling(cell_law, lines, first, second)
    return found, not np.all(counts.complete(log_rate, found.log_z, ceiling, size, cell_law.thinning))


def _weights(cell_law: CellLaw, q: Array, lines: Lines, basis: Array) -> tuple[Array, Array]:
    """What crosses to the data model: weights of ``first`` and of ``second`` (theory.md, Crossing)."""
    y, weight = lines.values.astype(np.float64), _weight(lines)
    if cell_law.form == LOCATION:
        weight = weight * _noise(cell_law, lines, basis)
    quadratic = weight * (q @ cell_law.quadratic)  # ω = E[φ1²/φ2] E[1/σ²] (errata F2), or κE[φ] (F4)
    if cell_law.form == LOCATION:
        return weight * (y * (q @ cell_law.linear) - q @ cell_law.shift), quadratic  # ωt
    return weight * y, quadratic


def weigh(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> Expectation:
    """E-step with the weights of single cells; see spec.py."""
    found = expect(lines, mine, theirs, cell_law)
    first, second = moments(lines, mine, theirs, cell_law)
    basis = _basis(cell_law, lines, first, second)
    linear, quadratic = _weights(cell_law, found.probability, lines, basis)
    if lines.offset.size:
        linear, first = linear - quadratic * lines.offset, first - lines.offset
    return found._replace(cellwise=np.stack([linear, quadratic, first]))


def expect(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> Expectation:
    """E-step and accumulation of one block; see spec.py."""
    y = lines.values.astype(np.float64)
    log_s, share = _rates(lines, mine, theirs)
    first, second = moments(lines, mine, theirs, cell_law)
    if not np.all(np.isfinite(first)):
        raise FloatingPointError("the data model returned a moment that is not finite")
    rate = np.full(len(y), cell_law.log_rate) if cell_law.separate else log_s
    found, short = _count_posterior(cell_law, rate, lines, first, second)
    log_z, mean, q = found.log_z, found.mean, found.probability
    count = float(mean.sum())
    if cell_law.separate:
        log_z = log_z - (0.0 if cell_law.kind == KNOWN else cell_law.log_norm)
        log_z = log_z + counts.log_weights(log_s, "tail", 1)[0][:, 0]
        mean = counts.truncated_mean(np.exp(log_s))
    basis = _basis(cell_law, lines, first, second)
    linear, quadratic = _weights(cell_law, q, lines, basis)
    squares = _squares(cell_law, lines, quadratic, basis)
    if lines.offset.size:
        linear = linear - quadratic * lines.offset
    if cell_law.allocate:
        # y is shared among components in proportion to a_k b_k: Σ_j (y / Σ_k a_k b_k) b_k, times a_k
        linear = linear / np.exp(first - mine.first_top[_major(lines)] - theirs.first_top[lines.indices])
    pattern = np.zeros((len(lines.indptr) - 1, share.shape[1]))
    np.add.at(pattern, _major(lines), mean[:, None] * share)
    moved = _accumulate(lines, linear, theirs.first)
    if cell_law.allocate:
        moved = moved * mine.first
    return Expectation(
        pattern,
        moved,
        _accumulate(lines, quadratic, theirs.second),
        float(log_z.sum()),
        count,
        q,
        EMPTY_INT,
        short,
        squares=squares,
    )


def _squares(cell_law: CellLaw, lines: Lines, quadratic: Array, basis: Array) -> Array:
    """Σ ω E[(y − μ)²] of each line."""
    if cell_law.form != LOCATION or cell_law.mean_linkage:
        return np.zeros(len(lines.indptr) - 1)
    scale = basis[0] * (lines.precision if lines.precision.size else 1.0)
    residual = basis[1] / np.where(scale > 0.0, scale, 1.0)
    return np.bincount(_major(lines), quadratic * residual, len(lines.indptr) - 1)


def _basis(cell_law: CellLaw, lines: Lines, first: Array, second: Array) -> Array:
    """Per-cell features whose q(n)-weighted sums are the n-vectors (V, cells)."""
    y = lines.values.astype(np.float64)
    ones = np.ones(len(y))
    if cell_law.form == NO_VALUES:
        return ones[None]
    if cell_law.form == NATURAL:
        found = np.stack([ones, *lines.functions.astype(np.float64), second])
    elif cell_law.mean_linkage:
        found = np.stack([ones, y, y * y, y * first, first, second])
    else:
        found = np.stack([ones, expected_square(y, first, second)])
    found = _weight(lines) * found
    if cell_law.form == LOCATION and lines.precision.size:
        found[1:] *= lines.precision
    return found


def statistics(
    lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw, held: Expectation
) -> tuple[Array, Array]:
    """n-vectors of the block with q(n) held; see spec.py."""
    first, second = moments(lines, mine, theirs, cell_law)
    basis = _basis(cell_law, lines, first, second)
    if cell_law.tail:  # q(ω) anew, then what ν is learned from
        _, mean, log_mean = _student(cell_law, lines, basis)
        basis = np.stack([basis[0], basis[1] * mean, basis[0] * (log_mean - mean)])
    vectors = basis @ held.probability
    by_group = np.zeros(cell_law.by_value.shape)
    if len(by_group):
        np.add.at(by_group, lines.group, _weight(lines)[:, None] * held.probability)
    return vectors, by_group


def solve_normal(linear: Array, quadratic: Array, constant: Array, prior: NormalPrior) -> tuple[Array, Array, Array]:
    """Normal posterior of each line: precision = prior + Σ ω E[bb'], right side = prior + Σ ωt b − known part.

    ``constant`` (d,) holds the values of the coordinates that are not free.
    """
    n, d = linear.shape
    free, fixed = np.flatnonzero(prior.free), np.flatnonzero(~prior.free)
    mean = np.tile(constant.astype(np.float64), (n, 1))
    spread, log_det = np.zeros((n, d, d)), np.zeros(n)
    if free.size and n:
        full = unpack(quadratic.astype(np.float64), d)
        own = prior.line_precision(n)[:, free]
        precision = full[:, free[:, None], free] + own[:, :, None] * np.eye(free.size)
        right = linear[:, free] + own * prior.mean[:, free]
        right = right - full[:, free[:, None], fixed] @ constant[fixed]
        covariance = np.linalg.inv(precision)
        mean[:, free] = np.einsum("nij,nj->ni", covariance, right)
        spread[:, free[:, None], free] = covariance
        log_det = -np.linalg.slogdet(precision)[1]
    return mean, pack(spread), log_det


def descend(
    lines: Lines,
    mine: SideView,
    theirs: SideView,
    cell_law: CellLaw,
    prior: NormalPrior,
    steps: int,
    noise: LineNoise = NO_NOISE,
) -> tuple[Expectation, NormalLines]:
    """Diagonal normal lines, a few steps of conjugate gradients from where their means are."""
    found = weigh(lines, mine, theirs, cell_law)
    assert found.cellwise is not None
    linear, weight, first = found.cellwise
    if noise.mean.size:  # the weights of a line with its new noise
        change = noise.shape / (noise.rate * noise.mean + 0.5 * found.squares)
        linear, weight = linear * change[_major(lines)], weight * change[_major(lines)]
    mean, variance = mine.first.astype(np.float64), np.zeros_like(mine.first, np.float64)
    b = theirs.first[lines.indices].astype(np.float64)
    vb = theirs.second[lines.indices].astype(np.float64)
    free, centers = np.flatnonzero(prior.free), np.broadcast_to(prior.mean, mean.shape)
    own = prior.line_precision(len(mean))
    for i in range(len(mean)):
        cells = slice(lines.indptr[i], lines.indptr[i + 1])
        w, x, precision = weight[cells], b[cells][:, free], own[i, free]
        noise = w @ vb[cells][:, free]
        matrix = (x * w[:, None]).T @ x + np.diag(noise + precision)
        right = (linear[cells] - w * first[cells]) @ x - noise * mean[i, free]
        mean[i, free] += _conjugate(matrix, right + precision * (centers[i, free] - mean[i, free]), steps)
        variance[i, free] = 1.0 / np.diag(matrix)
    dtype, log_det = mine.packed.dtype, np.log(variance[:, free]).sum(axis=1)
    return found, NormalLines(mean.astype(dtype), variance.astype(dtype), log_det)


def _conjugate(matrix: Array, right: Array, steps: int) -> Array:
    """Steps towards matrix⁻¹ right from 0, preconditioned by the diagonal."""
    found, scale = np.zeros_like(right), np.diag(matrix)
    direction = right / scale
    gain = right @ direction
    for _ in range(steps):
        if not gain > 0.0:
            break
        image = matrix @ direction
        curve = direction @ image
        size = (right @ direction) / curve if curve > 0.0 else 0.0
        found, right = found + size * direction, right - size * image
        after = right @ (right / scale)
        direction, gain = right / scale + after / gain * direction, after
    return found


def add_lines(lines: Lines, theirs: Array, width: int) -> Array:
    """Σ over each line's cells of the other side's vectors; see spec.py."""
    return _accumulate(lines, np.ones(len(lines.indices)), theirs[:, :width])


def update_gamma(update: GammaUpdate, shape: Array, rate: Array, table: GammaTable) -> None:
    """New gamma factors as they are stored, and their table."""
    shape[:] = update.prior_shape + update.allocated
    rate[:] = update.activity[:, None] + update.exposure
    for room, found in zip(table, tabulate(shape, rate), strict=True):
        room[:] = found


def tabulate(shape: Array, rate: Array) -> GammaTable:
    """E[log u] in the storage type, and Σ E[log q], Σ E[log u], Σ E[u] of every line."""
    factor = GammaFactor(shape.astype(np.float64), rate.astype(np.float64))
    log_mean = factor.log_mean.astype(shape.dtype)
    return GammaTable(log_mean, np.exp(log_mean), factor.totals)
