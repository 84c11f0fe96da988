"""What is known after a fit: the law, the state and the ids, and prediction for any cells.

Enters: positions of cells. Leaves: log densities, means, standard deviations, intervals, draws and the
probability of being observed (theory.md, Prediction). Cells are handled in blocks; no I × J array is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.kernels.choose import choose
from nmar.kernels.spec import RatePairs
from nmar.models.law import Law
from nmar.models.missingness import PatternSide
from nmar.models.predictive import BinTable, NormalPredictive, Predictive, with_noise
from nmar.models.selected import Selected
from nmar.models.state import Shared, Side, State
from nmar.posterior import levels
from nmar.posterior.mixing import BLOCK, Mixed, Part, draws, log_mixture, mixture_parts, mixtures
from nmar.prob import counts
from nmar.prob.linkage import Linkage
from nmar.prob.pieces import pieces
from nmar.prob.threads import in_threads
from nmar.prob.tree import join
from nmar.prob.units import Units

NOBODY: Array = np.empty(0, object)  # no ids
ONE_BIN = BinTable(np.ones(1), np.zeros(1), np.ones(1), 1.0)
DRAWS = 4000  # of a cell, from which quantiles are taken where there is no closed distribution function


@dataclass(frozen=True, eq=False)
class Posterior:
    """A fitted model.

    Attributes
    ----------
    law : Law
        Settings of the model.
    state : State
        Variational factors.
    rows, cols : Axis
        Ids of the two axes.
    """

    law: Law
    state: State
    rows: Axis
    cols: Axis

    @property
    def units(self) -> Units:
        """Units of the values. Questions and answers are in the user's units, the law and the state in the model's."""
        return self.state.shared.units

    @property
    def dispersion(self) -> float:
        """σ² of the Gaussian, κ of the other families, in the user's units."""
        return self.state.shared.dispersion * self.units.scale ** (self.law.family.unit_power or 0.0)

    @property
    def linkage(self) -> Linkage:
        """The linkage, in the user's units."""
        return self.state.shared.linkage.rescaled(self.units.scale)

    def extended(self, rows: Array = NOBODY, cols: Array = NOBODY) -> Posterior:
        """The same with lines of ids that were never seen: those given, and at position −1 one of any other id."""
        sides = []
        for axis, (side, ids) in enumerate(zip(self.state.sides, (rows, cols), strict=True)):
            pattern = self.law.pattern_of(self.state.shared, axis)
            line = self.law.data.prior_line(axis, side.data, self.state.shared.data)
            parts = [side, _first_side(self.state.shared, axis, pattern.unseen(side.pattern), line, 1)]
            if len(ids):
                lines = self.law.data.new_lines(axis, ids, side.data, self.state.shared.data)
                new = _first_side(self.state.shared, axis, pattern.unseen(side.pattern, ids), lines, len(ids))
                parts.insert(1, new)
            sides.append(join(parts))
        return Posterior(self.law, State((sides[0], sides[1]), self.state.shared), self.rows, self.cols)

    def rates(self, i: Array, j: Array) -> Array:
        """E[Λ_ij] = Σ_k E[u_ik] E[v_jk], not s: the expected count, not its geometric mean."""
        return self._paired_rates(i, j, unsure=False)[0]

    def observed_probability(self, i: Array, j: Array) -> Array:
        """P(observed) of the cells (i, j) at the mean rate, 1 − exp(−E[Λ]), or integrated over the value."""
        if self.state.shared.mechanism is None:
            return counts.chance(self.rates(i, j))
        out, table = np.empty(len(i)), self.table(None)
        for block in pieces(len(i), BLOCK):
            at = i[block], j[block]
            out[block] = -np.expm1(self._selected(self._any_cells(*at), *at, True).log_probability(table))
        return out

    def observed_rates(self, i: Array, j: Array) -> Array:
        """E[Λ_ij | observed], for cells that are asked about as observed; Λ is a gamma of its mean and variance."""
        return counts.observed_rate(*self.rate_moments(i, j))

    def rate_moments(self, i: Array, j: Array) -> tuple[Array, Array]:
        """E Λ and Var Λ = Σ_k (E u² E v² − (E u E v)²) of cells."""
        return self._paired_rates(i, j, unsure=True)

    def _paired_rates(self, i: Array, j: Array, unsure: bool) -> tuple[Array, Array]:
        """E Λ, and Var Λ if it is asked for, from the moments of the lines that are asked about."""
        known: list[Array] = []
        places = [i, j]
        for axis, side in enumerate(self.state.sides):
            weights = side.pattern.weights
            if len(places[axis]) < len(weights.alpha):
                weights, places[axis] = weights.take(places[axis]), np.arange(len(places[axis]))
            mean = np.ascontiguousarray(weights.mean, np.float64)
            law = self.law.pattern_of(self.state.shared, axis)
            known += [mean, law.variance(weights) if unsure else np.empty((len(mean), 0))]
        pairs, out = RatePairs(*known, *places), np.empty((2, len(i)))

        def pair(block: slice) -> None:
            out[:, block] = choose().pair_rates(pairs._replace(rows=places[0][block], cols=places[1][block]))

        in_threads(pair, pieces(len(i), BLOCK))
        return np.maximum(out[0], 1e-300), out[1]

    def cells(self, i: Array, j: Array) -> Predictive:
        """What the data model predicts for the cells (i, j), given what is known of them (``Law.given``)."""
        found, given = self._any_cells(i, j), self.law.given
        if self.state.shared.mechanism is None or given is None:
            return found
        return self._selected(found, i, j, given == "missing")

    def _any_cells(self, i: Array, j: Array) -> Predictive:
        """What the data model predicts for the cells, whether they are observed or not."""
        rows, cols = self.state.sides
        found = self.law.data.predictive_at(rows.data, cols.data, (i, j), self.state.shared.data, choose())
        if self.state.shared.noise is None:
            return found
        return with_noise(found, self.state.shared.noise, rows.take_noise(i), cols.take_noise(j))

    @property
    def mean_is_plain(self) -> bool:
        """Whether E[y] of a cell is E[μ], whatever its count and whether it is observed."""
        law, shared = self.law, self.state.shared
        plain = law.family.location and law.data.has_values and shared.linkage.mean is None
        return plain and law.support is None and law.scale is None and (shared.mechanism is None or law.given is None)

    def _selected(self, found: Predictive, i: Array, j: Array, missed: bool) -> Selected:
        rows, cols, mechanism = *(side.detection for side in self.state.sides), self.state.shared.mechanism
        assert isinstance(found, NormalPredictive) and mechanism is not None and rows is not None and cols is not None
        rate = mechanism.intercept + rows.mean[i] + cols.mean[j]
        if mechanism.with_pattern:
            rate = rate + np.log(self.rates(i, j))
        return Selected(found, rate, mechanism.slope, mechanism.over, missed)

    def table(self, size: int | None) -> BinTable:
        """Tables over the bins."""
        linkage = self.state.shared.linkage
        phi1, delta = linkage.mean_tables(size)
        return BinTable(phi1, delta, linkage.bin_table(size), self.state.shared.dispersion)


