"""What a model learned, put where other libraries look for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmar.estimators.ccpf import CCPF
from nmar.fit.foldin import loadings


def store_factors(model: CCPF, adata: Any, key: str = "nmar") -> None:
    """Put the factors of a model into AnnData, by name of observation and variable.

    Parameters
    ----------
    model : fitted CCPF
    adata : AnnData
        Changed in place: ``obsm["X_key"]`` and ``varm["key"]`` get the posterior mean factors of the values,
        ``obsm["X_key_pattern"]`` and ``varm["key_pattern"]`` those of the missingness pattern. Lines that the model
        does not know are NaN.
    key : str
        Name of the factors.

    Examples
    --------
    >>> import anndata, numpy as np, nmar
    >>> values = np.random.default_rng(0).normal(size=(20, 8))
    >>> values[::2, ::3] = np.nan
    >>> adata = anndata.AnnData(values)
    >>> model = nmar.CCPF(nmar.Factorization(2), "linear", factors=3, max_iter=5, random_state=0).fit(adata)
    >>> nmar.store_factors(model, adata)
    >>> adata.obsm["X_nmar"].shape, adata.varm["nmar_pattern"].shape
    ((20, 2), (8, 3))
    """
    known = model._fitted()
    ends = ((known.rows, adata.obs_names, adata.obsm, "X_"), (known.cols, adata.var_names, adata.varm, ""))
    for axis, (ids, names, store, prefix) in enumerate(ends):
        places = ids.positions(np.asarray(names), "prior")
        if (places < 0).all():
            raise ValueError(
                f"adata: none of its {('obs_names', 'var_names')[axis]} is known to the model, e.g. {names[0]!r};"
                " fit the model to this AnnData, or rename them"
            )
        pattern = known.law.pattern.factors_of(known.state.sides[axis].pattern).mean
        parts = {"": loadings(known, axis), "_pattern": pattern}
        for suffix, factors in parts.items():
            found = np.asarray(factors, np.float64)[places]
            found[places < 0] = np.nan
            store[f"{prefix}{key}{suffix}"] = found
