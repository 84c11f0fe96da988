"""Whatever holds a matrix gives the same model: frames wide and long, AnnData, torch, scipy; with its ids."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse as sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

import nmar

MODEL = nmar.CCPF(nmar.Factorization(2), "linear", factors=2, starts=1, max_iter=4, random_state=0, n_jobs=1)
ROWS, COLS = [f"u{k:02d}" for k in range(30)], [f"i{k}" for k in range(8)]


@pytest.fixture(scope="module")
def cells():
    found = nmar.simulate((60, 8), nmar.Factorization(2), nmar.Linear(0.4), 0.5, seed=0)[0]
    some = found.take_rows(np.flatnonzero(np.diff(found.by(0).indptr))[:30])  # a long table has no empty rows
    return nmar.Cells.from_arrays(*some.positions(), some.values, some.shape)


@pytest.fixture(scope="module")
def matrix(cells):
    found = np.full(cells.shape, np.nan)
    found[cells.positions()] = cells.values
    return found


@pytest.fixture(scope="module")
def model(cells):
    return clone(MODEL).fit(cells)


def forms(cells, matrix):
    """The same cells as other libraries hold them; ids are names, or positions."""
    triplets = (cells.values, cells.positions())
    yield "csr", sparse.coo_array(triplets, shape=cells.shape).tocsr(), False
    wide = pandas.DataFrame(matrix, ROWS, COLS)
    yield "pandas", wide, True
    yield "pandas nullable", wide.astype("Float64"), True
    yield "polars", polars.DataFrame(matrix, COLS, nan_to_null=True), False
    yield "pyarrow", pyarrow.table({name: pyarrow.array(matrix[:, k]) for k, name in enumerate(COLS)}), False
    long = pandas.DataFrame(
        {"row": np.array(ROWS)[cells.row_index], "col": np.array(COLS)[cells.col_index], "value": cells.values}
    )
    yield "long pandas", long, True
    yield "long polars", polars.from_pandas(long), True
    yield "long pyarrow", pyarrow.Table.from_pandas(long), True


@pytest.mark.parametrize("place", range(8))
def test_frames_and_matrices_give_the_same_model(cells, matrix, model, place):
    name, X, named = list(forms(cells, matrix))[place]
    found = clone(MODEL).fit(X)
    exact = model.predict_entries([0, 3], [1, 2])
    rows = ["u00", "u03"] if named else [0, 3]
    cols = ["i1", "i2"] if found.posterior_.cols.table is not None else [1, 2]
    np.testing.assert_allclose(found.predict_entries(rows, cols), exact, rtol=1e-12, err_msg=name)
    assert found.score(X) == pytest.approx(model.score(cells), rel=1e-12)
    if "long" not in name:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_allclose(found.transform(X), model.transform(matrix), rtol=1e-10)


def test_torch_tensors(cells, matrix, model):
    torch = pytest.importorskip("torch")
    places = torch.tensor(np.stack(cells.positions()).astype(np.int64))
    stored = torch.sparse_coo_tensor(places, torch.tensor(cells.values), cells.shape)
    for X in (torch.tensor(matrix, requires_grad=True), stored, stored.coalesce().to_sparse_csr()):
        found = clone(MODEL).fit(X)
        np.testing.assert_array_equal(found.bound_trace_, model.bound_trace_)
        assert found.score(X) == model.score(cells)
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.ones(2), (2, 2))
    with pytest.raises(ValueError, match="repeat a cell"):
        nmar.Cells.from_torch(twice)


def test_anndata_in_and_factors_back(cells, matrix, model):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.zeros(cells.shape), layers={"dense": matrix})
    adata.layers["stored"] = sparse.coo_array((cells.values, cells.positions()), shape=cells.shape).tocsr()
    adata.obs_names, adata.var_names = ROWS, COLS
    for layer in ("dense", "stored"):
        read = nmar.Cells.from_anndata(adata, layer=layer)
        assert read.row_ids.tolist() == ROWS and read.col_ids.tolist() == COLS
        np.testing.assert_array_equal(read.values, cells.values)
    with pytest.raises(ValueError, match=r"layer='raw' is no layer; available: \['dense', 'stored'\]"):
        nmar.Cells.from_anndata(adata, layer="raw")
    adata.X = matrix
    found = clone(MODEL).fit(adata)
    np.testing.assert_array_equal(found.bound_trace_, model.bound_trace_)
    assert found.score(adata) == pytest.approx(model.score(cells), rel=1e-12)
    turned = adata[::-1].copy()
    nmar.store_factors(found, turned, key="f")
    rows, cols = turned.obsm["X_f"], turned.varm["f"]
    np.testing.assert_allclose(rows[::-1] @ cols.T, adata_product(found), rtol=1e-10)
    assert turned.obsm["X_f_pattern"].shape == (30, 2)
    turned.obs_names = [f"x{k}" for k in range(30)]
    with pytest.raises(ValueError, match=r"none of its obs_names is known to the model, e\.g\. 'x0'"):
        nmar.store_factors(found, turned)


def adata_product(model):
    from nmar.posterior.learned import loadings

    return loadings(model.posterior_, 0) @ loadings(model.posterior_, 1).T


def test_a_table_of_cells_under_other_names_is_not_taken_for_a_matrix(cells):
    long = pandas.DataFrame({"who": np.array(ROWS)[cells.row_index], "what": cells.col_index, "much": cells.values})
    for frame in (long, polars.from_pandas(long), pyarrow.Table.from_pandas(long)):
        with pytest.raises(
            ValueError, match=r"the column 'who' does not hold numbers \(e\.g\. 'u00'\); columns are \['who', 'what'"
        ):
            clone(MODEL).fit(frame)
    numbers = long.assign(who=cells.row_index)
    for frame in (numbers, polars.from_pandas(numbers), pyarrow.Table.from_pandas(numbers)):
        told = r"X has columns \['who', 'what', 'much'\], as a table with one line per cell has; name them: nmar"
        with pytest.raises(ValueError, match=told):
            clone(MODEL).fit(frame)
    two = long.rename(columns={"who": "user", "what": "item"}).assign(when=1.0)
    with pytest.raises(ValueError, match=r"from_frame\(df, row='user', col='item', value=…\)"):
        clone(MODEL).fit(two)


@pytest.mark.parametrize("names", [("user_id", "item_id", "rating"), ("movieId", "userId", "x"), ("USER", "ASIN", "w")])
def test_a_table_of_cells_is_told_by_its_usual_names(cells, names):
    user = next(name for name in names if name.lower().startswith("u"))
    item = next(name for name in names[:2] if name != user)
    long = pandas.DataFrame({user: cells.row_index, item: cells.col_index, names[2]: cells.values})[list(names)]
    exact = clone(MODEL).fit(nmar.Cells.from_frame(long, user, item, names[2]))
    for frame in (long, polars.from_pandas(long), pyarrow.Table.from_pandas(long)):
        np.testing.assert_array_equal(clone(MODEL).fit(frame).bound_trace_, exact.bound_trace_)


def test_messages_list_ten_columns():
    frame = pandas.DataFrame({f"gene{k}": ["a", "b"] for k in range(50)})
    with pytest.raises(ValueError, match=r"'gene9', … \(40 more\)\]") as caught:
        clone(MODEL).fit(frame)
    assert len(str(caught.value)) < 400
    with pytest.raises(ValueError, match=r"… \(40 more\)\]"):
        nmar.Cells.from_frame(frame, "who", "what", "much")


def test_wide_frames_with_a_column_of_ids(matrix):
    frame = polars.DataFrame(matrix, COLS).with_columns(who=polars.Series(ROWS))
    read = nmar.Cells.from_wide(frame, index="who")
    assert read.row_ids.tolist() == ROWS and read.col_ids.tolist() == COLS
    np.testing.assert_array_equal(read.values, matrix[np.isfinite(matrix)])
    with pytest.raises(ValueError, match=r"index='id' is not a column; available"):
        nmar.Cells.from_wide(frame, index="id")


def test_rows_of_a_frame_are_told_by_its_index(matrix):
    """Known rows in another order are scored as they are, others folded in."""
    frame = pandas.DataFrame(matrix, ROWS, COLS)
    model = clone(MODEL).fit(frame)
    some = frame.iloc[[5, 2]]
    assert model.score(some) == pytest.approx(model.log_likelihood(nmar.Cells.from_wide(some)), rel=1e-12)
    new = frame.rename(index=lambda name: name.replace("u", "v"))
    assert model.score(new) == pytest.approx(model.score(pandas.DataFrame(matrix[:, :], new.index, COLS)), rel=1e-12)
    assert model.score(new) != model.score(frame)
    assert len(cross_val_score(MODEL, frame, cv=KFold(2))) == 2


def test_an_array_is_read_by_position_after_a_frame(matrix):
    model = clone(MODEL).fit(pandas.DataFrame(matrix, ROWS, COLS))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert model.score(matrix) == pytest.approx(model.score(pandas.DataFrame(matrix, ROWS, COLS)), rel=1e-12)


def test_rows_without_cells_have_the_prior(model, matrix):
    empty = np.full((2, 8), np.nan)
    both = model.transform(np.vstack([empty, matrix[:1]]))
    np.testing.assert_array_equal(model.transform(empty), both[:2])
    np.testing.assert_array_equal(both[0], both[1])


def test_comparisons_take_frames(matrix):
    frame = pandas.DataFrame(matrix, ROWS, COLS)
    options = {"factors": 2, "max_iter": 2, "n_jobs": 1, "seeds": 1, "control": False, "two_stage": False}
    found = nmar.compare(frame, nmar.Effects("rows"), ["ignorable"], valid=0.05, **options)
    assert found.rows[0].log_likelihood < 0


def test_what_is_not_a_matrix_is_refused():
    with pytest.raises(TypeError, match=r"cells is a dict; pass nmar\.Cells, a table"):
        nmar.compare({"a": 1})


def test_pairs_are_ids_and_positions_are_places(model, cells, matrix):
    """predict_entries(*cells.pairs()) is right whatever the ids are."""
    named = nmar.Cells.from_wide(pandas.DataFrame(matrix, ROWS[::-1], COLS))
    found = clone(MODEL).fit(named)
    np.testing.assert_array_equal(matrix[named.positions()], named.values)
    np.testing.assert_array_equal(found.predict_entries(*named.pairs()), model.predict_entries(*cells.pairs()))


def test_layers_of_anndata_are_completed_by_name(matrix, model, cells):
    """Observed values stay, the others are predicted; model and AnnData in either order, as for factors."""
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(matrix[::-1].copy())
    adata.obs_names, adata.var_names = ROWS[::-1], COLS
    found = clone(MODEL).fit(adata)
    nmar.store_layers(adata, found, key="f")
    seen = ~np.isnan(adata.X)
    np.testing.assert_array_equal(adata.layers["f"][seen], adata.X[seen])
    i, j = np.nonzero(~seen)
    mean, sd = found.predict_entries(adata.obs_names[i], adata.var_names[j], return_std=True)
    np.testing.assert_allclose(adata.layers["f"][i, j], mean)
    np.testing.assert_allclose(adata.layers["f_sd"], np.where(seen, 0.0, _placed(adata.shape, i, j, sd)))
    chance = found.observed_probability(adata.obs_names[i], adata.var_names[j])
    np.testing.assert_allclose(adata.layers["f_observed"][i, j], chance)
    nmar.store_factors(adata, found)
    both = adata.copy()
    nmar.store_factors(found, both)
    np.testing.assert_array_equal(adata.obsm["X_nmar"], both.obsm["X_nmar"])


def _placed(shape, i, j, values):
    out = np.zeros(shape)
    out[i, j] = values
    return out


def test_a_batch_is_a_covariate_of_the_rows():
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    batch = np.array(["a", "b"])[np.arange(60) % 2]
    values = rng.normal(size=(60, 12)) + np.where(batch == "b", 2.0, 0.0)[:, None]
    values[rng.random(values.shape) < 0.4] = np.nan
    adata = anndata.AnnData(values)
    adata.obs_names = [f"cell {k}" for k in range(60)]
    adata.obs["batch"] = pandas.Categorical(batch)
    model = nmar.CCPF(nmar.Effects("both", rows=adata.obs[["batch"]]), factors=2, random_state=0).fit(adata)
    effects = model.covariate_effects_["rows"]
    assert any("batch" in name for name in effects.names)
    means = model.predict_entries(adata.obs_names.to_numpy(), np.repeat(adata.var_names[0], 60))
    assert means[batch == "b"].mean() - means[batch == "a"].mean() > 1.5
