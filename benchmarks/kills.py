"""SIGKILL at random moments of a checkpointed fit: does every resumed fit end with the same bits?

    python -m benchmarks.kills [--kills 20] [--solver batch]

One fit runs without interruption. Then, for each kill, a new fit of the same data is started in a process of its
own, killed after a random time, resumed, and its final model compared bit by bit.
"""

from __future__ import annotations

import argparse
import hashlib
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

import nmar
from nmar.fit.solvers.schedule import Minibatch


def child(folder: str, solver: str) -> None:
    """Fit, going on from whatever checkpoint there is, and save the model."""
    data = nmar.Factorization(5)
    cells, _ = nmar.simulate(shape=(1500, 600), data=data, linkage="linear", density=0.08, seed=0)
    chosen = Minibatch(passes=40) if solver == "minibatch" else "batch"
    model = nmar.CCPF(data, factors=5, random_state=0, tol=0.0, max_iter=200, starts=1, solver=chosen)
    model.fit(cells, checkpoint=f"{folder}/run", every=2, resume=True)
    model.save(f"{folder}/model.nmar")


def digest(path: Path) -> str:
    """Of all arrays and numbers but the times."""
    state = nmar.load(path)
    seconds = len(state.seconds_trace_)
    state.seconds_trace_ = np.zeros(seconds)
    copy = path.with_suffix(".plain")
    state.save(copy)
    whole = hashlib.sha256()
    with zipfile.ZipFile(copy) as archive:
        for name in sorted(archive.namelist()):
            whole.update(archive.read(name))
    return whole.hexdigest()


def main() -> None:
    """Kill and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--solver", choices=["batch", "minibatch"], default="batch")
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.solver)
        return
    rng, same, during = np.random.default_rng(0), 0, 0
    with tempfile.TemporaryDirectory() as root:

        def start(folder: Path) -> subprocess.Popen[bytes]:
            folder.mkdir(exist_ok=True)
            command = ["-m", "benchmarks.kills", "--solver", arguments.solver, "--child", str(folder)]
            return subprocess.Popen([sys.executable, *command])

        began = time.perf_counter()
        assert start(Path(root) / "whole").wait() == 0
        length = time.perf_counter() - began
        wanted = digest(Path(root) / "whole" / "model.nmar")
        for k in range(arguments.kills):
            folder = Path(root) / f"kill{k}"
            process = start(folder)
            time.sleep(float(rng.uniform(0.3, 1.0)) * length)
            process.send_signal(signal.SIGKILL)
            process.wait()
            during += bool(list((folder / "run").glob("sweep-*.nmar"))) and not (folder / "model.nmar").exists()
            assert start(folder).wait() == 0
            same += digest(folder / "model.nmar") == wanted
    print(f"{arguments.kills} kills ({during} of them with a checkpoint on disk), {same} final models bit-identical")


if __name__ == "__main__":
    main()
