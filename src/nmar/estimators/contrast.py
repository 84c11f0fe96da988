"""Two groups of a table with missing cells, from the table to a test of each row."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from nmar.arrays import Array
from nmar.data import outside
from nmar.data.cells import Cells
from nmar.estimators.ccpf import CCPF
from nmar.evaluate.groups import GroupTest, group_test, two_groups
from nmar.fit.problem import seed_sequence
from nmar.models.arguments import check_choice, check_count
from nmar.models.settings import Factorization

__all__ = ["compare_groups"]

LARGEST = 10  # rank of the default model
PER_FACTOR = 6  # columns of a group for each of its factors


def compare_groups(
    X: Any,
    groups: ArrayLike,
    model: CCPF | None = None,
    *,
    axis: Literal["rows", "cols"] = "rows",
    index: str | None = None,
    n: int = 20,
    random_state: Any = 0,
    level: float = 0.95,
) -> GroupTest:
    """Test for each row of a table with missing cells whether two groups of columns differ.

    Each group is completed ``n`` times by a model that is fitted to its columns alone, so that imputed values do not
    draw the groups together; the completed tables are tested by :func:`nmar.group_test`.

    Parameters
    ----------
    X : array-like, or pandas or polars table
        Values, NaN or null where missing; intensities as logarithms.
    groups : array-like
        Group of each column: two different values, which are compared in ascending order.
    model : CCPF or None, default=None
        What each group is completed by, which is cloned. None: ``CCPF(Factorization(k), mechanism="value")`` with a
        factor for every six columns of the smaller group, at most 10: low, or high, values are missing more often.
    axis : {"rows", "cols"}, default="rows"
        Which lines are tested. "cols": one test for each column, and ``groups`` has the group of each row.
    index : str or None, default=None
        Column of a table that holds ids instead of numbers.
    n : int, default=20
        Number of completed tables.
    random_state : int, Generator or None, default=0
        Seed of the fits and of the draws.
    level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    GroupTest
        With ``frame()`` and ``text()``; :func:`nmar.plot.volcano` draws it.

    Notes
    -----
    That low values are missing more often is an assumption of the default model; :func:`nmar.why_missing` says what
    the table knows of it. Rows without any value in one group are tested with what the model says of them, and their
    errors are large.

    Examples
    --------
    >>> import numpy as np
    >>> import nmar
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(25.0, 2.0, (60, 1)) + 0.4 * rng.normal(size=(60, 12))
    >>> table[:6, 6:] -= 2.0
    >>> table[rng.random(table.shape) > 1.0 / (1.0 + np.exp(23.0 - table))] = np.nan
    >>> found = nmar.compare_groups(table, ["a"] * 6 + ["b"] * 6, n=5)
    >>> found.difference.shape
    (60,)
    """
    check_choice("axis", axis, ("rows", "cols"))
    check_count("n", n, 2)
    table = outside.wide(X, index, "X") if outside.is_frame(X) else outside.matrix_of(np.asarray(X, np.float64))
    numbers, ids = (table.numbers, table.rows) if axis == "rows" else (table.numbers.T, table.cols)
    names, which = two_groups(groups, numbers.shape[1], axis)
    if model is None:
        rank = int(np.clip(np.bincount(which).min() // PER_FACTOR, 1, LARGEST))
        model = CCPF(Factorization(rank), mechanism="value")
    completed = np.empty((n, *numbers.shape))
    for group, stream in enumerate(seed_sequence(random_state).spawn(2)):
        seeds = [int(seed) for seed in stream.generate_state(2)]
        completed[:, :, which == group] = _completed(np.asarray(numbers[:, which == group]), model, n, seeds)
    labels = np.arange(len(numbers)) if ids is None else ids.ids
    return group_test(completed, np.asarray(names)[which], ids=labels, level=level)


def _completed(numbers: Array, model: CCPF, n: int, seeds: list[int]) -> Array:
    """Completed tables (n, rows, columns) of one group."""
    if not np.isnan(numbers).any():
        return np.broadcast_to(numbers, (n, *numbers.shape))
    fitted = clone(model).set_params(random_state=seeds[0]).fit(Cells.from_dense(numbers))
    found = fitted.impute(n=n, seed=seeds[1])
    return np.stack([found.array(k) for k in range(n)])
