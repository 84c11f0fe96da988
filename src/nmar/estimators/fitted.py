"""A fitted model as :class:`nmar.CCPF` keeps it, and what all questions to it begin with."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from sklearn import get_config
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, validate_data

from nmar.data import outside
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.notebook import facts_table, first_ids
from nmar.estimators.nested import NestedParameters
from nmar.estimators.stored import record_of
from nmar.evaluate.notes import POPULATIONS
from nmar.posterior.posterior import Posterior
from nmar.posterior.questions import Target, about
from nmar.posterior.store import save as save_record
from nmar.report.described import model_facts


class FittedModel(NestedParameters):
    """What a fit leaves, read by all methods that ask for something."""

    posterior_: Posterior
    n_jobs: int | None
    _seen: Cells | None = None  # the cells of the fit, where they are held
    _hidden: tuple[Cells, ...] = ()  # those that were neither observed nor missing in it
    _folded = False  # whether its rows or columns are folded in

    @property
    def training_cells_(self) -> Cells | None:
        """The cells that the model was fitted to; None where it does not hold them (loaded, or from a stream)."""
        self._fitted()
        return self._seen

    @property
    def hidden_cells_(self) -> tuple[Cells, ...]:
        """The cells that were neither observed nor missing in the fit: held out, or for stopping."""
        self._fitted()
        return self._hidden

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def _fitted(self) -> Posterior:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CCPF is not fitted yet; call fit(cells) first")
        return self.posterior_

    def _about(self, target: Target) -> Posterior:
        return about(self._fitted(), target)

    def _read(self, X: Any, first: bool = False) -> Cells:
        """Cells as they are, and a table with a line per cell; a matrix, checked, with its ids or those of the fit.

        ``first`` says that they are to be fitted. Otherwise columns without ids are those of the fit, by position; rows
        are counted.
        """
        if isinstance(X, Cells) or outside.is_long(X):
            cells = as_cells(X)
            if first:
                self.n_features_in_ = cells.shape[1]
            return cells
        least = {"ensure_min_samples": 2, "ensure_min_features": 2} if first else {}
        how: dict[str, Any] = {"accept_sparse": True, "dtype": "numeric", "ensure_all_finite": "allow-nan", **least}
        if outside.is_frame(X):
            validate_data(self, X, reset=first, skip_check_array=True)  # names and number of columns
            found = outside.matrix_of(X)
            return Cells.from_matrix(replace(found, numbers=check_array(found.numbers, **how)), empty=not first)
        found = outside.matrix_of(X) if outside.library(X) else outside.Matrix(X)
        found = replace(found, numbers=validate_data(self, found.numbers, reset=first, **how))
        if not first and found.cols is None and self.__sklearn_is_fitted__():
            found = replace(found, cols=self.posterior_.cols)
        return Cells.from_matrix(found, empty=not first)

    def save(self, path: str | os.PathLike[str], seen: bool = False) -> None:
        """Write the fitted model to one file, without pickle, with the covariates it was given.

        Parameters
        ----------
        path : str or path-like
            File to write. Missing folders are made.
        seen : bool, default=False
            Whether to keep the training cells too, so that the loaded model leaves them out of recommendations
            (``recommend``), goes on learning (``partial_fit``) and recognises the rows of the fit in a matrix
            (``score``). Otherwise a model file holds no value of a cell; pass the cells later (``recommend(seen=…)``).

        Examples
        --------
        >>> import os, tempfile
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> path = os.path.join(tempfile.mkdtemp(), "m.nmar")
        >>> model.save(path, seen=True)
        >>> bool((nmar.load(path).recommend([0], n=3)[0] == model.recommend([0], n=3)[0]).all())
        True
        """
        save_record(path, record_of(self, seen))

    def _repr_html_(self) -> str:
        """Settings, and what was learned, in place of scikit-learn's diagram, which shows no results."""
        settings = " ".join(repr(self).split())
        if not self.__sklearn_is_fitted__():
            return facts_table(f"{type(self).__name__}, not fitted", [("settings", settings, "")])
        known: Any = self.posterior_
        ids = [("row ids", first_ids(known.rows.ids), ""), ("column ids", first_ids(known.cols.ids), "")]
        found = [*model_facts(self), *ids, ("settings", settings, "")]
        return facts_table(f"{type(self).__name__}, fitted", found, POPULATIONS[known.law.target])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What Jupyter asks first."""
        shown = {"text/plain": repr(self)}
        return shown if get_config()["display"] == "text" else {**shown, "text/html": self._repr_html_()}
