"""The estimator on a Dask cluster: fits, scores and recommendations as tasks, frames of Dask in and out."""

from __future__ import annotations

import os
import secrets
from functools import lru_cache
from typing import Any, Self

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.data.manifest import find_manifest
from nmar.data.storage import Storage
from nmar.estimators import ccpf
from nmar.estimators.where import Where
from nmar.posterior.recommend import Ranked, recommend
from nmar.posterior.streamed import recommend_all


def is_frame(X: Any) -> bool:
    """Whether this is a Dask dataframe."""
    return hasattr(X, "dask") and hasattr(X, "to_parquet")


def dataset(
    frame: Any, store: str, row: str | None = None, col: str | None = None, value: str | None = None
) -> Dataset:
    """A dataset of a Dask dataframe with one line per observed cell.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        One line per cell.
    store : str
        Folder of the dataset that all workers can read; the frame is written beside it as Parquet, in place of an
        earlier one. A store that holds a dataset is refused.
    row, col, value : str or None, default=None
        Names of the columns. Default: those called row, col and value.

    Returns
    -------
    Dataset
        The cells on disk.
    """
    if find_manifest(Storage(store)) is not None:
        raise ValueError(f"store={store!r} holds a dataset already; open it, nmar.Dataset({store!r}), or remove it")
    source = f"{store.rstrip('/')}-parquet"
    frame.to_parquet(source, write_index=False, overwrite=True)  # parts of a longer frame must not stay behind
    return Dataset(source, store, row=row, col=col, value=value)


class CCPF(ccpf.CCPF):
    """:class:`nmar.CCPF` whose work is done on a Dask cluster, to the same bits.

    It has the same parameters. Set ``client`` for another client than that of the process, and ``scratch`` to a folder
    that this process can write to and all workers can read; without one the folder of the dataset is used.

    Examples
    --------
    >>> import nmar.dask
    >>> model = nmar.dask.CCPF(nmar.Factorization(2), "linear", factors=3)
    >>> model.client is None  # that of the process
    True
    """

    client: Any = None
    scratch: str | os.PathLike[str] | None = None

    def fit(self, X: Any, y: None = None, **given: Any) -> Self:  # type: ignore[override]
        """Learn from a Dataset, a Dask dataframe of cells (row, column, value) or Cells; see :meth:`nmar.CCPF.fit`."""
        if is_frame(X):
            if self.scratch is None:
                raise ValueError("a Dask dataframe is written to files first: set scratch to a folder for them")
            X = dataset(X, os.path.join(os.fspath(self.scratch), f"frame-{secrets.token_hex(4)}"))
        return super().fit(X, y, executor="dask", client=self.client, scratch=self.scratch, **given)

    def _running(self, cells: Cells) -> Any:
        return Where("dask", self.client, self.scratch).running(cells, self.n_jobs)

    def _ranked(self, given: Ranked, lines: Array) -> tuple[Array, Array]:
        where = given.seen if given.seen is not None else self._seen
        if where is None or where.in_memory:
            return recommend(given, lines)
        with self._running(where) as executor:
            return recommend_all(given, lines, executor)

    def predict_frame(self, frame: Any, row: str | None = None, col: str | None = None) -> Any:
        """Expected values of the entries of a Dask dataframe, as a Dask series.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            One line per pair of ids.
        row, col : str or None, default=None
            Names of the columns with the ids. Default: the first two.
        """
        if self.scratch is None:
            raise ValueError("the model is written to a file that workers read: set scratch to a folder for it")
        names = list(frame.columns)
        path = os.path.join(os.fspath(self.scratch), f"model-{secrets.token_hex(4)}.nmar")
        self.save(path)
        chosen = (row or names[0], col or names[1])
        return frame.map_partitions(_predict_part, path, *chosen, meta=("prediction", np.float64))


@lru_cache(maxsize=2)
def _loaded(path: str) -> ccpf.CCPF:
    return ccpf.load(path)


def _predict_part(part: Any, path: str, row: str, col: str) -> Any:
    """Predictions for one part of a frame."""
    import pandas

    values = _loaded(path).predict_entries(part[row].to_numpy(), part[col].to_numpy()) if len(part) else []
    return pandas.Series(values, part.index, np.float64, "prediction")
