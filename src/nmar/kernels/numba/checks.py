"""What the compiled kernels make sure of before a loop starts: arrays fit together, so that nothing is read past one.

Blocks are checked by compiled code (``block_fits``, ``cells_fit``, ``held_fits``), which costs next to nothing: one
look at each index and class, and shapes. Where it says no, ``unfit_…`` find out what does not fit and say so. Arrays
that go by line (``check_…``) are checked in Python, by their shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.layout import VECTOR, SideView, sections
from nmar.kernels.numba.base import compiled
from nmar.kernels.numba.cell import FORM, KIND, MEAN_LINKAGE
from nmar.kernels.numba.tile import TILE
from nmar.kernels.spec import (
    KNOWN,
    LOCATION,
    NO_VALUES,
    OPEN,
    PARITY,
    CellLaw,
    Expectation,
    GammaTable,
    GammaUpdate,
    LineNoise,
    Lines,
    Mixture,
    NormalPairs,
    NormalPrior,
    RatePairs,
)

Array = NDArray[Any]

# --- compiled: whether a block fits -------------------------------------------------------------------------------


@compiled
def cells_fit(indptr, indices, others):
    """Whether lines follow each other without gaps and each cell names one of the other side's lines."""
    n = indptr.shape[0] - 1
    if n < 0 or indptr[0] != 0 or indptr[n] != indices.shape[0]:
        return False
    if indices.shape[0] > 0 and indices.strides[0] != indices.itemsize:  # empty arrays have strides of any size
        return False
    for i in range(n):
        if indptr[i + 1] < indptr[i]:
            return False
    return _within(indices, others)


@compiled
def _within(numbers, end):
    """Whether all whole numbers are at least 0 and below ``end``."""
    low, high = np.int64(0), np.int64(-1)
    for p in range(numbers.shape[0]):
        low, high = min(low, np.int64(numbers[p])), max(high, np.int64(numbers[p]))
    return low >= 0 and high < end


@compiled
def block_fits(lines, mine, theirs, law, width, modelled):
    """Whether the cells of a block, both sides and the tables of their law fit each other."""
    indptr, indices, values, group, offset, functions, weight, precision = lines
    cells = indices.shape[0]
    if not cells_fit(indptr, indices, theirs[0].shape[0]) or values.shape[0] != cells:
        return False
    if mine[0].shape[0] != indptr.shape[0] - 1:
        return False
    if (offset.shape[0] != 0 and offset.shape[0] != cells) or (group.shape[0] != 0 and group.shape[0] != cells):
        return False
    if (weight.shape[0] != 0 and weight.shape[0] != cells) or (precision.shape[0] != 0 and precision.shape[0] != cells):
        return False
    factors = mine[1].shape[1]
    if not (_side_fits(mine, factors, width) and _side_fits(theirs, factors, width)):
        return False
    if not modelled:
        return True
    classes = law[3].shape[1] if law[0][KIND] == KNOWN else law[7].shape[0]
    if classes > 0 and (group.shape[0] != cells or not _within(group, classes)):
        return False
    if functions.shape[0] > 0 and functions.shape[1] != cells:
        return False
    return _law_fits(law, functions.shape[0])


@compiled
def _side_fits(side, factors, width):
    packed, logs, tops = side
    n = packed.shape[0]
    if packed.shape[1] != width or packed.strides[1] != packed.itemsize:
        return False
    return logs.shape[0] == n and logs.shape[1] == factors and factors <= width and tops.shape[0] == n


@compiled
def _law_fits(law, functions):
    """Whether every table has an entry for each bin and every statistic of a cell its coefficients."""
    flags, _, log_factorial, slopes, linear, shift, quadratic, by_value, steps, grid = law
    bins, kind = slopes.shape[1], flags[KIND]
    if linear.shape[0] != bins or shift.shape[0] != bins or quadratic.shape[0] != bins or bins == 0:
        return False
    if (by_value.shape[0] > 0 and by_value.shape[1] != bins) or (kind == PARITY and bins != 2):
        return False
    starts = steps[0]  # ends with where the table of the open last bin ends
    if starts.shape[0] > 1 and starts.shape[0] - 1 != bins:
        return False
    last = starts[starts.shape[0] - 2] if starts.shape[0] > 1 else bins
    if kind != KNOWN and kind != PARITY and log_factorial.shape[0] <= last + 1:
        return False
    needed = functions + 2
    if flags[FORM] == LOCATION:
        needed = 6 if flags[MEAN_LINKAGE] else 2
    return slopes.shape[0] == needed and (grid.shape[1] == 0 or grid.shape[0] == needed)


