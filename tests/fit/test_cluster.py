"""Dask: the bits of one process for every model; dead workers, a dead scheduler, wrong versions, a full disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from stored_models import MODELS, cells_for, model, same_fit

import nmar
import nmar.dask
from nmar.data import shards
from nmar.data.storage import Storage
from nmar.fit import cluster, sharing
from nmar.fit import spool as spools
from nmar.fit.spool import Spool, load
from nmar.models import half_sweep as halves
from nmar.posterior import streamed

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow  # see CONTRIBUTING.md


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many shards and blocks, and lines that are longer than a block."""
    monkeypatch.setattr(halves, "BLOCK", 12)
    monkeypatch.setattr(shards, "SHARD", 50)
    monkeypatch.setattr(streamed, "BLOCK", 30)
    monkeypatch.setattr(streamed, "ROWS", 7)
    monkeypatch.setattr(spools, "SMALL", 100)  # results come back in files


@pytest.fixture(scope="module")
def nearby():
    """A cluster of threads in this process, for what does not need processes."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", worker_dashboard_address=":0"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(scope="module", params=[2, 4])
def processes(request):
    """Workers of one thread each, in processes of their own."""
    with (
        distributed.LocalCluster(
            n_workers=request.param, threads_per_worker=1, dashboard_address=":0", worker_dashboard_address=":0"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def test_records_come_back_as_they_were_and_aligned(tmp_path):
    spool = Spool(Storage(str(tmp_path)))
    record = {"a": np.arange(7.0), "b": (np.ones((3, 2), np.float32), "text"), "c": np.empty((0, 4))}
    found = load(spool.storage, spool.put(record))
    np.testing.assert_array_equal(found["a"], record["a"])
    np.testing.assert_array_equal(found["b"][0], record["b"][0])
    assert found["b"][1] == "text" and found["c"].shape == (0, 4)
    assert found["a"].ctypes.data % 64 == 0 and found["a"].flags.writeable
    for _ in range(3):
        spool.put(record)
    assert len(os.listdir(tmp_path)) == 2  # older ones are gone
    spool.close()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["full", "diagonal", "by-value"])
def test_a_cluster_gives_the_bits_of_one_process(name, nearby, tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for(name), tmp_path / "d")
    assert same_fit(model(name).fit(dataset, client=nearby), model(name).fit(dataset))
    assert os.listdir(tmp_path / "d" / "_spool") == []


@pytest.mark.parametrize("name", MODELS)
def test_processes_give_the_bits_of_one_process_for_every_model(name, processes, tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for(name), tmp_path / "d")
    assert same_fit(model(name).fit(dataset, client=processes), model(name).fit(dataset))


def refuse(reference):
    raise sharing.NotShared("memory of process 1 cannot be mapped")


@pytest.mark.parametrize("possible", [True, False])
def test_workers_that_cannot_map_the_memory_of_the_fit_read_files(possible, nearby, tmp_path, monkeypatch):
    dataset = nmar.Dataset.from_cells(cells_for("full"), tmp_path / "d")
    alone = model("full").fit(dataset)
    monkeypatch.setattr(sharing, "LEAST", 1)
    written, put = [], Spool.put

    def noted(spool, record, refers=None):
        written.append(refers is not None)
        return put(spool, record, refers)

    monkeypatch.setattr(Spool, "put", noted)
    monkeypatch.setattr(sharing.SharedArrays, "possible", lambda: possible)
    monkeypatch.setattr(spools, "attach", refuse)
    assert same_fit(model("full").fit(dataset, client=nearby), alone)
    refused = written.index(False)
    assert any(written[:refused]) == possible and not any(written[refused:])


def test_lines_in_shared_memory_give_the_same_bits_and_are_let_go(processes, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "LEAST", 1)
    referred, refer = [], sharing.SharedArrays.reference

    def noted(shared, array):
        found = refer(shared, array)
        referred.append(found is not None)
        return found

    monkeypatch.setattr(sharing.SharedArrays, "reference", noted)
    dataset = nmar.Dataset.from_cells(cells_for("full"), tmp_path / "d")
    assert same_fit(model("full").fit(dataset, client=processes), model("full").fit(dataset))
    assert any(referred)
    assert set(processes.run(held).values()) == {(0, 0)}


def held():
    return len(sharing.attached), len(spools.held_files)


def test_fit_score_predict_and_recommend_run_on_the_cluster(nearby, tmp_path):
    cells = cells_for("both")
    here = model("both").fit(cells)
    there = model("both", nmar.dask.CCPF)
    there.client, there.scratch = nearby, tmp_path
    there.fit(cells)  # written to the scratch folder
    dataset = there.training_cells_
    assert same_fit(here, there)
    tasks = []
    run = cluster.Cluster.map

    def noted(place, task, common, parts):
        tasks.append(task.__name__)
        return run(place, task, common, parts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster.Cluster, "map", noted)
        np.testing.assert_allclose(there.score(dataset), here.score(cells), rtol=1e-13)
        for one, other in zip(there.recommend(np.arange(30), 4), here.recommend(np.arange(30), 4), strict=True):
            np.testing.assert_array_equal(one, other)
    assert set(tasks) == {"score_rows", "recommend"}
    there.save(tmp_path / "m.nmar")
    assert nmar.load(tmp_path / "m.nmar").predict_entries([1], [2]) == here.predict_entries([1], [2])


def test_dask_dataframes_in_and_out(nearby, tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    cells = cells_for("both")
    table = cells.to_frame("user", "item", "stars")
    found = model("both", nmar.dask.CCPF)
    found.client, found.scratch = nearby, str(tmp_path)
    found.fit(frames.from_pandas(table.sample(frac=1.0, random_state=0), npartitions=3))
    here = model("both").fit(nmar.Cells.from_frame(table, "user", "item", "stars"))
    assert same_fit(found, here)
    asked = table[["user", "item"]].head(50)
    series = found.predict_frame(frames.from_pandas(asked, npartitions=2)).compute()
    np.testing.assert_array_equal(series.to_numpy(), here.predict_entries(asked["user"], asked["item"]))


def test_cells_in_memory_need_no_folder_on_one_machine(nearby, tmp_path, monkeypatch):
    cells = cells_for("both")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    there = model("both").fit(cells, client=nearby)
    assert same_fit(model("both").fit(cells), there)
    assert there.training_cells_ is cells and not list(tmp_path.iterdir())
    monkeypatch.setattr("nmar.estimators.where.on_one_machine", lambda client: False)
    with pytest.raises(ValueError, match=r"several machines reads cells from files: pass nmar\.Dataset, or scratch="):
        model("both").fit(cells, client=nearby)


def test_other_executors_are_refused(nearby):
    with pytest.raises(ValueError, match="executor='ray'"):
        model("both").fit(cells_for("both"), executor="ray")


def test_an_open_table_that_is_too_short_is_repeated_longer(nearby, tmp_path):
    cells = cells_for("constant")
    wild = cells.with_values(np.where(np.arange(len(cells)) == 5, 60.0, cells.values))
    dataset = nmar.Dataset.from_cells(wild, tmp_path / "d")
    found = model("constant").fit(dataset, client=nearby)
    assert found.posterior_.state.shared.table_size > 32  # where it starts
    assert same_fit(found, model("constant").fit(dataset))


def test_a_worker_with_another_version_is_named(nearby, tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for("both"), tmp_path / "d")
    model("both", max_iter=2).fit(dataset, client=nearby, checkpoint=tmp_path / "c")
    wanted = cluster.versions()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster, "versions", lambda: wanted | {"nmar": "0.0.1"})
        patched.setattr(cluster.Cluster, "__init__", _told(wanted))
        with pytest.raises(cluster.WrongWorker, match=r"worker inproc://.* has nmar 0.0.1, the program that fits has"):
            model("both", max_iter=4).fit(dataset, client=nearby, checkpoint=tmp_path / "c", resume=True)
    again = model("both", max_iter=4).fit(dataset, checkpoint=tmp_path / "c", resume=True)
    assert same_fit(again, model("both", max_iter=4).fit(dataset))


def _told(wanted):
    made_as_usual = cluster.Cluster.__init__

    def made(self, client, spool, near):
        made_as_usual(self, client, spool, near)
        self._wanted = wanted

    return made


@pytest.mark.parametrize("where", ["spool", "checkpoint"])
def test_a_full_disk_is_named_and_leaves_the_checkpoint(where, nearby, tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for("both"), tmp_path / "d")
    kept = {"checkpoint": tmp_path / "c", "every": 1}
    model("both", max_iter=2).fit(dataset, client=nearby, **kept)
    from nmar.data import atomic, storage
    from nmar.posterior import store

    def full(path, write, sync=True):
        def broken(file):
            raise OSError(errno.ENOSPC, "No space left on device")

        return atomic.write_with(path, broken if (where == "spool") == ("_spool" in str(path)) else write, sync)

    name = {"spool": "_spool", "checkpoint": "sweep-000003"}[where]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage, "write_with", full)
        patched.setattr(store, "write_with", full)
        with pytest.raises(OSError, match=f"no space left for .*{name}"):
            model("both", max_iter=4).fit(dataset, client=nearby, resume=True, **kept)
    again = model("both", max_iter=4).fit(dataset, client=nearby, resume=True, **kept)
    assert same_fit(again, model("both", max_iter=4).fit(dataset))


def test_a_damaged_shard_is_named_by_the_worker_that_reads_it(nearby, tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for("both"), tmp_path / "d")
    path = tmp_path / "d" / "by0" / "00001.indices"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with pytest.raises(ValueError, match=r"by0/00001.indices' is damaged"):
        model("both").fit(dataset, client=nearby)


def test_a_killed_worker_changes_no_bit(tmp_path):
    dataset = nmar.Dataset.from_cells(cells_for("full"), tmp_path / "d")
    whole = model("full", max_iter=12).fit(dataset)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made,
        distributed.Client(made) as client,
    ):
        killed = []

        def kill(record):
            if record.iteration in (3, 7):  # from another thread: while the next sweep is under way
                pid = int(next(iter(client.run(os.getpid).values())))
                killed.append(pid)
                threading.Timer(0.05, os.kill, (pid, signal.SIGKILL)).start()

        found = model("full", max_iter=12).fit(dataset, client=client, callbacks=[kill])
        assert len(killed) == 2 and same_fit(found, whole)


def test_a_scheduler_that_is_gone_is_not_taken_for_alive_because_it_was_known(tmp_path, monkeypatch):
    where = tmp_path / "scheduler.json"
    scheduler = started("scheduler", where, "--port", "0")
    try:
        client = distributed.Client(scheduler_file=str(where), timeout=100)
        place = cluster.Cluster(client, Spool(Storage(str(tmp_path))), None)
        assert place.alive()
    finally:
        scheduler.kill()
        scheduler.wait()
    monkeypatch.setattr(cluster, "LONGEST_ANSWER", 2.0)
    client.status = "running"  # as it is until the client has noticed
    assert not place.alive()
    client.close(timeout=1)


def started(what, where, *more):
    """A scheduler or a worker in a process of its own."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(where), "--no-dashboard"]
    return subprocess.Popen([*command, *more], stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("moment", [None, 0.05])
def test_a_killed_scheduler_is_said_to_be_gone_and_the_fit_goes_on_from_its_checkpoint(moment, tmp_path):
    import dask

    dataset = nmar.Dataset.from_cells(cells_for("full"), tmp_path / "d")
    whole = model("full", max_iter=6).fit(dataset)
    kept = {"checkpoint": tmp_path / "c", "every": 1}
    where = tmp_path / "scheduler.json"
    scheduler, worker = started("scheduler", where, "--port", "0"), started("worker", where, "--nthreads", "1")

    def kill(record):
        if record.iteration == 3 and moment is None:
            scheduler.kill()
        elif record.iteration == 3:
            threading.Timer(moment, scheduler.kill).start()

    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "5s"}):
            client = distributed.Client(scheduler_file=str(where), timeout=100)
            with pytest.raises(cluster.ClusterLost, match=r"scheduler tcp://.* is gone.*resume=True"):
                model("full", max_iter=6).fit(dataset, client=client, callbacks=[kill], **kept)
            client.close()
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert same_fit(model("full", max_iter=6).fit(dataset, resume=True, **kept), whole)


def test_a_scheduler_that_is_dead_before_the_first_task_is_said_to_be_gone(tmp_path):
    class Dead:
        status = "running"
        scheduler = SimpleNamespace(addr="tcp://10.0.0.1:8786", ncores=None)

        def nthreads(self):
            raise OSError("Timed out trying to connect")

        def sync(self, *asked, **more):
            raise OSError("Timed out trying to connect")

    gone = pytest.raises(cluster.ClusterLost, match=r"tcp://10\.0\.0\.1:8786 is gone")
    with gone, cluster.on_cluster(Dead(), Storage(str(tmp_path))):
        pass
