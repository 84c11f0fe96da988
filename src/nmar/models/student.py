"""Lines that differ in how far their coordinates reach from the prior mean (theory.md, Student factors).

a_i ~ N(η, diag(v)/ξ_i) with ξ_i ~ Ga(h, h), shape and rate: a Student prior with 2h degrees of freedom, ξ shared by the
coordinates of a line. q(ξ) follows from q(a), so that no side has to keep it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nmar.arrays import Array
from nmar.models.covariates import DesignedLines, LineCoefficients
from nmar.models.noise import matched_shape
from nmar.prob.factor import PIECE, GammaFactor, NormalFactor
from nmar.prob.pieces import pieces

START = 10.0  # first shape h
LARGEST = 1e4  # shape beyond which lines do not differ
LEAST = 0.1  # smallest shape


def squares(
    side: NormalFactor, prior_mean: Array, coefficients: LineCoefficients | None
) -> Iterator[tuple[slice, Array]]:
    """E[(a_ik − prior mean)²] of the lines, some at a time."""
    for piece in pieces(len(side.mean), PIECE):
        lines, center = side.take(piece), prior_mean
        unsure: Array | float = 0.0
        if coefficients is not None and isinstance(lines, DesignedLines):
            x = lines.x.astype(np.float64)
            center, unsure = center + coefficients.prior_mean(x), coefficients.variance_at(x)
        yield piece, (lines.mean.astype(np.float64) - center) ** 2 + lines.variances + unsure


def reaches(shape: float, size: int, distances: Array) -> GammaFactor:
    """q(ξ) = Ga(h + size/2, h + ½ Σ_k E[(a_ik − η_k)²]/v_k) of some lines, from that sum of each line."""
    return GammaFactor(np.full_like(distances, shape + 0.5 * size), shape + 0.5 * distances)


def learned_shape(found: GammaFactor) -> float:
    """The prior shape: log h − ψ(h) = mean(E ξ − E log ξ) − 1."""
    return matched_shape(float(np.mean(found.mean - found.log_mean)) - 1.0, LEAST, LARGEST)
