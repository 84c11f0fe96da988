"""Constructors of `Cells`: one for each kind of table or matrix that cells come in.

Enters: a data frame, triplets, a scipy sparse matrix, a dense array, AnnData, a torch tensor. Leaves: cells, sorted and
checked (data/build.py). What can be asked of cells that are there is in data/cells.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from nmar.data import build, outside
from nmar.data.axis import Axis
from nmar.data.compressed import Compressed

__all__ = ["Constructors", "as_mask"]


class Constructors(ABC):
    """Ways to make cells; the result is an instance of the class that is called."""

    @abstractmethod
    def __init__(self, by_row: Compressed, rows: Axis, cols: Axis, weights: NDArray[Any] | None = None) -> None:
        """From ordered cells and the ids of both sides."""

    @abstractmethod
    def by(self, axis: int) -> Compressed:
        """The cells line by line."""

    @classmethod
    def from_frame(
        cls,
        df: Any,
        row: str,
        col: str,
        value: str,
        duplicates: build.Duplicates = "error",
        rows: Axis | None = None,
        cols: Axis | None = None,
        weight: str | None = None,
    ) -> Self:
        """Cells from a table with one line per observed entry.

        Parameters
        ----------
        df : DataFrame, pyarrow.Table or dict
            One line per cell.
        row, col, value : str
            Names of the columns that hold the row id, the column id and the observed value. Ids may be of any
            kind: integers, strings, dates, mixtures.
        duplicates : {"error", "last", "mean", "sum"}, default="error"
            What to do with a cell that occurs more than once.
        rows, cols : Axis, optional
            Axes to place the ids on (those of a training set, say); by default the distinct ids, sorted.
        weight : str, optional
            Name of a column that says how often each cell counts among the values (:meth:`with_weights`).

        Returns
        -------
        Cells

        Examples
        --------
        >>> from nmar.data import Cells
        >>> df = {"u": ["a", "a"], "i": ["x", "x"], "y": [1.0, 3.0]}
        >>> Cells.from_frame(df, row="u", col="i", value="y", duplicates="mean").values.tolist()
        [2.0]
        """
        build.check_duplicates_policy(duplicates)
        named = {"row": row, "col": col, "value": value} | ({} if weight is None else {"weight": weight})
        columns = build.frame_columns(df, **named)
        values = build.as_values(columns["value"], f"value={value!r}")
        rows, row_index = build.place_ids(columns["row"], "row", rows)
        cols, col_index = build.place_ids(columns["col"], "col", cols)
        build.check_lengths(row=row_index, col=col_index, value=values)
        weights = None if weight is None else build.as_weights(columns["weight"], f"weight={weight!r}")
        return cls._compressed(row_index, col_index, values, rows, cols, duplicates, weights)

    @classmethod
    def _compressed(
        cls,
        row: NDArray[Any],
        col: NDArray[Any],
        values: NDArray[Any],
        rows: Axis,
        cols: Axis,
        duplicates: build.Duplicates,
        weights: NDArray[Any] | None,
    ) -> Self:
        """Sorted cells; of duplicates with weights the last one's counts, or the sum of all."""
        by_row = build.compress(row, col, values, rows, cols, duplicates)
        if weights is None:
            return cls(by_row, rows, cols)
        build.check_lengths(value=values, weight=weights)
        build.check_weights_policy(duplicates)
        return cls(by_row, rows, cols, build.compress(row, col, weights, rows, cols, duplicates).values)

    @classmethod
    def from_arrays(
        cls,
        row: ArrayLike,
        col: ArrayLike,
        value: ArrayLike,
        shape: tuple[int, int] | None = None,
        duplicates: build.Duplicates = "error",
        weight: ArrayLike | None = None,
    ) -> Self:
        """Cells from integer positions; the ids are the positions themselves.

        Parameters
        ----------
        row, col : array-like of int
            Positions, counted from 0.
        value : float array
            Observed values, all finite.
        shape : (int, int), optional
            Size of the matrix; by default the largest positions plus 1.
        duplicates : {"error", "last", "mean", "sum"}, default="error"
            What to do with a cell that occurs more than once.
        weight : float array, optional
            How often each cell counts among the values (:meth:`with_weights`).

        Returns
        -------
        Cells

        Examples
        --------
        >>> from nmar.data import Cells
        >>> Cells.from_arrays([0, 2], [1, 0], [5.0, 0.0]).shape
        (3, 2)
        """
        size = (None, None) if shape is None else build.as_shape(shape)
        row_index = build.as_index(row, "row", size[0])
        col_index = build.as_index(col, "col", size[1])
        values = build.as_values(value)
        build.check_lengths(row=row_index, col=col_index, value=values)
        rows = Axis.range(size[0] or build.infer_size(row_index, "row"))
        cols = Axis.range(size[1] or build.infer_size(col_index, "col"))
        weights = None if weight is None else build.as_weights(weight, "weight")
        return cls._compressed(row_index, col_index, values, rows, cols, duplicates, weights)

    @classmethod
    def from_scipy(cls, X: Any, duplicates: build.Duplicates = "error") -> Self:
        """Cells from a scipy sparse matrix: what is stored is observed, explicit zeros included.

        Parameters
        ----------
        X : sparse matrix or array
            Matrix of SciPy, in any of its formats csr, csc, coo, dok or lil.
        duplicates : {"error", "last", "mean", "sum"}, default="error"
            What to do with a cell that occurs more than once.

        Returns
        -------
        Cells

        Examples
        --------
        >>> import numpy as np, scipy.sparse as sparse
        >>> from nmar.data import Cells
        >>> stored = sparse.coo_array((np.array([4.0, 0.0]), (np.array([0, 1]), np.array([2, 0]))), shape=(2, 3))
        >>> Cells.from_scipy(stored).n_observed
        2
        """
        if not sparse.issparse(X):
            raise ValueError(f"X of type {type(X).__name__} is not a scipy sparse matrix; try Cells.from_dense")
        if X.format in ("dia", "bsr"):
            raise ValueError(
                f"X in format {X.format!r} cannot tell a stored 0 from a missing cell; pass X.tocsr() after "
                "removing or adding zeros as you mean them"
            )
        triplets = X.tocoo()
        if triplets.nnz == 0:
            raise ValueError("X stores no entries (empty input); at least one observed cell is needed")
        return cls.from_arrays(triplets.row, triplets.col, triplets.data, X.shape, duplicates)

    @classmethod
    def from_dense(cls, A: Any, mask: ArrayLike | None = None) -> Self:
        """Cells from a dense array.

        Parameters
        ----------
        A : (rows, columns) array
            NaN marks a missing cell, as does the mask of a NumPy masked array.
        mask : array-like of bool, optional
            True where a cell is *observed*; NaN there is then an error.

        Returns
        -------
        Cells

        Examples
        --------
        >>> import numpy as np
        >>> from nmar.data import Cells
        >>> Cells.from_dense(np.array([[1.0, np.nan], [0.0, 2.0]])).n_observed
        3
        """
        array = np.asarray(A)
        if array.ndim != 2:
            raise ValueError(f"A has shape {array.shape}; pass a two-dimensional array")
        shape = build.as_shape(array.shape)
        flat = build.as_numbers(array.ravel(), "A")
        if mask is None:
            observed = ~np.isnan(flat) & ~np.ma.getmaskarray(A).ravel()
        else:
            observed = as_mask(mask, shape)
        places = np.flatnonzero(observed)
        if len(places) == 0:
            raise ValueError("A has no observed cell (empty input); at least one is needed")
        values = build.as_values(flat[places], "A")
        row, col = np.divmod(places, shape[1])
        rows, cols = Axis.range(shape[0]), Axis.range(shape[1])
        return cls(build.compress(row, col, values, rows, cols, "error"), rows, cols)

    @classmethod
    def from_wide(cls, df: Any, index: str | None = None) -> Self:
        """Cells from a table with one line for each row of the matrix; NaN and null are missing.

        Parameters
        ----------
        df : pandas, polars or pyarrow table
            All columns but ``index`` hold numbers; their names are the column ids.
        index : str, optional
            Column with the row ids; by default those of a pandas index, else positions.

        Returns
        -------
        Cells

        Examples
        --------
        >>> import pandas
        >>> from nmar.data import Cells
        >>> cells = Cells.from_wide(pandas.DataFrame({"who": ["ann", "bob"], "x": [1.0, None], "y": [2.0, 3.0]}), "who")
        >>> cells.row_ids.tolist(), cells.col_ids.tolist(), cells.n_observed
        (['ann', 'bob'], ['x', 'y'], 3)
        """
        return cls.from_matrix(outside.wide(df, index))

    @classmethod
    def from_anndata(cls, adata: Any, layer: str | None = None) -> Self:
        """Cells from AnnData: what a sparse matrix stores, or what is not NaN in a dense one.

        Parameters
        ----------
        adata : AnnData
            Annotated matrix.
        layer : str, optional
            Name of a layer; by default X.

        Returns
        -------
        Cells
            Their ids are ``obs_names`` and ``var_names``. :func:`nmar.store_factors` puts the factors of a model back.

        Examples
        --------
        >>> import anndata, numpy as np
        >>> from nmar.data import Cells
        >>> adata = anndata.AnnData(np.ones((2, 2)), layers={"log": np.array([[0.5, np.nan], [2.0, 1.0]])})
        >>> Cells.from_anndata(adata, layer="log").n_observed
        3
        """
        return cls.from_matrix(outside.of_anndata(adata, layer))

    @classmethod
    def from_torch(cls, tensor: Any) -> Self:
        """Cells from a torch tensor: what is not NaN in a dense one, what a sparse one stores.

        Parameters
        ----------
        tensor : torch.Tensor
            Two-dimensional tensor, dense or sparse.

        Returns
        -------
        Cells

        Examples
        --------
        >>> import torch
        >>> from nmar.data import Cells
        >>> Cells.from_torch(torch.tensor([[1.0, float("nan")], [0.0, 2.0]])).n_observed
        3
        """
        return cls.from_matrix(outside.Matrix(outside.of_torch(tensor)))

    @classmethod
    def from_matrix(cls, matrix: outside.Matrix, empty: bool = False) -> Self:
        """Cells from numbers and, where there are some, the ids of both sides. ``empty``: no cell need be observed.

        Parameters
        ----------
        matrix : nmar.data.outside.Matrix
            A dense array with NaN where missing, or a sparse one, and an axis of ids for each side or None.
        empty : bool
            Whether a matrix without any observed cell is allowed.

        Returns
        -------
        Cells

        Examples
        --------
        >>> import numpy as np
        >>> from nmar.data import Cells
        >>> from nmar.data.outside import Matrix
        >>> Cells.from_matrix(Matrix(np.array([[1.0, np.nan], [0.0, 2.0]]))).shape
        (2, 2)
        """
        numbers = matrix.numbers
        rows, cols = matrix.rows or Axis.range(numbers.shape[0]), matrix.cols or Axis.range(numbers.shape[1])
        is_sparse = sparse.issparse(numbers)
        if empty and not (numbers.nnz if is_sparse else np.isfinite(numbers).any()):
            nothing = np.empty(0, np.int64)
            return cls(build.compress(nothing, nothing, np.empty(0), rows, cols, "error"), rows, cols)
        return cls((cls.from_scipy(numbers) if is_sparse else cls.from_dense(numbers)).by(0), rows, cols)


def as_mask(mask: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A mask of this shape, flat; anything else is refused."""
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != shape:
        raise ValueError(
            f"mask has dtype {array.dtype} and shape {array.shape}; "
            f"pass booleans of shape {shape}, True for each cell that counts"
        )
    return array.ravel()
