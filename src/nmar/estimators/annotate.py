"""What a model learned, put where other libraries look for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.outside import library
from nmar.data.seeds import check_seed
from nmar.estimators.ccpf import CCPF
from nmar.evaluate.imputer import MOST, Imputer, child
from nmar.fit.problem import seed_sequence
from nmar.models.arguments import check_count
from nmar.posterior.joint import values_given, with_pattern_drawn
from nmar.posterior.learned import loadings
from nmar.posterior.posterior import Posterior, log_density


def store_factors(model: Any, adata: Any, key: str = "nmar") -> None:
    """Put the factors of a model into AnnData, by name of observation and variable.

    Parameters
    ----------
    model : CCPF
        Fitted model. Model and AnnData may come in either order; scanpy's functions have AnnData first.
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
    model, adata = _in_order(model, adata)
    known = model._fitted()
    ends = ((adata.obsm, "X_"), (adata.varm, ""))
    for axis, (places, (store, prefix)) in enumerate(zip(_places(known, adata), ends, strict=True)):
        pattern = known.law.pattern.factors_of(known.state.sides[axis].pattern).mean
        parts = {"": loadings(known, axis), "_pattern": pattern}
        for suffix, factors in parts.items():
            found = np.asarray(factors, np.float64)[places]
            found[places < 0] = np.nan
            store[f"{prefix}{key}{suffix}"] = found


def store_layers(model: Any, adata: Any, key: str = "nmar") -> None:
    """Put the completed matrix and its uncertainty into layers of AnnData, by name of observation and variable.

    Parameters
    ----------
    model : CCPF
        Fitted model. Model and AnnData may come in either order.
    adata : AnnData
        Changed in place: ``layers["key"]`` gets the observed values of the fit, where the model holds them, and
        E[y | observed] elsewhere, ``layers["key_sd"]`` standard deviations (0 for observed values), and
        ``layers["key_observed"]`` P(observed). All three are dense. Lines that the model does not know are NaN.
    key : str
        Name of the layers.

    Examples
    --------
    >>> import anndata, numpy as np, nmar
    >>> values = np.random.default_rng(0).normal(size=(20, 8))
    >>> values[::2, ::3] = np.nan
    >>> adata = anndata.AnnData(values)
    >>> model = nmar.CCPF(nmar.Factorization(2), "linear", factors=3, max_iter=5, random_state=0).fit(adata)
    >>> nmar.store_layers(model, adata)
    >>> bool(np.isfinite(adata.layers["nmar"]).all()), bool((adata.layers["nmar_sd"][~np.isnan(values)] == 0.0).all())
    (True, True)
    """
    model, adata = _in_order(model, adata)
    known = model._fitted()
    rows, cols = _places(known, adata)
    here = np.ix_(rows >= 0, cols >= 0)
    i, j = (part.ravel() for part in np.meshgrid(rows[rows >= 0], cols[cols >= 0], indexing="ij"))
    mean, sd = model.predict_entries(known.rows.ids[i], known.cols.ids[j], return_std=True)
    if model.training_cells_ is not None and model.training_cells_.in_memory:
        seen = model.training_cells_.align(known.rows, known.cols)
        stored = np.full((len(known.rows), len(known.cols)), np.nan)
        stored[seen.row_index, seen.col_index] = seen.values
        there = ~np.isnan(stored[i, j])
        mean[there], sd[there] = stored[i, j][there], 0.0
    chance = model.observed_probability(known.rows.ids[i], known.cols.ids[j])
    for suffix, values in (("", mean), ("_sd", sd), ("_observed", chance)):
        layer = np.full(adata.shape, np.nan)
        layer[here] = np.reshape(values, layer[here].shape)
        adata.layers[f"{key}{suffix}"] = layer


def _in_order(model: Any, adata: Any) -> tuple[CCPF, Any]:
    """Model and AnnData, in whichever order they were given."""
    return (adata, model) if library(model) == "anndata" else (model, adata)


def _places(known: Posterior, adata: Any) -> tuple[Array, Array]:
    """Where the observations and the variables lie on the axes of a model; −1 where it does not know them."""
    found = []
    for ids, kind in ((known.rows, "obs_names"), (known.cols, "var_names")):
        names = getattr(adata, kind)
        places = ids.positions(np.asarray(names), "prior")
        if (places < 0).all():
            raise ValueError(
                f"adata: none of its {kind} is known to the model, e.g. {names[0]!r}; fit the model to this AnnData, or"
                " rename them"
            )
        found.append(places)
    return found[0], found[1]


