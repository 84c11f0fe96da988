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
    """The lines of one axis (rows, or columns) in both models.

    Attributes
    ----------
    pattern : PatternSide
        Factors of which cells are observed.
    data : object
        The data model's lines.
    noise : GammaFactor or None
        Noise levels of the lines (models/noise.py), or None where they do not differ.
    reading : object
        What a reader keeps of the lines (models/reading.py), or None.
    detection : object
        Effects of the lines on being observed (models/mechanism.py), or None where values do not decide.
    """

    pattern: PatternSide
    data: Any
    noise: GammaFactor | None = None
    reading: Any = None
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
    """What all cells share.

    Attributes
    ----------
    dispersion : float
        σ² of the Gaussian, κ of the other families.
    linkage : Linkage
        φ and, with a mean linkage, φ1 and δ.
    data : object
        The data model's own shared parameters.
    rate : float or None
        Λ̄ of the tail-only control, else None.
    center : float
        What was subtracted from the values before fitting.
    table_size : int
        Counts covered by an open table.
    scale : float
        What the values were divided by after that; all the rest is in these units.
    shapes : tuple of (float, float) or None
        Learned prior shapes η and ζ of the pattern's two sides, or None where they are given.
    effects : PatternEffects or None
        What lines share of the effects of the pattern's covariates, or None where it has none.
    noise : Noise or None
        What lines share of their noise levels, and the tail; None: one dispersion for all cells.
    reader : object
        How values are read that are not normal around their mean (models/reading.py); None: as they are.
    mechanism : Mechanism or None
        How values decide whether they are observed (models/mechanism.py). None: they do not.
    """

    dispersion: float
    linkage: Linkage
    data: Any
    rate: float | None = None
    center: float = 0.0
    table_size: int = 32
    scale: float = 1.0
    shapes: tuple[float, float] | None = None
    effects: PatternEffects | None = None
    noise: Noise | None = None
    reader: Any = None
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
