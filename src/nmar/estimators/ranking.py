"""Lists: what to offer a row, which lines are alike, and what the factors are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.labels import Labels, labelled, labels_of
from nmar.data.outside import as_frame
from nmar.estimators.fitted import FittedModel
from nmar.models.arguments import check_choice
from nmar.posterior.recommend import Ranked, products, recommend, recommendable, similar

if TYPE_CHECKING:
    import pandas


class Ranking(FittedModel):
    """Recommendations and similar lines."""

    def recommend(
        self,
        rows: ArrayLike | None = None,
        n: int = 10,
        exclude_seen: bool = True,
        by: Literal["value", "observed", "expected", "regression"] = "value",
        seen: Any = None,
        unknown: Literal["error", "prior"] = "error",
        labels: Labels | None = None,
        candidates: Any = None,
    ) -> tuple[Array, Array]:
        """The ``n`` best columns of each row, by expected value, P(observed), their product, or a regression.

        Parameters
        ----------
        rows : array-like or None, default=None
            Row ids; those without cells must have covariates. None: all rows of the fit.
        n : int, default=10
            Largest number of columns for each row.
        exclude_seen : bool, default=True
            Whether to leave out columns that were observed in training, or those of ``seen``.
        by : {"value", "observed", "expected", "regression"}, default="value"
            What columns are ranked by: E[y | observed], P(observed), or their product. "regression" finds more of what
            will be observed: the mean of P(observed) and of its least-squares prediction from the observed cells of the
            row, a ridge regression on the columns' weights in the pattern.
        seen : Cells or array-like or None, default=None
            Observed cells of the rows instead of the training cells, which a loaded model has only if they were saved
            with it; Cells or what ``fit`` takes. They are left out, and "regression" reads them. Ids that the model
            does not know are ignored.
        unknown : {"error", "prior"}, default="error"
            What to do with rows that have neither cells nor covariates: raise an error, or use the prior.
        labels : dict, Series, table or None, default=None
            Names of columns to return in place of ids: a dict or a pandas Series by id, or a table whose first two
            columns are ids and names. A column without a name keeps its id.
        candidates : Cells or array-like or None, default=None
            Columns that may be listed: their ids, or Cells for candidates of each row, whose values do not count. None:
            all columns.

        Returns
        -------
        ids : ndarray of shape (rows, m)
            Columns, best first. m is ``n``, or fewer if no row has so many columns left. A row with fewer than m is
            filled up with the id None (ids are then an array of objects); a seen column never takes the place.
        scores : ndarray of shape (rows, m)
            Scores of these columns, NaN where the id is None.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> ids, scores = model.recommend([0, 1], n=2, by="observed")
        >>> ids.shape, scores.shape
        ((2, 2), (2, 2))
        """
        known = self._fitted()
        reads = by == "regression"
        if not exclude_seen and not reads and seen is not None:
            raise ValueError("exclude_seen=False and seen= contradict each other; leave one of them out")
        there = self._left_out(seen) if exclude_seen or reads else None
        longer, lines = recommendable(known, known.rows.ids if rows is None else rows, by, unknown)
        among = None if candidates is None else self._candidates(candidates)
        which, score = self._ranked(Ranked(longer, n, by, there, exclude_seen, among), lines)
        return _named(known.cols, which, labels), score

    def recommend_frame(self, rows: ArrayLike | None = None, n: int = 10, **how: Any) -> pandas.DataFrame:
        """:meth:`recommend` as a pandas frame with a line for each row and rank.

        Parameters
        ----------
        rows : array-like or None, default=None
            Row ids. None: all rows of the fit.
        n : int, default=10
            Largest number of columns for each row.
        **how : object
            Other arguments of :meth:`recommend`. With ``labels`` the frame has a column of names too.

        Returns
        -------
        DataFrame
            Columns "row", "rank" (from 1), "col" (ids), "label" where there are labels, and "score".

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> model.recommend_frame([0, 1], n=2, by="observed", labels={0: "first"}).shape
        (4, 5)
        """
        known = self._fitted()
        labels = labels_of(how.pop("labels", None), known.cols.ids)
        asked = known.rows.ids if rows is None else np.asarray(rows).ravel()
        return as_frame(in_lines(asked, *self.recommend(asked, n, **how), labels), "recommend_frame")

    def arrays(self, by: Literal["value", "observed"] = "value") -> dict[str, Array]:
        """Plain arrays of rows and columns whose products rank columns, for an index of nearest neighbours.

        Parameters
        ----------
        by : {"value", "observed"}, default="value"
            "value": products are E[y | observed]. "observed": products are rates Λ, and P(observed) is 1 − exp(−Λ).

        Returns
        -------
        dict
            ``rows`` (rows, k) and ``cols`` (columns, k), float32, with ``row_ids`` and ``col_ids``. ``rows @ cols.T``
            is what ``by`` says, to the precision of float32, without the bounds of ratings.

        Examples
        --------
        >>> import numpy as np
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> plain = model.arrays()
        >>> bool(np.allclose(plain["rows"][3] @ plain["cols"][5], model.predict_entries([3], [5]), atol=1e-5))
        True
        """
        check_choice("by", by, ("value", "observed"))
        known = self._fitted()
        rows, cols = products(known, by)
        found = {"rows": rows.astype(np.float32), "cols": cols.astype(np.float32)}
        return {**found, "row_ids": known.rows.ids, "col_ids": known.cols.ids}

    def _ranked(self, given: Ranked, lines: Array) -> tuple[Array, Array]:
        """Positions and scores of the best columns of some rows."""
        return recommend(given, lines)

    def _candidates(self, given: Any) -> Cells | Array:
        """Columns that may be listed: positions, or cells on the model's axes."""
        known = self._fitted()
        if isinstance(given, Cells):
            return given.align(known.rows, known.cols, unknown="drop")
        return known.cols.positions(given, argument="candidates", remedy="name columns that were fitted")

    def _left_out(self, seen: Any) -> Cells:
        known = self._fitted()
        if seen is not None:
            return as_cells(seen, "seen").align(known.rows, known.cols, unknown="drop")
        if self._seen is None:
            raise ValueError(
                "exclude_seen=True and by='regression' need the training cells, which this loaded model does not hold;"
                " pass them as seen=, or save the model with save(path, seen=True)"
            )
        seen = self._seen
        same = seen.rows == known.rows and seen.cols == known.cols
        return seen if same else seen.align(known.rows, known.cols, unknown="drop")

    def similar(
        self,
        ids: ArrayLike,
        n: int = 10,
        axis: Literal["rows", "cols"] = "cols",
        by: Literal["value", "observed"] = "value",
        labels: Labels | None = None,
    ) -> tuple[Array, Array]:
        """The ``n`` lines most like each of these.

        Parameters
        ----------
        ids : array-like
            Ids of columns, or of rows.
        n : int, default=10
            Largest number of lines for each of them.
        axis : {"rows", "cols"}, default="cols"
            Whether the ids are of columns or of rows.
        by : {"value", "observed"}, default="value"
            "value": the correlation of their expected values over the other axis, less those of the average line;
            "observed": the same of expected counts, that is, of being observed together.
        labels : dict, Series, table or None, default=None
            Names to return in place of ids, as in :meth:`recommend`.

        Returns
        -------
        ids : ndarray of shape (ids, n)
            The most similar lines first.
        similarities : ndarray of shape (ids, n)
            Their similarities, between −1 and 1.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(30, 12), data=nmar.Factorization(2), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Factorization(2), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> ids, similarity = model.similar([0, 1], n=3)
        >>> ids.shape, bool((similarity[:, 0] >= similarity[:, 1]).all())
        ((2, 3), True)
        """
        check_choice("axis", axis, ("rows", "cols"))
        check_choice("by", by, ("value", "observed"))
        known, where = self._fitted(), ("rows", "cols").index(axis)
        lines = (known.rows, known.cols)[where]
        wanted = lines.positions(ids, argument="ids", remedy=f"name {axis} that were fitted")
        which, score = similar(known, where, wanted, n, by)
        return _named(lines, which, labels), score


def in_lines(asked: Array, ids: Array, score: Array, labels: dict[Any, Any] | None = None) -> dict[str, Array]:
    """Lists as columns of a table: row, rank, col, label where there are labels, and score."""
    listed = np.isfinite(score)  # where a row has no more columns to offer there is none
    row, rank = np.nonzero(listed)
    table = {"row": np.asarray(asked)[row], "rank": rank + 1, "col": ids[listed]}
    if labels is not None:
        table["label"] = labelled(table["col"], labels)
    return {**table, "score": score[listed]}


def _named(axis: Axis, which: Array, labels: Labels | None = None) -> Array:
    """Ids or labels of positions; None where there is none."""
    ids = labelled(np.asarray(axis.ids)[which], labels_of(labels, axis.ids))
    if (which < 0).any():
        ids = ids.astype(object)
        ids[which < 0] = None
    return ids
