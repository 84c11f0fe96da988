"""The sum over counts behind every prediction: which cells are summed together and how far (theory.md, Prediction).

Enters: a posterior and positions of cells. Leaves: the log probability of every bin of their counts with what the data
model says of each bin, block by block. Tables with a bin for every count ("open") go on until what is left out is
negligible for the question: the probability of the counts for draws and distribution functions, second moments for
moments, and for a density the stopping rule of the count posterior, value by value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from nmar.arrays import Array
from nmar.models.predictive import BinTable, NormalPredictive, Predictive, pick
from nmar.prob import counts
from nmar.prob.linkage import Linkage
from nmar.prob.pieces import pieces
from nmar.prob.threads import in_threads

if TYPE_CHECKING:
    from nmar.posterior.posterior import Posterior

BLOCK = 1 << 14  # cells handled at a time
ROOM = 1 << 20  # numbers in a table of cells × open bins, where it has more than one cell
MOST = counts.MOST  # counts of an open table


@dataclass(frozen=True, eq=False)
class Mixed:
    """Some cells ready for mixing over n."""

    where: Array  # positions of these cells in the whole request
    # (cells, B) log P(bin) of each cell, given that it is observed or, with ``target="all"``, whether it is observed or
    # not
    log_weight: Array
    cells: Predictive  # what the data model says
    table: BinTable  # the tables of the bins
    rate: Array  # (cells,) E[Λ | observed]; for all cells E Λ, for the control Λ̄

    def log_density(self, y: Array, plugin: bool) -> Array:
        """log Σ_n p(y | n) P(n | observed), (cells,)."""
        if isinstance(self.cells, NormalPredictive):
            return self.cells.log_mixture(y, self.table, self.log_weight, plugin)
        return logsumexp(self.log_weight + self.cells.log_density(y, self.table, plugin), axis=1)

    def moments(self) -> tuple[Array, Array]:
        """E[y | observed] and Var[y | observed], (cells,)."""
        weight = np.exp(self.log_weight)
        at, spread = self.cells.moments(self.table)
        mean = np.sum(weight * at, axis=1)
        return mean, np.sum(weight * (spread + (at - mean[:, None]) ** 2), axis=1)

    def quantile(self, level: float) -> Array | None:
        """Where the distribution function of each cell reaches ``level``; None where there is no closed form."""
        return self.cells.quantile(level, self.table) if isinstance(self.cells, NormalPredictive) else None

    def cumulative(self, y: Array) -> Array | None:
        """P(Y ≤ y | observed), (cells,); None where the data model has no closed form."""
        found = self.cells.cumulative(y, self.table)
        return None if found is None else np.sum(np.exp(self.log_weight) * found, axis=1)


Part = Callable[[], Mixed]  # some cells, made ready when they are asked for


def mixtures(posterior: Posterior, i: Array, j: Array, moments: bool = False) -> Iterator[Mixed]:
    """All cells, some at a time, under the law of an observed cell's events, or of any cell's (``Law.target``).

    ``moments`` asks open tables to go so far that second moments are complete, not only probabilities.
    """
    return (part() for part in mixture_parts(posterior, i, j, moments))


def mixture_parts(
    posterior: Posterior, i: Array, j: Array, moments: bool = False, plugin: bool = False
) -> Iterator[Part]:
    """The same to be made ready in threads; ``plugin`` takes rates at their posterior means."""
    linkage, rate = posterior.state.shared.linkage, _rates(posterior, i, j, plugin)
    if linkage.bins == "open":
        return _open_parts(posterior, (i, j, rate), _size_at(linkage, moments))
    asked = posterior, (i, j, rate), posterior.table(None)
    return (partial(_closed_mixture, *asked, block) for block in pieces(len(i), BLOCK))


def _closed_mixture(posterior: Posterior, asked: tuple[Array, Array, Array], table: BinTable, block: slice) -> Mixed:
    i, j, rate = (part[block] for part in asked)
    linkage = posterior.state.shared.linkage
    weigh = _known if linkage.bins == "known" else _closed
    log_weight = weigh(linkage, rate, _every(posterior))
    return Mixed(np.arange(block.start, block.stop), log_weight, posterior.cells(i, j), table, rate)


def draws(m: Mixed, n: int, rng: np.random.Generator) -> Array:
    """``n`` draws of y for each cell, in the model's units."""
    return m.cells.sample(pick(np.exp(m.log_weight), n, rng), m.table, rng)


def log_mixture(posterior: Posterior, i: Array, j: Array, y: Array, plugin: bool) -> Array:
    """log p(y | observed) of each cell, in the model's units; open sums run until the stopping rule is met."""
    out = np.empty(len(y))

    def score(part: Part) -> tuple[Array, int]:
        m = part()
        out[m.where] = m.log_density(y[m.where], plugin)
        left = m.where[~_complete(posterior, m, y[m.where], out[m.where], plugin)]
        return left, m.log_weight.shape[1] if len(left) else 0

    found = in_threads(score, mixture_parts(posterior, i, j, plugin=plugin))
    short = np.concatenate([np.empty(0, np.int64), *(left for left, _ in found)])
    _extend(posterior, (i, j, y), out, short, max((size for _, size in found), default=0), plugin)
    return out


