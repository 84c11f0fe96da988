"""Numbers of short fits to a real table, MovieLens-small: a change that should change no result changes none here.

A change that is meant to move them says so, and writes new ones: ``python tests/fit/test_golden.py``. Only rounding
differs between processors, so the tolerance leaves no room for more than that.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest

import nmar

NUMBERS = Path(__file__).with_name("golden.json")
ROWS, COLS = [15, 15, 73, 547, 624], [1, 260, 318, 50, 2959]
MODELS = {
    "default": {"data": nmar.Factorization(5)},
    "free": {"data": nmar.Factorization(5), "linkage": "free", "noise": "constant", "tail": False},
    "linear": {"data": nmar.Effects("both"), "linkage": "linear"},
    "taste": {"data": nmar.Effects("both"), "mechanism": "taste"},
    "levels": {"data": nmar.Effects("both", "levels")},
    "pattern": {"data": nmar.PatternOnly()},
}


@functools.cache
def parts() -> tuple[nmar.Cells, nmar.Cells]:
    train, _, test = nmar.datasets.movielens().split(test=0.2, valid=0.0, seed=0)
    return train, test


def numbers(name: str) -> dict[str, list[float]]:
    """Bounds, P(observed), and where values are modelled predictions and the held-out score."""
    train, test = parts()
    settings = {"linkage": "ignorable", "factors": 5, "max_iter": 3, "tol": 0.0, "random_state": 0, **MODELS[name]}
    model = nmar.CCPF(**settings).fit(train, hidden=test)
    found = {"bound": model.bound_trace_, "observed": model.observed_probability(ROWS, COLS)}
    if name != "pattern":
        found |= {"mean": model.predict_entries(ROWS, COLS), "score": [model.log_likelihood(test)]}
    return {key: np.asarray(value).tolist() for key, value in found.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_real_table_gives_the_same_numbers(name):
    expected = json.loads(NUMBERS.read_text())[name]
    found = numbers(name)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-10, err_msg=key)


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps({name: numbers(name) for name in MODELS}, indent=1) + "\n")
