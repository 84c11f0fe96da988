"""Progress of long fits: a bar on a terminal, log records elsewhere, never print."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nmar.models.arguments import check_count

log = logging.getLogger("nmar")

Watch = Callable[..., None]

# Until the first sweep is finished, functions are compiled that have not been kept from an earlier run.
COMPILING = "compiling (once)"


@contextmanager
def progress(verbose: int, total: int, label: str = "fitting") -> Iterator[Watch | None]:
    """A function to call after each sweep, for the length of a fit.

    ``verbose`` 0: none. 1: a bar if standard error is a terminal. 2: a log record for every sweep as well.
    """
    check_count("verbose", int(verbose) if isinstance(verbose, bool) else verbose, 0)
    if not verbose:
        yield None
        return
    if not sys.stderr.isatty():
        yield _log_sweep if verbose > 1 else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} sweeps  bound {task.fields[bound]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{label}: {COMPILING}", total=total, bound="…")

        def watch(trace: Any, state: Any, trying: str = "") -> None:
            doing = f"{label}: {trying}" if trying else label
            bar.update(task, description=doing, completed=trace.iterations, bound=f"{trace.bound[-1]:.6g}")
            if verbose > 1:
                _log_sweep(trace, state, trying)

        yield watch


def _log_sweep(trace: Any, state: Any, trying: str = "") -> None:
    valid = f", validation {trace.valid[-1]:.5f}" if trace.valid else ""
    doing = f"{trying}, " if trying else ""
    log.info("%ssweep %d: bound %.8g%s, %.2f s", doing, trace.iterations, trace.bound[-1], valid, trace.seconds[-1])
