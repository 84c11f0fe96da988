"""Golden results: bounds, predictions and saved models of many settings, to prove that a rewrite changed nothing.

    python -m benchmarks.golden write FILE     before the rewrite
    python -m benchmarks.golden check FILE     after it: the largest relative difference of every setting

Settings cover data models × linkages × solvers × controls × storage types on small simulated tables, and
MovieLens-small where the data are at hand. Nothing is chosen by held-out cells, so that differences of rounding do not
change a choice.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

import nmar
from benchmarks.problems import PROBLEMS

Result = dict[str, np.ndarray]
Case = tuple[str, Callable[[], Result]]


def fitted(
    cells: nmar.Cells, data: Any, linkage: Any = "free", fit: dict[str, Any] | None = None, **settings: Any
) -> Result:
    """Fit a few sweeps; bounds, predictions and scores, before saving and after loading."""
    settings = {"factors": 4, "max_iter": 6, "tol": 0.0, **settings}
    model = nmar.CCPF(data, linkage, random_state=0, **settings).fit(cells, **(fit or {}))
    rows, cols = (index[:60] for index in cells.positions())
    rows, cols = cells.row_ids[rows], cells.col_ids[cols]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        loaded = nmar.load(path)
    found = {"bound": np.array(model.bound_trace_)}
    for name, one in (("fitted", model), ("loaded", loaded)):
        found[f"{name} P(observed)"] = np.asarray(one.observed_probability(rows, cols))
        if not isinstance(data, nmar.PatternOnly):
            found[f"{name} mean"] = np.asarray(one.predict_entries(rows, cols))
            found[f"{name} score"] = np.atleast_1d(one.log_likelihood(cells))
    return found


def simulated(data: Any, shape: tuple[int, int] = (120, 80)) -> nmar.Cells:
    """A small table whose missingness is linked to its values."""
    return nmar.simulate(shape, data, nmar.Linear(0.3), 0.2, 0)[0]


def gaussian_cases() -> Iterator[Case]:
    """Factorizations of Gaussian values."""
    train, valid, test = simulated(nmar.Factorization(3)).split(0.2, 0.02, 0)
    full, diagonal = nmar.Factorization(3), nmar.Factorization(3, covariance="diagonal")
    for linkage in ("ignorable", "linear", "exponential", "geometric", "free", "compound"):
        for dtype in ("float64", "float32"):
            yield f"full, {linkage}, {dtype}", lambda k=linkage, d=dtype: fitted(train, full, k, dtype=d)
        yield f"diagonal, {linkage}", lambda k=linkage: fitted(train, diagonal, k)
    for linkage in ("linear", "free"):
        for control in ("tail",):
            yield f"{control}, {linkage}", lambda k=linkage, c=control: fitted(train, full, k, control=c)
    thinned = {
        "linear": nmar.Linear(0.3, thinning=8),
        "free": nmar.Free(thinning=8),
    }
    for name, linkage in thinned.items():
        for dtype in ("float64", "float32"):
            yield f"thinned {name}, {dtype}", lambda k=linkage, d=dtype: fitted(train, full, k, dtype=d)
        yield f"thinned {name}, diagonal", lambda k=linkage: fitted(train, diagonal, k)
    yield "two-stage", lambda: fitted(train, full, "two-stage")
    yield "hidden", lambda: fitted(train, full, fit={"hidden": test})
    yield "valid", lambda: fitted(train, full, fit={"hidden": test, "valid": valid})
    yield "shift", lambda: fitted(train, full, nmar.Free(mean="shift"))
    yield "learned prior", lambda: fitted(train, full, prior="learned")
    yield "reference", lambda: fitted(train, full, backend="reference")
    yield "columns lead", lambda: fitted(train.transpose(), full)
    for solver in ("minibatch", "entrywise"):
        yield f"{solver}, diagonal", lambda s=solver: fitted(train, diagonal, "linear", solver=s)
    yield "minibatch, full", lambda: fitted(train, full, solver="minibatch")
    yield "minibatch, full, thinned", lambda: fitted(train, full, nmar.Free(thinning=8), solver="minibatch")
    yield "minibatch, plain steps", lambda: fitted(train, full, solver=nmar.Minibatch(batch_size=30, remember=False))
    for data in (nmar.Mixture(3), nmar.Effects(), nmar.Constant("gaussian"), nmar.PatternOnly()):
        linkage = "ignorable" if isinstance(data, nmar.PatternOnly) else "free"
        yield type(data).__name__.lower(), lambda d=data, k=linkage: fitted(train, d, k)
    features = np.random.default_rng(0).normal(size=(80, 3))
    yield "regression", lambda: fitted(train, nmar.Regression(features))
    yield "regressor", lambda: fitted(train, nmar.Regressor(Ridge(), col_features=features))


def scalar_cases() -> Iterator[Case]:
    """Families other than the Gaussian."""
    product = nmar.Factorization(3, family="poisson")
    for linkage in ("ignorable", "linear", "free", "compound"):
        yield f"poisson factorization, {linkage}", lambda k=linkage: fitted(simulated(product), product, k)
    yield "poisson, minibatch", lambda: fitted(simulated(product), product, solver="minibatch")
    for family in ("gamma", "negative_binomial", "poisson", "inverse_gaussian"):
        for linkage in ("free", "exponential"):
            data = nmar.Constant(family)
            yield f"{family}, {linkage}", lambda d=data, k=linkage: fitted(simulated(d, (60, 50)), d, k)


def real_cases() -> Iterator[Case]:
    """MovieLens-small, where it is at hand."""
    try:
        train = PROBLEMS["ml_latest_small"]()[0]
    except FileNotFoundError:
        return
    for name, data in (("full", nmar.Factorization(5)), ("diagonal", nmar.Factorization(20, covariance="diagonal"))):
        for linkage in (nmar.Free(), nmar.Free(thinning=16)):
            label = f"MovieLens-small, {name}, s = {linkage.thinning:g}"
            yield label, lambda d=data, k=linkage: fitted(train, d, k, max_iter=4)


def difference(old: Result, new: Result) -> float:
    """Largest relative difference of two results."""
    worst = 0.0
    for name, before in old.items():
        scale = np.maximum(np.abs(before), 1e-3 * np.abs(before).max(initial=1e-300))
        worst = max(worst, float(np.max(np.abs(new[name] - before) / scale, initial=0.0)))
    return worst


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("write", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    arguments = parser.parse_args()
    cases = [c for group in (gaussian_cases, scalar_cases, real_cases) for c in group() if arguments.only in c[0]]
    if arguments.verb == "write":
        found = {}
        for name, case in cases:
            found[name] = case()
            print(f"{name:36s} {found[name]['bound'][-1]:.10f}", flush=True)
        arguments.file.write_bytes(pickle.dumps(found))
        return
    golden, worst = pickle.loads(arguments.file.read_bytes()), 0.0
    for name, case in cases:
        here = difference(golden[name], case())
        worst = max(worst, here)
        print(f"{name:36s} {here:.1e}", flush=True)
    print(f"largest of {len(cases)} settings: {worst:.1e}")


if __name__ == "__main__":
    main()
