"""Gaussian bilinear models: y_ij ~ N(⟨a_i, b_j⟩, ·), normal lines of which some coordinates are known constants.

Factorization with biases, effects and regression are one model with different coordinates:

    factorization   a_i = (factors, bias_i, 1)    b_j = (factors, 1, bias_j)
    effects         a_i = (bias_i, 1)             b_j = (1, bias_j)
    regression      a_i = coefficients            b_j = x_j, known

Full covariance: features are E[a] and packed E[aa'], so that E[μ] and E[μ²] are plain inner products and the
update is one solve per line (theory.md, Gaussian crossing). Because the constants sit inside the vectors, the
covariance between a line's factors and its bias enters the right side by itself.
Diagonal covariance: features are means and variances; the update is conjugate gradients inside the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.covariates import Design
from nmar.kernels.choose import choose
from nmar.kernels.spec import Expectation, Kernels, NormalPairs, NormalPrior
from nmar.models.alignment import FLOOR, Alignment
from nmar.models.coordinates import Coordinates, Priors
from nmar.models.covariates import DesignedLines, LineCoefficients
from nmar.models.dual import solve_dual
from nmar.models.noise import rescaled
from nmar.models.predictive import NormalPredictive
from nmar.models.protocol import Block, CovariateEffects, DataModel, Features, Start
from nmar.models.student import START, learned_shape, reaches, squares
from nmar.prob.arrays import on_host
from nmar.prob.factor import GammaFactor, NormalFactor, pack

T = TypeVar("T")

DUAL = 64  # covariates from which a line's cells are fewer as a rule: the dual form


@dataclass(frozen=True, eq=False)
class Bilinear(DataModel):
    """A Gaussian bilinear data model; see the module's docstring."""

    axes: tuple[Coordinates, Coordinates]  # coordinates of rows and of columns
    covariance: str = "full"  # covariance of a line
    rank: int = 0  # number of leading coordinates that are latent factors on both sides, which need a random start
    # Number of steps of conjugate gradients that update a diagonal line. More of them hardly save sweeps.
    steps: int = 2
    student: bool = False  # whether the prior of a line is a Student distribution, not a normal one
    center: float | None = None  # value that predictions are shrunk to; None: the mean of the values

    @property
    def diagonal(self) -> bool:
        """Conjugate gradients on diagonal normal lines."""
        return self.covariance == "diagonal"

    @property
    def additive(self) -> bool:
        """Full-covariance lines need sums only."""
        return not self.diagonal

    @property
    def size(self) -> int:
        """Number of coordinates d."""
        return len(self.axes[0].free)

    def _free(self, axis: int) -> Array:
        return np.array(self.axes[axis].free, bool)

    def _constant(self, axis: int) -> Array:
        return np.array(self.axes[axis].constant, np.float64)

    def prior(self, axis: int, shared: Priors, side: NormalFactor | None = None) -> NormalPrior:
        """The prior of one axis, or of these lines of it, as the kernels read it."""
        mean, coefficients = shared.mean[axis][None, :], shared.coefficients[axis]
        if coefficients is not None and isinstance(side, DesignedLines):
            mean = mean + coefficients.prior_mean(side.x.astype(np.float64))
        prior = NormalPrior(mean, 1.0 / shared.variance[axis], self._free(axis))
        found = None if side is None else self._reach(side, axis, shared)
        return prior if found is None else prior._replace(scale=found.mean)

    def _reach(self, side: NormalFactor, axis: int, shared: Priors) -> GammaFactor | None:
        """q(ξ) of the lines, or None where they have one prior."""
        shape, free = shared.shapes[axis], self._free(axis)
        if shape == 0.0:
            return None
        precision = np.where(free, 1.0 / shared.variance[axis], 0.0)
        found = [each @ precision for _, each in squares(side, shared.mean[axis], shared.coefficients[axis])]
        return reaches(shape, int(free.sum()), np.concatenate(found) if found else np.empty(0))

    def _distances(self, side: NormalFactor, axis: int, shared: Priors, reach: GammaFactor | None) -> Array:
        """Σ_i E[ξ_i] E[(a_ik − prior mean)²] of each coordinate (d,)."""
        coefficients = shared.coefficients[axis]
        if reach is not None:
            parts = squares(side, shared.mean[axis], coefficients)
            return sum((on_host(reach.mean[piece] @ each) for piece, each in parts), np.zeros(self.size))
        if coefficients is not None and isinstance(side, DesignedLines):
            return coefficients.distances(side)
        return side.distances(shared.mean[axis])

    def init(self, cells: Cells, lead: int, rng: np.random.Generator) -> Start:
        """Biases from shrunken line means, factors of the axis that is *not* updated first at random.

        Values are expected centred. The leading axis has unit prior variance for factors; the other axis learns
        one per factor, so unused factors switch off.
        """
        spread = cells.by(lead).variance() or 1.0
        means = [self._prior_mean(cells, axis) for axis in (0, 1)]
        variance = [np.full(self.size, spread / self._coefficients(axis)) for axis in (0, 1)]
        variance[lead][: self.rank] = 1.0
        variance[1 - lead][: self.rank] = spread / max(self.rank, 1)
        shared = Priors((means[0], means[1]), (variance[0], variance[1]), lead)
        sides = {axis: self._start(cells, axis, axis == lead, shared, rng) for axis in (lead, 1 - lead)}
        designed = {axis: self._designed(side, axis, (cells.rows, cells.cols)[axis]) for axis, side in sides.items()}
        coefficients = [self._first_coefficients(designed[axis], axis, shared) for axis in (0, 1)]
        shape = START if self.student else 0.0
        shared = replace(shared, coefficients=(coefficients[0], coefficients[1]), shapes=(shape, shape))
        return Start(designed[0], designed[1], shared)

    def _designed(self, side: NormalFactor, axis: int, ids: Axis) -> NormalFactor:
        """Lines with their covariates, where the axis has them."""
        design = self.axes[axis].design
        if design is None:
            return side
        return DesignedLines(side.mean, side.spread, side.log_det, design.lines(ids, ("rows", "cols")[axis]))

    def _first_coefficients(self, side: NormalFactor, axis: int, shared: Priors) -> LineCoefficients | None:
        if not isinstance(side, DesignedLines):
            return None
        return LineCoefficients.start(side.x, self._free(axis), shared.variance[axis])

    def grown(self, fresh: DataModel) -> Bilinear:
        """The same coordinates, with the covariates of more lines."""
        if not isinstance(fresh, Bilinear) or fresh._layout != self._layout:
            raise ValueError(f"data builds {fresh!r} in place of {self!r}; fit again to change the data model")
        rows, cols = (
            replace(old, known=new.known, design=new.design) for old, new in zip(self.axes, fresh.axes, strict=True)
        )
        return replace(self, axes=(rows, cols))

    @property
    def _layout(self) -> tuple[int, int, str]:
        """What a line consists of."""
        return self.size, self.rank, self.covariance

    def known_lines(self, axis: int) -> NormalFactor | None:
        """Covariates, where the axis has them."""
        known = self.axes[axis].known
        if known is None:
            return None
        return self._factor(np.asarray(known, np.float64), np.zeros(np.shape(known)), axis)

    def reread(self, shared: Priors, cells: Cells, rows: NormalFactor, cols: NormalFactor) -> Priors:
        """Prior means of coefficients are least squares over all cells; those of covariates are on all lines."""
        mean = (self._prior_mean(cells, 0), self._prior_mean(cells, 1))
        of_rows, of_cols = (
            old.over(side.x, variance) if old is not None and isinstance(side, DesignedLines) else old
            for old, side, variance in zip(shared.coefficients, (rows, cols), shared.variance, strict=True)
        )
        return replace(shared, mean=mean, coefficients=(of_rows, of_cols))

    def _coefficients(self, axis: int) -> int:
        """What divides the variance of a value into a first prior variance: coefficients on covariates start small,
        since with more covariates than cells empirical Bayes comes down from too large a value only slowly."""
        return 1 if self.axes[1 - axis].known is None else 10 * self.size

    def _prior_mean(self, cells: Cells, axis: int) -> Array:
        """0; for coefficients on known covariates, least squares of the line means on the covariates (paper)."""
        known = self.axes[1 - axis].known
        if known is None or not any(self.axes[axis].free):
            return np.zeros(self.size)
        lines = cells.by(1 - axis)
        degree = np.diff(lines.indptr)
        sums = lines.line_sums()
        seen = degree > 0
        root = np.sqrt(degree[seen])
        x, target = root[:, None] * np.asarray(known, np.float64)[seen], sums[seen] / root
        ridge = 1e-3 * len(x) * np.eye(self.size)  # covariates may outnumber columns
        return np.linalg.solve(x.T @ x + ridge, x.T @ target)

    def _start(self, cells: Cells, axis: int, leads: bool, shared: Priors, rng: np.random.Generator) -> NormalFactor:
        known, lines = self.known_lines(axis), cells.by(axis)
        if known is not None:
            return known
        free = self._free(axis)
        mean = np.tile(self._constant(axis), (lines.n, 1))
        mean[:, free] = shared.mean[axis][free]
        variances = np.tile(np.where(free, 0.1 * shared.variance[axis], 0.0), (lines.n, 1))
        if not leads:
            noise = rng.normal(size=(lines.n, self.rank))
            mean[:, : self.rank] += np.sqrt(0.1 * shared.variance[axis][: self.rank]) * noise
            if self.axes[axis].bias >= 0:
                sums = lines.line_sums()
                mean[:, self.axes[axis].bias] += sums / (np.diff(lines.indptr) + 10.0)
        return self._factor(mean, variances, axis)

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> Start:
        """Known lines drawn from the prior: factors N(0, 1) and N(0, 1/rank), biases N(0, 1/4)."""
        variance = [np.full(self.size, 0.25), np.full(self.size, 0.25)]
        variance[0][: self.rank], variance[1][: self.rank] = 1.0, 1.0 / max(self.rank, 1)
        shared = Priors((np.zeros(self.size), np.zeros(self.size)), (variance[0], variance[1]), 0)
        sides = []
        for axis in (0, 1):
            noise = rng.normal(size=(shape[axis], self.size)) * np.sqrt(variance[axis])
            mean = np.where(self._free(axis), shared.mean[axis] + noise, self._constant(axis))
            if self.axes[axis].known is not None:
                mean = np.asarray(self.axes[axis].known, np.float64)
            sides.append(self._factor(mean, np.zeros_like(mean), axis))
        return Start(sides[0], sides[1], shared)

    def _factor(self, mean: Array, variances: Array, axis: int) -> NormalFactor:
        """A factor with independent coordinates, stored as the covariance setting asks."""
        free = self._free(axis)
        log_det = np.zeros(len(mean))
        if variances.any():
            log_det = np.log(variances[:, free]).sum(axis=1)
        if self.diagonal:
            return NormalFactor(mean, variances, log_det)
        spread = pack(variances[:, :, None] * np.eye(self.size))
        return NormalFactor(mean, spread, log_det)

    def features(self, side: NormalFactor, axis: int, shared: Priors) -> Features:
        """E[a] and packed E[aa'], or means and variances."""
        return Features(side.mean, side.spread if self.diagonal else side.second_moment())

    def update(
        self, side: NormalFactor, axis: int, shared: Priors, found: Expectation, kernels: Kernels
    ) -> NormalFactor:
        """Full-covariance posterior: precision = prior + Σ ω E[bb'], right side = prior + Σ ωt E[b]."""
        if not any(self.axes[axis].free):
            return side
        if found.updated is not None:
            return _moved(side, NormalFactor(*found.updated))
        prior = self.prior(axis, shared, side)
        mean, spread, log_det = kernels.solve_normal(found.linear, found.quadratic, self._constant(axis), prior)
        dtype = side.mean.dtype
        return _moved(side, NormalFactor(mean.astype(dtype), spread.astype(dtype), log_det))

    def expect(self, kernels: Kernels, block: Block, side: NormalFactor, axis: int, shared: Priors) -> Expectation:
        """Diagonal lines are updated inside the kernel, or by a dual solve where coordinates outnumber cells."""
        if not self.diagonal or not any(self.axes[axis].free):
            return super().expect(kernels, block, side, axis, shared)
        prior, law = self.prior(axis, shared, side), block.cell_law.counted(block.scale)
        known = self.axes[1 - axis].known
        if known is None or self.size < DUAL:
            found, lines = kernels.descend(block.lines, block.mine, block.theirs, law, prior, self.steps, block.noise)
            return _counted_once(found, block.scale)._replace(updated=lines)
        found = kernels.weigh(block.lines, block.mine, block.theirs, law)
        if found.short:
            return found
        scaled = rescaled(found, block.noise, block.lines)
        lines = solve_dual(kernels, block, scaled.cellwise, prior, len(known), side.mean.dtype)
        return _counted_once(scaled, block.scale)._replace(updated=lines)

    def learn(self, side: NormalFactor, axis: int, shared: Priors) -> Priors:
        """Empirical Bayes: the prior variance of a learned coordinate is mean_j E[(b_jk − prior mean)²].

        Where lines have covariates, q(W) comes first; where they differ in reach, their squares count by it.
        """
        learned, reach = np.array(self.axes[axis].learned, bool), self._reach(side, axis, shared)
        coefficients = shared.coefficients[axis]
        if coefficients is not None:
            weight = None if reach is None else reach.mean
            coefficients = coefficients.learned(side, shared.variance[axis], self._free(axis), weight)  # type: ignore[arg-type]
            shared = replace(shared, coefficients=_with(shared.coefficients, axis, coefficients))
        if axis == shared.lead:
            learned[: self.rank] = False
        if learned.any():
            away = self._distances(side, axis, shared, reach) / len(side.mean)
            found = np.where(learned, np.maximum(away, FLOOR), shared.variance[axis])
            shared = replace(shared, variance=_with(shared.variance, axis, found))
        return shared if reach is None else replace(shared, shapes=_with(shared.shapes, axis, learned_shape(reach)))

    @property
    def streams(self) -> bool:
        """Priors are averages over lines."""
        return True

    def alignment(self, leading: list[NormalFactor], other: NormalFactor, shared: Priors) -> Alignment | None:
        """Full-covariance factors can be turned; those whose prior means are linear in covariates stay as they are."""
        designed = any(axis.design is not None for axis in self.axes)
        if self.diagonal or designed or self.rank == 0:
            return None
        lead = shared.lead
        parts = [(part, self._counts(part, lead, shared)) for part in leading]
        return Alignment.between(parts, (other, self._counts(other, 1 - lead, shared)), self.rank)

    def _counts(self, side: NormalFactor, axis: int, shared: Priors) -> Array | None:
        """E ξ of each line."""
        found = self._reach(side, axis, shared)
        return None if found is None else found.mean

    def realigned(self, found: Alignment, shared: Priors) -> Priors:
        """Prior variances of the factors of the turned lines."""
        variance = [each.copy() for each in shared.variance]
        variance[1 - shared.lead][: self.rank] = found.variance
        return replace(shared, variance=(variance[0], variance[1]))

    def predictive(self, rows: NormalFactor, cols: NormalFactor, shared: Priors) -> NormalPredictive:
        """E[μ] and Var[μ] of paired lines."""
        each = np.arange(len(rows.mean))
        return self.predictive_at(rows, cols, (each, each), shared, choose())

    def predictive_at(
        self,
        rows: NormalFactor,
        cols: NormalFactor,
        pairs: tuple[Array, Array],
        shared: Priors,
        kernels: Kernels,
        unsure: bool = True,
    ) -> NormalPredictive:
        """E[μ] and Var[μ] of lines where they are."""
        a, b = (side.spread if unsure else np.empty((len(side.mean), 0)) for side in (rows, cols))
        mean, variance = kernels.pair_moments(NormalPairs(rows.mean, a, cols.mean, b, *pairs))
        return NormalPredictive(mean[:, None], np.maximum(variance, 0.0)[:, None])

    def prior_line(self, axis: int, side: NormalFactor, shared: Priors) -> NormalFactor:
        """The line of an id that was never seen: the prior (a known axis: its mean line)."""
        if self.axes[axis].known is not None:
            return self._factor(side.mean.mean(axis=0, keepdims=True), np.zeros((1, self.size)), axis)
        coefficients = shared.coefficients[axis]
        if coefficients is not None:
            return self.lines_at(axis, np.zeros((1, coefficients.mean.shape[1])), side, shared)
        free = self._free(axis)
        mean = np.where(free, shared.mean[axis], self._constant(axis))[None, :]
        return self._factor(mean, np.where(free, shared.variance[axis], 0.0)[None, :], axis)

    def covariate_effects(self, axis: int, side: NormalFactor, shared: Priors) -> CovariateEffects | None:
        """Of the free coordinates: factors, and the line's own level."""
        coefficients, design = shared.coefficients[axis], self.axes[axis].design
        if coefficients is None or design is None or not isinstance(side, DesignedLines):
            return None
        free = self._free(axis)
        own = np.flatnonzero(free) >= self.rank
        labels = tuple("bias" if last else f"factor {k + 1}" for k, last in enumerate(own))
        sd = coefficients.marginal(side, shared.variance[axis]).sd
        return CovariateEffects(labels, design.names, coefficients.mean[free], sd[free], own)

    def design(self, axis: int) -> Design | None:
        """Covariates of the lines, where the axis has them."""
        return self.axes[axis].design

    def lines_at(self, axis: int, x: Array, side: NormalFactor, shared: Priors) -> DesignedLines:
        """Lines that are known by their covariates alone."""
        coefficients, free = shared.coefficients[axis], self._free(axis)
        assert coefficients is not None and isinstance(side, DesignedLines)
        coefficients = coefficients.marginal(side, shared.variance[axis])
        mean = np.where(free, shared.mean[axis] + coefficients.prior_mean(x), self._constant(axis))
        variance = np.where(free, shared.variance[axis] + coefficients.variance_at(x), 0.0)
        plain = self._factor(mean, variance, axis)
        return DesignedLines(plain.mean, plain.spread, plain.log_det, x)

    def divergence(self, side: NormalFactor, axis: int, shared: Priors) -> float:
        """KL of the free coordinates of one side from their prior, and of the coefficients of its covariates."""
        free, coefficients, shape = self._free(axis), shared.coefficients[axis], shared.shapes[axis]
        if not free.any():
            return 0.0
        reach = self._reach(side, axis, shared)
        total = side.divergence_at(free, self._distances(side, axis, shared, reach), shared.variance[axis])
        if coefficients is not None:
            total += coefficients.divergence(free)
        if reach is None:
            return total
        logs = 0.5 * int(free.sum()) * float(np.sum(reach.log_mean))
        return total - logs + reach.divergence(shape, shape, np.log(shape))


def _with(both: tuple[T, T], axis: int, new: T) -> tuple[T, T]:
    """Both, with a new one of an axis."""
    return (new, both[1]) if axis == 0 else (both[0], new)


def _counted_once(found: Expectation, scale: float) -> Expectation:
    """The residuals of cells as often as they were visited, where a law that counts them several times was used."""
    return found if scale == 1.0 else found._replace(squares=found.squares / scale)


def _moved(side: NormalFactor, new: NormalFactor) -> NormalFactor:
    """New lines, with the covariates of the old ones where these have any."""
    return side.moved(new) if isinstance(side, DesignedLines) else new
