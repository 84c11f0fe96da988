"""What the lines of a Gaussian bilinear model consist of, and their priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nmar.arrays import Array
from nmar.data.covariates import Design
from nmar.models.covariates import LineCoefficients


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What the coordinates of one axis are."""

    free: tuple[bool, ...]  # whether a coordinate is unknown, with a normal prior
    constant: tuple[float, ...]  # value of a coordinate that is the same known number on every line
    learned: tuple[bool, ...]  # whether its prior variance is set by empirical Bayes
    bias: int = -1  # position of the coordinate that is the line's intercept, which starts at its shrunken mean, or −1
    known: Any = None  # (n, d) lines that are known altogether (covariates)
    design: Design | None = None  # covariates of the lines, on which their prior means depend


@dataclass(frozen=True, eq=False)
class Priors:
    """Normal priors of the lines, per axis: mean and variance of each coordinate.

    ``lead`` is the axis that sweeps update first; its factors keep unit prior variance, which fixes their scale.
    ``coefficients`` are those of the covariates, where an axis has them: prior means of lines are linear in these.
    """

    mean: tuple[Array, Array]
    variance: tuple[Array, Array]
    lead: int
    coefficients: tuple[LineCoefficients | None, LineCoefficients | None] = (None, None)
    shapes: tuple[float, float] = (0.0, 0.0)  # of the lines' Student priors; 0 where the prior is normal
