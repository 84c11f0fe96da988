"""The pattern alone, without a model of the values."""

from __future__ import annotations

from dataclasses import dataclass

from nmar.data.cells import Cells
from nmar.models.protocol import DataModel
from nmar.models.unmodelled import Unmodelled


@dataclass(frozen=True)
class PatternOnly:
    """No model of the values: hierarchical Poisson factorization of which cells are observed.

    Fits with ``linkage="ignorable"`` only. ``observed_probability`` and ``recommend(by="observed")`` work as ever;
    whatever asks about values is refused.

    Examples
    --------
    >>> PatternOnly().describe()
    'pattern only'
    """

    def build(self, cells: Cells | None) -> DataModel:
        """A model without values."""
        return Unmodelled()

    def describe(self) -> str:
        """Its name."""
        return "pattern only"
