"""Multiple imputation: joint draws of a fitted model, and of the missing cells given each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.evaluate.imputed import Imputations, assumption, missing_cells
from nmar.fit.augment import joint_draws
from nmar.fit.job import hidden_cells
from nmar.fit.problem import seed_sequence
from nmar.models.arguments import check_count
from nmar.posterior.joint import as_seen, latent_given
from nmar.posterior.posterior import Posterior, mean_and_variance

SWEEPS = 5  # of data augmentation between two completed tables
MOST = 50_000_000  # numbers that are drawn without being asked for cell by cell


@dataclass(frozen=True, eq=False)
class Imputer:
    """A fitted model with what its draws need."""

    known: Posterior  # the model; its law says which cells are drawn
    cells: Cells | None  # training cells, where they are held
    hidden: tuple[Cells, ...]  # cells that were neither observed nor missing in the fit
    # whether each training cell counted once in a fit of these lines, so that data augmentation can go on from it
    once: bool
    n_jobs: int | None  # number of threads
    backend: Any  # implementation of the loops

    def impute(self, n: int, seed: Any, cells: Any, rows: Any, sweeps: int | None) -> Imputations:
        """Draw each cell ``n`` times, those of one completed table given one draw of the model."""
        i, j, lines = self.places(n, cells, rows)
        known, sweeps, whole = self.known, self.sweeps(sweeps), seed_sequence(seed)
        latent, variance = np.empty((len(i), n)), 0.0
        for k, draw in enumerate(self.draws(n, sweeps, child(whole, 0))):
            latent[:, k] = self._values(draw, i, j, child(child(whole, 1), k))
            if k == 0 and len(i):
                variance = float(np.mean(mean_and_variance(draw, i, j)[1]))
        assumes = assumption(known.law, known.state.shared.linkage, known.state.shared.mechanism)
        noise, values = float(np.sqrt(variance)), as_seen(known, latent)
        ids = known.rows, known.cols
        return Imputations(values, i, j, *ids, self.cells, lines, assumes, sweeps, noise, known, latent)

    def draws(self, n: int, sweeps: int, seed: np.random.SeedSequence) -> Iterator[Posterior]:
        """Draws of the whole model, with data augmentation on the training cells where ``sweeps`` asks for it."""
        away = None if self.cells is None else hidden_cells(self.cells, *self.hidden)
        how: dict[str, Any] = {"hidden": away, "n_jobs": self.n_jobs, "backend": self.backend}
        return joint_draws(self.known, self.cells, n, sweeps, seed, **how)

    def sweeps(self, wanted: int | None) -> int:
        """Sweeps between two draws: those wanted, if they can be made."""
        able = self.cells is not None and self.once and self.known.state.shared.mechanism is None
        if wanted is None:
            return SWEEPS if able and not self.known.law.data.cellwise else 0
        check_count("sweeps", wanted, 0)
        if wanted and not able:
            raise ValueError(
                f"sweeps={wanted} needs the training cells, each counting once: loaded, streamed and folded-in models"
                " and those of target='all' or mechanism='value' have sweeps=0 only"
            )
        return wanted

    def places(self, n: int, cells: Any, rows: Any) -> tuple[Array, Array, Array]:
        """Positions of the cells to draw, and rows of the completed table."""
        known = self.known
        if cells is not None:
            if rows is not None:
                raise ValueError("give cells or rows, not both: cells names each cell, rows takes all missing ones")
            return self._named(cells)
        if self.cells is None:
            raise ValueError("a loaded or streamed model does not know which cells are missing; name them with cells=")
        lines = np.arange(known.rows.size)
        if rows is not None:
            lines = known.rows.positions(rows, "error", "rows")
            if len(np.unique(lines)) < len(lines):
                raise ValueError("rows names a row twice; name it once")
        away = len(lines) * known.cols.size * n
        if away > MOST:
            raise ValueError(
                f"{len(lines):,} × {known.cols.size:,} cells, {n} times, are more than {MOST:,} numbers; ask for fewer"
                " with n=, take the rows in blocks with rows= and one seed, or name the cells with cells=(rows, cols)"
            )
        return *missing_cells(self.cells, lines), lines

    def _named(self, cells: Any) -> tuple[Array, Array, Array]:
        """Positions of cells that are named one by one, and their rows."""
        known = self.known
        if not (isinstance(cells, tuple) and len(cells) == 2):
            raise ValueError(f"cells is a {type(cells).__name__}; give a pair (row ids, column ids)")
        i, j = (
            axis.positions(ids, "error", "cells", "remove them: they have no cells")
            for axis, ids in zip((known.rows, known.cols), cells, strict=True)
        )
        if len(i) != len(j):
            raise ValueError(f"cells has {len(i)} row ids and {len(j)} column ids; give one of each per cell")
        if len(np.unique(i * known.cols.size + j)) < len(i):
            raise ValueError("cells names a cell twice, and each has one value in a completed table; name it once")
        return i, j, np.unique(i)

    def _values(self, draw: Posterior, i: Array, j: Array, seed: np.random.SeedSequence) -> Array:
        """One value of each cell given a draw of the model; where values decide, given whether it is missing."""
        if draw.state.shared.mechanism is None or draw.law.given is None or self.cells is None:
            return latent_given(draw, i, j, seed)
        out, there = np.empty(len(i)), self.cells.contains(i, j)
        for given, which in (("missing", ~there), ("observed", there)):
            about = replace(draw, law=replace(draw.law, given=given))
            out[which] = latent_given(about, i[which], j[which], seed)
        return out


def child(seed: np.random.SeedSequence, k: int) -> np.random.SeedSequence:
    """The k-th stream of a seed, whatever was drawn from it before."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k))
