"""The example of docs/how-to/write-a-data-model.md, as printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import nmar

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-data-model.md"


def test_the_network_of_the_page_learns_and_is_kept(tmp_path):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert sum(bool(line.strip()) for line in code.splitlines()) < 70 and "class Network(nmar.DataModel)" in code
    names: dict = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
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