@compiled
def held_fits(lines, law, q, used, moments, gathers):
    """Whether what ``expect`` has kept is of as many cells and of this law."""
    cells, kind = lines[1].shape[0], law[0][KIND]
    tiles, bins = (cells + TILE - 1) // TILE, 0 if kind == KNOWN else law[3].shape[1]
    if cells > 0 and (q.shape[0] < tiles or q.shape[1] != bins or q.shape[2] != TILE):
        return False
    if kind == OPEN and not (used.shape[0] == cells and _within(used, bins + 1)):
        return False
    return gathers or (moments[0].shape[0] == cells and moments[1].shape[0] == cells)


# --- what does not fit --------------------------------------------------------------------------------------------


def unfit_cells(lines: Lines, others: int) -> str:
    """What is wrong with the lines of a block."""
    indices, cells = lines.indices, len(lines.indices)
    if cells and not (indices.min() >= 0 and indices.max() < others):
        ends = f"from {indices.min()} to {indices.max()}"
        return f"indices name lines {ends} of the other side; it has {others}, counted from 0"
    return f"indptr does not cut {cells} cells into lines; it must rise from 0 to the number of indices, one array"


def unfit_block(lines: Lines, mine: SideView, theirs: SideView, law: CellLaw) -> str:
    """What is wrong with a block that does not fit."""
    cells, n = len(lines.indices), len(lines.indptr) - 1
    for name in ("values", "group", "offset", "weight"):
        given = len(getattr(lines, name))
        if given != cells and (given or name == "values"):
            return f"{name} has {given} entries for {cells} cells; give one for each"
    if len(mine.packed) != n:
        return f"indptr has {n} lines but their own side {len(mine.packed)}; give one line for each"
    for side in (mine, theirs):
        if side.packed.shape != (len(side.log_weights), sections(*mine.sizes)[-1]):
            return f"a side of shape {side.packed.shape} does not hold lines of sections {mine.sizes}; see SideView"
    if len(lines.functions) and lines.functions.shape[1] != cells:
        return f"functions are of {lines.functions.shape[1]} values for {cells} cells; give those of each"
    return _unfit_classes(lines, law) or _unfit_law(law, len(lines.functions)) or unfit_cells(lines, len(theirs.packed))


def _unfit_classes(lines: Lines, law: CellLaw) -> str:
    group, cells = lines.group, len(lines.indices)
    classes = law.bins if law.kind == KNOWN else len(law.by_value)
    if law.form == NO_VALUES or not classes:
        return ""
    if len(group) != cells:
        return f"group has {len(group)} entries for {cells} cells; give the class of each"
    if cells and not (group.min() >= 0 and group.max() < classes):
        return f"group names classes from {group.min()} to {group.max()}; the law has {classes}, counted from 0"
    return ""


def _unfit_law(law: CellLaw, functions: int) -> str:
    tables = [len(table) for table in (law.linear, law.shift, law.quadratic)]
    if law.form == NO_VALUES or _law_is_whole(law, tables, functions):
        return ""
    shapes = f"slopes {law.slopes.shape}, linear, shift and quadratic {tables}, log_factorial {len(law.log_factorial)}"
    return f"the tables of the law do not fit each other: {shapes}; make them with models.cell_law"


def _law_is_whole(law: CellLaw, tables: list[int], functions: int) -> bool:
    last = int(law.starts[-1]) if len(law.starts) else law.bins
    bins = len(law.starts) if len(law.starts) else 2 if law.kind == PARITY else law.bins
    basis = functions + 2
    if law.form == LOCATION:
        basis = 6 if law.mean_linkage else 2
    long = law.kind in (KNOWN, PARITY) or len(law.log_factorial) > last + 1
    whole = len(law.slopes) == basis and len(law.grid) in (0, basis)
    return tables == [law.bins] * 3 and bins == law.bins and whole and long


