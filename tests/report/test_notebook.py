"""What notebooks show: small, escaped, without script."""

from __future__ import annotations

import re

import pytest
import sklearn

import nmar
from nmar.evaluate.comparison import Comparison

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def cells() -> nmar.Cells:
    row = [f"{NASTY}{i}" for i in range(12) for _ in range(4)]
    col = [f"c&{(i + k) % 6}" for i in range(12) for k in range(4)]
    return nmar.Cells.from_frame({"r": row, "c": col, "v": [float(k % 7) for k in range(48)]}, "r", "c", "v")


def small_and_safe(text: str) -> None:
    assert len(text) < 10_000 and "<script" not in text and not re.search(r"\b(src|href|onload|onclick)\s*=", text)
    assert text.count("<table>") == text.count("</table>") == 1


def test_cells(cells: nmar.Cells) -> None:
    text = cells._repr_html_()
    small_and_safe(text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;0" in text and "c&amp;0, c&amp;1, c&amp;2, …" in text
    assert ">48<" in text and "from 0 to 6" in text
    empty = cells[cells.values > 9]._repr_html_()
    assert ">0<" in empty and "values" not in empty


def test_long_ids_are_cut() -> None:
    text = nmar.Cells.from_frame({"r": ["x" * 500], "c": [1], "v": [1.0]}, "r", "c", "v")._repr_html_()
    assert "x" * 39 + "…" in text and "x" * 40 not in text


def test_model(cells: nmar.Cells) -> None:
    model = nmar.CCPF(nmar.Effects("rows"), "free", factors=2, max_iter=2, tol=0.0, random_state=0, n_jobs=1)
    assert "CCPF, not fitted" in model._repr_html_() and "Effects(" in model._repr_html_()
    model.fit(cells)
    text = model._repr_html_()
    small_and_safe(text)
    assert "CCPF, fitted" in text and "12 × 6" in text and "given that they are observed" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;0" in text
    assert model._repr_mimebundle_() == {"text/plain": repr(model), "text/html": text}
    with sklearn.config_context(display="text"):
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}


def test_comparison(comparison: Comparison) -> None:
    text = comparison._repr_html_()
    small_and_safe(text)
    assert "sim &lt;1&gt;" in text and "choices of others [taste (shuffled)]" in text
    assert all(row.name in text for row in comparison.rows)
    assert repr(comparison) == "Comparison('sim <1>', 120 rows × 80 cols, 8 models)"
