"""Checkpoints: bit-identical continuation, kills, damage, foreign files."""

from __future__ import annotations

import copy
import logging
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from problems_fit import SETTINGS, cells_of, same
from sklearn.linear_model import Ridge

import nmar
from nmar.fit.checkpoint import fingerprint
from nmar.fit.options import Options
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch

COMMON = dict(factors=3, random_state=0, tol=0.0)
SOLVERS = {
    "batch": dict(data=SETTINGS["full"], linkage="free", solver="batch", max_iter=9),
    "minibatch": dict(data=SETTINGS["full"], linkage="free", solver=Minibatch(batch_size=20, passes=9), max_iter=9),
    "plain": dict(data=SETTINGS["full"], linkage="linear", solver=Minibatch(20, passes=9, remember=False), max_iter=9),
    "entrywise": dict(data=SETTINGS["diagonal"], linkage="linear", solver=Entrywise(visits=3000), max_iter=9),
}
THIN = nmar.Free(thinning=8.0)
THINNED = {
    "thinned": dict(data=SETTINGS["full"], linkage=THIN, max_iter=9),
    "batches": dict(data=SETTINGS["full"], linkage=THIN, solver=Minibatch(20, passes=9), max_iter=9),
    "visits": {**SOLVERS["entrywise"], "linkage": nmar.Linear(thinning=8.0)},
}


def parts(data):
    return cells_of(data).split(test=0.1, valid=0.1, seed=0)


@pytest.mark.parametrize("name", [*SOLVERS, *THINNED])
def test_a_fit_stopped_and_resumed_is_the_uninterrupted_one(name, tmp_path):
    given = {**COMMON, **{**SOLVERS, **THINNED}[name]}
    train, valid, _ = parts(given["data"])
    whole = nmar.CCPF(**given).fit(train, valid=valid)
    folder = tmp_path / "run"
    stop = [lambda record: record.iteration == 4]
    nmar.CCPF(**given).fit(train, valid=valid, checkpoint=folder, every=3, callbacks=stop)
    resumed = nmar.CCPF(**given).fit(train, valid=valid, checkpoint=folder, every=3, resume=True)
    assert same(whole.posterior_.state, resumed.posterior_.state)
    assert np.array_equal(whole.bound_trace_, resumed.bound_trace_)
    assert np.array_equal(whole.valid_trace_, resumed.valid_trace_)


@pytest.mark.parametrize("linkage", ["auto", "two-stage"])
def test_fits_with_stages_resume_too(linkage, tmp_path):
    train, valid, _ = parts(SETTINGS["full"])
    given = {**COMMON, "data": SETTINGS["full"], "linkage": linkage, "max_iter": 4}
    whole = nmar.CCPF(**given).fit(train, valid=valid, checkpoint=tmp_path)
    again = nmar.CCPF(**given).fit(train, valid=valid, checkpoint=tmp_path, resume=True)
    assert same(whole.posterior_.state, again.posterior_.state)


def test_a_seed_of_none_is_kept_with_the_run(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    given = {**COMMON, **SOLVERS["minibatch"], "random_state": None}
    stop = [lambda record: record.iteration == 4]
    first = nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=1, callbacks=stop)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tmp_path.glob("*.nmar"):
        (copy / path.name).write_bytes(path.read_bytes())
    one = nmar.CCPF(**given).fit(train, checkpoint=tmp_path, resume=True)
    two = nmar.CCPF(**given).fit(train, checkpoint=copy, resume=True)
    assert same(one.posterior_.state, two.posterior_.state)
    assert np.array_equal(first.bound_trace_, one.bound_trace_[:4])


