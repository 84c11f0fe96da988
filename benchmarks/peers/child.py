"""One measurement in a process of its own.

    python -m benchmarks.peers.child '{"task": "sweeps", "library": "implicit", "path": "…", "threads": 2, …}'

The job comes as JSON and the answer leaves as the last line of standard output, as JSON too. Tasks: ``build`` writes a
problem to a file, ``limits`` probes the machine, ``sweeps`` times sweeps, ``target`` follows errors of held-out cells.
The whole process, data and preparation included, has the peak memory that is reported.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.libraries import LIBRARIES, Fit, Library
from benchmarks.peers.matrix import Triplets, build, load

MOST = 20  # sweeps of a timed fit
FEWEST = 6  # sweeps of a fit whose sweeps are timed one by one; the first is left out, and memory is new to the second
TRACE = (1, 2, 3, 5, 8, 12, 20, 30, 45)  # sweeps of the fits on the way to a target
CHOOSING = 15  # sweeps of a fit by which a setting is chosen on validation cells


def sweep_seconds(fit: Fit, budget: float) -> list[float]:
    """Seconds of a sweep: one by one where the library tells them, else the difference of two fits.

    The first fit warms up caches and compiled code. The timed one has as many sweeps as ``budget`` seconds allow.
    """
    base = replace(fit(1), model=None)  # whose memory would count in the peak
    if base.seconds < budget:
        base = replace(fit(1), model=None)
    if base.each:
        sweeps = min(max(int(budget / base.each[0]), FEWEST), MOST)
        return list(fit(sweeps).each[1:])
    more = min(max(int(budget / base.seconds), 1), MOST)
    return [(fit(1 + more).seconds - base.seconds) / more]


def sweeps(job: dict[str, Any]) -> dict[str, Any]:
    """Time sweeps of one library."""
    library = LIBRARIES[job["library"]]
    fit = library.prepare(load(Path(job["path"])), job["factors"], job["threads"])
    found = sweep_seconds(fit, job["budget"])
    return {"seconds": statistics.median(found), "sweeps": found}


def root_mean_square(library: Library, model: Any, cells: Triplets) -> float:
    """Error of the predictions of held-out cells."""
    row, col, value = cells
    return float(np.sqrt(np.mean((library.predict(model, row, col) - value) ** 2)))


def target(job: dict[str, Any]) -> dict[str, Any]:
    """Error, and likelihood where there is one, of fits with growing numbers of sweeps from the same start."""
    library, matrix = LIBRARIES[job["library"]], load(Path(job["path"]))
    fits = [library.prepare(matrix, job["factors"], job["threads"], **choice) for choice in library.choices]
    chosen = _best(fits, library, matrix.held["valid"])
    trace = []
    for count in TRACE:
        found = fits[chosen](count)
        point = {"sweeps": count, "seconds": found.seconds}
        point["rmse"] = root_mean_square(library, found.model, matrix.held["test"])
        if library.log_likelihood is not None:
            point["log_likelihood"] = library.log_likelihood(found.model, matrix.held["test"], matrix.values.shape)
        trace.append(point)
    return {"trace": trace, "choice": library.choices[chosen]}


def _best(fits: Sequence[Fit], library: Library, valid: Triplets) -> int:
    """Which fit has the smallest error on validation cells; a library with one only is warmed up."""
    if len(fits) == 1:
        fits[0](1)
        return 0
    return int(np.argmin([root_mean_square(library, fit(CHOOSING).model, valid) for fit in fits]))


def limits(job: dict[str, Any]) -> dict[str, Any]:
    """Probe the machine at the problem's indices."""
    from benchmarks.peers.limits import measure

    return measure(load(Path(job["path"])).values, job["factors"], job["threads"])


def problem(job: dict[str, Any]) -> dict[str, Any]:
    """Write a problem to its file; sizes."""
    matrix = build(job["problem"])
    matrix.save(Path(job["path"]))
    n_rows, n_cols = matrix.values.shape
    return {"rows": n_rows, "cols": n_cols, "cells": matrix.values.nnz, "simulated": not matrix.held}


TASKS = {"build": problem, "limits": limits, "sweeps": sweeps, "target": target}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Do a job; what kept it from being done is an answer too."""
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    library = LIBRARIES.get(job.get("library"))
    try:
        version = metadata.version(library.package) if library else None
        found = TASKS[job["task"]](job)
    except metadata.PackageNotFoundError:
        return {"status": "not installed"}
    except MemoryError:
        return {"status": "out of memory"}
    except Exception as error:
        return {"status": f"failed: {type(error).__name__}: {error}"}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes on Linux
    return {"status": "done", **found, "version": version, "peak_gb": peak}


if __name__ == "__main__":
    print(json.dumps(answer(json.loads(sys.argv[1]))))
