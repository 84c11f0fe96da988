"""Model files: records of one's own, and who may read them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

import numpy as np
import pytest

import nmar
from nmar.posterior import store

OPTIONS = {"linkage": "linear", "factors": 3, "max_iter": 2, "starts": 1, "random_state": 0, "n_jobs": 1}


@dataclass(frozen=True)
class Own:
    """A data model of a user's, built from one of ours."""

    rank: int = 2

    def build(self, cells):
        return nmar.Factorization(self.rank).build(cells)

    def describe(self):
        return "own"


class Others:
    """Where another class of the same name lives."""

    @dataclass(frozen=True)
    class Own:
        size: int = 2


@pytest.fixture
def registered():
    """What is registered during a test is forgotten after it."""
    before = dict(store._REGISTERED)
    yield
    store._REGISTERED.clear()
    store._REGISTERED.update(before)


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((60, 40), nmar.Factorization(2), density=0.25, seed=0)[0]


def named(name):
    """A data model of a user's whose class is called ``name``."""
    return dataclass(frozen=True)(type(name, (Own,), {"__module__": __name__}))


def test_a_record_that_could_not_be_read_is_refused_when_it_is_saved(cells, tmp_path):
    model = nmar.CCPF(Own(), **OPTIONS).fit(cells)
    with pytest.raises(TypeError, match=r"Own.*nmar\.register\(Own\)"):
        model.save(tmp_path / "m.nmar")
    assert list(tmp_path.iterdir()) == []


def test_a_class_named_like_one_of_ours_is_refused_too(cells, tmp_path, registered):
    Factorization = named("Factorization")
    model = nmar.CCPF(Factorization(), **OPTIONS).fit(cells)
    with pytest.raises(TypeError, match="Factorization"):
        model.save(tmp_path / "m.nmar")
    with pytest.raises(ValueError, match=r"'Factorization'.*rename"):
        nmar.register(Factorization)


def test_a_registered_record_comes_back(cells, tmp_path, registered):
    assert nmar.register(Own) is Own  # so that it can stand above the class
    model = nmar.CCPF(Own(), **OPTIONS).fit(cells)
    model.save(tmp_path / "m.nmar")
    found = nmar.load(tmp_path / "m.nmar")
    assert found.data == Own(2)
    assert np.array_equal(found.predict_entries([0, 1], [2, 3]), model.predict_entries([0, 1], [2, 3]))


def test_a_file_with_a_record_that_is_not_registered_says_what_to_do(cells, tmp_path, registered):
    nmar.register(Own)
    nmar.CCPF(Own(), **OPTIONS).fit(cells).save(tmp_path / "m.nmar")
    del store._REGISTERED["Own"]
    with pytest.raises(ValueError, match=r"'Own'.*nmar\.register"):
        nmar.load(tmp_path / "m.nmar")


def test_what_can_be_registered(registered):
    nmar.register(Own)
    nmar.register(Own)  # a module that is imported twice
    again = nmar.register(named("Own"))  # a cell of a notebook that is run twice
    assert store.registry()["Own"] is again
    with pytest.raises(ValueError, match=r"'Own'.*rename"):
        nmar.register(Others.Own)
    for wrong in (Own(), int, "Own"):
        with pytest.raises(TypeError, match="dataclass"):
            nmar.register(wrong)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_model_files_and_checkpoints_have_the_permissions_of_any_new_file(mask, cells, tmp_path):
    before = os.umask(mask)
    try:
        nmar.CCPF(nmar.Factorization(2), **OPTIONS).fit(cells, checkpoint=tmp_path).save(tmp_path / "m.nmar")
    finally:
        os.umask(before)
    written = list(tmp_path.glob("*.nmar"))
    assert len(written) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in written} == {0o666 & ~mask}
