"""Small problems for the tests of fitting."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import nmar
from nmar.fit.executor import Serial
from nmar.fit.problem import Problem, begin
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.prob.linkage import Linkage, linkage

SETTINGS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, family="poisson"),
}


def cells_of(data: Any, shape: tuple[int, int] = (60, 40), density: float = 0.25, seed: int = 0) -> nmar.Cells:
    """Cells drawn from the model."""
    return nmar.simulate(shape=shape, data=data, linkage=nmar.Linear(0.2), density=density, seed=seed)[0]


# thinned counts: (model, linkage)
THINNED = {
    "thinned": ("full", nmar.Free(values=(1.0, 0.8, 0.6, 0.5), thinning=8.0)),
    "poisson-thinned": ("poisson", nmar.Linear(-0.3, learn=True, thinning=8.0)),
}


# noise by row and column with a Student tail: (model, noise)
NOISY = {
    "noise-normal": ("full", Noise()),
    "noise": ("full", Noise(freedom=6.0, learns_freedom=True)),
    "noise-diagonal": ("diagonal", Noise(freedom=6.0, learns_freedom=True)),
}


def start(
    name: str = "full",
    link: str | Linkage = "linear",
    shape: tuple[int, int] = (60, 40),
    hide: float = 0.0,
    density: float = 0.25,
) -> Problem:
    """A problem about to start; ``hide`` is a share of the observed cells that it is told to be hidden."""
    noise = None
    if name in THINNED:
        name, link = THINNED[name]
    if name in NOISY:
        (name, noise), link = NOISY[name], "ignorable"
    cells, hidden = cells_of(SETTINGS[name], shape, density), None
    if hide:
        cells, _, hidden = cells.split(test=hide, valid=0.0, seed=0)
    return begin(cells, SETTINGS[name].build(cells), linkage(link), Pattern(3), hidden=hidden, seed=0, noise=noise)


def around(problem: Problem) -> Context:
    """Surroundings in one thread."""
    return Context(problem.observed, problem.law, choose("numba"), Serial())


def arrays(record: Any) -> list[np.ndarray]:
    """Every array and number of a record, in order."""
    if isinstance(record, np.ndarray):
        return [record]
    if isinstance(record, tuple | list):
        return [a for part in record for a in arrays(part)]
    if dataclasses.is_dataclass(record):
        return [a for f in dataclasses.fields(record) for a in arrays(getattr(record, f.name))]
    return [np.array(record)] if isinstance(record, int | float) else []


def same(left: Any, right: Any) -> bool:
    """Bit by bit."""
    one, other = arrays(left), arrays(right)
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
