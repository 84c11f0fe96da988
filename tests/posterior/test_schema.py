"""Files from anyone: what is no model is an error of one class that names file and part, and nothing else happens."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.cli.main import main
from nmar.fit.checkpoint import read_run
from nmar.posterior import store
from nmar.posterior.schema import RANGES, SHAPES

FILES = Path(__file__).parent / "files"
OPTIONS = {"factors": 2, "max_iter": 3, "tol": 0.0, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((20, 15), nmar.Factorization(1), density=0.4, seed=0)[0]


@pytest.fixture(scope="module")
def good(cells, tmp_path_factory):
    """A model file."""
    path = tmp_path_factory.mktemp("good") / "m.nmar"
    nmar.CCPF(nmar.Factorization(1), "linear", noise="constant", tail=False, **OPTIONS).fit(cells).save(path, seen=True)
    return path


def parts_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return path


def with_tree(good, path, change):
    """The file with another tree in its header."""
    parts = parts_of(good)
    header = json.loads(parts["header.json"])
    change(header)
    return write(path, {**parts, "header.json": json.dumps(header)})


def with_array(good, path, name, change):
    """The file with another array under a name."""
    parts = parts_of(good)
    place = f"{json.loads(parts['names.json']).index(name)}.npy"
    buffer = io.BytesIO()
    np.save(buffer, change(np.load(io.BytesIO(parts[place]))))
    return write(path, {**parts, place: buffer.getvalue()})


def at(header, *path):
    """A node of the tree; fields of records by name, parts of tuples by number."""
    node = header["tree"]
    for step in path:
        node = node["fields"][step] if "fields" in node else node["tuple"][step]
    return node


def put(*path):
    """Put the last of these at the place that the others name."""
    *place, name, value = path

    def change(header):
        node = at(header, *place)
        (node["fields"] if "fields" in node else node["tuple"])[name] = value

    return change


def nested(header):
    tree = None
    for _ in range(200):
        tree = {"tuple": [tree]}
    put(0, "law", "data", tree)(header)


SHARED, LAW = (0, "state", "shared"), (0, "law")
TREES = {
    "a field of the wrong type": (put(*SHARED, "dispersion", "1"), r"Shared\.dispersion is '1', not float"),
    "a truth value for a number": (put(*SHARED, "dispersion", True), r"Shared\.dispersion is True"),
    "no number": (put(*SHARED, "dispersion", float("nan")), r"Shared\.dispersion is not finite"),
    "below its range": (put(*SHARED, "scale", 0.0), r"Shared\.scale has 0, outside"),
    "a table of any length": (put(*SHARED, "table_size", 2**40), r"Shared\.table_size has 1\.09951e\+12"),
    "a whole number of many bits": (put(0, "law", "data", "steps", 10**300), r"Bilinear\.steps is a whole number"),
    "an axis that is none": (put(*LAW, "lead", 2), r"Law\.lead has 2, outside 0 … 1"),
    "a record of another kind": (put(*SHARED, "linkage", {"record": "Units", "fields": {}}), r"linkage is of Units"),
    "an unknown record": (put(*LAW, "data", {"record": "os.system", "fields": {}}), r"'os\.system' that is not known"),
    "an axis as a record": (put(0, "rows", {"record": "Axis", "fields": {"size": 9}}), r"record 'Axis'"),
    "an unknown field": (put(*SHARED, "more", 1), r"Shared has no field 'more'"),
    "a missing field": (lambda h: at(h, *SHARED)["fields"].pop("data"), r"Shared lacks its field 'data'"),
    "an unknown node": (put(*SHARED, "data", {"pickle": "x"}), r"a node with 'pickle'"),
    "an unknown array": (put(0, "rows", {"array": "none"}), r"there is no array 'none'"),
    "a list": (put(*SHARED, "data", [1]), r"a list where a record"),
    "deep": (nested, r"inside each other more than"),
    "no text of a law": (put(*LAW, "dtype", {"dtype": "object"}), r"dtype 'object'"),
    "thinning without end": (put(*SHARED, "linkage", "thinning", 1e9), r"thinning is 1000000000\.0"),
    "an attribute": (put(3, {"tuple": [{"tuple": ["fit", 1]}]}), r"it names 'fit', which no model has"),
    "an argument": (put(2, {"tuple": [{"tuple": ["verbosity", 1]}]}), r"it names 'verbosity'"),
    "a trace of texts": (put(1, 0, "x"), r"its trace is not one of numbers"),
    "one side": (lambda h: at(h, 0, "state", "sides")["tuple"].pop(), r"State\.sides is of tuple"),
    "no model": (put(0, None), r"it holds NoneType, not a fitted model"),
    "a version that is none": (lambda h: h.update(version="3"), r"its version is '3'"),
    "another format": (lambda h: h.update(format="nmar-checkpoint"), r"it holds 'nmar-checkpoint', not 'nmar-model'"),
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_that_is_no_model_is_refused_by_file_and_part(name, good, tmp_path):
    change, told = TREES[name]
    path = with_tree(good, tmp_path / "m.nmar", change)
    with pytest.raises(nmar.FileError, match=rf"m\.nmar'.*{told}") as caught:
        nmar.load(path)
    assert caught.value.path == str(path)


U = "0.state.sides.0"
ARRAYS = {
    "a line less": (f"{U}.pattern.weights.alpha", lambda a: a[:-1], r"weights\.alpha has the shape \(19, 2\)"),
    "coordinates more": (f"{U}.data.mean", lambda a: np.repeat(a, 3, axis=1), r"data\.spread has the shape"),
    "not finite": (f"{U}.data.mean", lambda a: a * np.inf, r"NormalFactor\.mean is not finite"),
    "negative": (f"{U}.pattern.weights.beta", lambda a: -a, r"GammaFactor\.beta has"),
    "texts": (f"{U}.data.mean", lambda a: a.astype(str), r"data\.mean is of <U"),
    "no covariance": (f"{U}.data.spread", lambda a: -np.abs(a), r"data\.spread holds no covariances"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_do_not_fit_the_model_are_refused_by_name(name, good, tmp_path):
    array, change, told = ARRAYS[name]
    names = json.loads(parts_of(good)["names.json"])
    place = next(one for one in names if one.replace("[", ".").replace("]", "").endswith(array))
    with pytest.raises(nmar.FileError, match=told):
        nmar.load(with_array(good, tmp_path / "m.nmar", place, change))


def huge(parts):
    """An array that says it has 10¹² numbers and has none."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    return {**parts, "0.npy": buffer.getvalue()}


