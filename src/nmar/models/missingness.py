"""Hierarchical Poisson factorization of which cells are observed (theory.md, Model; Bound and coordinate ascent).

    r_i ~ Ga(ρ, ϱ),  u_ik ~ Ga(η, r_i);   w_j ~ Ga(υ, ν),  v_jk ~ Ga(ζ, w_j);   n_ij ~ Po(Σ_k u_ik v_jk)

Both sides are the same object: one update serves rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import psi

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.levels import LevelDesign, level_design
from nmar.kernels.spec import GammaTable, GammaUpdate, Kernels, Room
from nmar.models.arguments import check_count
from nmar.prob.factor import GammaFactor, gamma_divergence
from nmar.prob.tree import LineRecord

SHAPE = 0.3  # of the prior of the weights, η = ζ, where it is not learned or where that starts
SHAPES = (1e-3, 1e2)  # between which it is learned

NAMES = ("pattern rows", "pattern cols")  # what errors call its covariates

DERIVED = {"derived": True}  # fields that follow from the others: not written to files


@dataclass(frozen=True, eq=False)
class PatternSide(LineRecord):
    """The variational factors of one side of the pattern.

    The table (kernels: tabulate) follows from the weights: ``log_weights`` (n, K) E[log u], ``geometric`` (n, K)
    exp E[log u], and ``totals`` (n, 3). A half sweep computes it along with the weights, so that
    the next one need not. It is None where nobody has yet, and no part of a model file.
    """

    weights: GammaFactor  # q(u_ik) = Ga; paper α^u, β^u (columns: v)
    activity: GammaFactor  # q(r_i) = Ga; paper α^r, β^r (columns: w, popularity)
    log_weights: Array | None = field(default=None, metadata=DERIVED)
    geometric: Array | None = field(default=None, metadata=DERIVED)
    totals: Array | None = field(default=None, metadata=DERIVED)

    @property
    def table(self) -> tuple[Any, ...]:
        """What follows from the weights, or Nones."""
        return self.log_weights, self.geometric, self.totals

    def empty(self, room: Room) -> PatternSide:
        """A side like this one with its table, in uninitialised arrays that ``room(shape, dtype)`` makes."""
        shape, dtype = self.weights.alpha.shape, self.weights.alpha.dtype
        alpha, beta, logs, geometric = (room(shape, dtype) for _ in range(4))
        activity = GammaFactor(*(room(shape[:1], dtype) for _ in range(2)))
        totals = room((shape[0], 3), np.float64)
        return PatternSide(GammaFactor(alpha, beta), activity, logs, geometric, totals)

    def bare(self) -> PatternSide:
        """The factors alone."""
        return PatternSide(self.weights, self.activity)

    def tabulated(self, kernels: Kernels) -> PatternSide:
        """The same side with its table."""
        if self.geometric is not None:
            return self
        return PatternSide(self.weights, self.activity, *kernels.tabulate(self.weights.alpha, self.weights.beta))


@dataclass(frozen=True)
class Pattern:
    """The law of the missingness pattern: K, the priors, the same for rows and columns, and covariates.

    Parameters
    ----------
    factors : int or "auto", default=10
        Number of components K. "auto" chooses it by held-out likelihood.
    rows, cols : DataFrame, array-like or None, default=None
        Covariates of the rows and of the columns. P(observed) depends on them and on their products. A frame has a line
        per id (in a pandas index, or in the one column that holds every id), an array a line per position. Each
        category is a level, as is each fifth of the numbers of a column (each number, where there are no more than
        five), and missing entries are a level too.
    members : int, default=1
        Number of fits from different starts whose rates are averaged. The average ranks better than any of them and
        takes so many times as long. For a pattern that is fitted alone: :class:`nmar.PatternOnly`, and the weights of
        ``target="all"``.
    shape : float, default=0.3
        Prior shape of the weights, the paper's η = ζ.
    activity_shape, activity_rate : float, default=0.01 and 0.1
        Shape and rate of the prior of activities and popularities, the paper's ρ = υ and ϱ = ν.
    learns : bool, default=False
        Whether the prior shapes of rows and of columns are learned, from ``shape`` on. A fit sets it.
    designs : tuple of LevelDesign or None, default=None
        Covariates of rows and columns as levels. A fit makes them from ``rows`` and ``cols``.

    Examples
    --------
    >>> import nmar, numpy
    >>> cells, _ = nmar.simulate(shape=(30, 20), density=0.2, seed=0)
    >>> ages = numpy.random.default_rng(0).integers(20, 60, size=(30, 1))
    >>> model = nmar.CCPF(nmar.PatternOnly(), pattern=nmar.Pattern(2, rows=ages), max_iter=5, random_state=0).fit(cells)
    >>> model.pattern_effects_["rows"].mean.shape  # of each fifth of the ages, on each column
    (20, 5)
    """

    factors: Any = 10
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)
    members: int = 1
    shape: float = SHAPE
    activity_shape: float = 0.01
    activity_rate: float = 0.1
    learns: bool = False
    designs: tuple[LevelDesign | None, LevelDesign | None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_count("members", self.members, 1)
        for name in ("shape", "activity_shape", "activity_rate"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0.0 < value < np.inf):
                raise ValueError(f"{name}={value!r} of the pattern; give a number above 0")

    @property
    def has_covariates(self) -> bool:
        """Whether covariates were given."""
        return not (self.rows is None and self.cols is None)

    def built(self, cells: Cells) -> Pattern:
        """The law for these cells: covariates as levels, by id."""
        if not self.has_covariates:
            return self
        rows, cols = (
            None if known is None else level_design(known, ids, name)
            for known, ids, name in ((self.rows, cells.rows, NAMES[0]), (self.cols, cells.cols, NAMES[1]))
        )
        return replace(self, rows=None, cols=None, designs=(rows, cols))

    def grown(self, given: Pattern, cells: Cells) -> Pattern:
        """This law with the covariates given for more cells, in the levels it has."""
        frames, old = (given.rows, given.cols), self.designs or (None, None)
        if any((frame is None) != (made is None) for frame, made in zip(frames, old, strict=True)):
            raise ValueError("pattern has other covariates than the model was fitted with; fit again to change them")
        if self.designs is None:
            return self
        rows, cols = (
            None if made is None else made.recoded(frame, ids, name)
            for made, frame, ids, name in zip(old, frames, (cells.rows, cells.cols), NAMES, strict=True)
        )
        return replace(self, designs=(rows, cols))

    def lines(self, cells: Cells) -> tuple[Array | None, Array | None]:
        """Levels (n, F) of the lines of both axes of these cells, None where an axis has no covariates."""
        rows, cols = (
            None if made is None else made.lines(ids, name)
            for made, ids, name in zip(self.designs or (None, None), (cells.rows, cells.cols), NAMES, strict=True)
        )
        return rows, cols

    def described(self, axis: int, ids: Array) -> Array:
        """Which ids have covariates, though they may have no cells."""
        made = None if self.designs is None else self.designs[axis]
        return np.zeros(len(ids), np.bool_) if made is None else made.has(ids)

    def as_in_paper(self, cells: Cells) -> Pattern:
        """The paper's prior shape η = ρ √(E[n]/K) / ϱ, E[n] from the density: tiny on sparse data."""
        count = -np.log1p(-min(cells.density, 1.0 - 1e-12))
        shape = self.activity_shape * np.sqrt(count / self.factors) / self.activity_rate
        return replace(self, shape=float(shape))

    def init(self, n_lines: int, degree: Array, density: float, rng: np.random.Generator) -> PatternSide:
        """A start for one side: weights near the scale that gives ``density``, larger for busier lines.

        ``degree`` (n_lines,) is the number of observed cells of each line. The random part breaks the symmetry
        between components.
        """
        rate = -np.log1p(-min(density, 0.999))
        busy = np.sqrt((degree + 0.5) / (np.mean(degree) + 0.5))
        level = np.sqrt(rate / self.factors) * busy[:, None]
        shape = self.shape + rng.gamma(5.0, 0.2, (n_lines, self.factors))
        weights = GammaFactor(shape, shape / (level * rng.gamma(20.0, 0.05, (n_lines, self.factors))))
        return PatternSide(weights, self.activity(weights))

    def activity(self, weights: GammaFactor) -> GammaFactor:
        """q(r): α^r = ρ + Kη, β^r = ϱ + Σ_k E[u_ik]."""
        dtype, total = weights.alpha.dtype, np.sum(weights.mean, axis=1, dtype=np.float64)
        shape = np.full_like(total, self._activity_shape, dtype=dtype)
        return GammaFactor(shape, (self.activity_rate + total).astype(dtype))

    @property
    def _activity_shape(self) -> float:
        return self.activity_shape + self.factors * self.shape

    def update(self, side: PatternSide, allocated: Array, exposure: Array, kernels: Kernels, new: PatternSide) -> None:
        """Coordinate update: α^u = η + Σ E[n]ϕ, β^u = E[r] + Σ_j E[v] (hidden cells taken out), then q(r).

        Parameters
        ----------
        allocated : ndarray of shape (n, K)
            Σ_j E[n_ij] ϕ_ijk.
        exposure : ndarray of shape (K,) or (n, K)
            Σ_j E[v_jk] over the cells that are observed or missing.
        new : PatternSide
            Where the new side is written, with its table.
        """
        active, table, weights = side.activity.mean.astype(np.float64), GammaTable(*new.table), new.weights
        update = GammaUpdate(allocated, exposure if exposure.ndim == 2 else exposure[None, :], active, self.shape)
        kernels.update_gamma(update, weights.alpha, weights.beta, table)
        new.activity.alpha[:] = self._activity_shape
        new.activity.beta[:] = self.activity_rate + table.totals[:, 2]

    def tabulated(self, side: PatternSide, kernels: Kernels) -> PatternSide:
        """The same side with its table."""
        return side.tabulated(kernels)

    def cross_sums(self, side: PatternSide, allocated: Array, exposure: Array) -> Array | None:
        """What products of covariates are learned from; None without."""
        return None

    def blended(self, old: PatternSide, target: PatternSide, step: float) -> PatternSide:
        """Natural parameters a fraction ``step`` to the target; activities are exact given the weights."""
        dtype = old.weights.alpha.dtype
        weights = old.weights.blend(target.weights, step)
        weights = replace(weights, alpha=weights.alpha.astype(dtype), beta=weights.beta.astype(dtype))
        return PatternSide(weights, self.activity(weights))

    def unseen(self, side: PatternSide, ids: Array | None = None) -> PatternSide:
        """A line at the mean of the seen ones, as spread as the prior, for each of the ids (None: one)."""
        mean = side.weights.mean.mean(axis=0, keepdims=True)
        shape = np.full(mean.shape, self.shape, mean.dtype)
        weights = GammaFactor(shape, shape / mean)
        line = PatternSide(weights, self.activity(weights))
        return line if ids is None else line.take(np.zeros(len(ids), np.int64))

    def variance(self, weights: GammaFactor) -> Array:
        """Var[u] of the weights of some lines, float64."""
        return weights.mean.astype(np.float64) / weights.beta

    def learned(self, means: Array) -> Array:
        """Learned coordinates among those of lines: all."""
        return means

    def drawn(self, side: PatternSide, rng: np.random.Generator) -> PatternSide:
        """One draw of the weights, as a side that is all but sure of them."""
        return PatternSide(side.weights.drawn(rng), side.activity)

    def factors_of(self, side: PatternSide) -> GammaFactor:
        """q of the factors of a side's lines (n, K), without coordinates that covariates add."""
        return GammaFactor(side.weights.alpha[:, : self.factors], side.weights.beta[:, : self.factors])

    def learned_shape(self, side: PatternSide) -> float:
        """η that maximises the bound given a side's factors, with log η ~ N(log SHAPE, 1).

        The root of nK(mean E[log r] + mean E[log u] − ψ(η)) η = log η − log SHAPE, by bisection: the left side less the
        right one falls in log η.
        """
        count = side.weights.alpha.size
        totals = side.weights.totals if side.totals is None else side.totals
        level = float(side.activity.log_mean.mean()) + float(totals[:, 1].sum()) / count
        low, high = np.log(SHAPES)
        for _ in range(60):
            middle = 0.5 * (low + high)
            eta = float(np.exp(middle))
            rising = count * eta * (level - float(psi(eta))) > middle - np.log(SHAPE)
            low, high = (middle, high) if rising else (low, middle)
        return float(np.exp(0.5 * (low + high)))

    def log_prior(self) -> float:
        """Log prior of a learned shape, 0 at its mode."""
        return -0.5 * float(np.log(self.shape / SHAPE)) ** 2 if self.learns else 0.0

    def divergence(self, side: PatternSide) -> float:
        """KL(u) + KL(r) of one side."""
        activity, totals = side.activity, side.weights.totals if side.totals is None else side.totals
        of_weights = gamma_divergence(totals, self.factors, self.shape, activity.mean, activity.log_mean)
        prior_rate = self.activity_rate
        return of_weights + activity.divergence(self.activity_shape, prior_rate, float(np.log(prior_rate)))
