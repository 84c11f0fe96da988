"""Outputs that do not fit on the disk: an error that names the file, and the older file as it was."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import contextmanager

import numpy as np
import pytest

import nmar
from nmar.cli.main import main
from nmar.data.atomic import write_text

OPTIONS = {"linkage": "linear", "factors": 8, "max_iter": 2, "starts": 1, "random_state": 0, "n_jobs": 1}


@contextmanager
def room(size):
    """No file can get longer than ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((60, 40), nmar.Factorization(2), density=0.5, seed=0)[0]


@pytest.fixture(scope="module")
def table(cells, tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "in.csv"
    row, col = cells.pairs()
    nmar.data.write_frame(path, {"row": row, "col": col, "value": cells.values})
    return path


@pytest.fixture(scope="module")
def model(cells):
    return nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(cells)


def left(folder):
    """The files of a folder and what they hold."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["out.csv", "out.tsv.gz", "out.parquet", "out.npz", "out.mtx"])
@pytest.mark.parametrize("size", [0, 700, 4096])
def test_a_table_that_does_not_fit_leaves_the_older_one(name, size, table, tmp_path, capsys):
    (tmp_path / name).write_bytes(b"older")
    with room(size):
        assert main(["convert", str(table), str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert f"no space left for '{tmp_path / name}'" in told and "wrote" not in told
    assert left(tmp_path) == {name: b"older"}


@pytest.mark.parametrize("size", [0, 700, 4096])
def test_a_model_that_does_not_fit_leaves_the_older_one(size, model, tmp_path):
    (tmp_path / "m.nmar").write_bytes(b"older")
    with room(size), pytest.raises(OSError, match=r"no space left for .*m.nmar'; an older file there is intact"):
        model.save(tmp_path / "m.nmar")
    assert left(tmp_path) == {"m.nmar": b"older"}


def test_checkpoints_that_do_not_fit_leave_the_older_ones(cells, tmp_path):
    nmar.CCPF(nmar.Effects("rows"), **OPTIONS).fit(cells, checkpoint=tmp_path, every=1)
    before = left(tmp_path)
    longer = nmar.CCPF(nmar.Effects("rows"), **OPTIONS | {"max_iter": 4})
    with room(4096), pytest.raises(OSError, match=r"no space left for .*sweep-000003\.nmar'"):
        longer.fit(cells, checkpoint=tmp_path, every=1, resume=True)
    assert left(tmp_path) == before
    assert longer.fit(cells, checkpoint=tmp_path, every=1, resume=True).n_iter_ == 4


def test_a_dataset_that_does_not_fit_is_none(cells, tmp_path):
    with room(2048), pytest.raises(OSError, match=r"no space left for .*by0"):
        nmar.Dataset.from_cells(cells, tmp_path / "d")
    made = nmar.Dataset.from_cells(cells, tmp_path / "d").to_cells()
    np.testing.assert_array_equal(made.values, cells.values)


def test_a_file_that_is_written_over_keeps_its_permissions(tmp_path, model):
    path = tmp_path / "m.nmar"
    for mode in (0o600, 0o640, 0o444):
        path.touch()
        path.chmod(mode)
        model.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    os.symlink(tmp_path / "there" / "page.html", tmp_path / "page.html")
    for text in ("one", "two"):
        write_text(tmp_path / "page.html", text)
        assert (tmp_path / "page.html").is_symlink()
        assert (tmp_path / "there" / "page.html").read_text() == text
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["page.html"]