def unfit_held(lines: Lines, law: CellLaw, held: Expectation) -> str:
    """What is wrong with what was kept of a block, if anything."""
    cells, bins = len(lines.indices), 0 if law.kind == KNOWN else law.bins
    shape, needed = held.probability.shape, (-(-cells // TILE), bins, TILE)
    if cells and (len(shape) != 3 or shape[0] < needed[0] or shape[1:] != needed[1:]):
        return f"probability has shape {shape}, not {needed}: it was held for other cells"
    if law.kind == OPEN and len(held.used) != cells:
        return f"used has {len(held.used)} entries for {cells} cells: it was held for other cells"
    if held.moments is not None and any(len(part) != cells for part in held.moments):
        return f"moments are not those of {cells} cells: they were held for others"
    return ""


# --- arrays that go by line ---------------------------------------------------------------------------------------


def check_noise(noise: LineNoise, n: int) -> None:
    """Refuse noise that is not that of the block's lines."""
    if noise.mean.size and not (noise.mean.shape == noise.shape.shape == (n,)):
        raise ValueError(f"noise of {noise.mean.shape} and {noise.shape.shape} lines, but the block has {n}")


def check_prior(prior: NormalPrior, width: int, lines: int) -> None:
    """A prior of each coordinate, its mean for all lines or for each."""
    one_each = prior.mean.shape in ((1, width), (lines, width))
    scaled = prior.scale.shape in ((0,), (lines,))
    if not (one_each and scaled and len(prior.precision) == len(prior.free) == width):
        shapes = tuple(part.shape for part in prior)
        raise ValueError(f"prior has {shapes} entries for {lines} lines of {width} coordinates; give one for each")


def check_solve(linear: Array, quadratic: Array, constant: Array, prior: NormalPrior) -> None:
    """Sums of lines of d coordinates."""
    n, d = linear.shape
    if quadratic.shape != (n, d * (d + 1) // 2) or len(constant) != d:
        shapes = f"{linear.shape}, {quadratic.shape} and {constant.shape}"
        raise ValueError(f"solve_normal was given arrays of shapes {shapes}; give (n, d), (n, d(d + 1)/2) and (d,)")
    check_prior(prior, d, n)


def check_vectors(theirs: Array) -> None:
    """Vectors of the other side, in whole vectors."""
    if theirs.ndim != 2 or theirs.shape[1] % VECTOR or not theirs.flags.c_contiguous:
        raise ValueError(f"theirs has shape {theirs.shape}; give rows in whole vectors of {VECTOR}, one after another")


def check_gammas(shape: Array, rate: Array, table: GammaTable) -> None:
    """Factors and their table are of the same lines."""
    if shape.ndim != 2 or shape.shape != rate.shape:
        raise ValueError(f"shape is {shape.shape} and rate {rate.shape}; give both for all lines and factors")
    if not table.log_mean.shape == table.geometric.shape == shape.shape or table.totals.shape != (len(shape), 3):
        raise ValueError(f"update_gamma was given a table of other lines than the factors, which are {shape.shape}")


def check_gamma_update(update: GammaUpdate, shape: Array) -> None:
    """The update is of the same lines as the factors, its exposure of all alike or of each."""
    exposed = update.exposure.shape == (1, shape.shape[1]) or update.exposure.shape == shape.shape
    if not exposed or update.allocated.shape != shape.shape or len(update.activity) != len(shape):
        raise ValueError(f"update_gamma was given an update of other lines than the factors, which are {shape.shape}")


# --- predictions --------------------------------------------------------------------------------------------------


def check_pairs(pairs: NormalPairs | RatePairs) -> None:
    """Lines of both sides are of one width, and there is a column for each row."""
    mean, spread, other_mean, other_spread, rows, cols = pairs
    sides = len(mean) == len(spread) and len(other_mean) == len(other_spread)
    if not sides or mean.shape[1] != other_mean.shape[1] or spread.shape[1] != other_spread.shape[1]:
        shapes = ", ".join(str(part.shape) for part in pairs[:4])
        raise ValueError(f"lines of pairs have shapes {shapes}; give both sides means and spreads of one width")
    d = mean.shape[1]
    if spread.shape[1] not in (0, d, d * (d + 1) // 2):
        raise ValueError(f"spread has {spread.shape[1]} numbers a line; give {d} variances, packed covariances or none")
    if len(rows) != len(cols):
        raise ValueError(f"rows has {len(rows)} entries and cols {len(cols)}; give one of each per pair")


def unfit_pairs(pairs: NormalPairs | RatePairs) -> str:
    """Which positions are not those of lines."""
    mean, _, other_mean, _, rows, cols = pairs
    return (
        f"pairs name rows from {rows.min()} to {rows.max()} of {len(mean)}"
        f" and columns from {cols.min()} to {cols.max()} of {len(other_mean)}"
    )


def check_mixture(y: Array, mixture: Mixture) -> None:
    """Arrays are those of the same cells, components and bins."""
    cells, bins, components = len(y), len(mixture.noise), mixture.mean.shape[1]
    whole = mixture.mean.shape == mixture.variance.shape == (cells, components)
    whole &= mixture.of_component.shape == (cells, components) or (components == 1 and not mixture.of_component.size)
    whole &= mixture.of_bin.shape == (cells, bins) or (bins == 1 and not mixture.of_bin.size)
    whole &= len(mixture.phi1) == len(mixture.delta) == bins
    if not (whole and len(mixture.precision) in (0, cells) and len(mixture.freedom) in (0, cells)):
        shapes = ", ".join(f"{name} {part.shape}" for name, part in mixture._asdict().items())
        raise ValueError(f"the laws of {cells} values do not fit each other: {shapes}")