def _extend(
    posterior: Posterior, asked: tuple[Array, Array, Array], out: Array, short: Array, size: int, plugin: bool
) -> None:
    """Sum cells whose rule was not met over tables twice as long, again and again; say so where it is never met."""
    while len(short) and size < MOST:
        size = min(2 * size, MOST)
        i, j, y = (part[short] for part in asked)
        left = []
        for part in _open_parts(posterior, (i, j, _rates(posterior, i, j, plugin)), _always(size)):
            m = part()
            out[short[m.where]] = m.log_density(y[m.where], plugin)
            left.append(short[m.where[~_complete(posterior, m, y[m.where], out[short[m.where]], plugin)]])
        short = np.concatenate(left)
    if len(short):
        worst = float(posterior.units.to_user(asked[2][short[0]]))
        warnings.warn(
            f"the log density of {len(short)} of {len(out)} cells (one has the value {worst:g}) was summed over {MOST}"
            " counts and needs more, so that it is too low; look at those values, which are far from all the model"
            " expects, or use a linkage with a closed table, such as 'free'",
            UserWarning,
            stacklevel=3,
        )


def _always(size: int) -> Callable[[float], int]:
    """So many counts at any rate."""
    return lambda rate: size


def _complete(posterior: Posterior, m: Mixed, y: Array, log_density: Array, plugin: bool) -> Array:
    """Whether the sum of each cell has all that matters."""
    linkage = posterior.state.shared.linkage
    if linkage.bins != "open":
        return np.ones(len(y), bool)
    ceiling, size = m.cells.ceiling(y, m.table, linkage.limits, plugin), m.log_weight.shape[1]
    if _every(posterior):
        events = linkage.events * m.rate
        return counts.complete(np.log(events), log_density + events, ceiling, size, 1.0)
    log_z = log_density + counts.log_truncation(m.rate, linkage.events)
    return counts.complete(np.log(m.rate), log_z, ceiling, size, linkage.events)


def _rates(posterior: Posterior, i: Array, j: Array, plugin: bool) -> Array:
    """E[Λ | observed] of each cell, E Λ where that is plugged in or the cell may be missing, Λ̄ for the control."""
    shared = posterior.state.shared
    if shared.rate is not None and shared.linkage.bins != "known":
        return np.full(len(i), shared.rate)
    if not shared.linkage.couples:
        return np.ones(len(i))  # one bin, whatever the rate
    anyhow = plugin or posterior.law.target == "all"
    return posterior.rates(i, j) if anyhow else posterior.observed_rates(i, j)


def _every(posterior: Posterior) -> bool:
    """Whether the question is about all cells; counts of the tail-only control have nothing to do with the pattern."""
    return posterior.law.target == "all" and not posterior.law.separate


def _closed(linkage: Linkage, rate: Array, every: bool) -> Array:
    """log P(bin) of tables with finitely many bins."""
    assert linkage.size is not None
    if linkage.size == 1:
        return np.zeros((len(rate), 1))
    given = linkage.bins, linkage.size, linkage.events, linkage.starts
    return counts.log_probabilities(rate, *given, every=every)


def _known(linkage: Any, rate: Array, every: bool) -> Array:
    """Two-stage baseline: the bin of a cell is known from its rate."""
    log_weight = np.full((len(rate), linkage.size), -np.inf)
    log_weight[np.arange(len(rate)), linkage.group(rate)] = 0.0
    return log_weight


def _size_at(linkage: Linkage, moments: bool) -> Callable[[float], int]:
    """How many counts to sum at a given rate; a location table by a factor is part of second moments too."""

    def tables(size: int) -> Array:
        phi1, _ = linkage.mean_tables(size)
        return np.maximum(linkage.bin_table(size), np.abs(phi1))

    def size_at(rate: float) -> int:
        size = counts.open_size(rate, linkage.events, tables if moments else np.ones, MOST)
        if size == MOST:
            warnings.warn(
                f"a cell has a rate of {rate:g} and its counts need a table longer than {MOST}, at which it is cut;"
                " use a linkage with a closed table, such as 'free'",
                UserWarning,
                stacklevel=5,
            )
        return size

    return size_at


def _open_parts(
    posterior: Posterior, asked: tuple[Array, Array, Array], size_at: Callable[[float], int]
) -> Iterator[Part]:
    """Cells of like rates together, those with the largest first, so that few cells have long tables."""
    rate = asked[2]
    order = np.argsort(-rate, kind="stable")
    start = 0
    while start < len(order):
        size = size_at(float(rate[order[start]]))
        where = order[start : start + min(max(ROOM // size, 1), BLOCK)]
        yield partial(_open_mixture, posterior, asked, where, size)
        start += len(where)


def _open_mixture(posterior: Posterior, asked: tuple[Array, Array, Array], where: Array, size: int) -> Mixed:
    i, j, rate = (part[where] for part in asked)
    events = posterior.state.shared.linkage.events
    log_weight = counts.log_probabilities(rate, "open", size, events, every=_every(posterior))
    return Mixed(where, log_weight, posterior.cells(i, j), posterior.table(size), rate)
