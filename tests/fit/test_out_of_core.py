"""Fits of cells on disk: the same answer as in memory for every model, whatever the shards; what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from stored_models import MODELS, cells_for, model, same_fit

import nmar
from nmar.data import shards, stored
from nmar.data.stored import StoredArray
from nmar.fit.outofcore import as_bytes
from nmar.models import first_clusters
from nmar.models import half_sweep as halves


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many shards and blocks, and lines that are longer than a block."""
    monkeypatch.setattr(halves, "BLOCK", 12)
    monkeypatch.setattr(shards, "SHARD", 50)


def on_disk(cells, folder):
    dataset = nmar.Dataset.from_cells(cells, folder)
    assert min(len(starts) for starts in dataset.manifest.starts) > 3
    return dataset


@pytest.mark.parametrize("name", MODELS)
def test_every_model_fits_cells_on_disk_as_in_memory(name, tmp_path):
    cells = cells_for(name)
    inside = model(name, n_jobs=1).fit(cells)
    outside = model(name, n_jobs=2).fit(on_disk(cells, tmp_path / "d"))
    assert same_fit(inside, outside)  # all values are one piece here: even first sums have the same bits


@pytest.mark.parametrize("name", ["full", "mixture", "gamma", "by-value"])
def test_sums_taken_piece_by_piece_change_the_bound_by_rounding_alone(name, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "PIECE", 41)
    cells = cells_for(name)
    inside, outside = model(name).fit(cells), model(name).fit(on_disk(cells, tmp_path / "d"))
    np.testing.assert_allclose(outside.bound_trace_, inside.bound_trace_, rtol=1e-9)


