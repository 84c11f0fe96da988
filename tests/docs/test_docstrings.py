"""Docstrings are numpydoc's: the type in the type's place, then a sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_public_names import CALLABLES

SRC = Path(__file__).parents[2] / "src"
SECTIONS = ("Parameters", "Attributes")
LONGEST = 3  # words of a type that stands alone
ENTRY = re.compile(r"^\*{0,2}\w+(, \*{0,2}\w+)*( : (?P<type>.+))?$")

# what numpydoc's check asks for; not that every page links to others (SA01) or that summaries are commands (SS05)
ERRORS = {
    "GL05", "GL06", "GL07", "GL08", "GL10", "SS01", "SS02", "SS03", "PR01", "PR02", "PR03", "PR04", "PR05", "PR06",
    "PR07", "PR08", "PR09", "PR10", "RT01", "RT03", "RT04", "RT05", "YD01",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLABLES)
def test_public_names_pass_numpydoc(name):
    validate = pytest.importorskip("numpydoc.validate").validate
    one = CALLABLES[name]
    found = validate(f"{one.__module__}.{one.__qualname__}")["errors"]
    assert not [error for error in found if error[0] in ERRORS]


def sections(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a Parameters or Attributes section begins, and its lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        lines = (ast.get_docstring(node) or "").splitlines()
        heads = [k for k in range(len(lines) - 1) if re.fullmatch("-{3,}", lines[k + 1])]
        for start, end in zip(heads, [*heads, len(lines)][1:], strict=True):
            if lines[start] in SECTIONS:
                yield f"{file.relative_to(SRC)}: {node.name}", lines[start + 2 : end]


def wrong(lines: list[str]) -> list[str]:
    """Entries without a type, or without a description that begins on a line of its own and ends with a point."""
    found = []
    entries = [k for k, line in enumerate(lines) if line and not line.startswith(" ")]
    for start, end in zip(entries, [*entries, len(lines)][1:], strict=True):
        match, text = ENTRY.match(lines[start]), " ".join(lines[start + 1 : end]).strip()
        kind = "" if match is None else match["type"] or ""
        if not kind or kind.endswith(".") or (text[-1] not in ".:?" if text else len(kind.split()) > LONGEST):
            found.append(lines[start])
    return found


@pytest.mark.parametrize("room", sorted(path.name for path in (SRC / "nmar").iterdir() if path.is_dir()))
def test_entries_have_a_type_and_a_sentence(room):
    found = {where: wrong(lines) for file in (SRC / "nmar" / room).rglob("*.py") for where, lines in sections(file)}
    assert not {where: entries for where, entries in found.items() if entries}


def test_a_description_in_the_place_of_the_type_is_found():
    lines = [
        "rank (number)",
        "k : number of factors of it",
        "n : int",
        "    A number.",
        "m : int",
        "    no point",
        "law : Law",
    ]
    assert wrong(lines) == ["rank (number)", "k : number of factors of it", "m : int"]
