"""Links of the pages lead somewhere, every public name has its place in the reference, and the site builds."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nmar

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def prose(page):
    """The text of a page without its blocks of code, in which brackets mean something else."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)


def links(page):
    """Relative links of a page."""
    return [link for link in LINK.findall(prose(page)) if "://" not in link and not link.startswith("mailto:")]


def anchors(page):
    """What a link can name in a page: its headings, in small letters, words joined by hyphens."""
    titles = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in HEADING.findall(page.read_text("utf-8")))
    return {re.sub(r"[\s]+", "-", title) for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_links_are_found():
    assert {"docs/images/choices.png", "docs/theory.md", "CHANGELOG.md"} <= set(links(ROOT / "README.md"))


def test_every_public_name_is_in_the_reference():
    text = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: nmar\.(\w+)$", text, re.MULTILINE))
    modules = {name: f"::: {nmar.HOMES[name]}.{name}\n" for name in ("datasets", "metrics", "plot")}
    shown |= {name for name, line in modules.items() if line in text}
    assert shown >= set(nmar.__all__) - {"__version__"}
    assert "nmar.__version__" in text


def test_the_citation_names_this_version():
    assert f"version: {nmar.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    for module in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install 'nmar[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    made = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert made.returncode == 0, made.stderr
    assert "WARNING" not in made.stderr
    reference = (tmp_path / "api" / "fit.html").read_text("utf-8")
    for name in ("predict_entries", "impute", "recommend", "save", "fit"):
        assert f'id="nmar.CCPF.{name}"' in reference


def test_editors_and_the_site_know_every_public_name():
    """Both read the source without running it."""
    text = (ROOT / "src" / "nmar" / "__init__.py").read_text("utf-8")
    known = re.findall(r"^    from \S+ import \w+ as (\w+)$", text, re.MULTILINE)
    assert set(known) == set(nmar.__all__) - {"__version__"}
