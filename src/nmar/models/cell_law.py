"""The law of a cell as the kernels read it: tables over the bins of q(n), for the present shared parameters."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from nmar.kernels.spec import (
    EMPTY_INT,
    FAMILIES,
    GAMMA,
    GAUSSIAN,
    INVERSE_GAUSSIAN,
    KINDS,
    OPEN,
    POISSON,
    UNMODELLED,
    Array,
    CellLaw,
)
from nmar.models.law import Law
from nmar.models.state import Shared
from nmar.prob import counts
from nmar.prob.linkage import Linkage


def cell_law(law: Law, shared: Shared, distinct: Array | None = None) -> CellLaw:
    """Tables over the bins of q(n), for the present shared parameters."""
    linkage = shared.linkage
    code = FAMILIES.index(law.data.family) if law.data.has_values else UNMODELLED
    kind = KINDS.index(linkage.bins)
    size = shared.table_size if kind == OPEN else None
    phi2 = linkage.bin_table(size)
    phi1, delta = linkage.mean_tables(size)
    low, high = linkage.limits
    moves = linkage.mean is not None or law.data.keeps_moments
    inverse = 1.0 / (shared.dispersion * phi2) if code == GAUSSIAN else shared.dispersion * phi2
    rate = shared.rate if shared.rate is not None else 1.0
    by_value = np.empty((0, len(phi2)))
    if distinct is not None:
        by_value = law.family.log_base(distinct[:, None], inverse)
    return CellLaw(
        family=code,
        kind=kind,
        separate=law.separate,
        allocate=law.data.allocates,
        diagonal=law.data.diagonal,
        mean_linkage=moves,
        concave=linkage.linear and code != GAUSSIAN,
        log_rate=float(np.log(rate)),
        log_norm=float(counts.log_truncation(np.array(rate), linkage.events)),
        dispersion=float(shared.dispersion),
        slopes=np.ascontiguousarray(slopes(code, inverse, phi1, delta, moves) + _spread(law, shared)),
        linear=inverse * phi1,
        shift=inverse * phi1 * delta,
        quadratic=inverse * phi1**2 if code == GAUSSIAN else inverse,
        by_value=by_value,
        log_factorial=counts.log_factorials(_counts_covered(linkage, len(phi2)), linkage.events),
        ceiling=float(-0.5 * np.log(2.0 * np.pi * shared.dispersion * low)) if code == GAUSSIAN else 0.0,
        low=float(low),
        high=float(high),
        thinning=linkage.events,
        starts=_starts(linkage, len(phi2)),
        shares=linkage.tail_shares,
    )


def _starts(linkage: Linkage, bins: int) -> Array:
    """First count of each closed bin; nothing without thinning."""
    plain = linkage.events == 1.0 and len(linkage.tail_shares) == 1
    if plain or linkage.bins != "tail":
        return EMPTY_INT
    return np.array(linkage.starts or range(1, bins + 1), np.int32)


def _counts_covered(linkage: Linkage, bins: int) -> int:
    """Length of the table of factorials: a thinned tail is summed as a series, some way beyond its start."""
    if linkage.events == 1.0 and len(linkage.tail_shares) == 1:
        return bins + 3
    last = bins if linkage.starts is None else linkage.starts[-1]
    return last + 64 + int(12.0 * np.sqrt(last))


def _spread(law: Law, shared: Shared) -> Array:
    """Half of E[log 1/σ²] − log E[1/σ²], added to the constant of every bin where 1/σ² has a posterior."""
    precision = law.data.precision(shared.data)
    if precision is None:
        return np.zeros((1, 1))
    rows = 6 if law.data.keeps_moments or shared.linkage.mean is not None else 2
    off = np.zeros((rows, 1))
    off[0] = 0.5 * (precision.log_mean - np.log(precision.mean))
    return off


def slopes(family: int, inverse: Array, phi1: Array, delta: Array, moves: bool) -> Array:
    """Coefficients (V, B) of the family's statistics in the expected log density of each bin.

    ``inverse`` is 1/(σ²φ2) of each bin for the Gaussian, κφ for the others.
    """
    if family == GAUSSIAN:
        constant = 0.5 * np.log(inverse / (2.0 * np.pi))
        if not moves:  # residual E[(y − μ)²]
            return np.stack([constant, -0.5 * inverse])
        scaled = inverse * phi1  # y, y², yμ, μ, μ²
        return np.stack(
            [
                constant - 0.5 * inverse * delta**2,
                inverse * delta,
                -0.5 * inverse,
                scaled,
                -scaled * delta,
                -0.5 * scaled * phi1,
            ]
        )
    zero = np.zeros_like(inverse)
    if family == UNMODELLED:
        return zero[None, :]
    if family == POISSON:  # y, E[Ψ]
        return np.stack([zero, np.log(inverse), -inverse])
    if family == GAMMA:  # log y, E[Ψ]
        return np.stack([-gammaln(inverse), inverse, -inverse])
    if family == INVERSE_GAUSSIAN:  # 1/y, E[Ψ]
        return np.stack([np.log(inverse), -0.5 * inverse**2, -inverse])
    return np.stack([zero, -inverse])  # E[Ψ]; h(y, κφ) comes by value
