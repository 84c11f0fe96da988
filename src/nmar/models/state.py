"""What is fitted: the lines of both models on each side, and what all cells share. Updates return new
records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.kernels.spec import Kernels
from nmar.models.mechanism import Detection, Mechanism
from nmar.models.missingness import PatternSide
from nmar.models.noise import Noise
from nmar.models.pattern_covariates import PatternEffects
from nmar.prob.arrays import on_host
from nmar.prob.factor import GammaFactor
from nmar.prob.linkage import Linkage
from nmar.prob.tree import map_arrays
from nmar.prob.units import Units


@dataclass(frozen=True, eq=False)
class Side:
    """The lines of one axis (rows, or columns) in both models."""

    pattern: PatternSide  # factors of which cells are observed
    data: Any  # the data model's lines
    noise: GammaFactor | None = None  # noise levels of the lines (models/noise.py), or None where they do not differ
    reading: Any = None  # what a reader keeps of the lines (models/reading.py), or None
    # effects of the lines on being observed (models/mechanism.py), or None where values do not decide
    detection: Detection | None = None

    def take(self, lines: slice | Array) -> Side:
        """The chosen lines."""
        noise = None if self.noise is None else self.noise.take(lines)
        reading = None if self.reading is None else self.reading.take(lines)
        detection = None if self.detection is None else self.detection.take(lines)
        return Side(self.pattern.take(lines), self.data.take(lines), noise, reading, detection)

    def take_noise(self, lines: Array) -> GammaFactor | None:
        """Noise levels of the chosen lines."""
        return None if self.noise is None else self.noise.take(lines)

    def placed(self, kernels: Kernels) -> Side:
        """The lines where a backend keeps them."""
        return map_arrays(self, kernels.place) if kernels.own_memory else self


@dataclass(frozen=True, eq=False)
class Shared:
    """What all cells share."""

    dispersion: float  # σ² of the Gaussian, κ of the other families
    linkage: Linkage  # φ and, with a mean linkage, φ1 and δ
    data: Any  # the data model's own shared parameters
    rate: float | None = None  # Λ̄ of the tail-only control, else None
    center: float = 0.0  # what was subtracted from the values before fitting
    table_size: int = 32  # counts covered by an open table
    scale: float = 1.0  # what the values were divided by after that; all the rest is in these units
    # learned prior shapes η and ζ of the pattern's two sides, or None where they are given
    shapes: tuple[float, float] | None = None
    # what lines share of the effects of the pattern's covariates, or None where it has none
    effects: PatternEffects | None = None
    # what lines share of their noise levels, and the tail; None: one dispersion for all cells
    noise: Noise | None = None
    # how values are read that are not normal around their mean (models/reading.py); None: as they are
    reader: Any = None
    # How values decide whether they are observed (models/mechanism.py). None: they do not.
    mechanism: Mechanism | None = None

    @property
    def units(self) -> Units:
        """Units of the values."""
        return Units(self.center, self.scale)

    @property
    def learns_in_turn(self) -> bool:
        """Whether a sweep learns only a part of what all cells share, and the next one the rest."""
        return self.reader is not None and self.reader.alternates


@dataclass(frozen=True, eq=False)
class State:
    """Everything that is fitted.

    Each update returns a new state. The arrays of a state inside a run are overwritten two sweeps later
    (models/buffers.py), so a state that is kept longer is copied (:meth:`copy`).
    """

    sides: tuple[Side, Side]
    shared: Shared

    def with_side(self, axis: int, side: Side) -> State:
        """The state with one side replaced."""
        return State((side, self.sides[1]) if axis == 0 else (self.sides[0], side), self.shared)

    def bare(self) -> State:
        """The state without the tables that follow from it and that only sweeps need."""
        rows, cols = (replace(side, pattern=side.pattern.bare()) for side in self.sides)
        return State((rows, cols), self.shared)

    def copy(self) -> State:
        """The state in memory of its own, to be kept while the run that made it goes on (see LineBuffers)."""
        return self.mapped(np.copy)

    def placed(self, kernels: Kernels) -> State:
        """The state with its lines where a backend keeps them."""
        return self.mapped(kernels.place) if kernels.own_memory else self

    def on_host(self) -> State:
        """The state with its lines in NumPy's memory, wherever a backend keeps them."""
        return self if self.in_host_memory else self.mapped(on_host)

    @property
    def in_host_memory(self) -> bool:
        """Whether the lines are NumPy's arrays."""
        return isinstance(self.sides[0].pattern.weights.alpha, np.ndarray)

    def mapped(self, change: Callable[[Array], Array]) -> State:
        """The state with ``change`` applied to each array of lines."""
        rows, cols = (map_arrays(side, change) for side in self.sides)
        return State((rows, cols), self.shared)
