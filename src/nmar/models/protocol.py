"""What a data model is: the one base class third parties extend (docs/how-to/write-a-data-model.md).

A data model keeps one immutable *side* per axis and shared *globals*, shows them to the loops as features (see
kernels/spec.py), and updates a block of lines from two weighted sums. Everything else, the pattern, the count
posterior, the linkage, the bound's first part, threads and solvers, is done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.covariates import Design
from nmar.kernels.spec import NO_NOISE, CellLaw, Expectation, Kernels, LineNoise, Lines, View
from nmar.models.alignment import Alignment
from nmar.models.predictive import BinTable, Predictive
from nmar.prob.statistics import Statistics
from nmar.prob.tree import LineRecord


class Features(NamedTuple):
    """How a side shows itself: inner products of lines give the two moments of a cell."""

    first: Array  # (n, D1)
    second: Array  # (n, D2)
    top: Array | None = None  # (n,) log scale taken out of ``first`` by an allocating model


class Start(NamedTuple):
    """Initial sides and shared parameters."""

    rows: Any
    cols: Any
    globals: Any


@dataclass(frozen=True, eq=False)
class KnownLines(LineRecord):
    """A side on which nothing is learned: a constant, covariates, or no columns at all."""

    shown: Array  # (n, d)

    def blend(self, target: KnownLines, step: float) -> KnownLines:
        """Nothing moves."""
        return self


class Block(NamedTuple):
    """What the kernels read of a block of lines."""

    lines: Lines
    mine: View
    theirs: View
    cell_law: CellLaw
    scale: float = 1.0  # how often each cell counts in sums that the loops use themselves
    noise: LineNoise = NO_NOISE  # of the lines, which is updated before them


class Precision(NamedTuple):
    """Posterior of 1/σ² where the data model keeps one (Normal-Gamma)."""

    mean: float  # E[1/σ²]
    log_mean: float  # E[log 1/σ²]


class CovariateEffects(NamedTuple):
    """Coefficients of covariates: one line for each coordinate of a line of the axis."""

    labels: tuple[str, ...]
    names: tuple[str, ...]
    mean: Array
    sd: Array
    in_units: Array | bool  # which coordinates have the units of the values


def drawn_record(record: Any, rng: np.random.Generator) -> Any:
    """A record of lines with each of its factors drawn once; what it knows for certain stays."""
    if hasattr(record, "drawn"):
        return record.drawn(rng)
    if not hasattr(record, "__dataclass_fields__") or isinstance(record, KnownLines):
        return record
    parts = {name: drawn_record(getattr(record, name), rng) for name in record.__dataclass_fields__}
    return type(record)(**parts)


class DataModel(ABC):
    """A data-generating model. Frozen: settings only, no fitted state.

    A side is any immutable dataclass of arrays with one entry per line and a method ``take(lines)``.

    Examples
    --------
    Extend it and give it to ``CCPF(data=…)``; docs/how-to/write-a-data-model.md and docs/tutorials/your-own-model.md
    each have a whole one. These methods have to be defined:

    >>> sorted(DataModel.__abstractmethods__)
    ['divergence', 'draw', 'features', 'init', 'predictive', 'prior_line', 'update']
    """

    family: ClassVar[str] = "gaussian"  # of the values given their natural parameter
    allocates: ClassVar[bool] = False  # E[θ] is the logarithm of an inner product (Poisson factorization)
    keeps_moments: ClassVar[bool] = False  # ``learn`` needs the six Gaussian n-vectors, not just residuals
    center: float | None = None  # what Gaussian values are centred at before fitting; None: their mean
    has_values: ClassVar[bool] = True  # False: the pattern alone is modelled
    cellwise: ClassVar[bool] = False  # moments come cell by cell (regressors), not line by line

    @property
    def diagonal(self) -> bool:
        """Whether features are means and variances of diagonal normal lines, updated inside the kernel."""
        return False

    @property
    def additive(self) -> bool:
        """Whether a line is updated from sums over its cells (``update``), so that a long one can be cut."""
        return type(self).expect is DataModel.expect

    @property
    def streams(self) -> bool:
        """Whether batches of lines can stand for all of them: what is shared is no sum over lines."""
        return False

    @property
    def restarts(self) -> int:
        """Random starts to try; the one with the best bound goes on."""
        return 1

    def build(self, cells: Cells | None) -> DataModel:
        """The model for these cells: itself, so that it can be given to ``CCPF(data=…)`` as it is."""
        return self

    def describe(self) -> str:
        """A short name for tables."""
        return type(self).__name__.lower()

    def grown(self, fresh: DataModel) -> DataModel:
        """This model with what ``fresh``, built from the same settings for more cells, has learned from their number.

        Covariates of new lines and priors by moments, say; how lines are laid out stays. Raises where ``fresh`` is
        another model.
        """
        if fresh is not self and fresh != self:
            raise ValueError(f"data builds {fresh!r}, but {self!r} was fitted; fit again to change the data model")
        return self

    def new_lines(self, axis: int, ids: Array, side: Any, shared: Any) -> Any:
        """Lines of ids without cells: the prior of their covariates, else the same prior for each."""
        design = self.design(axis)
        if design is not None and design.ids is not None:
            return self.lines_at(axis, design.of_ids(ids), side, shared)
        line = self.prior_line(axis, side, shared)
        return line.take(np.zeros(len(ids), np.int64))

    def design(self, axis: int) -> Design | None:
        """Covariates of the lines of an axis, where it has any; a model that takes some defines ``lines_at`` too."""
        return None

    def lines_at(self, axis: int, x: Array, side: Any, shared: Any) -> Any:
        """Lines that are known by their covariates alone."""
        raise TypeError(f"{type(self).__name__} takes no covariates of lines")

    def covariate_effects(self, axis: int, side: Any, shared: Any) -> CovariateEffects | None:
        """Effects of an axis's covariates on its lines, where it has any."""
        return None

    def described(self, axis: int, ids: Array) -> Array:
        """Which ids the model knows something of, though they may have no cells (covariates)."""
        design = self.design(axis)
        return np.zeros(len(ids), np.bool_) if design is None else design.has(ids)

    def known_lines(self, axis: int) -> Any:
        """The lines of an axis that are known altogether (covariates, features), in its order; None: they are learned.

        A new line of such an axis has to bring its own.
        """
        return None

    def reread(self, shared: Any, cells: Cells, rows: Any, cols: Any) -> Any:
        """Globals whose parts that belong to training cells are those of other ``cells``; what is learned stays.

        Sums and priors by moments of the cells and, in cellwise models, predictions for each of them. ``rows`` and
        ``cols`` are the sides of the cells' axes.
        """
        if self.cellwise:
            raise TypeError(
                f"{type(self).__name__} is cellwise and defines no reread, so it cannot be given more cells"
            )
        return shared

    def without_cells(self, shared: Any) -> Any:
        """Globals as a fitted model keeps them: without what belongs to single training cells (see ``reread``)."""
        return shared

    @abstractmethod
    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Start from the training cells; ``lead`` is the axis that sweeps update first."""

    def first_dispersion(self, values: Array) -> float:
        """Where κ of a scalar family starts, given the training values."""
        return 1.0

    @abstractmethod
    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Sides drawn from the prior, without uncertainty: for simulation."""

    @abstractmethod
    def features(self, side: Any, axis: int, shared: Any) -> Features:
        """Features of a block of lines of ``axis``."""

    def expect(self, kernels: Kernels, block: Block, side: Any, axis: int, shared: Any) -> Expectation:
        """E-step of a block, with the sums that ``update`` needs. Models with loops of their own override this."""
        return kernels.expect(block.lines, block.mine, block.theirs, block.cell_law)

    @abstractmethod
    def update(self, side: Any, axis: int, shared: Any, found: Expectation, kernels: Kernels) -> Any:
        """New lines from ``found.linear`` and ``found.quadratic``: the coordinate optimum given the other side."""

    def offset(self, shared: Any) -> Array | None:
        """Known part of E[μ] of every training cell, row-major (cellwise models)."""
        return None

    def refit(self, shared: Any, weights: Array) -> Any:
        """New globals from the weights (2, cells), row-major, of a cellwise model's training cells."""
        return shared

    def learn(self, side: Any, axis: int, shared: Any) -> Any:
        """New globals after the lines of ``axis`` were updated (empirical Bayes)."""
        return shared

    def absorb(self, shared: Any, stats: Statistics, table: BinTable) -> Any:
        """New globals from n-vectors over all cells (posteriors that all cells share)."""
        return shared

    def alignment(self, leading: list[Any], other: Any, shared: Any) -> Alignment | None:
        """How both sides can be changed at once without changing a prediction, so that the bound rises; None: not."""
        return None

    def realigned(self, found: Any, shared: Any) -> Any:
        """New globals after both sides were aligned."""
        return shared

    def precision(self, shared: Any) -> Precision | None:
        """Posterior of 1/σ², or None where σ² is a point estimate."""
        return None

    def drawn_lines(self, axis: int, side: Any, shared: Any, rng: np.random.Generator) -> Any:
        """Lines of ``axis`` drawn once from their posterior, as lines without uncertainty (joint draws of cells).

        As it stands, every field of the side that is a gamma or normal factor is drawn, and arrays are left as they
        are: a model that keeps its uncertainty in plain arrays defines this.
        """
        return drawn_record(side, rng)

    def drawn_shared(self, shared: Any, rng: np.random.Generator) -> Any:
        """Globals drawn once from their posterior, where they have one."""
        return shared

    @abstractmethod
    def divergence(self, side: Any, axis: int, shared: Any) -> float:
        """KL of one side from its prior; terms of the globals are counted with axis 0."""

    @abstractmethod
    def predictive(self, rows: Any, cols: Any, shared: Any) -> Predictive:
        """What is known of the cells of paired lines (both sides of one length)."""

    def predictive_at(
        self, rows: Any, cols: Any, pairs: tuple[Array, Array], shared: Any, kernels: Kernels, unsure: bool = True
    ) -> Predictive:
        """What is known of the cells at these positions, −1 being the last line.

        A model whose lines kernels can pair need not gather them. Where ``unsure`` is False nobody will read the
        uncertainty of the means.
        """
        return self.predictive(rows.take(pairs[0]), cols.take(pairs[1]), shared)

    @abstractmethod
    def prior_line(self, axis: int, side: Any, shared: Any) -> Any:
        """A side of one line for an id that was never seen."""
