"""Small simulated problems shared by the tests of the reports."""

from __future__ import annotations

import pytest

import nmar
from nmar.report.comparison import Comparison


@pytest.fixture(scope="session")
def linked() -> nmar.Cells:
    """Cells whose spread falls with the latent count."""
    cells, _ = nmar.simulate((120, 80), nmar.Factorization(2), nmar.Geometric(-0.8), density=0.35, seed=1)
    return cells


@pytest.fixture(scope="session")
def comparison(linked: nmar.Cells) -> Comparison:
    """A comparison of all kinds of fits."""
    settings = {"factors": 3, "max_iter": 25, "seeds": 1, "n_jobs": 1, "name": "sim <1>"}
    return nmar.compare(linked, nmar.Factorization(2), ["linear", "free"], **settings)
