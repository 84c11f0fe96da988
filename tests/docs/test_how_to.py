"""The Python of the how-to pages runs as printed, and gives what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nmar

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def run(name):
    """All Python blocks of a page, one after the other, in one namespace."""
    names: dict = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", (PAGES / name).read_text("utf-8"), re.DOTALL):
        exec(compile(code, name, "exec", dont_inherit=True), names)
    return names


def test_predictions_for_all_cells():
    names = run("predict-what-nobody-chose.md")
    exact, (plain, weighted) = names["truth"].mean(), names["level"]
    assert plain - exact > 0.3
    assert abs(weighted - exact) < 0.3 * (plain - exact)
    assert 100 < names["weighted"].effective_cells_ < len(names["cells"])
    assert abs(float(names["model"].predict_entries([0], [0])[0]) - exact) < 0.3 * (plain - exact)


def test_covariates():
    names = run("use-covariates.md")
    exact = 3.0 + names["level"][70:]
    error = names["predicted"] - exact
    assert np.sqrt(np.mean(error**2)) < 0.5 * exact.std()
    assert np.all(names["sd"] > 0.6)
    table = names["table"].loc["bias"]
    assert table["genre=drama"] > 0.4 and table["genre=horror"] < -0.4


def test_a_data_model_of_ones_own(tmp_path):
    names = run("write-a-data-model.md")
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
