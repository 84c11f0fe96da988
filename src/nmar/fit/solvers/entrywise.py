"""The paper's algorithm 1: stochastic steps cell by cell over the whole matrix, missing cells included.

Enters: settings and observed cells. Leaves: a schedule for the one loop (fit/loop/run.py); an entry of the trace is a
number of visits. Sequential, compiled, seeded: the fidelity reference, not the way to fit large tables, since all
I·J cells are visited. The errata of theory.md are corrected unless ``as_printed``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.loop.run import Memory, unit_term
from nmar.models.arguments import check_count
from nmar.models.bilinear import Bilinear
from nmar.models.bound import bound
from nmar.models.context import Context, Observed
from nmar.models.half_sweep import half_sweep
from nmar.models.law import Law
from nmar.models.missingness import PatternSide
from nmar.models.product import Product, ProductSide
from nmar.models.state import Shared, Side, State
from nmar.models.views import tabulated
from nmar.prob.counts import log_choices
from nmar.prob.factor import GammaFactor, NormalFactor
from nmar.prob.learn_dispersion import PRIOR_RATE, PRIOR_SHAPE
from nmar.prob.linkage import Curve, Linkage

RECORD = 1_000_000  # visits of an entry of the trace, at most
WARM = 10.0  # steps on c and κ are (WARM + updates)^−ξ of a Newton step


@dataclass(frozen=True)
class Entrywise:
    """Settings of ``solver="entrywise"``, the paper's algorithm 1.

    Parameters
    ----------
    visits : int or None, default=None
        Number of cells visited between entries of the trace. None: all cells, but no more than a million.
    t0 : float, default=10000.0
        Offset of the steps. The step of a row or column after t visits is (t0 + t)^−xi.
    xi : float, default=0.7
        Exponent of the steps, above 0.5 and up to 1.
    average : int, default=1000
        Number of gradients that are averaged for a step on c and κ.
    as_printed : bool, default=False
        Whether to keep the paper's misprints: Λ in place of s in q(n), means and variances blended in place of natural
        parameters, the data model's observed visits scaled by all columns, E[n] for E[φ] (Poisson).

    Notes
    -----
    Rows scale by the number of columns and columns by the number of rows, less the cells that are hidden. The data
    model moves on observed visits only, scaled by the observed cells of the line, with counters of its own.

    Examples
    --------
    >>> Entrywise(visits=1000).t0
    10000.0
    """

    visits: int | None = None
    t0: float = 10_000.0
    xi: float = 0.7
    average: int = 1000
    as_printed: bool = False

    def __post_init__(self) -> None:
        if self.visits is not None:
            check_count("visits", self.visits, 1)
        check_count("average", self.average, 1)
        if not self.t0 >= 1.0:
            raise ValueError(f"t0={self.t0!r}; give a number of at least 1, so that no step exceeds 1")
        if not 0.5 < self.xi <= 1.0:
            raise ValueError(f"xi={self.xi!r}; give a number above 0.5 and up to 1, so that the steps converge")


def check_entrywise(law: Law, linkage: Linkage) -> None:
    """Refuse what algorithm 1 has no updates for here."""
    if law.pattern.designs is not None:
        raise ValueError(
            "solver='entrywise' has no updates for covariates of the pattern; use solver='batch' or 'minibatch'"
        )
    fits = False
    if isinstance(law.data, Bilinear):
        fits = law.data.diagonal and all(any(axis.free) and axis.design is None for axis in law.data.axes)
    if isinstance(law.data, Product):
        fits = not any(law.data.known)
    if not fits:
        raise ValueError(
            "solver='entrywise' serves Factorization(covariance='diagonal') and Factorization(family='poisson')"
            " without covariates; use solver='batch' for other data models"
        )
    if law.control or law.pattern_fixed or linkage.mean is not None or linkage.parameters > 1:
        raise ValueError(
            f"solver='entrywise' learns one parameter c of a dispersion linkage, not linkage={linkage.name!r} with"
            f" mean={linkage.mean!r} or the control; use 'linear', 'exponential', 'geometric' or solver='batch'"
        )


class Visits:
    """Blocks of visits, uniform over all cells."""

    keeps_states = True

    def __init__(self, settings: Entrywise, observed: Observed, law: Law, seed: np.random.SeedSequence) -> None:
        self.settings, self._entropy = settings, seed.entropy
        self.cells = observed.cells
        total = self.cells.shape[0] * self.cells.shape[1]
        self.visits = settings.visits or min(total, RECORD)
        hidden = observed.hidden
        self.away = np.empty(0, np.int64)
        if hidden is not None:
            i, j = hidden.positions()
            self.away = i.astype(np.int64) * self.cells.shape[1] + j
        self.degree = (*_degrees(self.cells), *self._visited(hidden))

    def _visited(self, hidden: Cells | None) -> tuple[Array, Array]:
        """Cells of each row and of each column that are not hidden: those among which a line's visits are."""
        rows, cols = (np.full(n, float(m)) for n, m in zip(self.cells.shape, self.cells.shape[::-1], strict=True))
        if hidden is None:
            return rows, cols
        away = _degrees(hidden)
        return rows - away[0], cols - away[1]

    def advance(self, state: State, memory: Memory, context: Context) -> tuple[State, Memory, float]:
        """``visits`` visits; c and κ move after every ``average`` observed ones."""
        law = context.law
        check_entrywise(law, state.shared.linkage)
        _visits(context)
        _, info, size = half_sweep(law.lead, tabulated(state, context), context, learns=False)  # only for the bound
        value = bound(state, info.log_z, law) + unit_term(state, context)
        shared = replace(state.shared, table_size=size)
        arrays = [*pattern_arrays(state), *line_arrays(state, law)]
        seen = memory.counters or tuple(np.zeros(n) for n in (*self.cells.shape, *self.cells.shape))
        seen = tuple(each.copy() for each in seen[:4])
        updates, left = memory.steps, self.visits
        rng = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(8, updates)))
        chunk = max(1, round(self.settings.average / max(self.cells.density, 1e-12)))
        top = float(np.max(_rates(arrays[0], arrays[1], self.cells)))
        while left > 0:
            places = rng.integers(self.cells.shape[0] * self.cells.shape[1], size=min(chunk, left, RECORD))
            left -= len(places)
            places = places[~np.isin(places, self.away)] if len(self.away) else places
            table = shared.linkage.table(int(min(2.0 * shared.linkage.events * top + 40.0, 400.0)))
            vectors = self.visit(places, arrays, seen, context, shared, table)
            if vectors[0].sum() > 0:
                updates += 1
                shared = self._learn(shared, vectors, law, (WARM + updates) ** -self.settings.xi)
        state = State(_sides(state, law, arrays), shared)
        return self._priors(state, law), replace(memory, steps=max(updates, memory.steps + 1), counters=seen), value

    def visit(
        self,
        places: Array,
        arrays: list[Array],
        seen: tuple[Array, ...],
        context: Context,
        shared: Shared,
        table: Array,
    ) -> Array:
        """n-vectors of the cells visited; their lines, in ``arrays``, are moved."""
        visit, law = _visits(context), context.law
        rows, pattern, settings = self.cells.by(0), law.pattern, self.settings
        shape = np.array(self.cells.shape, np.int64)
        rates = np.array([settings.t0, settings.xi])
        exposed = np.array([1.0, 1.0 + law.extra_exposure(shared.linkage)])
        counts = np.arange(1, len(table) + 1)
        logs = np.cumsum(np.log(counts)) - log_choices(counts, shared.linkage.events)
        constants = np.concatenate([[0.0], logs])
        hyper = np.array([pattern.shape, pattern.activity_shape, pattern.activity_rate, 0.0, 0.0, 0.0])
        weights = self.cells.weights
        weights = np.empty(0) if weights is None else weights
        values = rows.values.astype(np.float64)
        given = (places, shape, rows.indptr, rows.indices, values, weights, self.degree, *arrays[:2])
        if isinstance(law.data, Product):
            hyper[3:] = law.data.shape, law.data.scale_shape, law.data.scale_rate
            vectors = np.zeros((3, len(table)))
            visit(*given, seen, *arrays[2:], hyper, rates, exposed, table, constants, vectors, settings.as_printed)
            return vectors
        assert isinstance(law.data, Bilinear)
        free = np.array([axis.free for axis in law.data.axes], bool)
        constant = np.array([axis.constant for axis in law.data.axes], np.float64)
        priors = [law.data.prior(axis, shared.data) for axis in (0, 1)]
        prior = np.array([[p.mean[0], p.precision] for p in priors])
        vectors = np.zeros((2, len(table)))
        visit(
            *given, seen, *arrays[2:], free, constant, prior, hyper, rates, exposed,
            shared.dispersion, table, constants, vectors, settings.as_printed,
        )  # fmt: skip
        return vectors

    def _learn(self, shared: Shared, vectors: Array, law: Law, step: float) -> Shared:
        """A step on σ² and c along the averaged gradient, scaled by the information of a cell."""
        weights = self.cells.weights_by(0)
        link, cells = shared.linkage, float(self.cells.n_observed if weights is None else weights.sum())
        n, size = float(vectors[0].sum()), vectors.shape[1]
        phi, sigma2 = link.table(size), shared.dispersion
        if law.family.location:
            ratio = vectors[1] / (sigma2 * phi)
            gradient = cells / n * 0.5 * float(np.sum(ratio - vectors[0])) - (PRIOR_SHAPE + 1) + PRIOR_RATE / sigma2
            information = 0.5 * cells + PRIOR_RATE / sigma2
            slope, weight = 0.5 * (ratio - vectors[0]) / phi, 0.5 * vectors[0] / phi**2
            sigma2 = float(sigma2 * np.exp(np.clip(step * gradient / information, -0.5, 0.5)))
        else:
            slope, weight = vectors[1] / phi - vectors[2], vectors[2] / phi
        if isinstance(link, Curve) and link.learn:
            bend = _bend(link, size)
            up = cells / n * float(slope @ bend) - link.parameter / link.prior_width**2
            flat = cells / n * float(weight @ bend**2) + link.prior_width**-2
            c = link.parameter + float(np.clip(step * up / flat, -0.05, 0.05))
            low, high = link.bounds
            link = replace(link, c=float(np.clip(c, low, high)) if low < high else c)
        return replace(shared, dispersion=sigma2, linkage=link)

    @staticmethod
    def _priors(state: State, law: Law) -> State:
        """Prior variances, where they are learned, as in the other solvers."""
        if not isinstance(law.data, Bilinear):
            return state
        data: Any = state.shared.data
        for axis in (0, 1):
            data = law.data.learn(state.sides[axis].data, axis, data)
        return State(state.sides, replace(state.shared, data=data))


