"""Make notation.md of notation.toml: ``python docs/notation.py``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEAD = """# Notation

The paper's letters, the names in the code, and shapes. I rows, J columns, K components of the pattern, B bins of
counts, V statistics of a cell. Made from `notation.toml` by `python docs/notation.py`; a test looks every name up.

| paper | meaning | name in the code | shape |
|---|---|---|---|
"""


def symbols() -> list[dict[str, Any]]:
    """The entries of the glossary."""
    return tomllib.loads((HERE / "notation.toml").read_text("utf-8"))["symbol"]


def page() -> str:
    """The page as it should be."""
    return HEAD + "".join(_row(one) for one in symbols())


def _row(one: dict[str, Any]) -> str:
    names = ", ".join(f"`{name.split(':')[1]}`" for name in one.get("code", [])) or "–"
    return f"| {one['paper']} | {one['meaning']} | {names} | {one.get('shape', '')} |\n"


if __name__ == "__main__":
    (HERE / "notation.md").write_text(page(), "utf-8")
