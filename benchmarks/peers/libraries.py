"""One adapter per library: how it is given the data, what one sweep of it is, how the sweep is timed.

``prepare`` takes the data, outside the clock, and returns a function that fits so many sweeps from the same start.
A sweep updates all rows and all columns once. Where a library tells the time of each sweep that is used; where it does
not, a fit of one sweep is subtracted from a longer one, so that set-up and final steps cancel. All run in float32.

Libraries of kind "pattern" model which cells are observed and are given ones; those of kind "values" are given the
ratings. A package is imported when its adapter is used, so that one may be missing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sparse

from benchmarks.peers.matrix import Matrix, Triplets


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit and the time it took.

    Attributes
    ----------
    seconds : of the whole call
    each : seconds of each sweep where the library tells them, else empty
    model : what the library returned
    """

    seconds: float
    each: tuple[float, ...]
    model: Any


Fit = Callable[[int], Fitted]


@dataclass(frozen=True, eq=False)
class Library:
    """What the benchmark knows about a library.

    Attributes
    ----------
    title : name in tables
    package : distribution, for its version
    kind : "pattern" or "values"
    about : model and settings in words, for the tables
    prepare : (matrix, factors, threads, **choice) → fit
    predict : (model, rows, columns) → predicted values, for time to a target
    log_likelihood : (model, test triplets, shape) → nats per cell, where the model has one
    choices : settings that are chosen on validation cells, outside the clock, for time to a target
    blas_threads : threads of BLAS if not those of the library
    """

    title: str
    package: str
    kind: str
    about: str
    prepare: Callable[..., Fit]
    predict: Callable[[Any, np.ndarray, np.ndarray], np.ndarray] | None = None
    log_likelihood: Callable[[Any, Triplets, tuple[int, int]], float] | None = None
    choices: tuple[dict[str, Any], ...] = ({},)
    blas_threads: int | None = None


def timed(make: Callable[[], Any], run: Callable[[Any], Any]) -> Fitted:
    """Make a model outside the clock and run it inside; for libraries that tell no times of sweeps."""
    model = make()
    began = time.perf_counter()
    run(model)
    return Fitted(time.perf_counter() - began, (), model)


def nmar_cells(matrix: sparse.csr_matrix) -> Any:
    """The matrix as nmar's cells."""
    return import_module("nmar").Cells.from_scipy(matrix)


def nmar(model_of: Callable[[Any, int], dict[str, Any]]) -> Callable[..., Fit]:
    """Seconds are the differences of ``seconds_trace_``."""

    def prepare(matrix: Matrix, factors: int, threads: int) -> Fit:
        package = import_module("nmar")
        cells = nmar_cells(matrix.values)
        settings = {"factors": factors, "tol": 0.0, "dtype": "float32", "noise": "constant", "n_jobs": threads}

        def fit(sweeps: int) -> Fitted:
            found = timed(
                lambda: package.CCPF(**model_of(package, factors), **settings, max_iter=sweeps, random_state=0),
                lambda model: model.fit(cells),
            )
            return replace(found, each=tuple(np.diff(found.model.seconds_trace_, prepend=0.0).tolist()))

        return fit

    return prepare


def coupled(package: Any, factors: int, bias: bool = True) -> dict[str, Any]:
    """The coupled model with as many factors of the pattern as of the values."""
    return {"data": package.Factorization(factors, bias=bias, covariance="diagonal"), "linkage": "linear"}


def nmar_log_likelihood(model: Any, test: Triplets, shape: tuple[int, int]) -> float:
    """Predictive log likelihood of held-out cells."""
    row, col, value = test
    return model.log_likelihood(nmar_cells(sparse.coo_matrix((value, (row, col)), shape=shape)))


def hpfrec(matrix: Matrix, factors: int, threads: int) -> Fit:
    """No likelihood is computed: ``stop_crit="maxiter"``, no validation set, not verbose."""
    package, counts = import_module("hpfrec"), sparse.coo_array(matrix.pattern())
    off = {"check_every": None, "verbose": False, "reindex": False, "produce_dicts": False}
    off |= {"keep_data": False, "keep_all_objs": False, "stop_crit": "maxiter"}

    def fit(sweeps: int) -> Fitted:
        how = {"ncores": threads, "use_float": True, "allow_inconsistent_math": True, "random_seed": 0}
        return timed(lambda: package.HPF(k=factors, maxiter=sweeps, **how, **off), lambda model: model.fit(counts))

    return fit


def implicit(matrix: Matrix, factors: int, threads: int) -> Fit:
    """Seconds are those its callback is given."""
    package, pattern = import_module("implicit.als"), matrix.pattern()
    how = {"use_gpu": False, "use_native": True, "use_cg": True, "dtype": np.float32, "num_threads": threads}

    def fit(sweeps: int) -> Fitted:
        each: list[float] = []
        found = timed(
            lambda: package.AlternatingLeastSquares(factors=factors, iterations=sweeps, random_state=0, **how),
            lambda model: model.fit(pattern, show_progress=False, callback=lambda _, spent, loss: each.append(spent)),
        )
        return replace(found, each=tuple(each))

    return fit


