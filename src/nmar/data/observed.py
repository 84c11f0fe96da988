"""What :class:`nmar.Cells` holds: positions, values and weights by rows and by columns, and the ids of both axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from nmar.data import build
from nmar.data.axis import Axis
from nmar.data.compressed import Compressed
from nmar.data.constructors import Constructors
from nmar.data.outside import as_frame

if TYPE_CHECKING:
    import pandas


class Observed(Constructors):
    """The observed entries themselves; :class:`nmar.Cells` makes other cells from them."""

    def __init__(self, by_row: Compressed, rows: Axis, cols: Axis, weights: NDArray[Any] | None = None) -> None:
        if (by_row.n, by_row.n_other) != (len(rows), len(cols)):
            raise ValueError(
                f"by_row is {by_row.n} x {by_row.n_other} but the axes are {len(rows)} x {len(cols)}; they must agree"
            )
        self._by: dict[int, Compressed] = {0: by_row}
        self._order: NDArray[np.int64] | None = None
        self._weights = weights
        self._turned_weights: NDArray[Any] | None = None
        self.rows = rows
        self.cols = cols

    # --- what there is --------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of columns), those without observed cells included."""
        return len(self.rows), len(self.cols)

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return self._by[0].n_cells

    @property
    def density(self) -> float:
        """Share of the cells that is observed."""
        total = len(self.rows) * len(self.cols)
        return self.n_observed / total if total else 0.0

    @property
    def row_ids(self) -> NDArray[Any]:
        """Row ids in the order of their positions."""
        return self.rows.ids

    @property
    def col_ids(self) -> NDArray[Any]:
        """Column ids in the order of their positions."""
        return self.cols.ids

    @property
    def row_index(self) -> NDArray[Any]:
        """Row position of each cell, in row-major order."""
        return self._by[0].major()

    @property
    def col_index(self) -> NDArray[Any]:
        """Column position of each cell, in row-major order."""
        return self._by[0].indices

    @property
    def values(self) -> NDArray[np.float64]:
        """Value of each cell as float64, in row-major order: a copy.

        ``by(axis).values`` is what is stored: float32 where that holds every value exactly, otherwise float64.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_arrays([0, 1], [0, 0], [4.5, 3.0])
        >>> cells.values.dtype, cells.by(0).values.dtype
        (dtype('float64'), dtype('float32'))
        """
        return self._by[0].values.astype(np.float64)

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How often each cell counts among the values, in row-major order (a copy); None: every cell once."""
        return None if self._weights is None else self._weights.astype(np.float64)

    def weights_by(self, axis: int) -> NDArray[Any] | None:
        """The weights in the order of ``by(axis)``; built once.

        Parameters
        ----------
        axis : int
            0: by rows, 1: by columns.

        Returns
        -------
        ndarray or None
            Weights in the order of that axis; None without weights.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_arrays([0, 0, 1], [0, 1, 0], [5.0, 6.0, 7.0], weight=[1.0, 2.0, 3.0])
        >>> cells.weights_by(1).tolist()
        [1.0, 3.0, 2.0]
        """
        if self._weights is None or axis == 0:
            return self._weights
        if self._turned_weights is None:
            self._turned_weights = self._weights[self.order(axis)]
        return self._turned_weights

    @property
    def in_memory(self) -> bool:
        """Whether per-cell arrays are there; a :class:`nmar.Dataset` has none and reads its cells block by block."""
        return True

    def mean_weight(self) -> float | None:
        """Mean weight of the cells, or None where each counts once.

        Returns
        -------
        float or None
            The mean weight; None without weights.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> Cells.from_arrays([0, 1], [0, 1], [5.0, 6.0], weight=[1.0, 2.0]).mean_weight()
        1.5
        """
        return None if self._weights is None else float(self._weights.mean())

    def contains(self, row: NDArray[Any], col: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the cells at these positions are observed.

        Parameters
        ----------
        row, col : array-like of int
            Row and column positions, one of each per cell.

        Returns
        -------
        ndarray of bool
            Whether each pair of positions is observed.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> import numpy as np
        >>> cells = Cells.from_arrays([0, 1], [1, 0], [5.0, 6.0])
        >>> cells.contains(np.array([0, 0]), np.array([0, 1])).tolist()
        [False, True]
        """
        seen = self.row_index.astype(np.int64) * self.shape[1] + self.col_index
        return np.isin(row.astype(np.int64) * self.shape[1] + col, seen)

    def positions(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(row position, column position) of each cell, in row-major order: indices of arrays. Questions take ids.

        Returns
        -------
        rows, cols : ndarray of int
            Positions of the row and of the column of each cell.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_frame({"u": ["b", "a"], "i": [7, 9], "y": [1.0, 2.0]}, row="u", col="i", value="y")
        >>> [index.tolist() for index in cells.positions()]
        [[0, 1], [1, 0]]
        """
        return self.row_index, self.col_index

    def pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(row id, column id) of each cell, in row-major order: what :meth:`nmar.CCPF.predict_entries` takes.

        Returns
        -------
        rows, cols : ndarray
            Ids of the row and of the column of each cell.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_frame({"u": ["b", "a"], "i": [7, 9], "y": [1.0, 2.0]}, row="u", col="i", value="y")
        >>> [ids.tolist() for ids in cells.pairs()]
        [['a', 'b'], [9, 7]]
        """
        return self.row_ids[self.row_index], self.col_ids[self.col_index]

    def by(self, axis: int) -> Compressed:
        """The cells line by line: by rows (axis 0) or by columns (axis 1); built once.

        Parameters
        ----------
        axis : int
            0: by rows, 1: by columns.

        Returns
        -------
        Compressed
            With ``indptr`` (where each line begins), ``indices`` and ``values``.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_arrays([0, 0, 1], [0, 1, 0], [5.0, 6.0, 7.0])
        >>> cells.by(1).indptr.tolist(), cells.by(1).values.tolist()
        ([0, 2, 3], [5.0, 7.0, 6.0])
        """
        if axis not in (0, 1):
            raise ValueError(f"axis={axis!r}: use 0 (rows) or 1 (columns)")
        if axis not in self._by:
            self._by[1] = build.turn(self._by[0])
        return self._by[axis]

    def order(self, axis: int) -> NDArray[np.int64]:
        """For each cell of ``by(axis)``, the place of the same cell in ``by(0)``; built once.

        A per-cell array ``a`` in row-major order is ``a[cells.order(1)]`` by columns.

        Parameters
        ----------
        axis : int
            0: by rows, 1: by columns.

        Returns
        -------
        ndarray of int
            Positions of the cells in row-major order.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> cells = Cells.from_arrays([0, 0, 1], [0, 1, 0], [5.0, 6.0, 7.0])
        >>> cells.order(1).tolist(), cells.values[cells.order(1)].tolist()
        ([0, 2, 1], [5.0, 7.0, 6.0])
        """
        if axis == 0:
            return np.arange(self.n_observed, dtype=np.int64)
        if axis != 1:
            raise ValueError(f"axis={axis!r}: use 0 (rows) or 1 (columns)")
        if self._order is None:
            places = np.arange(self.n_observed, dtype=np.int64)
            self._order = build.turn(self._by[0].with_values(places)).values
        return self._order

    # --- to other libraries ---------------------------------------------------------------------------------

    def to_scipy(self) -> sparse.csr_array:
        """A csr array of float64 (a copy) that stores exactly the observed cells, zeros included.

        Returns
        -------
        scipy.sparse.csr_array
            A sparse matrix that stores the observed cells.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> Cells.from_arrays([0, 1], [0, 1], [0.0, 2.0]).to_scipy().nnz
        2
        """
        return build.as_matrix(self._by[0].with_values(self.values)).copy()

    def to_frame(self, row: str = "row", col: str = "col", value: str = "value") -> pandas.DataFrame:
        """A pandas frame with one line per cell: row id, column id, value.

        Parameters
        ----------
        row, col, value : str
            Names of its columns; cells with weights have a fourth, ``weight``.

        Returns
        -------
        DataFrame
            One line per cell.

        Examples
        --------
        >>> from nmar.data import Cells
        >>> Cells.from_arrays([0, 1], [1, 0], [4.0, 5.0]).to_frame("user", "item", "stars").columns.tolist()
        ['user', 'item', 'stars']
        """
        ids = self.pairs()
        columns = {row: ids[0], col: ids[1], value: self.values}
        return as_frame(columns if self._weights is None else columns | {"weight": self.weights}, "to_frame()")