CONTAINERS = {
    "a text": (lambda parts: None, "not a complete nmar-model file"),
    "no header": (lambda p: {k: v for k, v in p.items() if k != "header.json"}, "no part header.json"),
    "no array": (lambda p: {k: v for k, v in p.items() if k != "1.npy"}, "no part 1.npy"),
    "a huge array": (huge, r"shape \(1000000000000,\).* in 0 bytes"),
    "a header that is a list": (lambda p: {**p, "header.json": "[]"}, "not a complete|it holds"),
    "deep JSON": (lambda p: {**p, "header.json": "[" * 100_000}, "not a complete"),
    "names twice": (lambda p: {**p, "names.json": json.dumps(["a", "a"])}, "no list of different names"),
    "an array that is none": (lambda p: {**p, "0.npy": b"\x93NUMPY\x09\x00"}, "format"),
    "objects": (lambda p: {**p, "0.npy": saved(np.array([None]), True)}, "Python objects"),
}


def saved(array, allow=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow)
    return buffer.getvalue()


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_no_container_of_ours_is_refused(name, good, tmp_path):
    change, told = CONTAINERS[name]
    path, parts = tmp_path / "m.nmar", change(parts_of(good))
    path.write_text("a text") if parts is None else write(path, parts)
    with pytest.raises(nmar.FileError, match=told):
        nmar.load(path)