def to_arviz(
    model: CCPF, cells: Any = None, draws: int = 200, seed: Any = None, *, sweeps: int | None = None, chains: int = 1
) -> Any:
    """Joint draws of a fitted model as ArviZ reads them.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    cells : Cells, or anything that ``fit`` takes
        Cells to draw and to score: held-out ones, or None for those the model was fitted to.
    draws : int
        Joint draws of each chain.
    seed : int, Generator or None, default=None
        Seed of the draws.
    sweeps : int, optional
        Sweeps of data augmentation between two draws, as in :meth:`nmar.CCPF.impute`; 0 draws from the mean-field
        posterior.
    chains : int, default=1
        Chains of data augmentation, each from its own draw of the fitted posterior. R-hat and effective sample sizes of
        several chains say how far data augmentation has moved from there, not whether the fit found the best mode.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        A tree, or before ArviZ 1 inference data, with four groups. ``posterior``: ``row_factors`` and ``col_factors``
        of the values, ``row_pattern`` and ``col_pattern`` of what is observed, and ``dispersion``, σ² in squared units
        of the values (κ for other families). ``posterior_predictive``, ``log_likelihood`` and ``observed_data``:
        ``value`` of each cell. Coordinates are the ids: ``row``, ``col``, and ``cell_row`` and ``cell_col`` of each
        cell. Factors may rotate and change places from fit to fit: compare what they predict.

    Examples
    --------
    >>> import nmar
    >>> cells, _ = nmar.simulate(shape=(30, 12), data=nmar.Factorization(2), density=0.5, seed=0)
    >>> train, _, test = cells.split(seed=0)
    >>> model = nmar.CCPF(nmar.Factorization(2), "linear", factors=2, max_iter=5, random_state=0).fit(train)
    >>> tree = nmar.to_arviz(model, test, draws=20, seed=0)
    >>> tree["posterior"]["row_factors"].dims
    ('chain', 'draw', 'row', 'factor')
    """
    try:
        import arviz
        from xarray import Dataset
    except ImportError:
        raise ImportError("nmar.to_arviz needs ArviZ; pip install arviz") from None
    check_count("draws", draws, 1)
    check_count("chains", chains, 1)
    check_seed("seed", seed)
    known, asked = model._fitted(), _cells_of(model, cells)
    i = known.rows.positions(asked.row_ids, "error", "cells")[asked.row_index]
    j = known.cols.positions(asked.col_ids, "error", "cells")[asked.col_index]
    if chains * draws * (len(i) + known.rows.size + known.cols.size) > MOST:
        raise ValueError(f"draws={draws} of {len(i):,} cells are more than {MOST:,} numbers; ask for fewer of either")
    imputer, first = model._imputer(), seed_sequence(seed)
    sweeps = imputer.sweeps(sweeps)
    runs = []
    for chain in range(chains):
        whole, found = child(first, 2 + chain) if chain else first, []
        for k, draw in enumerate(_draws(imputer, draws, sweeps, whole)):
            values = values_given(draw, i, j, child(child(whole, 1), k))
            found.append({**_lines(draw), "value": values, "score": log_density(draw, i, j, asked.values)})
        runs.append({name: np.stack([one[name] for one in found]) for name in found[0]})
    stacked = {name: np.stack([one[name] for one in runs]) for name in runs[0]}
    count = {"chain": np.arange(chains), "draw": np.arange(draws)}
    ids = {"cell_row": ("cell", asked.row_ids[asked.row_index]), "cell_col": ("cell", asked.col_ids[asked.col_index])}
    ends = {"row": known.rows.ids, "col": known.cols.ids}
    about = {"inference_library": "nmar", "sweeps": sweeps}
    cell = ("chain", "draw", "cell")
    groups: dict[str, Any] = {
        "posterior": Dataset({name: (DIMS[name], stacked[name]) for name in DIMS}, {**count, **ends}, about),
        "posterior_predictive": Dataset({"value": (cell, stacked["value"])}, {**count, **ids}, about),
        "log_likelihood": Dataset({"value": (cell, stacked["score"])}, {**count, **ids}, about),
        "observed_data": Dataset({"value": ("cell", np.asarray(asked.values, np.float64))}, ids, about),
    }
    if hasattr(arviz, "InferenceData"):  # before ArviZ 1
        return arviz.InferenceData(**groups)
    from xarray import DataTree

    return DataTree.from_dict(groups)


DIMS = {
    "row_factors": ("chain", "draw", "row", "factor"),
    "col_factors": ("chain", "draw", "col", "factor"),
    "row_pattern": ("chain", "draw", "row", "component"),
    "col_pattern": ("chain", "draw", "col", "component"),
    "dispersion": ("chain", "draw"),
}


def _cells_of(model: CCPF, cells: Any) -> Cells:
    """These cells, or those of the fit."""
    if cells is not None:
        return as_cells(cells)
    if model.training_cells_ is None:
        raise ValueError("a loaded or streamed model does not have its training cells; name some with cells=")
    return model.training_cells_


def _draws(imputer: Imputer, n: int, sweeps: int, seed: np.random.SeedSequence) -> Iterator[Posterior]:
    """Joint draws; of models whose values do not read the pattern, with the pattern drawn separately."""
    known = imputer.known
    apart = known.law.separate or not known.state.shared.linkage.couples
    rng = np.random.default_rng(child(seed, 2))
    for draw in imputer.draws(n, sweeps, child(seed, 0)):
        yield with_pattern_drawn(draw, rng) if apart else draw


def _lines(draw: Posterior) -> dict[str, Array]:
    """Factors of both sides and the dispersion, in the units of the values."""
    sides = draw.state.sides
    ends = {f"{name}_factors": loadings(draw, axis) for axis, name in enumerate(("row", "col"))}
    pattern = {f"{name}_pattern": side.pattern.weights.mean for name, side in zip(("row", "col"), sides, strict=True)}
    return {**ends, **pattern, "dispersion": np.asarray(draw.dispersion)}
