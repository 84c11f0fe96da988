"""Commands that pages show are understood, and those of the README run one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.cli.main import main, parsers
from nmar.data import datasets

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^(?:    )?nmar [a-z].*$", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """Command lines in the blocks of a page, without the name of the program."""
    return [shlex.split(line)[1:] for line in COMMAND.findall(page.read_text("utf-8"))]


PAGES = [page for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]) if commands(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_are_understood(page: Path) -> None:
    for command in commands(page):
        parsers()[0].parse_args(command)


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """On a small table in the place of MovieLens, some of whose columns have one cell, which may be held out."""
    cells, _ = nmar.simulate((40, 30), nmar.Factorization(2), density=0.3, seed=0)
    row, col = cells.positions()
    rare = np.arange(5)
    small = nmar.Cells.from_arrays(
        np.append(row, rare), np.append(col, 100 + rare), np.append(np.round(cells.values), rare)
    )
    monkeypatch.setitem(datasets.LOADERS, "movielens", lambda: small)
    monkeypatch.chdir(tmp_path)
    asked = commands(ROOT / "README.md")
    assert [one[0] for one in asked] == ["split", "fit", "evaluate", "predict", "recommend", "report"]
    for command in asked:
        assert main(command) == 0, capsys.readouterr().err
    train, test = (nmar.read(f"{name}.csv", "row", "col", "value") for name in ("train", "test"))
    assert set(test.col_ids) - set(train.col_ids)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"train.csv", "test.csv", "m.nmar", "predictions.csv", "lists.parquet", "m.html"}
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == len(test) + 1
