"""The glossary is made from its data, and every name in it exists."""

import dataclasses
import importlib
import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "docs" / "notation.py"
spec = importlib.util.spec_from_file_location("notation", FILE)
notation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notation)

NAMES = [name for one in notation.symbols() for name in one.get("code", [])]


def test_the_page_is_made_from_the_data():
    assert (FILE.parent / "notation.md").read_text("utf-8") == notation.page()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_in_the_code(name):
    module, path = name.split(":")
    first, *rest = path.split(".")
    owner = getattr(importlib.import_module(f"nmar.{module}"), first)
    for attribute in rest:
        fields = {one.name for one in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
        assert hasattr(owner, attribute) or attribute in fields