def test_clusters_seeded_on_some_lines_are_those_of_all_lines(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    profile = np.where(np.arange(30) % 2, 4.0, -4.0)  # two clusters far apart
    dense = np.where(np.arange(200)[:, None] < 90, profile, -profile) + rng.normal(size=(200, 30))
    cells = nmar.Cells.from_dense(np.where(rng.random((200, 30)) < 0.5, dense, np.nan))
    monkeypatch.setattr(first_clusters, "SEEN", len(cells) // 4)
    monkeypatch.setattr(stored, "PIECE", 300)
    seen = []
    take = stored.StoredLines.take
    monkeypatch.setattr(
        stored.StoredLines, "take", lambda lines, chosen: seen.append(len(chosen)) or take(lines, chosen)
    )
    found = nmar.CCPF(nmar.Mixture(2, restarts=1), "ignorable", factors=2, max_iter=3, random_state=0).fit(
        on_disk(cells, tmp_path / "d")
    )
    assert seen and max(seen) <= 50
    labels = found.labels_
    assert len(set(labels[:90])) == len(set(labels[90:])) == 1 and labels[0] != labels[-1]


def test_weights_validation_and_hidden_cells(tmp_path):
    cells = cells_for("full")
    cells = cells.with_weights(np.random.default_rng(0).random(len(cells)))
    train, valid, hidden = cells.split(test=0.2, valid=0.2, seed=0)
    inside = model("full").fit(train, valid=valid, hidden=hidden)
    dataset = on_disk(train, tmp_path / "d")
    outside = model("full").fit(dataset, valid=valid, hidden=hidden)
    assert same_fit(inside, outside) and inside.valid_trace_.tolist() == outside.valid_trace_.tolist()
    np.testing.assert_allclose(outside.score(dataset), inside.score(train), rtol=1e-13)


def test_questions_about_cells_on_disk(tmp_path, monkeypatch):
    from nmar.posterior import streamed

    monkeypatch.setattr(streamed, "BLOCK", 30)
    cells = cells_for("both")
    dataset = on_disk(cells, tmp_path / "d")
    inside, outside = model("both").fit(cells), model("both").fit(dataset)
    np.testing.assert_allclose(outside.score(dataset), inside.score(cells), rtol=1e-13)
    np.testing.assert_array_equal(outside.predict_entries([0, 1], [2, 3]), inside.predict_entries([0, 1], [2, 3]))
    for one, other in zip(outside.recommend([3, 0], 4), inside.recommend([3, 0], 4), strict=True):
        np.testing.assert_array_equal(one, other)
    outside.save(tmp_path / "m.nmar")
    assert nmar.load(tmp_path / "m.nmar").score(dataset) == outside.score(dataset)


def test_a_resumed_fit_has_the_bits_of_one_that_was_not_broken_off(tmp_path):
    dataset = on_disk(cells_for("full"), tmp_path / "d")
    whole = model("full", max_iter=6).fit(dataset)
    kept = {"checkpoint": tmp_path / "c", "every": 2}

    def stop(record):
        return record.iteration == 3

    model("full", max_iter=6).fit(dataset, callbacks=[stop], **kept)
    assert same_fit(model("full", max_iter=6).fit(dataset, resume=True, **kept), whole)


def test_a_damaged_shard_ends_the_fit_by_name_and_leaves_the_checkpoint(tmp_path):
    dataset = on_disk(cells_for("full"), tmp_path / "d")
    whole = model("full", max_iter=4).fit(dataset)
    model("full", max_iter=2).fit(dataset, checkpoint=tmp_path / "c")
    path = tmp_path / "d" / "by1" / "00001.values"
    data = path.read_bytes()
    path.write_bytes(data[:7] + bytes([data[7] ^ 1]) + data[8:])
    with pytest.raises(ValueError, match=r"by1/00001.values' is damaged"):
        model("full", max_iter=4).fit(dataset, checkpoint=tmp_path / "c", resume=True)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"by1/00001.values' is missing"):
        model("full", max_iter=4).fit(nmar.Dataset(tmp_path / "d"), checkpoint=tmp_path / "c", resume=True)
    path.write_bytes(data)
    again = model("full", max_iter=4).fit(nmar.Dataset(tmp_path / "d"), checkpoint=tmp_path / "c", resume=True)
    assert same_fit(again, whole)


def test_a_fit_reads_a_few_blocks_at_a_time(tmp_path, monkeypatch):
    dataset, longest = on_disk(cells_for("diagonal"), tmp_path / "d"), []
    read = StoredArray.read

    def noted(array, start, stop):
        longest.append(stop - start)
        return read(array, start, stop)

    started = []
    monkeypatch.setattr(StoredArray, "read", noted)
    model("diagonal", n_jobs=1).fit(dataset, callbacks=[lambda record: started.append(len(longest))])
    degree = max(int(np.diff(dataset.by(axis).indptr).max()) for axis in (0, 1))
    assert max(longest[started[0] :]) <= max(degree, halves.BLOCK)  # a line is read whole, however long


def test_settings_that_need_all_cells_are_refused_by_name(tmp_path):
    dataset = on_disk(cells_for("full"), tmp_path / "d")
    features = np.zeros((40, 1))
    for wrong, given in {
        "factors='auto'": {"linkage": "free", "factors": "auto"},
        "linkage='auto'": {"linkage": "auto"},
        "linkage='two-stage'": {"linkage": "two-stage"},
        "solver='minibatch'": {"linkage": "free", "solver": "minibatch"},
        "target='all'": {"linkage": "free", "target": "all"},
        "Regressor": {"data": nmar.Regressor(Ridge(), col_features=features), "linkage": "free"},
    }.items():
        settings = {"data": nmar.Factorization(2), "factors": 3} | given
        with pytest.raises(ValueError, match=wrong):
            nmar.CCPF(**settings).fit(dataset)


def test_defaults_are_settled_without_held_out_cells(tmp_path):
    found = nmar.CCPF(nmar.Factorization(2), factors=3, max_iter=2, random_state=0)
    found.fit(on_disk(cells_for("full"), tmp_path / "d"))
    assert found.choices_ == () and found.linkage_.name == "ignorable"
    assert len(found.row_noise_.level) == found.posterior_.rows.size


def test_a_fit_that_needs_more_memory_than_allowed_says_so(tmp_path):
    dataset = on_disk(cells_for("full"), tmp_path / "d")
    with pytest.raises(ValueError, match=r"memory='100MB' does not hold the factors: about 0\.\d+ GB are needed"):
        model("full").fit(dataset, memory="100MB")
    model("full").fit(dataset, memory="1GB")
    with pytest.raises(ValueError, match="memory='much'"):
        as_bytes("much")


def test_a_stream_of_batches_comes_from_a_dataset(tmp_path):
    cells = cells_for("full")
    dataset = on_disk(cells, tmp_path / "d")
    settings = {"solver": nmar.Minibatch(passes=2), "starts": "auto"}
    found = model("full", **settings).fit(lambda: dataset.batches(100))
    assert found.n_iter_ == 2 and found.posterior_.cols == cells.cols


@pytest.mark.parametrize("bounds", ["auto", (0.0, 6.0), (0.0, 6.0, 0.5)])
def test_bounds_of_cells_on_disk_are_those_of_cells_in_memory(bounds, tmp_path):
    rng = np.random.default_rng(0)
    cells = nmar.Cells.from_dense(np.where(rng.random((30, 20)) < 0.5, rng.integers(1, 11, (30, 20)) / 2, np.nan))
    given = dict(factors=2, max_iter=2, tol=0.0, random_state=0, bounds=bounds)
    stored = nmar.Dataset.from_cells(cells, tmp_path / "cells")
    one, other = (nmar.CCPF(nmar.Effects("both"), "ignorable", **given).fit(part) for part in (cells, stored))
    assert one.posterior_.law.support == other.posterior_.law.support is not None


def test_a_value_outside_the_bounds_is_refused_on_disk_too(tmp_path):
    cells = nmar.Cells.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 3.0, 9.0], shape=(3, 2))
    stored = nmar.Dataset.from_cells(cells, tmp_path / "cells")
    with pytest.raises(ValueError, match="but a value is 9"):
        nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, bounds=(1.0, 5.0)).fit(stored)
