"""A normal value between two ends: its probability, its moments and its density at the ends (theory.md, Levels).

Differences of distribution functions lose all digits in the tails and between ends that are close. Here both ends are
turned to the side where the lower one is nearer to 0, and the scaled complementary error function takes their tails;
ends that are very close have a series.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

__all__ = ["FAR", "NARROW", "Truncated", "truncated"]

Floats = NDArray[np.float64]

FAR = 50.0  # standard deviations beyond which there is nothing
NARROW = 0.01  # width, times one more than the distance from 0, below which the series is taken
ROOT_HALF = float(np.sqrt(0.5))
DENSITY = float(1.0 / np.sqrt(2.0 * np.pi))  # of a standard normal at 0
LEAST = 1e-300


class Truncated(NamedTuple):
    """A standard normal x with low < x ≤ high."""

    log_mass: Floats  # log P(low < x ≤ high)
    mean: Floats  # those of x between the ends
    variance: Floats
    at_low: Floats  # density at each end over the probability; 0 at an end that is infinite
    at_high: Floats


def truncated(low: Any, high: Any) -> Truncated:
    """The law of a standard normal between two ends, either of which may be infinite.

    Examples
    --------
    >>> found = truncated(np.array([-np.inf, 30.0]), np.array([0.0, 31.0]))
    >>> np.round(found.log_mass, 3).tolist(), np.round(found.mean, 3).tolist()
    ([-0.693, -454.321], [-0.798, 30.033])
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    with np.errstate(invalid="ignore"):  # both ends infinite
        turned = low + high < 0.0
    near = np.maximum(np.where(turned, -high, low), -FAR)
    far = np.minimum(np.where(turned, -low, high), np.abs(near) + FAR)
    width, middle = far - near, 0.5 * (near + far)
    ratio = np.exp(-width * middle)  # of the densities at the far and the near end
    tails = 0.5 * erfcx(ROOT_HALF * np.abs(near)), 0.5 * ratio * erfcx(ROOT_HALF * far)
    square = width * width
    series = (1.0 + square / 8.0 + square**2 / 128.0) * (1.0 + (middle**2 - 1.0) * square / 24.0)
    narrow = width * (1.0 + middle) < NARROW
    scaled = (near >= 0.0) | narrow  # the mass is in units of exp(−near²/2)
    decay = np.exp(-0.5 * near**2)
    mass = np.where(scaled, tails[0] - tails[1], 1.0 - decay * (tails[0] + tails[1]))
    mass = np.maximum(np.where(narrow, DENSITY * width * np.sqrt(ratio) * series, mass), LEAST)
    at_near = DENSITY * np.where(scaled, 1.0, decay) / mass
    at_far = at_near * ratio
    mean = np.where(narrow, middle * (1.0 - square / 12.0), at_near - at_far)
    spread = np.where(narrow, square / 12.0, 1.0 + near * at_near - far * at_far - mean**2)
    return Truncated(
        np.log(mass) - np.where(scaled, 0.5 * near**2, 0.0),
        np.where(turned, -mean, mean),
        np.clip(spread, 0.0, 1.0),
        np.where(turned, at_far, at_near),
        np.where(turned, at_near, at_far),
    )
