"""Which measurements there are, and running them one after another in processes of their own.

Repeats are the outer loop, so that a slow quarter of an hour of the machine falls on all libraries alike. Each answer
is appended to a file at once, and a run that was stopped goes on where it was. What could not be measured is not tried
again with as many threads or fewer; what took too long or too much memory is not tried on larger problems.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import machine
from benchmarks.peers.libraries import LIBRARIES

ROOT = Path(__file__).parents[2]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
BLAS_VARIABLES = THREAD_VARIABLES[1:3]
SCALING = ("rows", "cells", "factors")  # parts that are measured with the largest number of threads only
FOLDERS = re.compile(r"(/[\w.+-]+)+/")  # what is taken out of error messages
TOO_LARGE = ("over", "out of memory")  # how the status of a job begins that a larger one need not try
TARGET_LIBRARIES = tuple(name for name, library in LIBRARIES.items() if library.predict is not None)


@dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes
    ----------
    part : section of the report: "problems", "rows", "cells", "factors" or "target"
    task : what the child does
    library : key of ``LIBRARIES``, or "limits"
    """

    part: str
    task: str
    problem: str
    library: str
    threads: int
    factors: int
    repeat: int


def plan(options: argparse.Namespace) -> list[Job]:
    """All jobs, repeats outermost and libraries innermost."""
    jobs = []
    for repeat in range(options.repeats):
        for part, problem, factors in _settings(options):
            most = sorted(options.threads, reverse=True)
            for threads in most[:1] if part in SCALING else most:
                for task, library in _work(part, options.libraries):
                    jobs.append(Job(part, task, problem, library, threads, factors, repeat))
    return jobs


def _settings(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Part, problem and number of factors."""
    for problem in options.problems:
        yield from (("problems", problem, factors) for factors in options.factors)
    for problem in options.target_problems if options.target else ():
        yield "target", problem, options.target_factors
    if options.scaling:
        n_rows, n_cols = options.scaling_shape
        most, factors = max(options.scaling_cells), options.scaling_cells_factors
        for n in options.scaling_cells:
            yield "rows", f"{-(-n_rows * n // most)}x{n_cols}x{n}", factors
            yield "cells", f"{n_rows}x{n_cols}x{n}", factors
        yield from (("factors", options.scaling_problem, factors) for factors in options.scaling_factors)


def _work(part: str, libraries: list[str]) -> list[tuple[str, str]]:
    """Task and library of each job of a part."""
    if part == "target":
        return [("target", name) for name in libraries if name in TARGET_LIBRARIES]
    return [("limits", "limits")] * (part == "problems") + [("sweeps", name) for name in libraries]


class Results:
    """Answers in a file, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def append(self, record: dict[str, Any]) -> None:
        """Keep a record, in the file at once."""
        self.lines.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def known(self, job: Job) -> bool:
        """Whether there is an answer to a job."""
        return any(all(line.get(name) == value for name, value in asdict(job).items()) for line in self.lines)

    def hopeless(self, job: Job, cells: int) -> str | None:
        """What kept the same job, or a smaller one with as many threads or more, from being done before."""
        for line in self.lines:
            if line.get("library") != job.library or line["threads"] < job.threads or line["status"] == "done":
                continue
            if all(line[name] == getattr(job, name) for name in ("part", "problem", "factors")):
                return line["status"]
            smaller = line["task"] == job.task and line["cells"] <= cells and line["factors"] <= job.factors
            if smaller and line["status"].startswith(TOO_LARGE):
                size = f"{line['cells']:,} cells, K = {line['factors']}, {line['threads']} threads"
                return f"not tried ({line['status']} with {size})"
        return None

    def forget_failures(self) -> None:
        """Drop what was not done, from the file too."""
        self.lines = [line for line in self.lines if line.get("status", "done") == "done"]
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))


class Runner:
    """Runs children, with the problems in files that they share."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.memory = int(options.memory * 1e9) if options.memory else int(0.85 * machine.memory())
        self.pythons = dict(each.split("=", 1) for each in options.python if "=" in each)
        self.python = next((each for each in options.python if "=" not in each), sys.executable)

    def path(self, name: str) -> Path:
        """Where a problem lies."""
        return self.folder / f"{name}.npz"

    def sizes(self, name: str) -> dict[str, Any]:
        """Rows, columns and cells of a problem and its kind; its file is made first where there is none.

        A child makes it: what this process holds when it starts a child counts into the child's peak memory.
        """
        path, sizes = self.path(name), self.folder / f"{name}.json"
        if not path.exists() or not sizes.exists():
            job = {"task": "build", "problem": name, "path": str(path)}
            found = self.child(job, self.python, dict(os.environ))
            if found["status"] != "done":
                raise RuntimeError(f"problem {name} could not be built: {found['status']}")
            sizes.write_text(json.dumps({key: found[key] for key in ("rows", "cols", "cells", "simulated")}))
        return json.loads(sizes.read_text())

    def run(self, job: Job) -> dict[str, Any]:
        """The answer to a job."""
        asked = {**asdict(job), "path": str(self.path(job.problem)), "budget": self.options.budget}
        load = os.getloadavg()[0]
        found = self.child(asked, self.pythons.get(job.library, self.python), environment(job))
        return {"load_before": load, **found}

    def child(self, job: dict[str, Any], python: str, variables: dict[str, str]) -> dict[str, Any]:
        """Start a child and read the last line it prints."""
        command = [python, "-m", "benchmarks.peers.child", json.dumps({**job, "memory": self.memory})]
        limit = self.options.limit
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=ROOT, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"status": f"over {limit:.0f} s"}
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            last = done.stderr.strip().splitlines()[-1:] or [""]
            found = {"status": f"failed: exit code {done.returncode} {last[0]}".strip()}
        else:
            found = json.loads(lines[-1])
        return {**found, "status": FOLDERS.sub("", found["status"])}


def environment(job: Job) -> dict[str, str]:
    """The variables of this process, with the numbers of threads."""
    library = LIBRARIES.get(job.library)
    blas = library.blas_threads if library is not None and library.blas_threads else job.threads
    variables = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(job.threads))}
    return {**variables, **dict.fromkeys(BLAS_VARIABLES, str(blas))}


def measure(options: argparse.Namespace) -> None:
    """Run what is not in the file yet."""
    results = Results(options.out)
    if options.retry and options.out.exists():
        results.forget_failures()
    if not any(line["part"] == "machine" for line in results.lines):
        results.append({"part": "machine", **machine.describe()})
    folder = options.cache or Path(tempfile.gettempdir()) / "nmar-peers"
    folder.mkdir(parents=True, exist_ok=True)
    runner, jobs = Runner(options, folder), plan(options)
    problems = {name: runner.sizes(name) for name in dict.fromkeys(job.problem for job in jobs)}
    for number, job in enumerate(jobs, 1):
        if results.known(job):
            continue
        sizes = problems[job.problem]
        reason = results.hopeless(job, sizes["cells"])
        record = {**asdict(job), **sizes, **({"status": reason} if reason else runner.run(job))}
        results.append(record)
        outcome = f"{record['seconds']:.3g} s a sweep" if "seconds" in record else record["status"]
        where = f"{job.part} {job.problem} {job.library} K={job.factors} threads={job.threads} repeat {job.repeat}"
        print(f"[{number}/{len(jobs)}] {where}: {outcome}", flush=True)