def test_two_checkpoints_are_kept_and_no_temporary_file(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    nmar.CCPF(**COMMON, **SOLVERS["batch"]).fit(train, checkpoint=tmp_path, every=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep-000008.nmar", "sweep-000009.nmar"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "folderless"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(damage, tmp_path, caplog):
    train, _, _ = parts(SETTINGS["full"])
    given = {**COMMON, **SOLVERS["batch"]}
    whole = nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=2)
    newest = max(tmp_path.glob("sweep-*.nmar"))
    content = bytearray(newest.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0x10
    changed = {"truncated": content[: len(content) // 2], "flipped": content, "empty": b"", "text": b"no zip"}
    newest.write_bytes(bytes(changed.get(damage, b"PK\x03\x04")))
    with caplog.at_level(logging.INFO, logger="nmar"):
        resumed = nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=2, resume=True)
    assert "refused, it cannot be read" in caplog.text
    assert "going on from" in caplog.text
    assert same(whole.posterior_.state, resumed.posterior_.state)


@pytest.mark.parametrize(
    "other",
    [{"factors": 4}, {"linkage": "linear"}, {"random_state": 1}, "cells", {"control": "tail"}, {"linkage": THIN}],
)
def test_a_foreign_checkpoint_stops_the_fit(other, tmp_path):
    """It is neither used nor passed over: a fit that is not gone on with would be lost at the first new checkpoint."""
    train, valid, _ = parts(SETTINGS["full"])
    given = {**COMMON, **SOLVERS["batch"]}
    nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=3)
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    changed = given if other == "cells" else {**given, **other}
    cells = train.concat(valid) if other == "cells" else train
    told = "belongs to a fit with other " + ("cells" if other == "cells" else "options")
    with pytest.raises(ValueError, match=told):
        nmar.CCPF(**changed).fit(cells, checkpoint=tmp_path, every=3, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_a_fit_that_does_not_resume_starts_over(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    given = {**COMMON, **SOLVERS["batch"]}
    nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=1)
    stop = [lambda record: record.iteration == 2]
    nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=1, callbacks=stop)
    assert max(tmp_path.glob("*.nmar")).name == "sweep-000002.nmar"


def test_checkpoints_of_an_earlier_fit_stay_until_there_is_one_of_this_fit(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    given, there = {**COMMON, **SOLVERS["batch"]}, []
    nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=2)

    def look(record):
        there.append({path.name for path in tmp_path.glob("*.nmar")})

    nmar.CCPF(**given).fit(train, checkpoint=tmp_path, every=3, callbacks=[look])
    earlier = {"sweep-000008.nmar", "sweep-000009.nmar"}
    assert there[0] == there[1] == earlier
    assert {path.name for path in tmp_path.glob("*.nmar")} == {"sweep-000006.nmar", "sweep-000009.nmar"}


def test_a_finished_fit_can_be_prolonged(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    given = {**COMMON, **SOLVERS["batch"], "linkage": "linear"}
    long = nmar.CCPF(**given).fit(train)
    nmar.CCPF(**{**given, "max_iter": 5}).fit(train, checkpoint=tmp_path)
    longer = nmar.CCPF(**given).fit(train, checkpoint=tmp_path, resume=True)
    assert same(long.posterior_.state, longer.posterior_.state)


def test_bad_arguments_are_refused(tmp_path):
    train, _, _ = parts(SETTINGS["full"])
    model = nmar.CCPF(**COMMON, **SOLVERS["batch"])
    with pytest.raises(ValueError, match="resume=True needs"):
        model.fit(train, resume=True)
    with pytest.raises(ValueError, match="every=0"):
        model.fit(train, checkpoint=tmp_path, every=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        model.fit(train, checkpoint=tmp_path / "file")


CHILD = """
import sys
import nmar
from nmar.fit.solvers.schedule import Minibatch
cells, _ = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), linkage=nmar.Linear(0.2), density=0.25, seed=0)
solver = Minibatch(batch_size=20, passes=80) if sys.argv[2] == "minibatch" else "batch"
model = nmar.CCPF(nmar.Factorization(2), factors=3, linkage="free", random_state=0, tol=0.0, max_iter=80, solver=solver)
told = [lambda record: print(record.iteration, flush=True)]
model.fit(cells, checkpoint=sys.argv[1] + "/run", every=1, resume=True, callbacks=told)
model.save(sys.argv[1] + "/model.nmar")
"""


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["minibatch"])
def test_killed_again_and_again_it_ends_with_the_same_model(solver, tmp_path):
    command = [sys.executable, "-c", CHILD]
    whole = tmp_path / "whole"
    whole.mkdir()
    subprocess.run([*command, str(whole), solver], check=True, stdout=subprocess.DEVNULL)
    broken = tmp_path / "broken"
    broken.mkdir()
    rng = np.random.default_rng(0)
    for _ in range(3):
        child = subprocess.Popen([*command, str(broken), solver], stdout=subprocess.PIPE)
        for _ in range(rng.integers(1, 12)):  # it sweeps
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    subprocess.run([*command, str(broken), solver], check=True, stdout=subprocess.DEVNULL)
    one, other = (nmar.load(folder / "model.nmar") for folder in (whole, broken))
    assert same(one.posterior_.state, other.posterior_.state)
    assert np.array_equal(one.bound_trace_, other.bound_trace_)


TABLE = np.arange(2400.0).reshape(600, 4)
FRAME = pd.DataFrame({"age": np.arange(600.0), "kind": ["a", "b", None] * 200}, index=pd.Index(range(600), name="id"))


def changed(array):
    """The same but for a number in the middle, which ``repr`` does not show."""
    made = np.array(array, copy=True)
    made[300, 1] += 1.0
    return made


APART = {
    "covariates of the data": [nmar.Factorization(2, rows=x) for x in (TABLE, changed(TABLE), FRAME, None)],
    "frames": [nmar.Effects("rows", rows=x) for x in (FRAME, FRAME.assign(kind="a"), FRAME.set_axis(range(1, 601)))],
    "regressions": [nmar.Regression(x, "cols") for x in (TABLE, changed(TABLE))],
    "regressors": [nmar.Regressor(Ridge(a), row_features=x) for a in (1.0, 2.0) for x in (TABLE, changed(TABLE))],
    "mixtures": [nmar.Mixture(2, rows=x) for x in (TABLE, changed(TABLE), None)],
}


@pytest.mark.parametrize("name", APART)
def test_fingerprints_tell_data_models_apart_by_their_covariates(name):
    found = [fingerprint(Options(data=data)) for data in APART[name]]
    again = [fingerprint(Options(data=data)) for data in copy.deepcopy(APART[name])]
    assert len(set(found)) == len(found) and found == again


def test_fingerprints_tell_weights_targets_and_patterns_apart():
    cells = nmar.Cells.from_arrays([0, 0, 1], [0, 1, 1], [1.0, 2.0, 3.0])
    heavy = cells.with_weights([1.0, 2.0, 1.0])
    settings = [{"target": "all"}, {"target": "all", "propensity": np.full(3, 0.5)}, {"pattern": nmar.Pattern(10)}]
    settings += [{"pattern": nmar.Pattern(10, rows=x)} for x in (TABLE, changed(TABLE))]
    found = [fingerprint(Options(**given), cells) for given in ({}, *settings)] + [fingerprint(Options(), heavy)]
    assert len(set(found)) == len(found)


def test_a_fingerprint_is_that_of_another_process():
    class Plain:
        def fit(self, X, y, sample_weight=None): ...

        def predict(self, X): ...

    one, other = (fingerprint(Options(data=nmar.Regressor(Plain(), row_features=TABLE))) for _ in range(2))
    assert one == other


def test_a_fit_with_other_covariates_does_not_go_on_from_a_checkpoint(tmp_path):
    cells = cells_of(SETTINGS["full"])
    known = np.arange(2.0 * cells.shape[0]).reshape(-1, 2) % 5
    one, other = (
        nmar.CCPF(nmar.Effects("rows", rows=x), "ignorable", factors=2, max_iter=3, tol=0.0, random_state=0)
        for x in (known, known[::-1])
    )
    one.fit(cells, checkpoint=tmp_path, every=1, resume=True)
    with pytest.raises(ValueError, match="belongs to a fit with other options"):
        other.fit(cells, checkpoint=tmp_path, every=1, resume=True)
