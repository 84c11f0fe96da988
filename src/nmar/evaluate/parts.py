"""Who trains, who stops, who judges: random splits, or parts the user made, which must not overlap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.split import refuse_overlap
from nmar.data.split import split as split_cells
from nmar.evaluate.gains import FEWEST

__all__ = ["Parts", "Split", "refuse_complete", "refuse_weights"]


def refuse_weights(*cells: Cells) -> None:
    """Verdicts and tests judge all held-out cells alike, and their standard errors know no weights."""
    if any(part.weights is not None for part in cells):
        raise ValueError("cells have weights, which comparisons and tests do not use; drop them: with_weights(None)")


def refuse_complete(cells: Cells, purpose: str) -> None:
    """Where all cells are observed there is no missingness; ``purpose`` is what was to be done with it."""
    if len(cells) == cells.shape[0] * cells.shape[1]:
        raise ValueError(f"no cell is missing, so that P(observed) is 1 throughout and there is nothing to {purpose}")


class Split(NamedTuple):
    """Cells to train, to stop on (or None) and to judge."""

    train: Cells
    valid: Cells | None
    test: Cells

    def sizes(self) -> tuple[int, int, int, int]:
        """Cells for training, stopping, judging; and how many of the last have no training cell on a line."""
        row = np.isin(_ids(self.test, 0), _ids(self.train, 0))
        col = np.isin(_ids(self.test, 1), _ids(self.train, 1))
        stopping = 0 if self.valid is None else len(self.valid)
        return len(self.train), stopping, len(self.test), int(np.sum(~(row & col)))


@dataclass(frozen=True, eq=False)
class Parts:
    """Where splits come from: cells to be split at random, or parts the user made."""

    whole: Cells | None
    train: Cells | None = None
    test: Cells | None = None
    valid: Cells | None = None

    @classmethod
    def of(cls, cells: Any, train: Any, test: Any, valid: Any) -> Parts:
        """Check that one of the two was given, and that no cell is in two parts."""
        made = {"train": train, "test_cells": test, "valid_cells": valid}
        parts = {k: as_cells(v, k) for k, v in made.items() if v is not None}
        whole = None if cells is None else as_cells(cells)
        refuse_weights(*parts.values(), *([] if whole is None else [whole]))
        if not parts:
            if whole is None:
                raise ValueError("cells is None; pass cells to split, or train= and test_cells=")
            refuse_complete(whole, "compare")
            return cls(whole)
        if train is None or test is None:
            raise ValueError("a split of your own needs both train= and test_cells= (valid_cells= is optional)")
        for one, other in combinations(parts, 2):
            refuse_overlap(one, parts[one], other, parts[other])
        return cls(whole, parts["train"], parts["test_cells"], parts.get("valid_cells"))

    @property
    def given(self) -> bool:
        """Whether the user made the split."""
        return self.train is not None

    def everything(self, split: Split) -> Cells:
        """All cells there are, those of a split of the user's own put together."""
        if self.whole is not None:
            return self.whole
        parts = [split.train, split.test, *([] if split.valid is None else [split.valid])]
        return reduce(Cells.concat, parts)

    def split(self, test: float, valid: float, seed: int) -> Split:
        """The parts for one seed."""
        found = self._split(test, valid, seed)
        if len(found.test) < FEWEST:
            raise ValueError(
                f"too few cells are held out to judge on: {len(found.test)}, and at least {FEWEST} are needed;"
                " raise test=, or pass more test_cells="
            )
        return found

    def _split(self, test: float, valid: float, seed: int) -> Split:
        if self.train is not None and self.test is not None:
            if self.valid is not None or valid == 0:
                return Split(self.train, self.valid, self.test)
            kept, stopping, _ = split_cells(self.train, 0.0, valid, seed)
            return Split(kept, stopping, self.test)
        assert self.whole is not None
        if test <= 0:
            raise ValueError(f"test={test!r}; some cells must be held out to compare on")
        if round(test * len(self.whole)) < FEWEST:
            raise ValueError(
                f"test={test!r} of {len(self.whole)} cells: too few cells are held out to judge on, at least {FEWEST}"
                " are needed"
            )
        kept, stopping, held_out = split_cells(self.whole, test, valid, seed)
        return Split(kept, stopping if len(stopping) else None, held_out)


def _ids(cells: Cells, axis: int) -> Array:
    """The row or column id of each cell, as text where ids are of mixed kinds."""
    ids, index = ((cells.row_ids, cells.row_index), (cells.col_ids, cells.col_index))[axis]
    found = ids[index]
    return found.astype(str) if found.dtype == object else found
