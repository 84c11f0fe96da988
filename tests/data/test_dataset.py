"""Datasets on disk: the same cells as in memory, whatever the pieces and shards; files that are not what they were."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nmar
from nmar.data import ingest, manifest, shards, stored, write_frame
from nmar.data.axis import Axis
from nmar.data.dataset import Dataset
from nmar.data.manifest import find_manifest
from nmar.data.storage import Storage, find_files
from nmar.data.stored import NeedsMemory, StoredArray

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many pieces and shards."""
    monkeypatch.setattr(ingest, "PIECE", 60)
    monkeypatch.setattr(shards, "SHARD", 50)
    monkeypatch.setattr(stored, "PIECE", 37)


def table(ids="int", n=400, seed=0, repeats=False):
    rng = np.random.default_rng(seed)
    key = rng.integers(0, 40 * 30, n) if repeats else rng.permutation(40 * 30)[:n]
    row, col = key // 30, key % 30
    kinds = {
        "int": (row * 3 + 7, col),
        "text": (np.array([f"u{k}" for k in row], object), np.array([f"é{k}" for k in col], object)),
        "date": (np.datetime64("2020-01-01") + row.astype("m8[D]"), col - 5),
    }
    return {"user": kinds[ids][0], "item": kinds[ids][1], "y": rng.normal(size=n).round(2), "w": rng.random(n)}


def files(folder, columns, parts=3, group=25):
    """The table in several Parquet files, several row groups each."""
    import pyarrow

    os.makedirs(folder, exist_ok=True)
    for k, places in enumerate(np.array_split(np.arange(len(columns["y"])), parts)):
        part = pyarrow.table({name: array[places] for name, array in columns.items()})
        pq.write_table(part, os.path.join(folder, f"part-{k}.parquet"), row_group_size=group)
    return folder


def assert_same(dataset, cells):
    """All that a fit reads of either."""
    loaded = dataset.to_cells()
    assert loaded.row_ids.tolist() == cells.row_ids.tolist() and loaded.col_ids.tolist() == cells.col_ids.tolist()
    for axis in (0, 1):
        one, other = dataset.by(axis), cells.by(axis)
        np.testing.assert_array_equal(one.indptr, other.indptr)
        part = one.lines(0, one.n)
        assert part.indices.dtype == other.indices.dtype and part.values.dtype == other.values.dtype
        np.testing.assert_array_equal(part.indices, other.indices)
        np.testing.assert_array_equal(part.values, other.values)
        if cells.weights is not None:
            np.testing.assert_array_equal(dataset.weights_by(axis)[0 : len(cells)], cells.weights_by(axis))


@pytest.mark.parametrize("ids", ["int", "text", "date"])
def test_the_cells_of_parquet_files_are_those_read_into_memory(ids, tmp_path):
    columns = table(ids)
    dataset = Dataset(files(tmp_path / "in", columns), row="user", col="item", value="y", weight="w")
    assert len(dataset.manifest.starts[0]) > 4 and len(dataset.manifest.starts[1]) > 4
    assert_same(dataset, nmar.Cells.from_frame(columns, "user", "item", "y", weight="w"))
    assert dataset.mean_weight() == pytest.approx(columns["w"].mean(), rel=1e-14)
    assert not os.path.exists(tmp_path / "in.nmar" / "_build")


@pytest.mark.parametrize("duplicates", ["last", "mean", "sum"])
def test_duplicates_are_settled_as_in_memory(duplicates, tmp_path):
    columns = table(repeats=True)
    folder = files(tmp_path / "in", columns)
    dataset = Dataset(folder, row="user", col="item", value="y", duplicates=duplicates)
    assert_same(dataset, nmar.Cells.from_frame(columns, "user", "item", "y", duplicates))
    with pytest.raises(ValueError, match=r"duplicates: .* repeat a cell"):
        Dataset(folder, tmp_path / "other", row="user", col="item", value="y")


@pytest.mark.parametrize("duplicates", ["last", "sum"])
def test_weights_of_duplicates_are_settled_as_in_memory(duplicates, tmp_path):
    columns = table(repeats=True)
    folder = files(tmp_path / "in", columns)
    dataset = Dataset(folder, **COLUMNS, weight="w", duplicates=duplicates)
    assert_same(dataset, nmar.Cells.from_frame(columns, "user", "item", "y", duplicates, weight="w"))
    with pytest.raises(ValueError, match="duplicates='mean' and weights cannot be combined"):
        Dataset(folder, tmp_path / "other", **COLUMNS, weight="w", duplicates="mean")


