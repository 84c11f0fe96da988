"""Which cells train, which choose, which judge.

Enters: `Cells`, fractions and a seed. Leaves: parts of the same cells on the same axes, disjoint and together
complete; or index arrays, for cells kept in another order (that of a file, say).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.data.seeds import check_seed

Indices = NDArray[np.int64]
By = Literal["cells", "rows", "time"]


def split_arrays(n: int, test: float = 0.2, valid: float = 0.01, seed: int = 0) -> tuple[Indices, Indices, Indices]:
    """Split the numbers 0..n-1 at random.

    With ``p = default_rng(seed).permutation(n)``, the first ``round(test * n)`` entries of ``p`` are the test
    part, the next ``round(valid * n)`` the validation part, and the rest the training part.

    Parameters
    ----------
    n : int
        Number of cells.
    test, valid : float
        Fractions, at least 0, together less than 1; 0 asks for an empty part.
    seed : int, default=0
        Seed of the random choice.

    Returns
    -------
    train, valid, test : int64 arrays
        In the order of the permutation.

    Examples
    --------
    >>> from nmar.data import split_arrays
    >>> [len(part) for part in split_arrays(100, test=0.2, valid=0.01, seed=0)]
    [79, 1, 20]
    """
    for name, fraction in (("test", test), ("valid", valid)):
        if not 0 <= fraction < 1:
            raise ValueError(f"{name}={fraction!r} is not a fraction; pass 0 <= {name} < 1")
    if test + valid >= 1:
        raise ValueError(f"test={test!r} and valid={valid!r} leave nothing to train on; their sum must be below 1")
    n_test, n_valid = round(test * n), round(valid * n)
    for name, fraction, size in (("test", test, n_test), ("valid", valid, n_valid)):
        if fraction > 0 and size == 0:
            raise ValueError(f"{name}={fraction!r} of {n} cells is no cell at all; enlarge it, or pass {name}=0")
    if n - n_test - n_valid < 1:
        raise ValueError(f"test={test!r} and valid={valid!r} of {n} cells leave none to train on; lower them")
    check_seed("seed", seed)
    order = np.random.default_rng(seed).permutation(n).astype(np.int64, copy=False)
    return order[n_test + n_valid :], order[n_test : n_test + n_valid], order[:n_test]


def split(
    cells: Cells, test: float = 0.2, valid: float = 0.01, seed: int = 0, by: By = "cells", time: Any = None
) -> tuple[Cells, Cells, Cells]:
    """Split the observed cells: at random, by rows, or by time.

    Parameters
    ----------
    cells : Cells
        Cells to split.
    test, valid : float
        Fractions, at least 0, together less than 1; 0 gives a part without cells.
    seed : int, default=0
        Seed of the random choice.
    by : {"cells", "rows", "time"}, default="cells"
        "cells": at random, as `split_arrays` does with their row-major numbers. "rows": whole rows, the same fractions
        of those that have cells. "time": the latest cells are the test part, those before them the validation part; of
        cells of one time it is chosen at random which come first.
    time : Cells, optional
        The same cells with their times as values, for ``by="time"``.

    Returns
    -------
    train, valid, test : Cells
        Disjoint, together complete, all on the axes of `cells`.

    Examples
    --------
    >>> from nmar.data import Cells, split
    >>> cells = Cells.from_arrays([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [1.0, 2, 3, 4, 5])
    >>> [part.n_observed for part in split(cells, test=0.2, valid=0.2, seed=0)]
    [3, 1, 1]
    >>> split(cells, test=0.2, valid=0, by="time", time=cells.with_values([3, 1, 9, 2, 5]))[2].values.tolist()
    [3.0]
    """
    if by not in get_args(By):
        raise ValueError(f"by={by!r}; use one of {', '.join(map(repr, get_args(By)))}")
    when = _times(cells, time, by == "time")
    if by == "rows":
        return _split_rows(cells, test, valid, seed)
    chosen = split_arrays(len(cells), test=test, valid=valid, seed=seed)
    if when is not None:
        order = _latest_first(when, seed)
        sizes = np.cumsum([len(chosen[2]), len(chosen[1])])
        chosen = (order[sizes[1] :], order[sizes[0] : sizes[1]], order[: sizes[0]])
    train, validation, held_out = (cells.select(_mask(part, len(cells))) for part in chosen)
    return train, validation, held_out


def leave_one_out(cells: Cells, time: Any = None, seed: int = 0) -> tuple[Cells, Cells]:
    """One cell of each row that has at least two is held out: the last one, or one at random.

    Parameters
    ----------
    cells : Cells
        Cells to split.
    time : Cells, optional
        The same cells with their times as values; None: which cell is chosen at random.
    seed : int
        Also decides among cells of one time.

    Returns
    -------
    train, test : Cells
        On the axes of `cells`.

    Examples
    --------
    >>> from nmar.data import Cells, leave_one_out
    >>> cells = Cells.from_arrays([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [1.0, 2, 3, 4, 5])
    >>> train, test = leave_one_out(cells, time=cells.with_values([3, 1, 9, 2, 5]))
    >>> test.values.tolist(), len(train)
    ([1.0, 3.0], 3)
    """
    check_seed("seed", seed)
    when = _times(cells, time, False)
    order = _latest_first(np.zeros(len(cells)) if when is None else when, seed)
    row = cells.row_index[order]
    _, first = np.unique(row, return_index=True)  # the first of each row in this order is its last in time
    degree = np.diff(cells.by(0).indptr)
    held_out = _mask(order[first[degree[row[first]] > 1]], len(cells))
    if not held_out.any():
        raise ValueError("no row has two cells or more, so none can be left out and the row still be known")
    return cells.select(~held_out), cells.select(held_out)


def _times(cells: Cells, time: Any, wanted: bool) -> NDArray[np.float64] | None:
    """The time of each cell, by id."""
    if time is None:
        if wanted:
            raise ValueError("by='time' needs time=, the same cells with their times as values (nmar.read(value=…))")
        return None
    if not isinstance(time, Cells):
        raise TypeError(f"time is a {type(time).__name__}; pass nmar.Cells: the same cells with their times as values")
    same = time.align(cells.rows, cells.cols, unknown="drop")
    if len(same) != len(cells) or not np.array_equal(np.stack(same.positions()), np.stack(cells.positions())):
        raise ValueError("time must have a time for each of the cells, and for no other; read both from one table")
    return same.values


def _latest_first(when: NDArray[np.float64], seed: int) -> Indices:
    check_seed("seed", seed)
    chance = np.random.default_rng(seed).permutation(len(when))
    return np.lexsort((chance, -when)).astype(np.int64, copy=False)


def _split_rows(cells: Cells, test: float, valid: float, seed: int) -> tuple[Cells, Cells, Cells]:
    rows = np.flatnonzero(np.diff(cells.by(0).indptr))
    chosen = split_arrays(len(rows), test=test, valid=valid, seed=seed)
    train, validation, held_out = (cells.select(_mask(rows[part], cells.shape[0])[cells.row_index]) for part in chosen)
    return train, validation, held_out


class EntryKFold:
    """Cross-validation over cells: each cell is in the test part of exactly one fold.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Whether folds are random. Otherwise they are contiguous runs in row-major order.
    random_state : int or None, default=None
        Seed of the shuffle.

    Notes
    -----
    Made for scikit-learn's ``cross_val_score`` and ``GridSearchCV`` on Cells, whose entries are their cells. Held-out
    cells count as missing there, since scikit-learn passes a fit its training part only; ``fit(hidden=…)`` takes them
    out of the pattern (docs/theory.md, Prediction).

    Examples
    --------
    >>> from nmar.data import Cells, EntryKFold
    >>> cells = Cells.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2, 3, 4])
    >>> [(len(cells[train]), len(cells[test])) for train, test in EntryKFold(2, random_state=0).split(cells)]
    [(2, 2), (2, 2)]
    """

    def __init__(self, n_splits: int = 5, shuffle: bool = True, random_state: int | None = None) -> None:
        if n_splits < 2:
            raise ValueError(f"n_splits={n_splits!r}: pass at least 2")
        check_seed("random_state", random_state)
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits

    def split(
        self, X: Cells, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the positions of the training and of the test cells of each fold, in row-major order.

        Parameters
        ----------
        X : Cells
            Cells; ``X[positions]`` are some of them, on the same axes.
        y, groups : ignored
            Not used; scikit-learn passes it.
        """
        if not isinstance(X, Cells):
            raise TypeError(f"X is a {type(X).__name__}; EntryKFold splits nmar.Cells, not rows of a matrix")
        n = len(X)
        if n < self.n_splits:
            raise ValueError(f"n_splits={self.n_splits} exceeds the {n} observed cells; lower it")
        order = np.random.default_rng(self.random_state).permutation(n) if self.shuffle else np.arange(n)
        for fold in np.array_split(order, self.n_splits):
            held_out = _mask(fold, n)
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _mask(places: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    mask = np.zeros(n, dtype=bool)
    mask[places] = True
    return mask


def refuse_overlap(name: str, one: Cells, other_name: str, other: Cells) -> None:
    """A cell that is learned from or stopped on cannot judge."""
    common = int(np.sum(other.contains(*one.align(other.rows, other.cols, unknown="drop").positions())))
    if common:
        raise ValueError(
            f"{name} and {other_name} have {common:,} of {min(len(one), len(other)):,} cells in common; a held-out"
            f" cell must be in one part only, so take them out of {name}"
        )


def without(cells: Cells, other: Cells) -> Cells:
    """The cells that are not among the other ones, whatever their values."""
    there = other.align(cells.rows, cells.cols, unknown="drop")
    return cells.select(~there.contains(*cells.positions()))
