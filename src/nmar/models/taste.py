"""What rows and columns choose, as covariates of the values: the mechanism "taste" (theory.md, Taste).

Enters: a pattern fitted to which cells are observed. Leaves: of each line the log shares of its weights, centred, and
the log of their sum. The prior means of the values' factors and biases are linear in them, as in any covariates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmar.arrays import Array

SMALLEST = 1e-8  # share of a weight


def chosen(weights: Array) -> Array:
    """(n, K + 1) log shares of the weights of each line, centred, and the log of their sum.

    Examples
    --------
    >>> chosen(np.array([[1.0, 1.0], [2.0, 2.0]])).round(3).tolist()
    [[0.0, 0.0, 0.693], [0.0, 0.0, 1.386]]
    """
    weights = np.asarray(weights, np.float64)
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    shares = np.log(np.maximum(weights / total, SMALLEST))
    return np.hstack([shares - shares.mean(axis=1, keepdims=True), np.log(total)])


def names(factors: int) -> tuple[str, ...]:
    """Names of the covariates."""
    return (*(f"component {k + 1}" for k in range(factors)), "activity")


@dataclass(frozen=True, eq=False)
class Taste:
    """How the covariates of one axis were standardised when the model was fitted."""

    # (K + 1,) Mean and standard deviation of each covariate over the training lines; those that do not vary are left
    # out
    center: Array
    scale: Array

    @classmethod
    def of(cls, weights: Array) -> Taste:
        """From the pattern's weights of the training lines."""
        x = chosen(weights)
        return cls(x.mean(axis=0), x.std(axis=0))

    def covariates(self, weights: Array) -> Array:
        """Covariates of other lines, in the units of the training lines."""
        kept = self.scale > 0.0
        return ((chosen(weights) - self.center) / np.where(kept, self.scale, 1.0))[:, kept]
