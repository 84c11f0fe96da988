"""The pages in a browser, narrow and wide: nothing is cut off, nothing is fetched, nothing complains."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

import nmar
from nmar.evaluate.comparison import Comparison
from nmar.report.html import comparison_page, model_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1400)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --enable-logging=stderr --hide-scrollbars --dump-dom"
    " --window-size=1800,900"
)
LOOK = """
const found = [...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, width = frame.contentWindow.innerWidth;
  const cut = [...page.querySelectorAll(".number, .zero, .dot, td, th, pre, dd, svg")].filter(one => {
    const box = one.getBoundingClientRect(), card = (one.closest(".card") || page.body).getBoundingClientRect();
    return box.left < card.left - 1 || box.right > card.right + 1;
  });
  cut.push(...[...page.querySelectorAll(".scroll")].filter(one => one.scrollWidth > one.clientWidth));
  const seen = name => [...page.querySelectorAll(name)].filter(one => one.getBoundingClientRect().height > 5).length;
  return {width, needs: page.documentElement.scrollWidth, cut: cut.map(one => one.outerHTML.slice(0, 80)),
          gains: seen(".line .number"), zeros: seen(".zero"), cells: seen("td"),
          fetched: frame.contentWindow.performance.getEntriesByType("resource").length};
});
document.getElementById("found").textContent = JSON.stringify(found);
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed to draw the pages with"),
]


def looked_at(page: str, folder: Path) -> list[dict[str, object]]:
    """What a browser makes of a page at each width; frames, because windows cannot be as narrow as a phone."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{escape(page)}"></iframe>' for width in WIDTHS
    )
    script = f'<pre id="found"></pre><script>window.onload = () => {{{LOOK}}}</script>'
    file = folder / "frames.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{frames}{script}", encoding="utf-8")
    command = [str(BROWSER), *FLAGS.split(), f"--user-data-dir={folder / 'profile'}", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert match is not None
    return json.loads(unescape(match.group(1)))


def check(found: list[dict[str, object]]) -> None:
    assert [one["width"] for one in found] == list(WIDTHS)
    for one in found:
        assert one["needs"] == one["width"] and one["cut"] == [] and one["fetched"] == 0


def test_a_comparison(comparison: Comparison, tmp_path: Path) -> None:
    found = looked_at(comparison_page(comparison), tmp_path)
    check(found)
    rows = len(comparison.rows)
    coupled = sum(row.best_control is not None for row in comparison.rows)
    assert all(one["gains"] == one["zeros"] == rows and one["cells"] == 6 * rows + 4 * coupled for one in found)


def test_a_model(linked: nmar.Cells, tmp_path: Path) -> None:
    row, col = linked.positions()
    names = {"r": [f"a_rather_long_name_of_a_row_{i}" * 2 for i in row], "c": col, "v": linked.values}
    cells = nmar.Cells.from_frame(names, "r", "c", "v")
    model = nmar.CCPF(nmar.Factorization(2), "free", 3, max_iter=4, tol=0.0, random_state=0, n_jobs=1).fit(cells)
    check(looked_at(model_page(model, cells, "a_model_with_a_long_name_" * 4), tmp_path))
