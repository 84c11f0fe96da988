"""What users write to choose a data model; each builds the model that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from nmar.data.cells import Cells
from nmar.models.bilinear import Bilinear, Coordinates
from nmar.models.product import Product
from nmar.models.protocol import DataModel


class Settings(Protocol):
    """A choice of data model."""

    def build(self, cells: Cells | None) -> DataModel:
        """The model for these cells."""
        ...

    def describe(self) -> str:
        """A short name for tables."""
        ...


def check_choice(argument: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{argument}={value!r}; use one of {', '.join(map(repr, choices))}")


def check_count(argument: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:  # type: ignore[call-overload]
        raise ValueError(f"{argument}={value!r}; give a whole number of at least {least}")


@dataclass(frozen=True)
class Factorization:
    """Matrix factorization of the values.

    Parameters
    ----------
    rank : number of factors
    family : "gaussian" (normal lines, probabilistic matrix factorization) or "poisson" (gamma lines)
    covariance : "full" (one covariance matrix per line) or "diagonal" (the paper's); Gaussian only
    bias : row and column biases; Gaussian only

    Examples
    --------
    >>> Factorization(5).describe()
    'factorization:5'
    """

    rank: int = 10
    family: Literal["gaussian", "poisson"] = "gaussian"
    covariance: Literal["full", "diagonal"] = "full"
    bias: bool = True

    def __post_init__(self) -> None:
        check_count("rank", self.rank, 1)
        check_choice("family", self.family, ("gaussian", "poisson"))
        check_choice("covariance", self.covariance, ("full", "diagonal"))

    def build(self, cells: Cells | None) -> DataModel:
        """A Gaussian bilinear model or a Poisson product."""
        if self.family == "poisson":
            return Product(self.rank)
        factors = (True,) * self.rank
        if not self.bias:
            axis = Coordinates(factors, (0.0,) * self.rank, factors)
            return Bilinear((axis, axis), self.covariance, self.rank)
        zeros = (0.0,) * self.rank
        rows = Coordinates((*factors, True, False), (*zeros, 0.0, 1.0), (*factors, True, False), self.rank)
        cols = Coordinates((*factors, False, True), (*zeros, 1.0, 0.0), (*factors, False, True), self.rank + 1)
        return Bilinear((rows, cols), self.covariance, self.rank)

    def describe(self) -> str:
        """Name and rank."""
        name = "factorization" if self.family == "gaussian" else "poisson-factorization"
        return f"{name}:{self.rank}" + (":diagonal" if self.covariance == "diagonal" else "")
