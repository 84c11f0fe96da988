"""Parameters of parameters for scikit-learn: ``data__rank`` is the rank of the data model.

Data models, linkages and solvers are frozen records, so a changed one takes the place of the old.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from sklearn.base import BaseEstimator

from nmar.fit.names import data_named
from nmar.models.settings import Factorization


class NestedParameters(BaseEstimator):
    """``get_params`` and ``set_params`` that reach into the records among the parameters."""

    data: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also those of the records among them, as ``data__rank``.

        Parameters
        ----------
        deep : bool
            Whether parameters of data model, linkage and solver are listed too.

        Examples
        --------
        >>> import nmar
        >>> nmar.CCPF(nmar.Factorization(3)).get_params()["data__rank"]
        3
        """
        found = super().get_params(deep=False)
        for name, value in list(found.items()) if deep else []:
            if is_dataclass(value) and not isinstance(value, type):
                found |= {f"{name}__{one.name}": getattr(value, one.name) for one in fields(value) if one.init}
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters, also those of the records among them (``data__rank=3``).

        Parameters
        ----------
        **params : object
            New values by name.

        Returns
        -------
        object
            The estimator itself.

        Examples
        --------
        >>> import nmar
        >>> nmar.CCPF(nmar.Factorization(3)).set_params(data__rank=5, factors=2).data.rank
        5
        """
        inner: dict[str, dict[str, Any]] = defaultdict(dict)
        for name in [name for name in params if "__" in name]:
            record, _, field = name.partition("__")
            inner[record][field] = params.pop(name)
        super().set_params(**params)
        for name, changes in inner.items():
            setattr(self, name, self._changed(name, changes))
        return self

    def _changed(self, name: str, changes: dict[str, Any]) -> Any:
        """A record with some fields changed; a data model that was not given is the default one."""
        value: Any = getattr(self, name, None)
        if name == "data" and not is_dataclass(value):
            value = Factorization() if value is None else data_named(value)
        known = {one.name for one in fields(value) if one.init} if is_dataclass(value) else set()
        strange = sorted(set(changes) - known)
        if strange:
            raise ValueError(
                f"{name}__{strange[0]} is no parameter: {name}={value!r} has {', '.join(sorted(known)) or 'none'}"
            )
        return replace(value, **changes)
