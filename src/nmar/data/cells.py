"""The observed entries of a matrix most of whose entries are missing.

Enters: what data/constructors.py makes of tables and matrices. Leaves: `Cells`, the one form in which data reach the
models: positions and values by rows and by columns, and an `Axis` of ids on each side.
An absent cell is missing; a stored 0 is an observed 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmar.data import build
from nmar.data.axis import Axis
from nmar.data.compact import compact
from nmar.data.compressed import Compressed
from nmar.data.constructors import as_mask
from nmar.data.ids import as_positions, unknown_ids
from nmar.data.notebook import facts_table, first_ids
from nmar.data.observed import Observed

__all__ = ["Cells", "Compressed"]


class Cells(Observed):
    """Observed entries, immutable, with both orientations built once.

    Use the constructors `from_frame`, `from_arrays`, `from_scipy` and `from_dense`. Per-cell arrays
    (`row_index`, `col_index`, `values`) are in row-major order, the order of ``by(0)``.

    Parameters
    ----------
    by_row : Compressed
        The cells by rows, columns ascending within a row, each cell once.
    rows, cols : Axis
        The ids of the two sides.
    weights : array, optional
        How often each cell counts among the values, in row-major order; None: once.

    Examples
    --------
    >>> from nmar.data import Cells
    >>> cells = Cells.from_frame(
    ...     {"user": ["ann", "bob", "ann"], "item": [10, 10, 20], "stars": [4.0, 0.0, 5.0]},
    ...     row="user", col="item", value="stars",
    ... )
    >>> cells.shape, cells.n_observed, cells.row_ids.tolist(), cells.col_ids.tolist()
    ((2, 2), 3, ['ann', 'bob'], [10, 20])
    """

    def __len__(self) -> int:
        return self.n_observed

    def __repr__(self) -> str:
        size = f"{self.shape[0]} rows × {self.shape[1]} cols, {self.n_observed} observed"
        if not self.n_observed:
            return f"Cells({size})"
        stored = self._by[0].values
        mean, sd = stored.mean(dtype=np.float64), stored.std(dtype=np.float64)
        return f"Cells({size}, density {self.density:.3g}, values mean {mean:.4g} sd {sd:.4g})"

    def _repr_html_(self) -> str:
        """Size, values and the first ids, for a notebook."""
        found = [
            ("rows", f"{self.shape[0]:,}", first_ids(self.row_ids)),
            ("columns", f"{self.shape[1]:,}", first_ids(self.col_ids)),
            ("observed", f"{self.n_observed:,}", f"{self.density:.3g} of all cells"),
        ]
        if self.n_observed:
            y = self._by[0].values
            mean, sd = y.mean(dtype=np.float64), y.std(dtype=np.float64)
            found.append(("values", f"mean {mean:.4g}, sd {sd:.4g}", f"from {y.min():.4g} to {y.max():.4g}"))
        return facts_table("Cells", found)

    # --- other cells from these -----------------------------------------------------------------------------

    def transpose(self) -> Cells:
        """Rows and columns exchanged; no cell is sorted again.

        Returns
        -------
        Cells
            The cells of the transposed matrix.

        Examples
        --------
        >>> Cells.from_arrays([0, 2], [1, 0], [5.0, 6.0]).transpose().shape
        (2, 3)
        """
        turned = Cells(self.by(1), self.cols, self.rows, self.weights_by(1))
        turned._by[1] = self._by[0]
        return turned

    @property
    def T(self) -> Cells:
        """Rows and columns exchanged."""
        return self.transpose()

    def with_values(self, values: ArrayLike) -> Cells:
        """The same cells with other values, given in row-major order.

        Parameters
        ----------
        values : array
            One finite number per cell.

        Returns
        -------
        Cells
            The cells with the new values.

        Examples
        --------
        >>> Cells.from_arrays([0, 1], [0, 1], [1.0, 2.0]).with_values([8.0, 9.0]).values.tolist()
        [8.0, 9.0]
        """
        array = compact(build.as_values(values, "values")).copy()  # the caller keeps his array
        if len(array) != self.n_observed:
            raise ValueError(f"values has length {len(array)}, but there are {self.n_observed} cells")
        changed = Cells(self._by[0].with_values(array), self.rows, self.cols, self._weights)
        if 1 in self._by and self._order is not None:  # the sort need not be done again
            changed._by[1] = self._by[1].with_values(array[self._order])
            changed._order = self._order
        return changed

    def with_weights(self, weights: ArrayLike | None) -> Cells:
        """The same cells, each counting so often among the values (row-major); None: once.

        A weight multiplies the log density of its cell's value, in every solver and in scores. The missingness pattern
        counts every cell once, whatever its weight.

        Parameters
        ----------
        weights : array or None
            One number per cell, not negative, in row-major order.

        Returns
        -------
        Cells
            The cells with the weights.

        Examples
        --------
        >>> cells = Cells.from_arrays([0, 1], [0, 1], [1.0, 2.0]).with_weights([1.0, 3.0])
        >>> cells.weights.tolist()
        [1.0, 3.0]
        """
        array = None if weights is None else build.as_weights(weights, "weights")
        if array is not None and len(array) != self.n_observed:
            raise ValueError(f"weights has length {len(array)}, but there are {self.n_observed} cells")
        changed = Cells(self._by[0], self.rows, self.cols, array)
        changed._by, changed._order = self._by, self._order  # the sort need not be done again
        return changed

    def map_values(self, f: Callable[[NDArray[Any]], ArrayLike]) -> Cells:
        """The same cells with the values ``f(values)``; `f` is called once with the whole array.

        Parameters
        ----------
        f : callable
            From an array of values to one of the same length.

        Returns
        -------
        Cells
            The cells with the new values.

        Examples
        --------
        >>> import numpy as np
        >>> Cells.from_arrays([0, 1], [0, 1], [1.0, 100.0]).map_values(np.log10).values.tolist()
        [0.0, 2.0]
        """
        return self.with_values(f(self.values))

    def __getitem__(self, places: Any) -> Cells:
        """Some cells, by their places in row-major order or by a mask, on the same axes.

        Examples
        --------
        >>> cells = Cells.from_arrays([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0])
        >>> cells[[0, 2]].values.tolist()
        [1.0, 3.0]
        """
        mask = np.zeros(len(self), np.bool_)
        chosen = np.asarray(places[0] if isinstance(places, tuple) else places)  # scikit-learn: cells[places, ...]
        rows = self.shape[0]
        if isinstance(places, tuple) and rows / 2 < len(chosen) < rows < len(self) and chosen.max() == rows - 1:
            raise ValueError(
                f"these are positions of {rows} rows, but the entries of Cells are their {len(self):,} cells; pass"
                " cv=nmar.EntryKFold(5), which divides cells"
            )
        mask[chosen] = True
        return self.select(mask)

    def select(self, mask: ArrayLike) -> Cells:
        """The cells where `mask` (one boolean per cell, row-major) is true, on the same axes.

        Parameters
        ----------
        mask : array-like of bool
            One entry per cell, in row-major order.

        Returns
        -------
        Cells
            The chosen cells.

        Examples
        --------
        >>> cells = Cells.from_arrays([0, 0, 1], [0, 1, 0], [5.0, 6.0, 7.0])
        >>> cells.select(cells.values > 5.5).n_observed
        2
        """
        chosen = as_mask(mask, (self.n_observed,))
        weights = None if self._weights is None else self._weights[chosen]
        return Cells(self._by[0].select(chosen), self.rows, self.cols, weights)

    def take_rows(self, positions: Any) -> Cells:
        """The chosen rows (positions or a boolean mask), in that order, on the same columns.

        Parameters
        ----------
        positions : array-like of int or bool
            Positions of rows, or one boolean per row.

        Returns
        -------
        Cells
            The cells of the chosen rows.

        Examples
        --------
        >>> Cells.from_arrays([0, 1, 2], [0, 1, 0], [5.0, 6.0, 7.0]).take_rows([2, 0]).row_ids.tolist()
        [2, 0]
        """
        chosen = as_positions(positions, len(self.rows))
        weights = None if self._weights is None else self._by[0].with_values(self._weights).take(chosen).values
        return Cells(self._by[0].take(chosen), self.rows.take(chosen), self.cols, weights)

    def align(
        self, rows: Axis | None = None, cols: Axis | None = None, unknown: Literal["error", "drop"] = "error"
    ) -> Cells:
        """The same cells on other axes (those of a fitted model, say).

        Parameters
        ----------
        rows, cols : Axis, optional
            The new axes; by default the present ones.
        unknown : {"error", "drop"}, default="error"
            What to do with a cell whose row or column is not on the new axes.

        Returns
        -------
        Cells
            The cells on the new axes.

        Examples
        --------
        >>> train = Cells.from_frame({"u": ["a", "b"], "i": [1, 2], "y": [4.0, 5.0]}, row="u", col="i", value="y")
        >>> new = Cells.from_frame({"u": ["b", "c"], "i": [1, 1], "y": [3.0, 2.0]}, row="u", col="i", value="y")
        >>> new.align(train.rows, train.cols, unknown="drop").to_frame().to_numpy().tolist()
        [['b', 1, 3.0]]
        """
        if unknown not in ("error", "drop"):
            raise ValueError(f"unknown={unknown!r} is not a policy; use 'error' or 'drop'")
        new_rows = self.rows if rows is None else rows
        new_cols = self.cols if cols is None else cols
        if new_rows == self.rows and new_cols == self.cols:
            return self
        row = _move(self.rows, new_rows, self.row_index, "rows", unknown)
        col = _move(self.cols, new_cols, self.col_index, "cols", unknown)
        kept = (row >= 0) & (col >= 0)
        # No cell may be left; the answer is still Cells, on the axes asked for.
        weights = None if self._weights is None else self._weights[kept]
        values = self._by[0].values[kept]
        return self._compressed(row[kept], col[kept], values, new_rows, new_cols, "error", weights)

    def concat(self, other: Cells, duplicates: build.Duplicates = "error") -> Cells:
        """These cells and those of `other`, joined by id; ids not seen here are appended to the axes.

        Parameters
        ----------
        other : Cells
            More cells.
        duplicates : {"error", "last", "mean", "sum"}, default="error"
            What to do with a cell that both have; with "last" the value in `other` wins.

        Returns
        -------
        Cells
            The cells of both.

        Examples
        --------
        >>> first, second = Cells.from_arrays([0], [0], [1.0]), Cells.from_arrays([0, 1], [0, 0], [2.0, 3.0])
        >>> first.concat(second, duplicates="last").values.tolist()
        [2.0, 3.0]
        """
        rows, cols = self.rows.extend(other.row_ids), self.cols.extend(other.col_ids)
        mine, theirs = self.align(rows, cols), other.align(rows, cols)
        row = np.concatenate([mine.row_index, theirs.row_index])
        col = np.concatenate([mine.col_index, theirs.col_index])
        values = np.concatenate([mine.by(0).values, theirs.by(0).values])  # float64 if one of them is
        weights = None
        if mine._weights is not None or theirs._weights is not None:
            counts = (np.ones(len(part)) if part._weights is None else part._weights for part in (mine, theirs))
            weights = np.concatenate(list(counts))
        return self._compressed(row, col, values, rows, cols, duplicates, weights)

    def split(
        self,
        test: float = 0.2,
        valid: float = 0.01,
        seed: int = 0,
        by: Literal["cells", "rows", "time"] = "cells",
        time: Cells | None = None,
    ) -> tuple[Cells, Cells, Cells]:
        """(train, valid, test): random cells, whole rows, or the latest cells (`time`); see `nmar.data.split`.

        Parameters
        ----------
        test, valid : float
            Fractions, at least 0, together less than 1; 0 gives a part without cells.
        seed : int, default=0
            Seed of the random choice.
        by : {"cells", "rows", "time"}, default="cells"
            What is held out: cells at random, whole rows, or the latest cells.
        time : Cells, optional
            The same cells with their times as values, for ``by="time"``.

        Returns
        -------
        train, valid, test : Cells
            On the same axes, without a cell in common, together all cells.

        Examples
        --------
        >>> import numpy as np
        >>> cells = Cells.from_arrays(np.arange(100) // 10, np.arange(100) % 10, np.ones(100))
        >>> [len(part) for part in cells.split(test=0.2, valid=0.1, seed=0)]
        [70, 10, 20]
        """
        from nmar.data.split import split

        return split(self, test=test, valid=valid, seed=seed, by=by, time=time)

    def leave_one_out(self, time: Cells | None = None, seed: int = 0) -> tuple[Cells, Cells]:
        """(train, test): the last cell of each row, or a random one, is held out; see `nmar.data.leave_one_out`.

        Parameters
        ----------
        time : Cells, optional
            The same cells with their times as values; by default the cell is chosen at random.
        seed : int, default=0
            Seed of the random choice.

        Returns
        -------
        train, test : Cells
            On the same axes.

        Examples
        --------
        >>> cells = Cells.from_arrays([0, 0, 0, 1, 1], [0, 1, 2, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0])
        >>> [len(part) for part in cells.leave_one_out(seed=0)]
        [3, 2]
        """
        from nmar.data.split import leave_one_out

        return leave_one_out(self, time=time, seed=seed)


def _move(old: Axis, new: Axis, index: NDArray[Any], argument: str, unknown: str) -> NDArray[Any]:
    """Positions on `new` of the ids at `index` on `old`, -1 where there is none."""
    if old == new:
        return index
    moved = new.positions(old.ids, unknown="prior")[index]
    if unknown == "error" and (moved < 0).any():
        lost = old.ids[np.unique(index[moved < 0])]
        # Seen by callers of transform and fold_in too, which have no such argument: so it says whose it is.
        raise unknown_ids(argument, lost, "leave their cells out (Cells.align with unknown='drop'), or extend the axis")
    return moved
