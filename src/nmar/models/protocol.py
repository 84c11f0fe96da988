"""What a data model is: the one protocol third parties implement.

A data model keeps one immutable *side* per axis and shared *globals*, shows them to the loops as features (see
kernels/spec.py), and updates a block of lines from two weighted sums. Everything else, the pattern, the count
posterior, the linkage, the bound's first part, threads and solvers, is done for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.kernels.spec import Expectation, Kernels
from nmar.kernels.spec import Lines as CellLines
from nmar.models.predictive import Predictive
from nmar.prob.factor import Lines
from nmar.prob.statistics import Statistics

Array = NDArray[Any]
ROWS, COLS = 0, 1


class Features(NamedTuple):
    """How a side shows itself: inner products of lines give the two moments of a cell."""

    first: Array  # (n, D1)
    second: Array  # (n, D2)
    top: Array | None = None  # (n,) log scale taken out of ``first`` by an allocating model


class DataSide(Protocol):
    """Variational parameters of one axis, one line per row (or column)."""

    def take(self, lines: Lines) -> Any:
        """The chosen lines."""
        ...


class Start(NamedTuple):
    """Initial sides and shared parameters."""

    rows: Any
    cols: Any
    globals: Any


class DataModel(Protocol):
    """A data-generating model. Frozen: settings only, no fitted state."""

    @property
    def family(self) -> str:
        """Family of the values given their natural parameter."""
        ...

    @property
    def allocates(self) -> bool:
        """Whether E[θ] is the logarithm of an inner product (Poisson factorization)."""
        ...

    @property
    def diagonal(self) -> bool:
        """Whether features are means and variances of diagonal normal lines (coordinate descent)."""
        ...

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Start from the training cells; ``lead`` is the axis that sweeps update first."""
        ...

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Sides drawn from the prior, without uncertainty: for simulation."""
        ...

    def features(self, side: Any, axis: int, shared: Any) -> Features:
        """Features of a block of lines of ``axis``."""
        ...

    def update(
        self, side: Any, axis: int, shared: Any, found: Expectation, kernels: Kernels
    ) -> Any:
        """New lines from ``found.linear`` and ``found.quadratic``: the coordinate optimum given the other side."""
        ...

    def learn(self, side: Any, axis: int, shared: Any, stats: Statistics | None) -> Any:
        """New globals after ``axis`` was updated (empirical Bayes, shared posteriors)."""
        ...

    def divergence(self, side: Any, axis: int, shared: Any) -> float:
        """KL of one side from its prior; terms of the globals are counted with axis 0."""
        ...

    def predictive(self, rows: Any, cols: Any, shared: Any) -> Predictive:
        """What is known of the cells of paired lines (both sides of one length)."""
        ...

    def prior_line(self, axis: int, side: Any, shared: Any) -> Any:
        """A side of one line for an id that was never seen."""
        ...


__all__ = ["COLS", "ROWS", "CellLines", "DataModel", "DataSide", "Features", "Start"]