def _first_side(shared: Shared, axis: int, pattern: PatternSide, data: Any, n: int) -> Side:
    """Lines never seen, with their noise levels, styles and effects of detection."""
    noise, reader, mechanism = shared.noise, shared.reader, shared.mechanism
    return Side(
        pattern,
        data,
        noise=None if noise is None else noise.start(axis, n),
        reading=None if reader is None else reader.start(axis, n),
        detection=None if mechanism is None else mechanism.first_lines(axis, n),
    )


def log_density(posterior: Posterior, i: Array, j: Array, y: Array, plugin: bool = False) -> Array:
    """log p(y_ij | observed), cell by cell: log Σ_n p(y | n) P(n | observed); of levels, their log probability.

    Parameters
    ----------
    plugin : bool
        True: the paper's L_NM, the data model at its posterior mean; False: its uncertainty integrated out.
    """
    if posterior.law.scale is not None:
        return levels.log_probability(posterior, i, j, y, plugin)
    units = posterior.units
    found = log_mixture(posterior, i, j, units.to_model(np.asarray(y, np.float64)), plugin)
    return found + units.log_jacobian()


def expectation(posterior: Posterior, i: Array, j: Array) -> Array:
    """E[y | observed]; where the linkage moves no mean, that of μ, without a sum over counts."""
    if not posterior.mean_is_plain:
        return mean_and_variance(posterior, i, j)[0]
    (rows, cols), shared = posterior.state.sides, posterior.state.shared
    out = np.empty(len(i))

    def fill(block: slice) -> None:
        asked = rows.data, cols.data, (i[block], j[block]), shared.data, choose()
        out[block] = posterior.law.data.predictive_at(*asked, unsure=False).moments(ONE_BIN)[0][:, 0]

    in_threads(fill, pieces(len(i), BLOCK))
    return posterior.units.to_user(out)


