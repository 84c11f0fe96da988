"""README is short, its Python prints what it says, and its text stands alone on the page of a package index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pages import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
RELATIVE = re.compile(r"!?\[[^\]]*\]\((?!https?:|#)[^)]+\)")


def shown_on_an_index() -> str:
    """README as the build writes it into the package's metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    assert project["project"]["dynamic"] == ["readme"] and hook["fragments"] == [{"path": "README.md"}]
    text = TEXT
    for one in hook["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text


def test_it_is_read_in_a_minute():
    assert len(TEXT.splitlines()) <= 120


def test_pictures_have_words():
    pictures = re.findall(r"!\[([^\]]*)\]", TEXT)
    assert pictures and all(len(words) > 40 for words in pictures)


def test_tables_have_headers():
    for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        assert re.search(r"\w", table.splitlines()[0])


def test_the_set_up_commands_are_one_line_each():
    lines = TEXT.splitlines()
    assert "pip install '.[demo,io,report]' && nmar compare movielens" in lines
    assert "pip install '.[test]' && python -m pytest" in lines


def test_a_package_index_shows_no_dead_link_and_no_dead_picture():
    assert RELATIVE.search(TEXT)
    text = shown_on_an_index()
    assert not RELATIVE.search(text)
    assert "ratings (`docs/tutorials/ratings.md`)" in text and "*Picture: " in text


@pytest.mark.slow
def test_its_python_prints_what_it_says():
    names = run("../README.md")
    assert names["low"].min() >= 0.5 and names["high"].max() <= 5.0
