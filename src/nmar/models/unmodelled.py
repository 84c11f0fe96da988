"""No data model at all: Poisson factorization of which cells are observed, their values left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nmar.data.cells import Cells
from nmar.kernels.spec import Expectation, Kernels
from nmar.models.predictive import Predictive
from nmar.models.protocol import DataModel, Features, KnownLines, Start


@dataclass(frozen=True)
class Unmodelled(DataModel):
    """The data model of :class:`~nmar.models.settings.PatternOnly`."""

    has_values: ClassVar[bool] = False

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Lines that show nothing."""
        return self.draw(cells.shape, rng)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Lines that show nothing."""
        rows, cols = (KnownLines(np.empty((n, 0))) for n in shape)
        return Start(rows, cols, None)

    def features(self, side: KnownLines, axis: int, shared: None) -> Features:
        """None."""
        return Features(side.shown, side.shown)

    def update(self, side: KnownLines, axis: int, shared: None, found: Expectation, kernels: Kernels) -> KnownLines:
        """Nothing to learn."""
        return side

    def divergence(self, side: KnownLines, axis: int, shared: None) -> float:
        """There is no prior."""
        return 0.0

    def predictive(self, rows: KnownLines, cols: KnownLines, shared: None) -> Predictive:
        """Refused: there is nothing to say about values."""
        raise ValueError(
            "PatternOnly models which cells are observed, not their values; ask observed_probability or recommend"
            "(by='observed'), or fit a data model such as nmar.Factorization(10)"
        )

    def prior_line(self, axis: int, side: KnownLines, shared: None) -> KnownLines:
        """A bare line."""
        return KnownLines(side.shown[:1])
