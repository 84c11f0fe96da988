"""Mechanisms judged on held-out cells of both kinds: observed ones, and missing ones (theory.md, Which mechanism).

Enters: cells and the settings of a fit. Leaves: of each mechanism what it says of cells that were taken out, observed
or not. A tenth of all cells is hidden. An observed one is scored by log P(observed) + log p(value | observed), a
missing one by log P(missing), so that a mechanism has to be right about values and about which cells are seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.evaluate.gains import FEWEST, Gain, Judges
from nmar.evaluate.parts import refuse_complete, refuse_weights
from nmar.fit.options import Options
from nmar.fit.problem import whole_seed
from nmar.fit.taste import describes
from nmar.fit.train import first_stage, train
from nmar.models.mechanism import ByValue
from nmar.posterior.posterior import Posterior, log_density

SHARE = 0.1  # of all cells, hidden
JUDGES = 200_000  # missing cells that judge, at most, unless there are as many observed ones


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Cells of both kinds that were taken out."""

    train: Cells  # what fits learn from
    seen: Cells  # observed cells that judge
    row: Array  # (m,) missing cells that judge
    col: Array
    times: float  # how many missing cells each of them stands for

    @property
    def positions(self) -> tuple[Array, Array]:
        """Rows and columns of the cells, observed ones first."""
        i, j = self.seen.positions()
        return np.concatenate([i, self.row]), np.concatenate([j, self.col])

    def hidden(self, more: Cells | None) -> Cells:
        """All of them and ``more``, as cells that a fit must not look at."""
        i, j = self.positions
        away = Cells.from_arrays(i, j, np.zeros(len(i)), self.train.shape)
        found = Cells(away.by(0), self.train.rows, self.train.cols)
        return found if more is None else found.concat(more)

    @property
    def judges(self) -> Judges:
        """The cells as standard errors see them: observed ones first."""
        return Judges.at(*self.positions)


def missing_at(known: Array, shape: tuple[int, int], n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Positions of ``n`` different missing cells, all equally likely, in row-major order.

    ``known`` are the row-major numbers of the cells that are not missing, ascending.
    """
    rank = np.sort(rng.choice(shape[0] * shape[1] - len(known), n, replace=False))
    before = np.searchsorted(known - np.arange(len(known)), rank, side="right")
    row, col = np.divmod(rank + before, shape[1])
    return row, col


def hold_out(cells: Cells, seed: int, share: float = SHARE, hidden: Cells | None = None) -> HeldOut:
    """A share of all cells taken out at random, observed or not; ``hidden`` are neither."""
    refuse_weights(cells)
    refuse_complete(cells, "explain")
    parts = [cells] if hidden is None else [cells, hidden]
    places = [part.row_index.astype(np.int64) * cells.shape[1] + part.col_index for part in parts]
    known = np.unique(np.concatenate(places))
    away = cells.shape[0] * cells.shape[1] - len(known)
    if round(share * min(cells.n_observed, away)) < FEWEST:
        few = "observed" if cells.n_observed < away else "missing"
        raise ValueError(
            f"a tenth of the {min(cells.n_observed, away)} {few} cells is too little to judge mechanisms by; at least"
            f" {FEWEST} are needed"
        )
    train_cells, _, seen = cells.split(test=share, valid=0.0, seed=seed)
    all_missing = round(share * away)
    n = min(all_missing, max(JUDGES, len(seen)))
    row, col = missing_at(known, cells.shape, n, np.random.default_rng([seed, 1]))
    return HeldOut(train_cells, seen, row, col, all_missing / n)


class Chances(NamedTuple):
    """log P(observed) of the observed cells that judge, and log P(missing) of the missing ones."""

    seen: Array
    missing: Array


@dataclass(frozen=True, eq=False)
class Judged:
    """What a mechanism says of the cells that were taken out."""

    kind: str  # the mechanism
    pattern: bool  # whether the factors of the pattern have a say in which cells are seen, beside rows and columns
    posterior: Posterior  # the fit that gives the values
    values: Array  # log p(value | observed) of the observed cells
    chances: Chances  # of all cells

    @property
    def name(self) -> str:
        """Name of the mechanism, as tables have it."""
        return f"{self.kind} + pattern" if self.pattern else self.kind

    def parts(self, held: HeldOut) -> dict[str, Array]:
        """Each cell's share of the mean nats for each observed value: of the whole, the values and the pattern."""
        scale = (len(held.seen) + len(held.row)) / len(held.seen)
        pattern = scale * np.concatenate([self.chances.seen, held.times * self.chances.missing])
        values = scale * np.concatenate([self.values, np.zeros(len(held.row))])
        return {"whole": pattern + values, "value": values, "pattern": pattern}


def differences(one: Judged, other: Judged, held: HeldOut) -> dict[str, Gain]:
    """Gains of ``one`` over ``other`` in nats for each observed value: whole, value part and pattern part."""
    judges, mine, theirs = held.judges, one.parts(held), other.parts(held)
    return {name: judges.average([mine[name] - theirs[name]]) for name in mine}


def judged(held: HeldOut, options: Options, more_hidden: Cells | None = None) -> Iterator[Judged]:
    """Every mechanism that the data model takes, each without and with the factors of the pattern.

    Which cells are seen is a matter of rows and columns, or of the pattern too, under "none" and "taste" as under
    "value" with a slope of 0.
    """
    hidden = held.hidden(more_hidden)
    base = replace(options, mechanism="none", random_state=whole_seed(options.random_state))
    tastes, by_value = describes(base.data), fits_by_value(base, held.train)
    first = first_stage(held.train, base, None, hidden) if tastes or not by_value else None

    def fit(mechanism: str | ByValue) -> Posterior:
        return train(held.train, replace(base, mechanism=mechanism), None, hidden, pattern=first).posterior

    flat = {way: fit(ByValue(0.0, way)) for way in (False, True)} if by_value else {}
    chances = {way: _chances(posterior, held) for way, posterior in flat.items()}
    if first is not None and not by_value:
        chances = {True: _chances(first, held)}
    values = {"none": flat[False] if by_value else fit("none")}
    if tastes:
        values["taste"] = fit("taste")
    for kind, posterior in values.items():
        scores = _values(posterior, held)
        for way, chance in chances.items():
            yield Judged(kind, way, posterior, scores, chance)
    for way in flat:
        posterior = fit(ByValue(None, way))
        yield Judged("value", way, posterior, _values(posterior, held), _chances(posterior, held))


def fits_by_value(options: Options, cells: Cells) -> bool:
    """Whether the data model and the other settings allow the mechanism "value"."""
    try:
        asked = replace(options, mechanism="value")
        asked.check_by_value(asked.data.build(cells), asked.link)
    except ValueError:
        return False
    return True


def _values(posterior: Posterior, held: HeldOut) -> Array:
    return log_density(posterior, *held.seen.positions(), held.seen.values)


def _chances(posterior: Posterior, held: HeldOut) -> Chances:
    seen = np.log(np.maximum(posterior.observed_probability(*held.seen.positions()), 1e-300))
    return Chances(seen, np.log1p(-np.minimum(posterior.observed_probability(held.row, held.col), 1.0 - 1e-16)))
