"""The Python of the how-to pages runs as printed, and gives what the pages say."""

from __future__ import annotations

import numpy as np
import pytest
from pages import run

import nmar

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md


def test_predictions_for_all_cells():
    names = run("how-to/predict-what-nobody-chose.md")
    exact, (plain, weighted) = names["truth"].mean(), names["level"]
    assert plain - exact > 0.3
    assert abs(weighted - exact) < 0.3 * (plain - exact)
    assert 100 < names["weighted"].effective_cells_ < len(names["cells"])
    assert abs(float(names["model"].predict_entries([0], [0])[0]) - exact) < 0.3 * (plain - exact)


def test_covariates():
    names = run("how-to/use-covariates.md")
    exact = 3.0 + names["level"][70:]
    error = names["predicted"] - exact
    assert np.sqrt(np.mean(error**2)) < 0.5 * exact.std()
    assert np.all(names["sd"] > 0.6)
    genre = names["films"].set_index("film")["genre"]
    assert len(names["old"]) and set(genre[names["best"].ravel()]) == {"western"}
    rates = names["rates"]
    western = rates["genre=western"]
    assert western[rates.index[-1]] > 5.0 * western[rates.index[0]]
    table = names["table"].loc["bias"]
    assert table["genre=drama"] > 0.4 and table["genre=horror"] < -0.4


def test_imputation():
    names = run("how-to/impute.md")
    exact, found = names["full"][:, 0].mean(), names["found"]
    assert names["seen"] < exact - 0.3
    assert found.low < exact < found.high and abs(found.estimate - exact) < 0.3 * (exact - names["seen"])
    assert names["interval"][0] < np.corrcoef(names["full"].T)[0, 1] < names["interval"][1]
    assert names["turn"] < 0.0 and np.all(np.diff(names["result"].estimate) > 0.0)
    assert names["low"].min() >= 1.0 and names["high"].max() <= 5.0
    assert names["checked"].verdict
    assert names["pooled"].frame().index.tolist() == ["level", "third", "fourth"] and names["joint"].p_value < 1e-6
    assert names["p_values"].shape == (3, 3)


def test_predictions_and_cross_validation():
    names = run("how-to/predict-and-cross-validate.md")
    np.testing.assert_array_equal(names["same"], names["mean"])
    for one in (names["error"], names["by_name"], names["search"].cv_results_["mean_test_score"]):
        assert np.isfinite(one).all()
    assert np.all(np.abs(names["error"].mean() - names["by_name"].mean()) < 0.2 * np.abs(names["error"].mean()))
    assert names["best"].best_params_ == {"data__rank": 2}
    filled, wide = names["filled"], names["wide"]
    assert filled.index.name == "user_id" and filled.columns.name == "item_id" and not filled.isna().any().any()
    assert filled.where(wide.notna()).equals(wide)


def test_a_data_model_of_ones_own(tmp_path):
    names = run("how-to/write-a-data-model.md")
    rng = np.random.default_rng(0)
    rows, cols = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    i, j = np.nonzero(rng.random((60, 40)) < 0.4)
    mean = np.abs(rows[i, 0]) + cols[j, 1]
    cells = nmar.Cells.from_arrays(i, j, mean + 0.2 * rng.normal(size=len(i)), (60, 40))
    model = names["fit"](cells, rows, cols)
    found = model.predict_entries(i, j)
    assert np.sqrt(np.mean((found - mean) ** 2)) < 0.25 * mean.std()
    model.save(tmp_path / "network")
    np.testing.assert_array_equal(nmar.load(tmp_path / "network").predict_entries(i, j), found)


def test_a_cluster():
    pytest.importorskip("distributed")
    names = run("how-to/cluster.md")
    assert names["there"].bound_trace_.tolist() == names["model"].bound_trace_.tolist()


def test_why_values_are_missing():
    names = run("how-to/why-missing.md")
    assert names["found"].kind == "value"
    error = names["missing"] - names["full"][~names["seen"]]
    assert abs(error.mean()) < 0.15
    exact, along = names["full"].mean(), names["along"]
    assert along.low[2] < exact < along.high[2] and along.low[0] > exact  # slopes of 2 and of 0
    assert 0.0 < names["turn"] < 3.0


def test_the_gallery(tmp_path, monkeypatch):
    """Its code writes the three pages, which say what their pictures show."""
    monkeypatch.chdir(tmp_path)
    names = run("gallery.md")
    pages = {one: (tmp_path / f"{one}.html").read_text("utf-8") for one in ("compare", "why", "model")}
    assert all("<script" not in page and "prefers-color-scheme: dark" in page for page in pages.values())
    assert "recommended</span>" in pages["compare"] and "protein 1" in pages["model"]
    assert "Values decide whether they are seen" in pages["model"]
    assert names["why"].verdict in pages["why"].replace("−", "-")


def test_ratings():
    names = run("how-to/ratings.md")
    test, chance = names["test"], names["chance"]
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    np.testing.assert_allclose(names["mean"], chance @ np.arange(1.0, 6.0))
    own = chance[np.arange(len(test)), test.values.astype(int) - 1]
    assert names["score"] == np.log(own).mean() > np.log(0.2) + 0.4
    assert names["cuts"].shape == (2, 4) and abs(names["share"][0] - 0.5) < 0.15
    assert len(set(names["members"] % 2)) == 1


def test_a_service(tmp_path, monkeypatch):
    """The page's service answers requests; the other answers are those of the model."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    monkeypatch.chdir(tmp_path)
    names = run("how-to/serve.md")
    model, cells = names["model"], names["cells"]
    assert names["one"]["low"] < names["one"]["mean"] < names["one"]["high"]
    assert names["one"]["mean"] == pytest.approx(float(model.predict_entries([3], [7])[0]))
    listed = [one["col"] for one in names["best"]]
    assert listed == model.recommend([3], n=5, by="expected")[0][0].tolist()
    assert not set(listed) & set(cells.col_ids[cells.col_index[cells.row_index == 3]].tolist())
    assert len(names["guess"]) == 60 and names["unknown"].status_code == 404
    assert len(names["updated"].training_cells_) > len(cells)
    every = model.predict_entries(np.repeat(3, 60), model.posterior_.cols.ids)
    np.testing.assert_allclose(names["scores"], every, atol=1e-5)
    with np.load("factors.npz") as kept:
        assert set(kept) == {"rows", "cols", "row_ids", "col_ids"}
