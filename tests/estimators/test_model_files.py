"""Model files: records of one's own, and who may read them."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import threading
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import nmar
from nmar.cli.main import main
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
    before = dict(store.REGISTERED)
    yield
    store.REGISTERED.clear()
    store.REGISTERED.update(before)


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
    del store.REGISTERED["Own"]
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


FEATURES = np.random.default_rng(0).normal(size=(40, 3))
TREE = "sklearn.tree._tree.Tree"


def fitted(estimator, cells, **more):
    return nmar.CCPF(nmar.Regressor(estimator, col_features=FEATURES), **OPTIONS).fit(cells, **more)


def same(found, model):
    """Whether two models predict every cell alike, to the bit."""
    rows, cols = np.repeat(np.arange(60), 40), np.tile(np.arange(40), 60)
    return np.array_equal(found.predict_entries(rows, cols), model.predict_entries(rows, cols))


def test_a_scikit_learn_estimator_comes_back(cells, tmp_path):
    model = fitted(Ridge(2.0), cells)
    model.save(tmp_path / "m.nmar", seen=True)
    found = nmar.load(tmp_path / "m.nmar")
    assert same(found, model)
    assert found.data.estimator.alpha == 2.0
    assert np.array_equal(found.data.col_features, FEATURES)
    assert same(found.partial_fit(cells), model.partial_fit(cells))


def test_types_of_an_estimator_are_trusted_by_name(cells, tmp_path):
    model, path = fitted(DecisionTreeRegressor(max_depth=2), cells), tmp_path / "m.nmar"
    model.save(path)
    with pytest.raises(ValueError, match=rf"not trusted: {TREE};.*trusted=\['{TREE}'\]"):
        nmar.load(path)
    with pytest.raises(ValueError, match=r"give a list of names"):
        nmar.load(path, trusted=TREE)
    assert same(nmar.load(path, trusted=[TREE]), model)


def test_a_model_file_of_an_estimator_holds_nothing_of_single_cells(cells, tmp_path):
    model = fitted(Ridge(), cells)
    model.save(tmp_path / "m.nmar")
    assert cells.n_observed > 500 > 40 * 3
    with zipfile.ZipFile(tmp_path / "m.nmar") as file:
        arrays = [np.load(io.BytesIO(file.read(name))) for name in file.namelist() if name.endswith(".npy")]
    assert all(cells.n_observed not in array.shape for array in arrays)


def test_checkpoints_of_an_estimator_resume_to_the_same_bits(cells, tmp_path):
    """Types of the user's own estimator need no list: the fit that resumes makes them itself."""
    tree = DecisionTreeRegressor(max_depth=2, random_state=0)
    data = nmar.Regressor(tree, col_features=FEATURES)
    whole = nmar.CCPF(data, **OPTIONS | {"max_iter": 6}).fit(cells)
    nmar.CCPF(data, **OPTIONS | {"max_iter": 3}).fit(cells, checkpoint=tmp_path, every=1)
    model = nmar.CCPF(data, **OPTIONS | {"max_iter": 6})
    swept = []
    model.fit(cells, checkpoint=tmp_path, resume=True, callbacks=[lambda sweep: swept.append(sweep)])
    assert len(swept) == 3
    assert same(model, whole)


class Foreign(Ridge):
    """An estimator that holds what no file can: an open lock."""

    def fit(self, X, y, sample_weight=None):
        self.lock_ = threading.Lock()
        return super().fit(X, y, sample_weight)


def test_an_estimator_that_cannot_be_written_is_refused_before_a_fit_with_checkpoints(cells, tmp_path):
    with pytest.raises(TypeError, match="Foreign cannot be saved without pickle"):
        fitted(Foreign(), cells, checkpoint=tmp_path, callbacks=[lambda sweep: pytest.fail("a sweep was made")])
    model = fitted(Foreign(), cells)
    with pytest.raises(TypeError, match="Foreign cannot be saved without pickle"):
        model.save(tmp_path / "m.nmar")
    assert not (tmp_path / "m.nmar").exists()


