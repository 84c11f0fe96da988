"""The best columns of given rows, some rows at a time: scores of a block of rows are one matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sparse
from threadpoolctl import threadpool_limits

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.compressed import Compressed
from nmar.models.arguments import check_choice, check_count
from nmar.posterior.places import Unknown, line_places
from nmar.posterior.posterior import Posterior, expectation
from nmar.prob.counts import chance
from nmar.prob.pieces import pieces
from nmar.prob.threads import in_threads

CRITERIA = ("value", "observed", "expected", "regression")
RIDGE = 0.1  # penalty of by="regression", in mean squared weights of the columns (docs/experiments/recommend.md)
BLOCK = 1 << 17  # scores of a block, at most: they stay in the cache of a processor


def recommendable(posterior: Posterior, rows: Any, by: str, unknown: Unknown = "error") -> tuple[Posterior, Array]:
    """The posterior with rows known by covariates alone, and positions of the rows of these ids.

    Each must have been seen or have covariates, for otherwise all columns are alike to it, unless ``unknown="prior"``.
    """
    remedy = "remove them, or fold in their cells (fold_in)"
    lines, new = line_places(posterior, 0, rows, unknown, remedy, by in ("value", "expected"))
    if not len(new) and unknown == "error":
        return posterior, lines
    longer = posterior.extended(new).state.sides[0]
    return replace(posterior, state=posterior.state.with_side(0, longer)), lines


class Ranked(NamedTuple):
    """What lists are made from."""

    posterior: Posterior  # the model
    n: int  # length of the lists
    by: str  # what columns are ranked by
    seen: Cells | None  # observed cells of the rows: what a regression reads, and what is left out
    exclude_seen: bool = True  # whether seen columns are left out
    candidates: Any = None  # positions of the columns that may be listed, or cells that may; None: all

    @property
    def label(self) -> str:
        """What dashboards call its tasks."""
        return "recommend"

    def away(self, lines: Array) -> Array:
        """Which columns (lines, columns) are not to be listed."""
        count, seen, among = len(self.posterior.cols), self.seen, self.candidates
        if isinstance(among, Cells):
            found = np.ones((len(lines), count), np.bool_)
            found[_cells_of(among.by(0), lines)] = False
        else:
            found = np.full((len(lines), count), among is not None)
            found[:, [] if among is None else among] = False
        if seen is not None and self.exclude_seen:
            found[_cells_of(seen.by(0), lines)] = True
        return found


def recommend(given: Ranked, lines: Array) -> tuple[Array, Array]:
    """Positions and scores of the best columns of each line, best first.

    Both are (lines, m), m the number of columns of the line that has most to offer, at most ``n``. Where a line has
    fewer the rest of its positions are −1 and the scores NaN.
    """
    check_choice("by", given.by, CRITERIA)
    check_count("n", given.n, 1)
    count = len(given.posterior.cols)
    free = given.candidates is None and (given.seen is None or not given.exclude_seen)
    scorer = _Scorer(given.posterior, given.by, given.seen)
    return _rank(scorer, lines, min(given.n, count), count, None if free else given.away)


def similar(posterior: Posterior, axis: int, lines: Array, n: int, by: str) -> tuple[Array, Array]:
    """Positions and similarities of the ``n`` lines most like each of these, or of all others, best first.

    The similarity of two rows is the correlation, over all columns, of their expected values (or expected counts), less
    those of the average row; so it depends on nothing that the factors leave open, such as rotations and scales.
    """
    check_count("n", n, 1)
    count = len((posterior.rows, posterior.cols)[axis])
    if count == 1:
        raise ValueError(f"there is one {('row', 'column')[axis]} only, and so no other that could be like it")
    mine, theirs = (_profile_parts(posterior, by)[k] for k in (axis, 1 - axis))
    spread = np.cov(theirs, rowvar=False, ddof=0).reshape(mine.shape[1], -1)
    value, vector = np.linalg.eigh(spread)
    shown = (mine - mine.mean(axis=0)) @ (vector * np.sqrt(np.maximum(value, 0.0)))
    size = np.linalg.norm(shown, axis=1, keepdims=True)
    if not (size > 0.0).any():
        raise ValueError(f"by={by!r}: to this model all of them are alike; choose another data model, or another by=")
    shown = (shown / np.where(size > 0.0, size, 1.0)).T
    others = min(n, count - 1)
    return _rank(
        lambda some: shown[:, some].T @ shown, lines, others, count, lambda some: np.equal.outer(some, np.arange(count))
    )


def products(posterior: Posterior, by: str) -> tuple[Array, Array]:
    """Rows' and columns' parts of what ``by`` says, E[y | observed] or Λ, as a product."""
    scorer = _Scorer(posterior, by)
    if by == "observed":
        return posterior.state.sides[0].pattern.weights.mean.astype(np.float64), scorer.weights.T
    if not scorer.linear:
        raise ValueError(
            f"by={by!r}: expected values of this model are no products of rows and columns; use by='observed'"
        )
    units, rows, cols = posterior.units, scorer._features(0, slice(None)), scorer.features.T
    center = np.full((len(rows), 1), float(units.to_user(np.zeros(1))[0]))
    return np.hstack([units.scale * rows, center]), np.hstack([cols, np.ones((len(cols), 1))])


def _profile_parts(posterior: Posterior, by: str) -> tuple[Array, Array]:
    """Rows' and columns' parts of expected values, or of expected counts, as a product."""
    law, state = posterior.law, posterior.state
    sides = [side.pattern.weights.mean for side in state.sides]
    if by == "value" and law.family.location and law.data.has_values and not law.data.cellwise:
        sides = [law.data.features(side.data, axis, state.shared.data).first for axis, side in enumerate(state.sides)]
    elif by == "value" and all(hasattr(side.data, "weights") for side in state.sides):
        sides = [side.data.weights.mean for side in state.sides]
    elif by != "observed":
        raise ValueError(f"by={by!r}: this data model has no factors of rows and columns; use by='observed'")
    rows, cols = (side.astype(np.float64) for side in sides)
    return rows, cols


Score = Callable[[Array], Array]
Away = Callable[[Array], Array]  # of lines: which places (lines, places) are left out


def _rank(score: Score, lines: Array, n: int, count: int, away: Away | None) -> tuple[Array, Array]:
    """The ``n`` best of ``count`` places of each line, best first, without those ``away``; in threads."""
    which, scores = np.full((len(lines), n), -1), np.full((len(lines), n), np.nan)
    blocks = list(pieces(len(lines), max(1, BLOCK // count)))

    def rank(block: slice) -> None:
        found = score(lines[block])
        if away is not None:
            found[away(lines[block])] = -np.inf
        best = _best(found, n)
        taken = np.take_along_axis(found, best, axis=1)
        offered = taken > -np.inf
        which[block], scores[block] = np.where(offered, best, -1), np.where(offered, taken, np.nan)

    for block in blocks[:1]:
        rank(block)
    if len(blocks) > 1:  # products and partitions let other threads run; BLAS's own would get in their way
        with threadpool_limits(1, "blas"):
            in_threads(rank, blocks[1:])
    longest = int((which >= 0).sum(axis=1).max(initial=0))
    return which[:, :longest], scores[:, :longest]


def _best(scores: Array, n: int) -> Array:
    """The places of the ``n`` largest of each row, best first, of equals the first."""
    if n < scores.shape[1]:
        rest = scores.shape[1] - n
        some = np.sort(np.argpartition(scores, rest, axis=1)[:, rest:], axis=1)  # of equals the first comes first
        taken = np.take_along_axis(scores, some, axis=1)
        least = taken.min(axis=1, keepdims=True)
        tied = np.count_nonzero(scores == least, axis=1) > np.count_nonzero(taken == least, axis=1)
        order = np.argsort(-taken, axis=1, kind="stable")
        best = np.take_along_axis(some, order, axis=1)
        for row in np.flatnonzero(tied):  # which of the last ones is taken must not depend on the partition
            best[row] = np.argsort(-scores[row], kind="stable")[:n]
        return best
    return np.argsort(-scores, axis=1, kind="stable")


def _cells_of(cells: Compressed, lines: Array) -> tuple[Array, Array]:
    """Rows (counted within ``lines``) and columns of their cells."""
    have = np.flatnonzero((lines >= 0) & (lines < cells.n))  # others were added without cells
    chosen = cells.take(lines[have])
    return have[chosen.major()], chosen.indices


class _Scorer:
    """Scores of all columns for some rows; what belongs to the columns is made once."""

    def __init__(self, posterior: Posterior, by: str, seen: Cells | None = None) -> None:
        self.posterior, self.by, self.seen = posterior, by, seen
        law, state = posterior.law, posterior.state
        self.linear = (
            law.family.location
            and law.data.has_values
            and state.shared.linkage.mean is None
            and not law.data.cellwise
            and by in ("value", "expected")
        )
        if self.linear:
            self.features = self._features(1, slice(None)).T
        if by != "value":
            self.weights = state.sides[1].pattern.weights.mean.astype(np.float64).T
        if by == "regression":
            self.ridge = _ridge(self.weights)

    def _features(self, axis: int, lines: Any) -> Array:
        """What gives E[μ] as a product of rows and columns."""
        law, state = self.posterior.law, self.posterior.state
        side = state.sides[axis].data.take(lines)
        return law.data.features(side, axis, state.shared.data).first.astype(np.float64)

    def __call__(self, lines: Array) -> Array:
        """(lines, columns)"""
        if self.by == "value":
            return self._values(lines)
        rates = self.posterior.state.sides[0].pattern.weights.take(lines).mean.astype(np.float64) @ self.weights
        observed = chance(rates)
        if self.by == "regression":
            return 0.5 * (observed + self._regressed(lines))
        return observed if self.by == "observed" else self._values(lines) * observed

    def _regressed(self, lines: Array) -> Array:
        """What a ridge regression of each row's observed cells (1, the others 0) on the columns' weights predicts."""
        if self.seen is None:
            return np.zeros((len(lines), self.weights.shape[1]))
        rows, cols = _cells_of(self.seen.by(0), lines)
        chosen = sparse.csr_array((np.ones(len(rows)), (rows, cols)), (len(lines), self.weights.shape[1]))
        return (chosen @ self.weights.T) @ self.ridge

    def _values(self, lines: Array) -> Array:
        """Expected values: one product where the mean of a cell is E[μ], whatever its count."""
        if self.linear:
            return self.posterior.units.to_user(self._features(0, lines) @ self.features)
        count = len(self.posterior.cols)
        i, j = np.repeat(lines, count), np.tile(np.arange(count), len(lines))
        return expectation(self.posterior, i, j).reshape(len(lines), count)


def _ridge(weights: Array) -> Array:
    """(VᵀV + cI)⁻¹Vᵀ of the columns' weights V, given as Vᵀ; c is ``RIDGE`` mean squared lengths of its columns."""
    gram = weights @ weights.T
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, weights)
