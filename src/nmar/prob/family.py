"""The six additive exponential dispersion families by name (table 1 of the paper; theory.md, Families)."""

from __future__ import annotations

from nmar.prob.family_base import Family
from nmar.prob.family_count import Binomial, NegativeBinomial, Poisson
from nmar.prob.family_real import Gamma, Gaussian, InverseGaussian
from nmar.prob.statistics import Statistics

__all__ = [
    "FAMILIES",
    "Binomial",
    "Family",
    "Gamma",
    "Gaussian",
    "InverseGaussian",
    "NegativeBinomial",
    "Poisson",
    "Statistics",
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