def _degrees(cells: Cells) -> tuple[Array, Array]:
    """Cells of each row and of each column."""
    rows, cols = (np.diff(cells.by(axis).indptr).astype(np.float64) for axis in (0, 1))
    return rows, cols


def _bend(link: Curve, size: int) -> Array:
    """dφ(n)/dc by central difference."""
    step = 1e-6
    ends = [replace(link, c=link.parameter + sign * step).table(size) for sign in (1.0, -1.0)]
    return (ends[0] - ends[1]) / (2.0 * step)


def _rates(u: Array, v: Array, cells: Any) -> Array:
    i, j = cells.positions()
    return np.einsum("pk,pk->p", (u[0] / u[1])[i], (v[0] / v[1])[j])


def _visits(context: Context) -> Callable[..., int]:
    """The backend's loop over single cells; refused by name where it has none."""
    poisson = isinstance(context.law.data, Product)
    return context.kernels.visit_poisson if poisson else context.kernels.visit_normal


def pattern_arrays(state: State) -> list[Array]:
    """Shapes and rates of both pattern sides, (2, lines, K)."""
    weights = [side.pattern.weights for side in state.sides]
    return [np.array([w.alpha, w.beta], np.float64) for w in weights]


def line_arrays(state: State, law: Law) -> list[Array]:
    """Natural parameters of both data sides, (2, lines, d)."""
    found = []
    for axis, side in enumerate(state.sides):
        if isinstance(law.data, Product):
            found.append(np.array([side.data.weights.alpha, side.data.weights.beta], np.float64))
            continue
        free = np.array(law.data.axes[axis].free, np.bool_)  # type: ignore[attr-defined]
        precision = np.where(free, 1.0 / np.where(free, side.data.spread, 1.0), 0.0)
        found.append(np.array([precision, precision * side.data.mean], np.float64))
    return found


def _sides(state: State, law: Law, arrays: list[Array]) -> tuple[Side, Side]:
    """The state's sides from natural parameters."""
    sides = []
    for axis, side in enumerate(state.sides):
        dtype = side.pattern.weights.alpha.dtype
        weights = GammaFactor(*(part.astype(dtype) for part in arrays[axis]))
        pattern = PatternSide(weights, law.pattern.activity(weights))
        first, second = arrays[2 + axis]
        if isinstance(law.data, Product):
            lines = GammaFactor(first.astype(dtype), second.astype(dtype))
            sides.append(Side(pattern, ProductSide(lines, law.data._scale(lines))))
            continue
        free = np.array(law.data.axes[axis].free, np.bool_)  # type: ignore[attr-defined]
        safe = np.where(free, first, 1.0)
        mean = np.where(free, second / safe, side.data.mean)
        variance = np.where(free, 1.0 / safe, 0.0)
        log_det = np.log(variance[:, free]).sum(axis=1)
        sides.append(Side(pattern, NormalFactor(mean.astype(dtype), variance.astype(dtype), log_det)))
    return sides[0], sides[1]
