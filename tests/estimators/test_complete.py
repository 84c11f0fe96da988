"""``nmar.complete``: the caller's own table, filled."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse as sparse

import nmar

MODEL = nmar.CCPF("factorization:2", factors=2, max_iter=5, random_state=0)
NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    found = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(30, 5))
    found[rng.random(found.shape) < 0.2] = np.nan
    found[:, 3] = np.arange(30)  # nothing missing
    return found


@pytest.fixture(scope="module")
def filled(values):
    model = nmar.CCPF("factorization:2", factors=2, max_iter=5, random_state=0).fit(values)
    away = np.nonzero(np.isnan(values))
    found = values.copy()
    found[away] = model.predict_entries(*away)
    return found


def test_arrays(values, filled):
    before = values.copy()
    np.testing.assert_array_equal(nmar.complete(values, MODEL), filled)
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(nmar.complete(filled, MODEL), filled)
    assert not hasattr(MODEL, "posterior_")


def test_pandas_keeps_index_names_and_types(values, filled):
    index = pandas.MultiIndex.from_arrays([["x"] * 30, list(range(30))], names=["batch", "sample"])
    frame = pandas.DataFrame(values, index, pandas.Index(NAMES, name="gene"))
    frame["d"] = frame["d"].astype("int32")
    found = nmar.complete(frame, MODEL)
    assert found.index.equals(index) and found.index.names == index.names and found.columns.name == "gene"
    assert found["d"].dtype == "int32" and frame["a"].isna().any()
    np.testing.assert_array_equal(found.to_numpy(), filled)


def test_polars_in_polars_out(values, filled):
    frame = polars.DataFrame(values, NAMES, nan_to_null=True).with_columns(d=polars.col("d").cast(polars.Int16))
    found = nmar.complete(frame, MODEL)
    assert isinstance(found, polars.DataFrame) and found.columns == NAMES and found["d"].dtype == polars.Int16
    np.testing.assert_array_equal(found.to_numpy(), filled)
    named = frame.insert_column(1, polars.Series("who", [f"s{k}" for k in range(30)]))
    again = nmar.complete(named, MODEL, index="who")
    assert again.columns == ["a", "who", "b", "c", "d", "e"] and again["who"].equals(named["who"])
    np.testing.assert_array_equal(again.drop("who").to_numpy(), filled)


def test_pyarrow(values, filled):
    table = pyarrow.table({name: pyarrow.array(values[:, k], from_pandas=True) for k, name in enumerate(NAMES)})
    found = nmar.complete(table, MODEL)
    assert isinstance(found, pyarrow.Table) and found.column_names == NAMES
    np.testing.assert_array_equal(np.stack([found[name].to_numpy() for name in NAMES], axis=1), filled)


def test_anndata(values, filled):
    adata = pytest.importorskip("anndata").AnnData(values.copy())
    adata.obs_names = [f"cell{k}" for k in range(30)]
    again = nmar.complete(adata, MODEL)
    assert list(again.obs_names) == list(adata.obs_names) and np.isnan(adata.X).any()
    np.testing.assert_array_equal(again.X, filled)


def test_the_default_model_and_bad_input(values):
    found = nmar.complete(pandas.DataFrame(values))
    assert not found.isna().any().any()
    with pytest.raises(TypeError, match="X is a coo_array; pass a pandas, polars or pyarrow table"):
        nmar.complete(sparse.coo_array(np.eye(3)))
    with pytest.raises(ValueError, match="index='who' names a column, but a ndarray has none"):
        nmar.complete(values, index="who")
    with pytest.raises(ValueError, match="the column 'who' does not hold numbers"):
        nmar.complete(pandas.DataFrame({"who": ["x", "y", "z"], "a": [1.0, None, 2.0]}))
