"""What the lines of a Gaussian bilinear model consist of, and their priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nmar.arrays import Array
from nmar.data.covariates import Design
from nmar.models.covariates import LineCoefficients


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What the coordinates of one axis are.

    Attributes
    ----------
    free : tuple of bool
        Whether a coordinate is unknown, with a normal prior.
    constant : tuple of float
        Value of a coordinate that is the same known number on every line.
    learned : tuple of bool
        Whether its prior variance is set by empirical Bayes.
    bias : int
        Position of the coordinate that is the line's intercept, which starts at its shrunken mean, or −1.
    known : ndarray of shape (n, d) or None
        Lines that are known altogether (covariates).
    design : Design or None
        Covariates of the lines, on which their prior means depend.
    """

    free: tuple[bool, ...]
    constant: tuple[float, ...]
    learned: tuple[bool, ...]
    bias: int = -1
    known: Any = None
    design: Design | None = None


@dataclass(frozen=True, eq=False)
class Priors:
    """Normal priors of the lines, per axis: mean and variance of each coordinate.

    ``lead`` is the axis that sweeps update first; its factors keep unit prior variance, which fixes their scale.
    ``coefficients`` are those of the covariates, where an axis has them: prior means of lines are linear in these.
    ``shapes`` are those of the prior of the lines' reaches; 0 where the lines of an axis have one prior.
    """

    mean: tuple[Array, Array]
    variance: tuple[Array, Array]
    lead: int
    coefficients: tuple[LineCoefficients | None, LineCoefficients | None] = (None, None)
    shapes: tuple[float, float] = (0.0, 0.0)
