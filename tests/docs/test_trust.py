"""docs/trust.md names tests that exist, for every standard that it lists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "trust.md").read_text(encoding="utf-8")
STANDARDS = [line for line in PAGE.splitlines() if re.match(r"\| (BS|G5)", line)]


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", PAGE))
    assert len(named) > 40
    for file, test in named:
        assert re.search(rf"^def {test}\(", (TESTS / file).read_text(encoding="utf-8"), re.M), f"{file}::{test}"


def test_every_standard_has_a_test_or_a_reason():
    assert {re.match(r"\| ([A-Z]+\d)", line).group(1) for line in STANDARDS} == {
        *(f"BS{k}" for k in range(1, 7)),
        "G5",
    }
    for line in STANDARDS:
        answer = line.split("|")[3].strip()
        assert "::test_" in answer or answer.startswith(("not applicable", "not met", "docs", "[")), line
