"""Figures and pages: they are made, they are self-contained, they do without matplotlib."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.data.atomic import write_with
from nmar.evaluate import curves
from nmar.evaluate.comparison import Comparison, Key
from nmar.evaluate.gains import Gain
from nmar.report.forest import Mark, forest, limits, ticks
from nmar.report.html import model_page
from nmar.report.text import wrapped

NO_OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*["'](?!#|data:)|url\(\s*["']?(?!#|data:)|@import""", re.I)


@pytest.fixture(scope="module")
def model(linked: nmar.Cells) -> nmar.CCPF:
    return nmar.CCPF(nmar.Factorization(2), "free", factors=3, max_iter=8, random_state=0, n_jobs=1).fit(linked)


def test_report(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    comparison.to_html(path)
    text = path.read_text(encoding="utf-8")
    assert not NO_OUTSIDE.search(text) and "<script" not in text and "<link" not in text
    for row in comparison.rows:
        assert row.name in text and f"{abs(row.log_likelihood):.4f}" in text
    assert text.count("<svg") == 6 and 'class="badge">recommended' in text
    assert text.count('class="line"') == len(comparison.rows) and "the best control" in text
    assert comparison.verdict.findings[0].recommended in text and ".fit(cells)</code>" in text
    assert "sim &lt;1&gt;" in text and "sim <1>" not in text
    for words in (
        "Held-out cells are hidden",
        "The gain that counts",
        "If it wins",
        "numpy",
        "prefers-color-scheme: dark",
    ):
        assert words in text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_report_without_matplotlib(comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    comparison.to_html(tmp_path / "plain.html")
    text = (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "pip install matplotlib" in text and "taste (shuffled)" in text


def test_a_model_far_behind_does_not_hide_the_others(comparison: Comparison) -> None:
    marks = [Mark("free", "coupled", Gain(0.01, 0.002)), Mark("two-stage", "two-stage", None)]
    near = limits(marks)
    low, high = limits([*marks, Mark("ignorable", "ignorable", Gain(-0.5, 0.01))])
    assert near[0] < 0.0 < near[1] == pytest.approx(high, rel=0.3)
    assert -0.07 < low < -0.05
    assert 3 <= len(ticks(low, high)) <= 6 and all(low <= t <= high for t in ticks(low, high))
    text = forest(comparison)
    taste = limits([Mark("taste", "taste", Gain(0.01, 0.002)), *marks[1:], Mark("x", "ignorable", Gain(-0.5, 0.01))])
    assert taste == (low, high)
    for role in ("c1", "c3", "c4", "c5", "c6", "c7"):  # coupled, ignorable, taste, two-stage, shuffled, tail
        assert f"--role:var(--{role})" in text


def test_model_page(model: nmar.CCPF, linked: nmar.Cells) -> None:
    text = model_page(model, linked, "m.nmar")
    assert not NO_OUTSIDE.search(text) and "m.nmar" in text and "Calibration of intervals" in text
    thinned = nmar.CCPF(nmar.Factorization(2), nmar.Free(thinning=8), 3, control="tail", max_iter=2, n_jobs=1)
    assert "<small>s = 8, tail-only control</small>" in model_page(thinned.fit(linked))


def test_every_plot_returns_axes(model: nmar.CCPF, linked: nmar.Cells, comparison: Comparison) -> None:
    from matplotlib.axes import Axes

    result = nmar.missingness_test(linked, bins=10, factors=3, rank=2, max_iter=5, n_jobs=1)
    drawn = [
        nmar.plot.linkage(model),
        nmar.plot.linkage(model.posterior_, by="probability"),
        nmar.plot.heteroscedasticity(result),
        nmar.plot.calibration(model, linked),
        nmar.plot.trace(model),
        nmar.plot.activity(model, linked),
    ]
    assert all(isinstance(ax, Axes) and ax.get_xlabel() for ax in drawn)
    last = model.bound_trace_[-1]
    np.testing.assert_allclose(drawn[4].lines[0].get_ydata(), (last - model.bound_trace_[:-1]) / abs(last))
    phi = curves.linkage_curve(model).phi
    assert any(np.allclose(line.get_ydata()[: len(phi)], phi[: len(line.get_ydata())]) for line in drawn[0].lines)
    again = nmar.plot.trace(model, ax=drawn[0])
    assert again is drawn[0]


def test_plot_without_matplotlib(model: nmar.CCPF, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        nmar.plot.linkage(model)


def test_plot_of_something_else() -> None:
    with pytest.raises(TypeError, match=r"fitted nmar\.CCPF"):
        nmar.plot.linkage(3)


def test_linkage_curve_is_the_linkage(model: nmar.CCPF, comparison: Comparison) -> None:
    found = curves.linkage_curve(model)
    assert found.phi[0] == 1.0 and found.expected[0] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ValueError, match="two-stage"):
        curves.linkage_curve(comparison.entries[Key("factorization:2", "two-stage")][0].fitted)


def test_the_truth_is_calibrated() -> None:
    cells, truth = nmar.simulate((150, 100), nmar.Factorization(2), nmar.Geometric(-0.8), density=0.4, seed=0)
    found = curves.calibration(truth.posterior, cells)
    assert np.max(np.abs(found.covered - found.level)) < 0.03


def test_counts_are_calibrated_too() -> None:
    data = nmar.Factorization(2, family="poisson")
    cells, truth = nmar.simulate((150, 100), data, "ignorable", density=0.4, seed=0)
    found = curves.calibration(truth.posterior, cells)
    assert np.max(np.abs(found.covered - found.level)) < 0.03


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail(file: Path) -> None:
        file.write_text("half")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write_with(path, fail)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_tables_fit_a_terminal():
    """80 columns, whatever the names of the models are, and names are no markup; each name has its plain words."""
    cells = nmar.simulate((40, 20), nmar.Factorization(2), nmar.Linear(0.3), density=0.4, seed=0)[0]
    settings = {"seeds": 1, "factors": 2, "max_iter": 2, "n_jobs": 1, "name": "[red]x[/red] " * 12}
    result = nmar.compare(cells, ["effects:cols", "effects:rows"], ["free,s=8"], **settings)
    lines = result.text().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.endswith("counts") for line in lines) == 4 and result.text().count("[red]x[/red]") == 12
    assert "(shuffled): Choices of other rows and columns, at random." in lines
    told = wrapped(result.verdict).splitlines()
    assert max(map(len, told)) <= 80
    assert "".join("".join(told).split()) == "".join(result.verdict.split())
    assert "Stopped at max_iter before the bound settled: " in result.text()