def test_compressed_parts_are_refused_before_they_are_unpacked(good, tmp_path):
    with pytest.raises(nmar.FileError, match="compressed or encrypted"):
        nmar.load(write(tmp_path / "m.nmar", parts_of(good), zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("ids", [["a"] * 20, [f"n{k}" for k in range(19)] + ["n0"]])
def test_ids_are_different(ids, good, tmp_path):
    def change(header):
        at(header, 0)["fields"]["rows"] = {"axis": {"kind": {"array": "kind"}, "ids": {"array": "ids"}}}

    path = with_tree(good, tmp_path / "m.nmar", change)
    parts = parts_of(path)
    names = [*json.loads(parts["names.json"]), "kind", "ids"]
    new = {f"{len(names) - 2}.npy": saved(np.array("str")), f"{len(names) - 1}.npy": saved(np.array(ids))}
    with pytest.raises(nmar.FileError, match=r"rows: ids that are repeated"):
        nmar.load(write(path, {**parts, **new, "names.json": json.dumps(names)}))


def test_a_support_vector_machine_of_a_stranger_is_trusted_by_name_alone(cells, tmp_path):
    """Its compiled code reads past arrays that are shorter than its others say."""
    svm = pytest.importorskip("sklearn.svm")
    features = np.random.default_rng(0).normal(size=(15, 2))
    nmar.CCPF(nmar.Regressor(svm.SVR(), col_features=features), **OPTIONS).fit(cells).save(tmp_path / "m.nmar")
    name = "sklearn.svm._classes.SVR"
    with pytest.raises(nmar.FileError, match=rf"not trusted: {name}"):
        nmar.load(tmp_path / "m.nmar")
    assert nmar.load(tmp_path / "m.nmar", trusted=[name]).n_iter_ == 3


def test_tables_of_the_schema_name_records_and_fields_that_exist():
    known = store.registry()
    for table in (RANGES, SHAPES):
        for record, fields in table.items():
            assert set(fields) <= set(known[record].__dataclass_fields__), record


def test_files_of_this_version_are_read(capsys):
    """Written by version 0.1.0 of the library, format 3; they stay as they are."""
    model = nmar.load(FILES / "model-3.nmar")
    assert model.posterior_.rows.ids[:2].tolist() == ["r0", "r1"]
    expected = [0.3721364904714475, -0.5353750093893438]
    np.testing.assert_allclose(model.predict_entries(["r0", "r7"], ["c0", "c5"]), expected, rtol=1e-9)
    assert read_run(FILES / "checkpoint-3.nmar", ())[1].trace.iterations == 2
    assert main(["doctor", str(FILES / "model-3.nmar"), str(FILES / "checkpoint-3.nmar")]) == 0
    told = capsys.readouterr().out
    for part in ("nmar-model, version 3", "factorization:1, linkage linear", "8 × 6", "2 sweeps over 8 × 6"):
        assert part in told


def test_doctor_says_what_is_wrong_with_a_file(good, tmp_path, capsys):
    bad = tmp_path / "bad.nmar"
    bad.write_bytes(good.read_bytes()[:-40])
    assert main(["doctor", str(good), str(bad), str(tmp_path / "none.nmar")]) == 1
    told = capsys.readouterr().out
    assert "training cells" in told
    assert "damaged" in told and "not a complete" in told and "No such file" in told


def test_doctor_compares_every_file_of_a_dataset_with_its_checksum(cells, tmp_path, capsys):
    nmar.Dataset.from_cells(cells, tmp_path / "store")
    assert main(["doctor", str(tmp_path / "store")]) == 0
    assert f"{len(cells)} of 20 × 15" in capsys.readouterr().out
    file = tmp_path / "store" / "by1" / "00000.values"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    assert main(["doctor", str(tmp_path / "store"), str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "00000.values' is damaged: its checksum is wrong" in told and "no folder of a dataset" in told


def test_a_crafted_checkpoint_of_other_lines_does_not_reach_the_fit(cells, tmp_path):
    model = nmar.CCPF(nmar.Factorization(1), "linear", noise="constant", tail=False, **OPTIONS)
    model.fit(cells, checkpoint=tmp_path, every=1)
    newest = max(tmp_path.glob("*.nmar"))
    fingerprint, run = store.load(newest, "nmar-checkpoint")
    rows, cols = run.state.sides
    fewer = replace(run, state=replace(run.state, sides=(rows.take(slice(0, 5)), cols)))
    store.save(newest, (fingerprint, fewer), "nmar-checkpoint")
    with pytest.raises(ValueError, match="the checkpoint has other lines than a fit of these cells"):
        model.set_params(max_iter=5).fit(cells, checkpoint=tmp_path, resume=True)