def test_values_that_float32_holds_are_stored_so(tmp_path):
    columns = table() | {"y": np.arange(400) / 2.0}
    dataset = Dataset(files(tmp_path / "in", columns), row="user", col="item", value="y")
    assert dataset.by(0).values.dtype == np.float32
    assert dataset.map_values(lambda y: y / 3.0).by(1).values.dtype == np.float64
    assert dataset.map_values(lambda y: y / 4.0).by(1).values.dtype == np.float32


def test_cells_written_from_memory_are_the_same(tmp_path):
    cells = nmar.Cells.from_frame(table(), "user", "item", "y", weight="w")
    assert_same(Dataset.from_cells(cells, tmp_path / "d"), cells)


def test_a_store_elsewhere_and_sources_by_url(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    columns = table()
    memory = fsspec.filesystem("memory")
    memory.put(str(files(tmp_path / "in", columns)), "/source", recursive=True)
    assert [os.path.basename(name) for name in find_files("memory://source/*.parquet")] == [
        "part-0.parquet",
        "part-1.parquet",
        "part-2.parquet",
    ]
    with pytest.raises(ValueError, match="store="):
        Dataset("memory://source/*.parquet", row="user", col="item", value="y")
    dataset = Dataset("memory://source/*.parquet", "memory://built", row="user", col="item", value="y")
    assert_same(dataset, nmar.Cells.from_frame(columns, "user", "item", "y"))
    assert not memory.exists("/built/_build")
    memory.rm("/built", recursive=True)


def test_a_build_that_was_broken_off_goes_on(tmp_path, monkeypatch):
    columns, made = table(), []
    folder = files(tmp_path / "in", columns)
    whole = shards.ShardMaker.columns

    def fails(maker, shard):
        if shard == 3:
            raise OSError("pulled out")
        whole(maker, shard)

    monkeypatch.setattr(shards.ShardMaker, "columns", fails)
    with pytest.raises(OSError, match="pulled out"):
        Dataset(folder, row="user", col="item", value="y", n_jobs=1)
    monkeypatch.setattr(shards.ShardMaker, "columns", whole)
    write = Storage.write

    def noted(storage, name, *parts):
        made.append(name)
        return write(storage, name, *parts)

    monkeypatch.setattr(Storage, "write", noted)
    steps = []
    dataset = Dataset(folder, row="user", col="item", value="y", n_jobs=1, progress=lambda *told: steps.append(told))
    assert_same(dataset, nmar.Cells.from_frame(columns, "user", "item", "y"))
    assert not any(name.startswith("by0/0") or name.endswith(".col") for name in made)  # neither read nor sorted again
    assert "by1/00002.values" not in made and "by1/00003.values" in made
    assert steps[-1] == ("columns", len(dataset.manifest.starts[1]) - 1, len(dataset.manifest.starts[1]) - 1)


def test_a_dataset_is_opened_not_built_again(tmp_path, monkeypatch):
    columns = table()
    folder = files(tmp_path / "in", columns)
    first = Dataset(folder, row="user", col="item", value="y")
    monkeypatch.setattr(shards, "run_build", None)
    assert Dataset(folder, row="user", col="item", value="y").digest == first.digest
    assert Dataset(tmp_path / "in.nmar").digest == first.digest
    with pytest.raises(ValueError, match="another source"):
        Dataset(folder, row="user", col="item", value="w")


def test_errors_name_the_file_and_the_column(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        Dataset(tmp_path / "nothing")
    folder = files(tmp_path / "in", table())
    with pytest.raises(ValueError, match=r"row='who' is not a column of .*part-0.parquet"):
        Dataset(folder, row="who")
    bad = table() | {"y": np.where(np.arange(400) == 170, np.nan, 1.0)}
    with pytest.raises(ValueError, match=r"part-1.parquet', row groups .* y: 1 NaN"):
        Dataset(files(tmp_path / "bad", bad), row="user", col="item", value="y")
    write_frame(tmp_path / "in" / "part-9.parquet", {"user": ["a"], "item": [1], "y": [1.0], "w": [1.0]})
    with pytest.raises(ValueError, match=r"part-9.parquet' has columns .* give files of one kind"):
        Dataset(folder, tmp_path / "else", row="user", col="item", value="y")


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
@pytest.mark.parametrize("name", ["by1/00002.values", "by0/indptr", "rows.npz"])
def test_a_damaged_file_is_named(harm, name, tmp_path):
    dataset = Dataset(files(tmp_path / "in", table("text")), row="user", col="item", value="y")
    dataset.verify()
    path = tmp_path / "in.nmar" / name
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif harm == "cut":
        path.write_bytes(data[:-5])
    else:
        path.unlink()
    error = FileNotFoundError if harm == "remove" else ValueError
    with pytest.raises(error, match=f"{name}' is (damaged|missing)"):
        dataset.verify()


def flipped(path, place, bit=0):
    """One bit of a file changed."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def first_pass(dataset):
    """What begins by reading a dataset, by name."""
    model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=1, max_iter=1, random_state=0)
    return {
        "to_cells": dataset.to_cells,
        "batches": lambda: list(dataset.batches(100)),
        "contains": lambda: dataset.contains(np.arange(30), np.arange(30)),
        "score": lambda: model.fit(nmar.Cells.from_frame(table(), "user", "item", "y")).score(dataset),
        "by": lambda: dataset.by(0).lines(0, dataset.shape[0]),
    }


@pytest.mark.parametrize("use", ["to_cells", "batches", "contains", "score", "by"])
@pytest.mark.parametrize("name", ["by0/00001.values", "by0/00001.indices"])
def test_a_flipped_bit_is_refused_by_whatever_reads_first(use, name, tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    flipped(tmp_path / "d" / name, 17)
    if use == "contains" and name.endswith("values"):
        pytest.skip("positions alone are read")
    with pytest.raises(ValueError, match=f"{name}' is damaged: its checksum is wrong"):
        first_pass(Dataset(tmp_path / "d"))[use]()


def test_flipped_bits_of_line_pointers_and_ids_are_refused(tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table("text"), "user", "item", "y"), tmp_path / "d")
    for name in ("by0/indptr", "by1/indptr"):
        path = tmp_path / "d" / name
        for place in range(0, path.stat().st_size, 7):
            flipped(path, place, place % 8)
            with pytest.raises(ValueError, match=f"{name}' is damaged: its checksum is wrong"):
                Dataset(tmp_path / "d")
            flipped(path, place, place % 8)
    flipped(tmp_path / "d" / "rows.npz", 200)
    with pytest.raises(ValueError, match=r"rows.npz' is damaged: its checksum is wrong"):
        Dataset(tmp_path / "d").to_cells()


def test_the_manifest_has_a_checksum_of_its_own(tmp_path):
    whole = Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d").manifest
    path = tmp_path / "d" / "manifest.json"
    good = path.read_bytes()
    for place in range(0, len(good), 3):
        flipped(path, place, (0, 1, 2, 4)[place % 4])
        try:
            found = find_manifest(Storage(str(tmp_path / "d")))
        except ValueError as error:
            assert "manifest.json' " in str(error)
        else:  # white space, or another program's file
            assert found is None or found == whole
        path.write_bytes(good)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cells": 401}, "begin at"),
        ({"cells": "400"}, "cells of shape"),
        ({"shape": [40, 0]}, "cells of shape"),
        ({"shape": [41, 30]}, "the length of by0/indptr"),
        ({"shape": 3}, "TypeError"),
        ({"values": "object"}, "values='object'"),
        ({"weighted": True}, "the length of by0/00000.weights"),
        ({"starts": [[0, 500, 400], [0, 400]]}, "begin at"),
        ({"files": {}}, "the length of"),
        ({"files": [1]}, "AttributeError"),
        ({"more": 1}, "TypeError"),
    ],
)
def test_a_manifest_whose_parts_disagree_is_refused(change, told, tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    path = tmp_path / "d" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=rf"manifest.json' is damaged: .*{told}.*build the dataset again"):
        Dataset(tmp_path / "d")


def sealed(folder, name, data):
    """A file of a dataset replaced, with the checksum of what is there now."""
    (folder / name).write_bytes(data)
    path = folder / "manifest.json"
    record = json.loads(path.read_text())
    record["files"][name] = [len(data), zlib.crc32(data)]
    del record["checksum"]
    path.write_text(json.dumps({**record, "checksum": manifest.checksum_of(record)}))


@pytest.mark.parametrize(
    ("name", "place", "value", "told"),
    [
        ("by0/00001.indices", 3, 30, "it holds a position outside 0 … 29"),
        ("by0/00001.values", 3, np.nan, "it holds a number that is not finite"),
        ("by0/indptr", 3, 10**9, "it does not rise from 0 to 400"),
        ("by1/indptr", 0, -1, "it does not rise from 0 to 400"),
    ],
)
def test_crafted_arrays_with_right_checksums_never_reach_a_loop(name, place, value, told, tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    kinds = {"indices": np.int32, "values": np.float64, "indptr": np.int64}
    wrong = np.fromfile(tmp_path / "d" / name, kinds[name.replace("/", ".").rsplit(".", 1)[-1]])
    wrong[place] = value
    sealed(tmp_path / "d", name, wrong.tobytes())
    with pytest.raises(ValueError, match=f"{name}' is damaged: {told}"):
        Dataset(tmp_path / "d").to_cells()


def test_ids_of_another_length_than_the_matrix_are_refused(tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    sealed(tmp_path / "d", "rows.npz", manifest.pack_axis(Axis.range(41)))
    with pytest.raises(ValueError, match=r"rows.npz' is damaged: 41 ids, and the dataset has 40"):
        Dataset(tmp_path / "d").to_cells()


def test_a_store_of_an_older_version_is_refused_with_the_remedy(tmp_path):
    Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    path = tmp_path / "d" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 1}))
    with pytest.raises(ValueError, match=r"manifest.json' was written by an older nmar; build the dataset again"):
        Dataset(tmp_path / "d")


@settings(deadline=None)
@given(st.data())
def test_slices_and_single_entries_are_those_of_the_array(data):
    import tempfile

    whole = np.random.default_rng(0).normal(size=data.draw(st.integers(0, 90)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    starts = np.array([0, *cuts, len(whole)])
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(folder)
        names = tuple(f"{k}" for k in range(len(starts) - 1))
        for name, start, stop in zip(names, starts, starts[1:], strict=False):
            storage.write(name, whole[start:stop])
        array = StoredArray(storage, names, starts, whole.dtype)
        a, b = data.draw(st.integers(0, 95)), data.draw(st.integers(0, 95))
        np.testing.assert_array_equal(array[a:b], whole[a:b])
        if len(whole):
            places = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1)), np.int64)
            np.testing.assert_array_equal(array[places], whole[places])


def test_whatever_needs_all_cells_at_once_is_refused(tmp_path):
    cells = nmar.Cells.from_frame(table(), "user", "item", "y")
    dataset = Dataset.from_cells(cells, tmp_path / "d")
    refused = [
        lambda: dataset.values,
        lambda: dataset.order(1),
        lambda: dataset.T,
        lambda: np.asarray(dataset.by(0).values),
    ]
    for ask in refused:
        with pytest.raises(NeedsMemory, match="to_cells"):
            ask()


def test_sums_over_pieces_are_those_over_all_cells(tmp_path):
    cells = nmar.Cells.from_frame(table(), "user", "item", "y", weight="w")
    dataset = Dataset.from_cells(cells, tmp_path / "d")
    for axis in (0, 1):
        one, other = dataset.by(axis), cells.by(axis)
        assert one.mean() == pytest.approx(other.mean(), rel=1e-13)
        assert one.variance() == pytest.approx(other.variance(), rel=1e-13)
        assert one.total(dataset.weights_by(axis)) == pytest.approx(other.total(cells.weights_by(axis)), rel=1e-13)
        np.testing.assert_allclose(one.line_sums(), other.line_sums(), rtol=1e-13, atol=1e-13)
        chosen = np.array([3, 0, 7, 7])
        np.testing.assert_array_equal(one.take(chosen).values, other.take(chosen).values)
    row, col = np.divmod(np.arange(0, 1200, 7), 30)
    np.testing.assert_array_equal(dataset.contains(row, col), cells.contains(row, col))
    whole = [part for batch in dataset.batches(100) for part in batch.values.tolist()]
    assert whole == cells.values.tolist()


def test_a_pickled_dataset_is_a_path(tmp_path):
    dataset = Dataset.from_cells(nmar.Cells.from_frame(table(), "user", "item", "y"), tmp_path / "d")
    sent = pickle.dumps(dataset.map_values(np.negative))
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent).by(1).values[5:9], -dataset.by(1).values[5:9])


COLUMNS = {"row": "user", "col": "item", "value": "y"}


def test_a_source_that_has_changed_is_not_taken_for_the_one_that_was_built(tmp_path):
    columns = table()
    folder = files(tmp_path / "in", columns)
    Dataset(folder, **COLUMNS)
    files(folder, {**columns, "y": columns["y"] + 1.0})  # as many lines in as many row groups
    with pytest.raises(ValueError, match=r"have changed since; remove it, .* or open it as it is"):
        Dataset(folder, **COLUMNS)


def test_a_broken_build_does_not_go_on_with_pieces_of_a_source_that_has_changed(tmp_path, monkeypatch):
    columns = table()
    folder = files(tmp_path / "in", columns)
    monkeypatch.setattr(shards.ShardMaker, "columns", None)
    with pytest.raises(TypeError):
        Dataset(folder, **COLUMNS, n_jobs=1)
    monkeypatch.undo()
    changed = {**columns, "y": columns["y"] + 1.0}
    dataset = Dataset(files(folder, changed), **COLUMNS, n_jobs=1)
    assert_same(dataset, nmar.Cells.from_frame(changed, "user", "item", "y"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"weight": "w"}, "not with weight='w'"),
        ({"row": "item"}, "not with row='item'"),
        ({"duplicates": "sum"}, "not with duplicates='sum'"),
        ({"store": "elsewhere"}, "store='elsewhere' says nothing"),
    ],
)
def test_what_a_dataset_was_not_built_with_is_refused_when_it_is_opened(given, told, tmp_path):
    Dataset(files(tmp_path / "in", table()), **COLUMNS)
    with pytest.raises(ValueError, match=told):
        Dataset(tmp_path / "in.nmar", **given)
    assert Dataset(tmp_path / "in.nmar", **COLUMNS).n_observed == 400


def test_row_groups_without_lines_do_not_give_two_pieces_one_number(tmp_path):
    import pyarrow

    os.makedirs(tmp_path / "in")
    for k in range(2):
        part = pyarrow.table({"row": np.arange(70) + 100 * k, "col": np.arange(70) % 3, "value": np.arange(70.0) + k})
        with pq.ParquetWriter(tmp_path / "in" / f"{k}.parquet", part.schema) as file:
            file.write_table(part.slice(0, 0))
            file.write_table(part)
    dataset = Dataset(tmp_path / "in")
    assert dataset.n_observed == 140
    assert dataset.to_cells().values.tolist() == [*np.arange(70.0), *(np.arange(70.0) + 1)]


def test_ids_beyond_int64_in_some_pieces_only(tmp_path):
    import pyarrow

    os.makedirs(tmp_path / "in")
    ids = np.array([2**62 + 1, 1, 2**63 + 1, 2**62 + 3], np.uint64)
    for k in range(2):
        some = slice(2 * k, 2 * k + 2)
        part = pyarrow.table({"row": ids[some], "col": np.arange(2), "value": np.arange(4.0)[some]})
        pq.write_table(part, tmp_path / "in" / f"{k}.parquet")
    dataset = Dataset(tmp_path / "in")
    assert dataset.row_ids.tolist() == sorted(ids.tolist())
    assert dataset.to_cells().values.tolist() == [1.0, 0.0, 3.0, 2.0]


def test_a_dataset_is_not_written_over(tmp_path):
    cells = nmar.Cells.from_arrays([0, 1], [0, 1], [1.0, 2.0])
    Dataset.from_cells(cells, tmp_path / "made")
    with pytest.raises(ValueError, match="holds a dataset already"):
        Dataset.from_cells(cells.map_values(lambda y: y + 1), tmp_path / "made")
    assert Dataset(tmp_path / "made").to_cells().values.tolist() == [1.0, 2.0]


def test_a_manifest_of_another_program_is_left_alone_and_a_damaged_one_named(tmp_path):
    folder = files(tmp_path / "in", table())
    for text in ('{"format": "something else"}', "[1, 2]"):
        (tmp_path / "in" / "manifest.json").write_text(text)
        assert Dataset(folder, **COLUMNS).n_observed == 400
    path = tmp_path / "in.nmar" / "manifest.json"
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match=r"manifest\.json' is damaged: .* build the dataset again"):
        Dataset(tmp_path / "in.nmar")


def test_options_of_a_file_system_may_be_dictionaries(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(files(tmp_path / "in", table())), "/options", recursive=True)
    given = {"client_kwargs": {"endpoint": "here"}}
    dataset = Dataset("memory://options", "memory://with-options", **COLUMNS, storage_options=given)
    assert pickle.loads(pickle.dumps(dataset)).digest == dataset.digest
    for folder in ("/options", "/with-options"):
        memory.rm(folder, recursive=True)


def test_one_process_builds_a_store_while_others_wait_for_it(tmp_path):
    folder, stages, others = files(tmp_path / "in", table()), [], []
    with ThreadPoolExecutor(1) as pool:

        def second(stage, done, total):
            if not others:
                others.append(pool.submit(Dataset, folder, progress=lambda *told: stages.append(told), **COLUMNS))

        first = Dataset(folder, progress=second, **COLUMNS)
        found = others[0].result()
    assert stages == []  # it built nothing
    assert found.digest == first.digest
    assert sorted(path.name for path in (tmp_path / "in.nmar").iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("name", ["a[1]", "b*"])
def test_names_of_files_that_are_there_are_no_patterns(tmp_path, name):
    folder = files(tmp_path / name, table())
    assert [os.path.basename(path) for path in find_files(str(folder))] == [f"part-{k}.parquet" for k in range(3)]
    one = os.path.join(folder, "part-1.parquet")
    assert find_files(one) == [one]
