"""Learning from data that are not missing at random.

Most sparse tables are sparse for a reason, and the reason tells about the values. ``nmar`` models *which* cells
are observed together with *what* they hold: coupled compound Poisson factorization.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Cells": "nmar.data.cells",
    "EntryKFold": "nmar.data.split",
    "read": "nmar.data.read",
    "simulate": "nmar.fit.simulate",
    "Factorization": "nmar.models.settings",
    "Effects": "nmar.models.settings",
    "Mixture": "nmar.models.settings",
    "Regression": "nmar.models.settings",
    "Constant": "nmar.models.settings",
    "Regressor": "nmar.models.settings",
    "PatternOnly": "nmar.models.settings",
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
    "register": "nmar.fit.checkpoint",  # by then all records of the library are registered themselves
    "compare": "nmar.report.compare",
    "missingness_test": "nmar.report.missingness",
    "plot": "nmar.report",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: ``import nmar`` itself stays cheap."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nmar' has no attribute {name!r}")
    if name == "plot":
        return import_module("nmar.report.plot")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
