"""Cells on disk and clusters: builds, memory, throughput, bits, dead workers, overhead, weak scaling (docs/scale.md).

    python -m benchmarks.scale source FOLDER --cells 20e6      simulated Parquet files
    python -m benchmarks.scale build FOLDER                    a dataset of them: cells a second, peak memory
    python -m benchmarks.scale fit FOLDER --memory 2GB         sweeps on disk, and in memory with --inside
    python -m benchmarks.scale bits                            every model: 2 and 4 workers, one process, memory
    python -m benchmarks.scale kills FOLDER --runs 20          SIGKILL of a worker at random moments
    python -m benchmarks.scale overhead FOLDER --workers 2     the same fit with and without Dask
    python -m benchmarks.scale weak FOLDER                     1, 2 and 4 workers, cells in proportion

Ratings in halves from three factors, columns of falling popularity. FOLDER/parquet holds the source, FOLDER/dataset the
dataset. Memory is the sum of the resident sets of the process and its children, sampled from /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import nmar

LINES_PART = 2_000_000  # cells of one Parquet file


def source(folder: Path, cells: int, shape: tuple[int, int]) -> None:
    """Parquet files of cells, each of a range of rows."""
    import pyarrow
    from pyarrow import parquet

    target = folder / "parquet"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    parts = max(1, round(cells / LINES_PART))
    cuts = np.linspace(0, shape[0], parts + 1).astype(np.int64)
    v = np.random.default_rng(1).normal(size=(shape[1], 3))
    for part in range(parts):
        rng = np.random.default_rng([2, part])
        start, stop = cuts[part], cuts[part + 1]
        wanted = round(cells * (stop - start) / shape[0])
        key = np.empty(0, np.int64)
        while len(key) < wanted:
            more = int(1.2 * (wanted - len(key))) + 100
            col = (shape[1] * rng.random(more) ** 1.5).astype(np.int64)
            key = np.union1d(key, rng.integers(0, stop - start, more) * shape[1] + col)
        key = rng.permutation(key)[:wanted]
        row, col = key // shape[1], key % shape[1]
        u = rng.normal(size=(stop - start, 3))
        y = 3.0 + 0.5 * np.einsum("pk,pk->p", u[row], v[col]) + 0.7 * rng.normal(size=wanted)
        table = {"user": row + start, "item": col, "stars": np.clip(np.round(2 * y) / 2, 0.5, 5.0)}
        parquet.write_table(pyarrow.table(table), target / f"part-{part:05d}.parquet")
    print(f"{parts} files in {target}")


class Resident:
    """Peak of the resident memory of this process and its children, sampled every 50 ms."""

    def __init__(self) -> None:
        self.peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Resident:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, sum(_rss(pid) for pid in _family(os.getpid())))


def _family(pid: int) -> list[int]:
    """A process and everything it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found += _family(int(child))
    return found


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def build(folder: Path) -> nmar.Dataset:
    """Build the dataset anew and say how fast."""
    shutil.rmtree(folder / "dataset", ignore_errors=True)
    began, cpu = time.perf_counter(), time.process_time()
    with Resident() as memory:
        made = nmar.Dataset(folder / "parquet", folder / "dataset", row="user", col="item", value="stars")
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    rate = made.n_observed / seconds / 1e6
    print(
        f"{made}\nbuilt in {seconds:.1f} s ({used:.1f} s of processor time): {rate:.2f} M cells a second;"
        f" peak {memory.peak / 1e9:.2f} GB"
    )
    return made


def model(arguments: argparse.Namespace, kind: type = nmar.CCPF, **given: Any) -> Any:
    """The estimator of all measurements."""
    data = nmar.Factorization(arguments.rank, covariance=arguments.covariance)
    settings: dict[str, Any] = {"factors": arguments.rank, "max_iter": arguments.sweeps, "tol": 0.0, "starts": 1}
    settings |= {"dtype": arguments.dtype, "random_state": 0, "n_jobs": arguments.jobs}
    return kind(data, arguments.linkage, **settings | given)


def sweeps_of(found: Any) -> np.ndarray:
    """Seconds of each sweep; the first one includes the compiler's time."""
    return np.diff(found.seconds_trace_, prepend=0.0)


def fit(arguments: argparse.Namespace) -> None:
    """Sweeps over cells on disk, or in memory; time, throughput, memory."""
    dataset = nmar.Dataset(Path(arguments.folder) / "dataset")
    cells = dataset.to_cells() if arguments.inside else dataset
    with Resident() as memory:
        found = model(arguments).fit(cells, memory=None if arguments.inside else arguments.memory)
    seconds = sweeps_of(found)
    best = float(np.median(seconds[1:] if len(seconds) > 1 else seconds))
    where = "in memory" if arguments.inside else "on disk"
    print(
        f"{where}: {dataset.n_observed} cells, sweeps {np.round(seconds, 2).tolist()} s, median {best:.2f} s,"
        f" {dataset.n_observed / best / 1e6:.2f} M cells a second, peak {memory.peak / 1e9:.2f} GB,"
        f" bound {found.bound_trace_[-1]!r}"
    )