def test_the_command_line_names_what_to_trust(cells, tmp_path, capsys):
    path = tmp_path / "m.nmar"
    fitted(DecisionTreeRegressor(max_depth=2), cells).save(path)
    assert main(["recommend", str(path), "--rows", "0", "--n", "2"]) == 2
    assert f"--trusted ['{TREE}']" in capsys.readouterr().err
    assert main(["recommend", str(path), "--rows", "0", "--n", "2", "--trusted", TREE]) == 0


def test_without_skops_the_error_says_what_to_install(cells, tmp_path, monkeypatch):
    model = fitted(Ridge(), cells)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"pip install skops"):
        model.save(tmp_path / "m.nmar")


PEOPLE = pandas.DataFrame(
    {"age": np.linspace(20.0, 70.0, 60), "home": pandas.Categorical(["north", "south", None] * 20)},
    index=pandas.RangeIndex(60, name="who"),
).assign(member=lambda frame: frame["age"] > 40.0)
ITEMS = np.random.default_rng(1).normal(size=(40, 2))
DESCRIBED = {
    "factorization": {"data": nmar.Factorization(2, rows=PEOPLE, cols=ITEMS)},
    "effects": {"data": nmar.Effects("rows", rows=PEOPLE.reset_index())},
    "mixture": {"data": nmar.Mixture(2, rows=PEOPLE, cols=ITEMS, restarts=1)},
    "pattern": {"data": nmar.Effects("rows"), "pattern": nmar.Pattern(3, rows=PEOPLE, cols=ITEMS), "factors": 10},
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_loaded_model_has_the_covariates_it_was_fitted_with(cells, name, tmp_path):
    first, rest = cells.split(test=0.2, valid=0.0, seed=0)[::2]
    model = nmar.CCPF(**{**OPTIONS, **DESCRIBED[name]}).fit(first)
    model.save(tmp_path / "m", seen=True)
    anew = nmar.load(tmp_path / "m").set_params(random_state=0).fit(first)
    np.testing.assert_array_equal(anew.bound_trace_, model.bound_trace_)
    loaded = nmar.load(tmp_path / "m")
    loaded.save(tmp_path / "again", seen=True)
    expected = model.partial_fit(rest, sweeps=2).predict_entries([0, 1], [2, 3])
    for again in (loaded, nmar.load(tmp_path / "again")):
        np.testing.assert_array_equal(again.partial_fit(rest, sweeps=2).predict_entries([0, 1], [2, 3]), expected)


def test_a_loaded_model_with_covariates_resumes_its_checkpoints(cells, tmp_path):
    """Also where ids of its covariates have been looked up since."""
    known = nmar.Factorization(2, rows=PEOPLE.iloc[::-1])
    nmar.CCPF(**{**OPTIONS, "data": known}).fit(cells).save(tmp_path / "m")
    model, given = nmar.load(tmp_path / "m"), {"checkpoint": tmp_path / "kept", "every": 1}
    model.set_params(random_state=0).fit(cells, **given)
    swept = []
    model.set_params(max_iter=4)
    model.fit(cells, **given, resume=True, callbacks=[lambda record: swept.append(record.iteration)])
    assert swept == [3, 4]


# --- damaged training cells ---------------------------------------------------------------------------------------


def crafted(model, path, change, part="_seen"):
    """A model file whose training cells were changed."""
    model.save(path, seen=True)
    known, trace, params, more = store.load(path)
    parts = dict(more)
    cells = list(parts[part] if part == "_seen" else parts[part][0])
    change(cells)
    parts[part] = tuple(cells) if part == "_seen" else (tuple(cells),)
    store.save(path, (known, trace, params, tuple(parts.items())))
    return path


def put(place, at, value):
    """Set one entry of one array of the cells: 0 indptr, 1 indices, 2 values, 3 weights."""

    def change(cells):
        cells[place] = cells[place].copy()
        cells[place][at] = value

    return change


DAMAGES = [
    (put(1, 5, 10**8), "indices has 100000000 at place 5, outside 0 … 39"),
    (put(1, 5, -7), "indices has -7 at place 5"),
    (put(0, 3, 10**9), "indptr falls from 1000000000"),
    (put(0, 0, 1), "indptr begins with 1"),
    (put(2, 0, np.nan), "values has nan at place 0"),
    (put(3, 0, -1.0), "weights has -1.0 at place 0"),
    (lambda cells: cells.__setitem__(2, cells[2][:-3]), "values for"),
    (lambda cells: cells.__setitem__(0, cells[0][:-1]), "indptr has 60 entries, and 60 lines need 61"),
    (lambda cells: cells.__setitem__(1, 4), "indices is int, not a list of integers"),
    (lambda cells: cells.__setitem__(4, "rows"), "holds str where the ids of rows belong"),
    (lambda cells: cells.pop(), "5 parts instead of 6"),
]


@pytest.mark.parametrize(("change", "told"), DAMAGES)
def test_damaged_training_cells_are_refused_by_name(change, told, cells, tmp_path):
    weighted = cells.with_weights(np.ones(len(cells)))
    model = nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(weighted)
    path = crafted(model, tmp_path / "m.nmar", change)
    with pytest.raises(ValueError, match=rf"m\.nmar'.*training cells.*{told}.*; save the model again"):
        nmar.load(path)


def test_damaged_held_out_cells_are_refused_too(cells, tmp_path):
    train, valid, _ = cells.split(test=0.0, valid=0.1, seed=0)
    model = nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(train, valid=valid)
    path = crafted(model, tmp_path / "m.nmar", put(1, 2, 10**8), "_hidden")
    with pytest.raises(ValueError, match=r"m\.nmar'.*held-out cells: indices has 100000000 at place 2"):
        nmar.load(path)


def test_training_cells_of_other_axes_than_the_model_are_refused(cells, tmp_path):
    def fewer(parts):
        parts[4] = nmar.Cells.from_arrays([9], [0], [1.0]).rows
        parts[0] = parts[0][:11].copy()
        parts[0][-1] = len(parts[1])

    model = nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(cells)
    path = crafted(model, tmp_path / "m.nmar", fewer)
    with pytest.raises(ValueError, match=r"10 rows and 40 columns, and the model has 60 and 40"):
        nmar.load(path)


def test_a_file_of_an_older_version_is_refused_with_the_remedy(cells, tmp_path):
    nmar.CCPF(nmar.Effects("rows"), factors=2, max_iter=2, random_state=0).fit(cells).save(tmp_path / "m.nmar")
    with zipfile.ZipFile(tmp_path / "m.nmar") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = json.loads(parts["header.json"])
    with zipfile.ZipFile(tmp_path / "old.nmar", "w") as file:
        for name, part in {**parts, "header.json": json.dumps({**header, "version": 2})}.items():
            file.writestr(name, part)
    with pytest.raises(ValueError, match=r"old\.nmar': it was written by an older nmar.*fit it again"):
        nmar.load(tmp_path / "old.nmar")


def test_the_same_fit_gives_the_same_bytes(cells, tmp_path):
    """Whenever it is saved, and however long it took; the seed stays with it."""
    for name in ("first", "second"):
        nmar.CCPF(nmar.Factorization(2), factors=2, max_iter=3, random_state=7).fit(cells).save(
            tmp_path / name, seen=True
        )
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    loaded = nmar.load(tmp_path / "first")
    assert loaded.random_state == 7 and np.isnan(loaded.seconds_trace_).all()


def test_temporary_files_of_killed_processes_are_removed_after_a_day(cells, tmp_path):
    model = nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(cells)
    old, new, other = (tmp_path / f".{name}.nmar" for name in (f"m.{16 * 'a'}", f"m.{16 * 'b'}", f"n.{16 * 'a'}"))
    for file in (old, new, other):
        file.write_bytes(b"")
    for file in (old, other):
        os.utime(file, (0.0, 0.0))
    model.save(tmp_path / "m.nmar")
    assert {file.name for file in tmp_path.iterdir()} == {"m.nmar", new.name, other.name}
