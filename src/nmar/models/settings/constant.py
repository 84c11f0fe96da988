"""One parameter for all cells, in six families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_count
from nmar.models.element import Element, NormalElement
from nmar.models.protocol import DataModel
from nmar.prob.families import FAMILIES, Family


@dataclass(frozen=True)
class Constant:
    """One natural parameter for the whole matrix.

    Parameters
    ----------
    family : str, default="gaussian"
        Family: "gaussian", "gamma", "inverse_gaussian", "poisson", "binomial", "negative_binomial", or one that is
        registered.
    trials : int or None, default=None
        Number of trials of the binomial (its κ).
    prior : {"normal-gamma", "normal"}, default="normal-gamma"
        Prior of the Gaussian; "normal-gamma" is the paper's.

    Notes
    -----
    With ``linkage="compound"`` this is hierarchical compound Poisson factorization; for the Gaussian that is
    ``Compound(mean="scale")``, under which y ~ N(nμ, nσ²).

    Examples
    --------
    >>> Constant("binomial", trials=10).describe()
    'constant:binomial'
    """

    family: str = "gaussian"
    trials: int | None = None
    prior: Literal["normal-gamma", "normal"] = "normal-gamma"

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("prior", self.prior, ("normal-gamma", "normal"))
        if self._law.whole_dispersion:
            check_count("trials", self.trials, 1)

    @property
    def _law(self) -> Family:
        return FAMILIES[self.family]

    def build(self, cells: Cells | None) -> DataModel:
        """A conjugate element."""
        if self._law.location:
            return NormalElement(self.prior == "normal-gamma")
        return Element(self.family, self.trials if self._law.whole_dispersion else None)

    def describe(self) -> str:
        """Name and family."""
        return f"constant:{self.family}"
