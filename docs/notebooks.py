"""For the site: each tutorial as a Jupyter notebook beside its page, made from the page.

Enters: Markdown. Leaves: a notebook whose cells are the page's sentences and its Python; what the page says that the
code prints stands below each cell.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGES = "tutorials/"
CODE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+?)\.md(#[^)]*)?\)")


def notebook(markdown: str) -> dict[str, Any]:
    """The notebook of a page."""
    cells, start = [], 0
    for found in CODE.finditer(markdown):
        cells += [_words(markdown[start : found.start()]), _code(found[1], found[2])]
        start = found.end()
    cells.append(_words(markdown[start:]))
    kept = [cell for cell in cells if cell["source"]]
    for number, cell in enumerate(kept):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": kept, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _words(text: str) -> dict[str, Any]:
    """Sentences; links to other pages lead to pages of the site."""
    linked = LINK.sub(lambda found: f"]({found[1]}.html{found[2] or ''})", text.strip())
    return {"cell_type": "markdown", "metadata": {}, "source": linked}


def _code(text: str, printed: str | None) -> dict[str, Any]:
    """Python, and what it prints."""
    shown = [] if printed is None else [{"name": "stdout", "output_type": "stream", "text": printed}]
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": shown, "source": text.rstrip()}


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs for every page: write the notebook, and link to it."""
    source = page.file.src_uri
    if not source.startswith(PAGES):
        return markdown
    target = Path(config["site_dir"]) / Path(source).with_suffix(".ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(notebook(markdown), ensure_ascii=False, indent=1), encoding="utf-8")
    title, rest = markdown.split("\n", 1)
    return f'{title}\n\n<a href="{target.name}" download>This page as a notebook</a>\n{rest}'
