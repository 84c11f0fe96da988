"""Learning from data that are not missing at random.

Most sparse tables are sparse for a reason, and the reason tells about the values. ``nmar`` models *which* cells
are observed together with *what* they hold: coupled compound Poisson factorization.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; at run time names are imported when they are first used
    from nmar.data import datasets as datasets
    from nmar.data.cells import Cells as Cells
    from nmar.data.container import FileError as FileError
    from nmar.data.dataset import Dataset as Dataset
    from nmar.data.read import read as read
    from nmar.data.split import EntryKFold as EntryKFold
    from nmar.data.sql import read_sql as read_sql
    from nmar.estimators.annotate import store_factors as store_factors
    from nmar.estimators.annotate import store_layers as store_layers
    from nmar.estimators.annotate import to_arviz as to_arviz
    from nmar.estimators.ccpf import CCPF as CCPF
    from nmar.estimators.ccpf import load as load
    from nmar.estimators.complete import complete as complete
    from nmar.estimators.contrast import compare_groups as compare_groups
    from nmar.evaluate import metrics as metrics
    from nmar.evaluate.check import check as check
    from nmar.evaluate.compare import compare as compare
    from nmar.evaluate.groups import group_test as group_test
    from nmar.evaluate.missingness import missingness_test as missingness_test
    from nmar.evaluate.pooling import pool as pool
    from nmar.evaluate.why import why_missing as why_missing
    from nmar.fit.checkpoint import register as register
    from nmar.fit.simulate import simulate as simulate
    from nmar.fit.solvers.entrywise import Entrywise as Entrywise
    from nmar.fit.solvers.schedule import Minibatch as Minibatch
    from nmar.models.mechanism import ByValue as ByValue
    from nmar.models.missingness import Pattern as Pattern
    from nmar.models.protocol import DataModel as DataModel
    from nmar.models.settings import Constant as Constant
    from nmar.models.settings import Effects as Effects
    from nmar.models.settings import Factorization as Factorization
    from nmar.models.settings import Mixture as Mixture
    from nmar.models.settings import PatternOnly as PatternOnly
    from nmar.models.settings import Regression as Regression
    from nmar.models.settings import Regressor as Regressor
    from nmar.prob.linkage import Compound as Compound
    from nmar.prob.linkage import Exponential as Exponential
    from nmar.prob.linkage import Free as Free
    from nmar.prob.linkage import Geometric as Geometric
    from nmar.prob.linkage import Ignorable as Ignorable
    from nmar.prob.linkage import Linear as Linear
    from nmar.report import plot as plot

__version__ = "0.1.0"

HOMES = {
    "Cells": "nmar.data.cells",
    "Dataset": "nmar.data.dataset",
    "EntryKFold": "nmar.data.split",
    "read": "nmar.data.read",
    "read_sql": "nmar.data.sql",
    "simulate": "nmar.fit.simulate",
    "Factorization": "nmar.models.settings",
    "Effects": "nmar.models.settings",
    "Mixture": "nmar.models.settings",
    "Regression": "nmar.models.settings",
    "Constant": "nmar.models.settings",
    "Regressor": "nmar.models.settings",
    "PatternOnly": "nmar.models.settings",
    "ByValue": "nmar.models.mechanism",
    "Pattern": "nmar.models.missingness",
    "DataModel": "nmar.models.protocol",
    "Ignorable": "nmar.prob.linkage",
    "Linear": "nmar.prob.linkage",
    "Exponential": "nmar.prob.linkage",
    "Compound": "nmar.prob.linkage",
    "Geometric": "nmar.prob.linkage",
    "Free": "nmar.prob.linkage",
    "CCPF": "nmar.estimators.ccpf",
    "Minibatch": "nmar.fit.solvers.schedule",
    "Entrywise": "nmar.fit.solvers.entrywise",
    "load": "nmar.estimators.ccpf",
    "FileError": "nmar.data.container",
    "complete": "nmar.estimators.complete",
    "compare_groups": "nmar.estimators.contrast",
    "store_factors": "nmar.estimators.annotate",
    "store_layers": "nmar.estimators.annotate",
    "to_arviz": "nmar.estimators.annotate",
    "register": "nmar.fit.checkpoint",  # by then all records of the library are registered themselves
    "check": "nmar.evaluate.check",
    "compare": "nmar.evaluate.compare",
    "group_test": "nmar.evaluate.groups",
    "missingness_test": "nmar.evaluate.missingness",
    "pool": "nmar.evaluate.pooling",
    "why_missing": "nmar.evaluate.why",
    "metrics": "nmar.evaluate",
    "plot": "nmar.report",
    "datasets": "nmar.data",
}

__all__ = [*HOMES, "__version__"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used: ``import nmar`` itself stays cheap."""
        if name == "dask":  # a module, which needs Dask only when a cluster is used
            return import_module("nmar.dask")
        if name not in HOMES:
            raise AttributeError(f"module 'nmar' has no attribute {name!r}")
        if name in ("datasets", "metrics", "plot"):  # modules
            return import_module(f"{HOMES[name]}.{name}")
        return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