def started(workers: int) -> Any:
    """A local cluster of workers with one thread each."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0)
    return cluster, Client(cluster)


def bits(arguments: argparse.Namespace) -> None:
    """Every model: 2 and 4 workers against one process, and both against memory."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "fit"))
    from stored_models import MODELS, cells_for, same_fit
    from stored_models import model as small

    clusters = {workers: started(workers) for workers in (2, 4)}
    print("| model | 2 workers = one process | 4 workers = one process | relative distance of the bound to memory |")
    print("|---|---|---|---|")
    for name in MODELS:
        cells = cells_for(name, (arguments.rows, 40))
        with tempfile.TemporaryDirectory() as folder:
            dataset = nmar.Dataset.from_cells(cells, folder)
            alone, inside = small(name).fit(dataset), small(name).fit(cells)
            same = [same_fit(small(name).fit(dataset, client=client), alone) for _, client in clusters.values()]
        away = abs(alone.bound_trace_[-1] / inside.bound_trace_[-1] - 1.0)
        print(f"| {name} | {same[0]} | {same[1]} | {away:.1e} |", flush=True)
    for cluster, client in clusters.values():
        client.close()
        cluster.close()


def strike(pid: int) -> None:
    """SIGKILL, if the process still lives."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kills(arguments: argparse.Namespace) -> None:
    """SIGKILL of a worker at a random moment of a fit, many times: bits, and sweeps lost."""
    dataset = nmar.Dataset(Path(arguments.folder) / "dataset")
    cluster, client = started(arguments.workers)
    whole = model(arguments).fit(dataset, client=client)  # workers have compiled what they need
    whole = model(arguments).fit(dataset, client=client)
    usual = float(whole.seconds_trace_[-1] - whole.seconds_trace_[0])
    sweep = usual / (whole.n_iter_ - 1)
    print(f"{dataset.n_observed} cells, {whole.n_iter_} sweeps of {sweep:.2f} s")
    rng, lost, same = np.random.default_rng(arguments.seed), [], []
    for run in range(arguments.runs):
        client.wait_for_workers(arguments.workers)
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid is not None]
        victim, moment = int(rng.choice(pids)), float(rng.uniform(0.0, usual))
        timer = threading.Timer(moment, strike, (victim,))

        def begin(record: Any, timer: threading.Timer = timer) -> None:
            if record.iteration == 1:
                timer.start()

        found = model(arguments).fit(dataset, client=client, callbacks=[begin])
        timer.cancel()
        extra = (float(found.seconds_trace_[-1] - found.seconds_trace_[0]) - usual) / sweep
        lost.append(extra)
        same.append(found.bound_trace_.tolist() == whole.bound_trace_.tolist())
        print(f"run {run + 1}: killed after {moment:.2f} s, same bits {same[-1]}, {extra:+.2f} sweeps", flush=True)
    print(f"same bits in {sum(same)} of {len(same)}; sweeps lost: median {np.median(lost):.2f}, most {max(lost):.2f}")
    client.close()
    cluster.close()


class Processor:
    """Processor time of a sweep, of this process and of all workers: what a busy machine hardly changes.

    A callback: counts from the end of the first sweep to that of the last one.
    """

    def __init__(self, client: Any) -> None:
        self.client, self.seen = client, []

    def __call__(self, record: Any) -> None:
        there = 0.0 if self.client is None else sum(self.client.run(time.process_time).values())
        self.seen.append(time.process_time() + there)

    @property
    def sweep(self) -> float:
        """Mean over the sweeps but the first."""
        return (self.seen[-1] - self.seen[0]) / (len(self.seen) - 1)


def overhead(arguments: argparse.Namespace) -> None:
    """The same fit in threads of one process and on a local cluster."""
    dataset = nmar.Dataset(Path(arguments.folder) / "dataset")
    cluster, client = started(arguments.workers)
    for _ in range(arguments.runs):
        mine, theirs = Processor(None), Processor(client)
        alone = sweeps_of(model(arguments, n_jobs=arguments.workers).fit(dataset, callbacks=[mine]))[1:]
        there = sweeps_of(model(arguments).fit(dataset, client=client, callbacks=[theirs]))[1:]
        a, b = float(np.median(alone)), float(np.median(there))
        told = f"one process {a:.3f} s a sweep, Dask {b:.3f} s, {b / a - 1.0:+.1%}"
        used = f"processor time {mine.sweep:.3f} s, Dask {theirs.sweep:.3f} s, {theirs.sweep / mine.sweep - 1.0:+.1%}"
        print(f"{dataset.n_observed} cells: {told}; {used}", flush=True)
    client.close()
    cluster.close()


def weak(arguments: argparse.Namespace) -> None:
    """1, 2 and 4 workers with cells in proportion."""
    print("| workers | cells | s a sweep | M cells a second |\n|---|---|---|---|")
    for workers in (1, 2, 4):
        folder = Path(arguments.folder) / f"weak-{workers}"
        if not (folder / "dataset").exists():
            source(folder, int(workers * arguments.cells), (workers * arguments.rows, arguments.cols))
            build(folder)
        dataset = nmar.Dataset(folder / "dataset")
        cluster, client = started(workers)
        seconds = float(np.median(sweeps_of(model(arguments).fit(dataset, client=client))[1:]))
        print(
            f"| {workers} | {dataset.n_observed} | {seconds:.2f} | {dataset.n_observed / seconds / 1e6:.2f} |",
            flush=True,
        )
        client.close()
        cluster.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("source", "build", "fit", "bits", "kills", "overhead", "weak"))
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--cells", type=float, default=20e6)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--cols", type=int, default=20_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--covariance", default="diagonal")
    parser.add_argument("--linkage", default="linear")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "source":
        source(Path(arguments.folder), int(arguments.cells), (arguments.rows, arguments.cols))
    elif arguments.what == "build":
        build(Path(arguments.folder))
    else:
        given = {"fit": fit, "bits": bits, "kills": kills, "overhead": overhead, "weak": weak}
        given[arguments.what](arguments)


if __name__ == "__main__":
    main()
