"""The law of a cell as the kernels read it: tables over the bins of q(n), for the present shared parameters."""

from __future__ import annotations

import math

import numpy as np

from nmar.kernels.spec import (
    EMPTY_INT,
    GRID_RATIO,
    KINDS,
    LOCATION,
    NATURAL,
    NO_VALUES,
    OPEN,
    Array,
    CellLaw,
)
from nmar.models.law import Law
from nmar.models.state import Shared
from nmar.prob import counts
from nmar.prob.families import Family
from nmar.prob.families.base import CellTables
from nmar.prob.linkage import Linkage

FARTHEST = 1e12  # dispersion beyond which no peak is looked for


def cell_law(law: Law, shared: Shared, distinct: Array | None = None) -> CellLaw:
    """Tables over the bins of q(n), for the present shared parameters."""
    linkage, family = shared.linkage, law.family
    kind = KINDS.index(linkage.bins)
    size = shared.table_size if kind == OPEN else None
    phi2 = linkage.bin_table(size)
    low, high = linkage.limits
    moves = linkage.mean is not None or law.data.keeps_moments
    concave = linkage.linear and not family.location
    tables = _tables(law, shared, phi2, size, moves)
    rate = shared.rate if shared.rate is not None else 1.0
    by_value = np.empty((0, len(phi2)))
    if distinct is not None:
        by_value = family.log_base(distinct[:, None], tables.quadratic)
    needs_grid = kind == OPEN and not concave and law.data.has_values
    return CellLaw(
        form=_form(law),
        kind=kind,
        separate=law.separate,
        allocate=law.data.allocates,
        diagonal=law.data.diagonal,
        mean_linkage=moves,
        concave=concave,
        log_rate=float(np.log(rate)),
        log_norm=float(counts.log_truncation(np.array(rate), linkage.events)),
        dispersion=float(shared.dispersion),
        slopes=np.ascontiguousarray(tables.slopes + _spread(law, shared, len(tables.slopes))),
        linear=tables.linear,
        shift=tables.shift,
        quadratic=tables.quadratic,
        by_value=by_value,
        log_factorial=counts.log_factorials(_counts_covered(linkage, len(phi2)), linkage.events),
        ceiling=float(-0.5 * np.log(2.0 * np.pi * shared.dispersion * low)) if family.location else 0.0,
        low=float(low),
        high=float(high),
        grid=_grid(family, shared.dispersion * low, shared.dispersion * high) if needs_grid else np.empty((0, 0)),
        thinning=linkage.events,
        starts=_starts(linkage, len(phi2)),
        tail=0.0 if shared.noise is None else shared.noise.freedom,
    )


def _form(law: Law) -> int:
    if not law.data.has_values:
        return NO_VALUES
    return LOCATION if law.family.location else NATURAL


def _tables(law: Law, shared: Shared, phi2: Array, size: int | None, moves: bool) -> CellTables:
    """What kernels read of the family; zeros where there are no values."""
    if law.data.has_values:
        return law.family.tables(shared.dispersion, *shared.linkage.mean_tables(size), phi2, moves)
    return CellTables(np.zeros((1, len(phi2))), *(np.zeros(len(phi2)) for _ in range(3)))


def _grid(family: Family, low: float, high: float) -> Array:
    """Slopes over a range of dispersions, from which the largest f of an open table is bounded.

    Empty for families that have a bound of their own: by value (counts, whose probability is at most 1) and location.
    """
    if family.needs_values or family.location:
        return np.empty((0, 0))
    steps = math.ceil(math.log(min(high, FARTHEST) / low) / math.log(GRID_RATIO))
    return np.ascontiguousarray(family.slopes(low * GRID_RATIO ** np.arange(-1.0, steps + 2.0)))


def _starts(linkage: Linkage, bins: int) -> Array:
    """First count of each closed bin; nothing where there is one."""
    if bins == 1 or linkage.bins != "tail":
        return EMPTY_INT
    return np.array(linkage.starts or range(1, bins + 1), np.int32)


def _counts_covered(linkage: Linkage, bins: int) -> int:
    """Length of the table of factorials: a tail is summed as a series, some way beyond its start."""
    if bins == 1 or linkage.bins != "tail":
        return bins + 3
    last = bins if linkage.starts is None else linkage.starts[-1]
    return last + 64 + int(12.0 * np.sqrt(last))


def _spread(law: Law, shared: Shared, rows: int) -> Array:
    """Half of E[log 1/σ²] − log E[1/σ²], added to the constant of every bin where 1/σ² has a posterior."""
    off = np.zeros((rows, 1))
    precision = law.data.precision(shared.data)
    if precision is not None:
        off[0] = 0.5 * (precision.log_mean - np.log(precision.mean))
    return off
