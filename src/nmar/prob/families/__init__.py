"""The additive exponential dispersion families by name (table 1 of the paper; theory.md, Families).

A family is one file and one entry here.
"""

from __future__ import annotations

from nmar.prob.families.base import Family
from nmar.prob.families.binomial import Binomial
from nmar.prob.families.gamma import Gamma
from nmar.prob.families.gaussian import Gaussian
from nmar.prob.families.inverse_gaussian import InverseGaussian
from nmar.prob.families.negative_binomial import NegativeBinomial
from nmar.prob.families.poisson import Poisson

__all__ = [
    "FAMILIES",
    "Binomial",
    "Family",
    "Gamma",
    "Gaussian",
    "InverseGaussian",
    "NegativeBinomial",
    "Poisson",
    "family",
]

FAMILIES: dict[str, Family] = {
    law.name: law for law in (Gaussian(), Gamma(), InverseGaussian(), Poisson(), Binomial(), NegativeBinomial())
}


def family(name_or_instance: str | Family) -> Family:
    """Return the family of that name; an instance is returned as it is.

    Examples
    --------
    >>> family("gamma")
    Gamma()
    """
    if isinstance(name_or_instance, Family):
        return name_or_instance
    if name_or_instance in FAMILIES:
        return FAMILIES[name_or_instance]
    raise ValueError(f"family is {name_or_instance!r}; choose one of {', '.join(FAMILIES)}")