def cmfrec(name: str, **settings: Any) -> Callable[..., Fit]:
    """``CMF`` or ``CMF_implicit``."""

    def prepare(matrix: Matrix, factors: int, threads: int, **choice: Any) -> Fit:
        package = import_module("cmfrec")
        given = sparse.coo_matrix(matrix.values if name == "CMF" else matrix.pattern())
        how = {"use_cg": True, "use_float": True, "precompute_for_predictions": False, "random_state": 0}
        how |= {"k": factors, "nthreads": threads, **settings, **choice}
        return lambda sweeps: timed(lambda: getattr(package, name)(niter=sweeps, **how), lambda m: m.fit(given))

    return prepare


def scikit_nmf(**settings: Any) -> Callable[..., Fit]:
    """``tol=0`` lets it run all sweeps and computes no loss on the way."""

    def prepare(matrix: Matrix, factors: int, threads: int) -> Fit:
        package, pattern = import_module("sklearn.decomposition"), matrix.pattern()
        warnings.filterwarnings("ignore", message="Maximum number of iterations")
        how = {"init": "random", "tol": 0.0, "random_state": 0, **settings}
        return lambda sweeps: timed(
            lambda: package.NMF(factors, max_iter=sweeps, **how), lambda model: model.fit_transform(pattern)
        )

    return prepare


def poismf(**settings: Any) -> Callable[..., Fit]:
    """``early_stop=False``: each sweep is done."""

    def prepare(matrix: Matrix, factors: int, threads: int) -> Fit:
        package, counts = import_module("poismf"), sparse.coo_matrix(matrix.pattern())
        how = {"early_stop": False, "use_float": True, "reindex": False, "copy_data": False, "nthreads": threads}
        return lambda sweeps: timed(
            lambda: package.PoisMF(k=factors, niter=sweeps, **how, **settings), lambda model: model.fit(counts)
        )

    return prepare


COUPLED = Library(
    "nmar, coupled",
    "nmar",
    "values",
    "the pattern and a Gaussian factorization of the values with diagonal covariance, both with K factors, coupled"
    " by a linear linkage; with biases, which makes K + 2 coordinates; coordinate ascent; one start",
    nmar(coupled),
    predict=lambda model, rows, cols: model.predict_entries(rows, cols),
    log_likelihood=nmar_log_likelihood,
)
LIBRARIES = {
    "nmar-pattern": Library(
        "nmar, pattern only",
        "nmar",
        "pattern",
        "hierarchical Poisson factorization of the pattern; coordinate ascent; one start",
        nmar(lambda package, factors: {"data": package.PatternOnly(), "linkage": "ignorable"}),
    ),
    "nmar-coupled": COUPLED,
    "nmar-unbiased": replace(
        COUPLED,
        title="nmar, coupled, no biases",
        about="the same without biases, as in the paper: K coordinates",
        prepare=nmar(lambda package, factors: coupled(package, factors, bias=False)),
    ),
    "hpfrec": Library(
        "hpfrec",
        "hpfrec",
        "pattern",
        "hierarchical Poisson factorization, full batch coordinate ascent; no likelihood computed; its parallel sums"
        " allowed (`allow_inconsistent_math`)",
        hpfrec,
    ),
    "implicit": Library(
        "implicit, ALS",
        "implicit",
        "pattern",
        "weighted least squares on all cells by alternating conjugate gradients (`use_cg=True`, 3 steps); BLAS on one"
        " thread, as the library asks",
        implicit,
        blas_threads=1,
    ),
    "cmfrec": Library(
        "cmfrec, CMF",
        "cmfrec",
        "values",
        "least squares on the observed values with biases by alternating conjugate gradients (`method='als'`, 3 steps,"
        " no final Cholesky sweep)",
        cmfrec("CMF", method="als", finalize_chol=False),
        predict=lambda model, rows, cols: model.predict(rows, cols),
        choices=tuple({"lambda_": value} for value in (1.0, 3.0, 10.0, 30.0, 100.0)),
    ),
    "cmfrec-implicit": Library(
        "cmfrec, CMF_implicit",
        "cmfrec",
        "pattern",
        "weighted least squares on all cells by alternating conjugate gradients (3 steps, no final Cholesky sweep)",
        cmfrec("CMF_implicit", finalize_chol=False),
    ),
    "scikit-learn-cd": Library(
        "scikit-learn, NMF (cd)",
        "scikit-learn",
        "pattern",
        "nonnegative least squares by coordinate descent; a missing cell is a 0; only BLAS uses threads",
        scikit_nmf(solver="cd"),
    ),
    "scikit-learn-mu": Library(
        "scikit-learn, NMF (mu)",
        "scikit-learn",
        "pattern",
        "Kullback–Leibler loss, that is a Poisson likelihood, by multiplicative updates; a missing cell is a 0; only"
        " BLAS uses threads",
        scikit_nmf(solver="mu", beta_loss="kullback-leibler"),
    ),
    "poismf-tncg": Library(
        "poismf (tncg)",
        "poismf",
        "pattern",
        "penalised Poisson likelihood; truncated Newton, its default: each line is solved, up to 15 × K evaluations, so"
        " that a sweep does more work than elsewhere",
        poismf(method="tncg"),
    ),
    "poismf-pg": Library(
        "poismf (pg)",
        "poismf",
        "pattern",
        "penalised Poisson likelihood; proximal gradient with one step a line and sweep",
        poismf(method="pg", maxupd=1),
    ),
}
