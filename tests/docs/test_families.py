"""The table of families and data models in docs/theory.md says what the data models accept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import nmar

THEORY = Path(__file__).parents[2] / "docs" / "theory.md"
FAMILIES = ("gaussian", "levels", "poisson", "gamma", "inverse_gaussian", "binomial", "negative_binomial")
X = np.zeros((4, 1))
MODELS = {
    "Constant": lambda family: nmar.Constant(family, **({"trials": 5} if family == "binomial" else {})),
    "Effects": lambda family: nmar.Effects("rows", family),
    "Factorization": lambda family: nmar.Factorization(2, family),
    "Mixture": lambda family: nmar.Mixture(2, "rows", family),
    "Regression": lambda family: nmar.Regression(X, family=family),
    "Regressor": lambda family: nmar.Regressor(Ridge(), col_features=X, family=family),
}


def table() -> dict[tuple[str, str], bool]:
    """Whether a family (in lower case) goes with a data model, by the page."""
    lines = THEORY.read_text("utf-8").partition("### Families of data models")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    models, found = rows[0][1:-1], {}
    for families, *marks, reason in rows[2:]:
        for family in families.split(","):
            for names, mark in zip(models, marks, strict=True):
                for name in names.split(","):
                    found[family.strip().lower().replace(" ", "_"), name.strip()] = mark == "✓"
        assert reason or "–" not in marks, families
    return found


def accepts(make, family: str) -> bool:
    try:
        make(family)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_table_says_what_a_data_model_accepts(family, name):
    assert table()[family, name] == accepts(MODELS[name], family)


def test_the_table_has_every_pair():
    assert set(table()) == {(family, name) for family in FAMILIES for name in MODELS}
