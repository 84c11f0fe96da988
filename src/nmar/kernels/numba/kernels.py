"""Compiled kernels (numba) for the CPU; each function equals its namesake in reference.py.

Kernels release the GIL and work on one block of lines, so that threads (fit/executor.py) share a half sweep.
Reductions over factors may be reassociated, but never differently for another number of threads.
Scalars of a cell are float64 whatever the storage. Compiled code checks no index, so each loop first makes
sure that its arrays fit together (checks.py), and what does not fit is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from nmar.kernels import spec
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
from nmar.kernels.numba.checks import (
    check_gamma_update,
    check_gammas,
    check_noise,
    check_prior,
    check_solve,
    check_vectors,
    unfit_block,
    unfit_cells,
    unfit_held,
)
from nmar.kernels.numba.closed import steps_of
from nmar.kernels.numba.columns import columns_of, constants
from nmar.kernels.numba.detection import moments_of_missing
from nmar.kernels.numba.entrywise import visit_normal, visit_poisson
from nmar.kernels.numba.gamma import tabulate_lines, update_gamma_lines
from nmar.kernels.numba.levels import read_levels
from nmar.kernels.numba.loops import (
    CELLS,
    LINES,
    NOTHING,
    SHORT,
    SUMS,
    UNFIT,
    add_loop,
    expect_loop,
    moments_loop,
    statistics_loop,
)
from nmar.kernels.numba.predict import log_mixture, pair_moments, pair_rates
from nmar.kernels.numba.solve import solve_lines
from nmar.kernels.numba.tile import TILE
from nmar.kernels.numba.workspace import expect_workspace, gamma_workspace, tile_workspace
from nmar.kernels.spec import CellLaw, Expectation, GammaTable, GammaUpdate, LineNoise, Lines, NormalLines, NormalPrior

Array = NDArray[Any]

name = "numba"

__all__ = [  # offered as they are, see spec.py
    "bare_view",
    "empty",
    "empty_vectors",
    "empty_view",
    "features",
    "fill_view",
    "gather_first",
    "log_mixture",
    "moments_of_missing",
    "own_memory",
    "pair_moments",
    "pair_rates",
    "place",
    "read_levels",
    "refill_view",
    "visit_normal",
    "visit_poisson",
]


def _floor(dtype: Any) -> float:
    """Inner products at or below this may have lost terms to underflow."""
    return 1e-290 if dtype == np.float64 else 1e-30


def _flags(x: CellLaw) -> Array:
    """Switches of the law of a cell, in the order of cell.py."""
    return np.array([x.form, x.kind, x.separate, x.allocate, x.diagonal, x.mean_linkage, x.concave], np.int64)


def _numbers(x: CellLaw) -> Array:
    beyond = 2.0 if x.thinning == 1.0 else 1.0  # see counts.complete
    shared = (x.log_rate, x.log_norm, x.dispersion, x.ceiling, x.low, x.high, x.thinning, beyond)
    if not x.tail:
        return np.array([*shared, 0.0, 0.0, 0.0])
    half = 0.5 * (x.tail + 1.0)
    constant = gammaln(half) - gammaln(0.5 * x.tail) - 0.5 * np.log(0.5 * x.tail)
    return np.array([*shared, x.tail, constant, psi(half)])


def _law(x: CellLaw) -> tuple[Any, ...]:
    tables = (x.log_factorial, x.slopes, x.linear, x.shift, x.quadratic, x.by_value)
    return (_flags(x), _numbers(x), *tables, steps_of(x.log_factorial, x.starts), x.grid)


def _typed(lines: Lines) -> Lines:
    """The cells with functions and weights of the type of the values, so that one compiled loop serves all."""
    dtype = lines.values.dtype
    if lines.functions.dtype == dtype and lines.weight.dtype == dtype:
        return lines
    return lines._replace(functions=lines.functions.astype(dtype), weight=lines.weight.astype(dtype))


def _side(view: SideView) -> tuple[Array, Array, Array]:
    return view.packed, view.log_weights, view.first_top


def _held(lines: Lines, cell_law: CellLaw) -> tuple[Array, Array]:
    """Room for q(n), tile by tile if it will be asked for (known bins need none), and the bins each cell uses."""
    cells = len(lines.indices)
    width = 0 if cell_law.kind == spec.KNOWN else cell_law.bins
    tiles = -(-cells // TILE) if cell_law.learns else min(cells, 1)
    probability = np.empty((tiles, width, TILE))
    return probability, np.empty(cells if cell_law.kind == spec.OPEN else 0, np.int32)


NO_PRIOR = NormalPrior(np.empty((0, 0)), np.empty(0), np.empty(0, np.bool_))


def _expect(
    lines: Lines,
    mine: SideView,
    theirs: SideView,
    cell_law: CellLaw,
    leaves: int,
    prior: NormalPrior = NO_PRIOR,
    steps: int = 0,
    noise: LineNoise = spec.NO_NOISE,
) -> tuple[Expectation, NormalLines]:
    """E-step of a block; see loops.expect_loop for what it leaves. New means and variances where it has any."""
    lines = _typed(lines)
    n, (K, D1, D2) = len(lines.indptr) - 1, mine.sizes
    widths = (D1, D2) if leaves == SUMS else (0, 0)
    dtype = mine.packed.dtype
    pattern, (linear, quadratic) = np.zeros((n, K), dtype), (np.zeros((n, width)) for width in widths)
    cells = len(lines.indices) if leaves in (CELLS, LINES) else 0
    cellwise = np.empty((3, cells), dtype if leaves == LINES else np.float64)
    moved = n if leaves == LINES else 0
    mean, variance = (np.empty((moved, D1), dtype) for _ in range(2))
    log_det, spread = np.empty(moved), np.empty(cellwise.shape[1] if cell_law.learns else 0, dtype)
    probability, used = _held(lines, cell_law)
    squares = np.zeros(n if cell_law.form == spec.LOCATION and not cell_law.mean_linkage else 0)
    sums, kept, new = (
        (pattern, linear, quadratic, squares),
        (probability, used, cellwise, spread),
        (mean, variance, log_det),
    )
    columns = columns_of(mine.sizes, leaves == LINES)
    log_z, count, ended = expect_loop(constants(columns), leaves)(
        lines, _side(mine), _side(theirs), _law(cell_law), _floor(dtype), sums, kept, prior, steps, noise, new,
        expect_workspace(mine.sizes, len(cell_law.slopes), dtype, leaves == LINES, len(cell_law.starts)),
        columns,
    )  # fmt: skip
    if ended == UNFIT:
        raise ValueError(unfit_block(lines, mine, theirs, cell_law))
    found = Expectation(pattern, linear, quadratic, log_z, count, probability, used, ended == SHORT, squares=squares)
    if leaves == CELLS:
        found = found._replace(cellwise=cellwise)
    if leaves == LINES and cell_law.learns:
        found = found._replace(moments=(cellwise[2], spread))
    return found, NormalLines(mean, variance, log_det)


def expect(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> Expectation:
    """E-step and accumulation of one block; see spec.py."""
    return _expect(lines, mine, theirs, cell_law, NOTHING if cell_law.form == spec.NO_VALUES else SUMS)[0]


def moments(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> tuple[Array, Array]:
    """E[μ] and E[μ²] of each cell; see spec.py."""
    lines = _typed(lines)
    columns, found = columns_of(mine.sizes), np.empty((2, len(lines.indices)))
    ended = moments_loop(constants(columns))(
        lines, _side(mine), _side(theirs), _law(cell_law), found, tile_workspace(0, mine.packed.dtype), columns
    )
    if ended == UNFIT:
        raise ValueError(unfit_block(lines, mine, theirs, cell_law))
    return found[0], found[1]


def weigh(lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw) -> Expectation:
    """E-step with the weights of single cells; see spec.py."""
    return _expect(lines, mine, theirs, cell_law, CELLS)[0]


def descend(
    lines: Lines,
    mine: SideView,
    theirs: SideView,
    cell_law: CellLaw,
    prior: NormalPrior,
    steps: int,
    noise: LineNoise = spec.NO_NOISE,
) -> tuple[Expectation, NormalLines]:
    """E-step and conjugate gradients on diagonal normal lines; see spec.py."""
    check_prior(prior, mine.sizes[1], len(lines.indptr) - 1)
    check_noise(noise, len(lines.indptr) - 1)
    return _expect(lines, mine, theirs, cell_law, LINES, prior, steps, noise)


def statistics(
    lines: Lines, mine: SideView, theirs: SideView, cell_law: CellLaw, held: Expectation
) -> tuple[Array, Array]:
    """n-vectors of the block with q(n) held; see spec.py."""
    lines = _typed(lines)
    vectors = np.zeros((len(cell_law.slopes) + bool(cell_law.tail), cell_law.bins))
    by_group = np.zeros(cell_law.by_value.shape)
    nothing = np.empty(0, mine.packed.dtype)
    moments = (nothing, nothing) if held.moments is None else held.moments
    columns = columns_of(mine.sizes)
    ended = statistics_loop(constants(columns), held.moments is None)(
        lines, _side(mine), _side(theirs), _law(cell_law), held.probability, held.used, moments, vectors, by_group,
        tile_workspace(len(vectors), mine.packed.dtype), columns,
    )  # fmt: skip
    if ended == UNFIT:
        raise ValueError(unfit_held(lines, cell_law, held) or unfit_block(lines, mine, theirs, cell_law))
    return vectors, by_group


def solve_normal(linear: Array, quadratic: Array, constant: Array, prior: NormalPrior) -> tuple[Array, Array, Array]:
    """Normal posterior of each line by Cholesky; see reference.py."""
    check_solve(linear, quadratic, constant, prior)
    n, d = linear.shape
    mean, spread, log_det = np.empty((n, d)), np.empty((n, d * (d + 1) // 2)), np.zeros(n)
    solve_lines(linear, quadratic, constant, prior, mean, spread, log_det)
    return mean, spread, log_det


def add_lines(lines: Lines, theirs: Array, width: int) -> Array:
    """Sums of the other side's vectors; see spec.py."""
    check_vectors(theirs)
    out, dtype = np.zeros((len(lines.indptr) - 1, theirs.shape[1])), theirs.dtype
    ones, part = np.ones(TILE, dtype), np.zeros(theirs.shape[1], dtype)
    columns = columns_of((theirs.shape[1], 0, 0))
    if add_loop(constants(columns))(lines.indptr, lines.indices, theirs, ones, part, out, columns) == UNFIT:
        raise ValueError(unfit_cells(lines, len(theirs)))
    return out[:, :width]


def update_gamma(update: GammaUpdate, shape: Array, rate: Array, table: GammaTable) -> None:
    """New gamma factors and their table in one pass; see spec.py."""
    check_gammas(shape, rate, table)
    check_gamma_update(update, shape)
    update_gamma_lines(update, shape, rate, table, gamma_workspace(shape.shape[1], shape.dtype))


def tabulate(shape: Array, rate: Array) -> GammaTable:
    """E[log u] and totals; see spec.py."""
    n = len(shape)
    table = GammaTable(np.empty_like(shape), np.empty_like(shape), np.empty((n, 3)))
    check_gammas(shape, rate, table)
    tabulate_lines(shape, rate, table, gamma_workspace(shape.shape[1], shape.dtype))
    return table
