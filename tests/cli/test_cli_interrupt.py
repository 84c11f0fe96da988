"""The command line after Ctrl-C and SIGTERM: 130 and 143, and what was fitted so far is written."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nmar
from nmar.cli.main import main
from nmar.fit.loop.run import FullSweeps

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

SMALL = ["--data", "factorization:2", "--factors", "3", "--max-iter", "9", "--jobs", "1", "--tol", "0"]
COLUMNS = ["--row", "row", "--col", "col", "--value", "value"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cli") / "cells.csv"
    cells, _ = nmar.simulate((50, 30), nmar.Factorization(2), nmar.Linear(0.3), density=0.4, seed=0)
    lines = [f"{i},{j},{y}" for i, j, y in zip(*cells.positions(), cells.values, strict=True)]
    path.write_text("row,col,value\n" + "\n".join(lines) + "\n")
    return str(path)


def interrupt(monkeypatch: pytest.MonkeyPatch, number: int, sweep: int) -> None:
    """The signal arrives when so many sweeps have begun."""
    plain, begun = FullSweeps.advance, []

    def advance(self, *given):
        begun.append(1)
        if len(begun) == sweep:
            signal.raise_signal(number)
        return plain(*given)

    monkeypatch.setattr(FullSweeps, "advance", advance)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_fitted_is_written_and_the_status_tells(number, status, table, tmp_path, monkeypatch, capsys):
    target, handler = tmp_path / "m.nmar", signal.getsignal(number)
    interrupt(monkeypatch, number, sweep=4)
    arguments = ["fit", table, "-o", str(target), "--linkage", "ignorable", *SMALL, *COLUMNS]
    assert main(arguments) == status
    model, said = nmar.load(target), capsys.readouterr().err
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 3)
    assert str(target) in said and "3 sweeps" in said
    assert signal.getsignal(number) is handler


def test_an_older_model_is_not_replaced_by_an_interrupted_one(table, tmp_path, monkeypatch, capsys):
    target, beside = tmp_path / "m.nmar", tmp_path / "m.interrupted.nmar"
    target.write_bytes(b"an older model")
    interrupt(monkeypatch, signal.SIGTERM, sweep=3)
    assert main(["fit", table, "-o", str(target), "--linkage", "ignorable", *SMALL, *COLUMNS]) == 143
    assert target.read_bytes() == b"an older model"
    assert nmar.load(beside).n_iter_ == 2
    assert str(beside) in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_that_python_drops_is_not_lost(number, status, table, tmp_path, monkeypatch):
    """What a signal handler raises inside a callback from C, as compilers make them, is dropped."""
    from_c, hook = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number)), sys.unraisablehook
    plain, begun = FullSweeps.advance, []

    def advance(self, *given):
        begun.append(1)
        if len(begun) == 3:
            from_c()
        return plain(*given)

    monkeypatch.setattr(FullSweeps, "advance", advance)
    target = tmp_path / "m.nmar"
    given = ["fit", table, "-o", str(target), "--linkage", "ignorable", *SMALL, "--max-iter", "100000", *COLUMNS]
    assert main(given) == status
    assert nmar.load(target).stop_reason_ == "interrupted"
    assert sys.unraisablehook is hook


def test_before_the_first_sweep_nothing_is_written(table, tmp_path, monkeypatch, capsys):
    target = tmp_path / "m.nmar"
    interrupt(monkeypatch, signal.SIGINT, sweep=1)
    assert main(["fit", table, "-o", str(target), *SMALL, *COLUMNS]) == 130
    assert not target.exists() and list(tmp_path.iterdir()) == []
    assert "nothing was written" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_other_verbs_end_too(number, status, table, tmp_path: Path, monkeypatch, capsys):
    interrupt(monkeypatch, number, sweep=2)
    assert main(["test", table, "--rank", "2", "--factors", "3", "--jobs", "1", *COLUMNS]) == status
    assert capsys.readouterr().out == ""


BUSY = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from nmar.cli import doctor, main

def run(args):
    ThreadPoolExecutor(1).submit(threading.Event().wait)  # a thread that never ends
    raise KeyboardInterrupt

doctor.run = run
sys.argv = ["nmar", "doctor"]
main.command()
"""


def test_an_interrupted_command_does_not_wait_for_its_threads():
    done = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (130, "nmar: interrupted\n")