def mean_and_variance(posterior: Posterior, i: Array, j: Array) -> tuple[Array, Array]:
    """E[y | observed] and Var[y | observed], n ~ ZTP(Λ)."""
    if posterior.law.scale is not None:
        return levels.moments(posterior, i, j)
    if posterior.law.support is not None:
        return _seen_moments(posterior, i, j)
    mean, variance = _moments(posterior, i, j)
    return posterior.units.to_user(mean), posterior.units.scale**2 * variance


def _moments(posterior: Posterior, i: Array, j: Array) -> tuple[Array, Array]:
    """Mean and variance in the model's units."""
    mean, variance = np.empty(len(i)), np.empty(len(i))

    def fill(part: Part) -> None:
        m = part()
        mean[m.where], variance[m.where] = m.moments()

    in_threads(fill, mixture_parts(posterior, i, j, moments=True))
    return mean, variance


def _seen_moments(posterior: Posterior, i: Array, j: Array) -> tuple[Array, Array]:
    """Mean and variance of a value that is rounded to its levels and held within its range."""
    support, units = posterior.law.support, posterior.units
    assert support is not None
    mean, variance = np.empty(len(i)), np.empty(len(i))

    def fill(part: Part) -> None:
        m = part()
        mean[m.where], variance[m.where] = support.moments(partial(_cumulative_at, m, units))

    in_threads(fill, mixture_parts(posterior, i, j))
    return mean, variance


def _cumulative_at(m: Mixed, units: Units, value: float) -> Array:
    """P(Y ≤ value) of each cell, the value in the user's units."""
    found = m.cumulative(np.full(len(m.where), units.to_model(value)))
    assert found is not None  # Gaussian models have a closed form
    return found


def seen(posterior: Posterior, values: Array) -> Array:
    """Values of the model as they can be seen, in the user's units."""
    values, support = posterior.units.to_user(values), posterior.law.support
    return values if support is None else support.seen(values)


def sample(posterior: Posterior, i: Array, j: Array, n: int, rng: np.random.Generator) -> Array:
    """Draws from p(y | observed): (cells, n)."""
    if posterior.law.scale is not None:
        return levels.sample(posterior, i, j, n, rng)
    out = np.empty((len(i), n))
    for m in mixtures(posterior, i, j):
        out[m.where] = draws(m, n, rng)
    return seen(posterior, out)


def quantiles(posterior: Posterior, i: Array, j: Array, at: tuple[float, ...], seed: int = 0) -> Array:
    """Quantiles of p(y | observed): (cells, at)."""
    if posterior.law.scale is not None:
        return levels.quantiles(posterior, i, j, at)
    out, discrete = np.empty((len(i), len(at))), posterior.law.family.discrete

    def fill(part: Part) -> None:
        m = part()
        out[m.where] = _quantiles(m, at, discrete, seed)

    in_threads(fill, mixture_parts(posterior, i, j))
    return np.ceil(out - 1e-6) + 0.0 if discrete else seen(posterior, out)


def _quantiles(m: Mixed, at: tuple[float, ...], discrete: bool, seed: int) -> Array:
    """In closed form, else by bisection on the distribution function, else from draws."""
    known = [found for level in at if (found := m.quantile(level)) is not None]
    if known:
        return np.stack(known, axis=1)
    center, variance = m.moments()
    if m.cumulative(center) is not None:
        return np.stack([_invert(m.cumulative, level, center, np.sqrt(variance)) for level in at], axis=1)
    method: Any = "inverted_cdf" if discrete else "linear"
    return np.quantile(draws(m, DRAWS, np.random.default_rng(seed)), at, axis=1, method=method).T


def _invert(cdf: Callable[[Array], Any], level: float, at: Array, spread: Array) -> Array:
    """Bisection, cell by cell, from brackets widened until they hold the level."""
    low, high, width = at - 8.0 * spread - 1e-9, at + 8.0 * spread + 1e-9, 8.0 * spread + 1e-9
    for _ in range(60):
        short_low, short_high = cdf(low) > level, cdf(high) < level
        if not (short_low.any() or short_high.any()):
            break
        low, high, width = np.where(short_low, low - width, low), np.where(short_high, high + width, high), 2 * width
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = cdf(middle) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
