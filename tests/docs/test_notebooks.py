"""Notebooks have all of a tutorial, and their cells run one after the other."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path

import pytest
from pages import BLOCK, alike

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
assert _spec is not None and _spec.loader is not None
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_notebook_has_all_of_its_page(page):
    text = page.read_text("utf-8")
    made = notebooks.notebook(text)
    code = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    assert code == [found.rstrip() for found, _ in BLOCK.findall(text)] and len(code) > 2
    words = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "```python" not in words and ".md)" not in words
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proteins", "single-cells"])
def test_a_notebook_runs(name):
    names: dict = {"__name__": "notebook"}
    for cell in notebooks.notebook((DOCS / "tutorials" / f"{name}.md").read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell["source"], name, "exec", dont_inherit=True), names)
        for output in cell["outputs"]:
            assert alike(printed.getvalue(), output["text"])
