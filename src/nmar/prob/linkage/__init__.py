"""How the dispersion of an observed cell depends on its latent count (theory.md, Linkages).

Enters: a count n or a Poisson rate. Leaves: the table phi2(n) that multiplies the dispersion, its mean
under the zero-truncated Poisson, and for the Gaussian the location tables phi1(n) and delta(n) of
y ~ N(phi1(n) mu + delta(n), phi2(n) sigma^2). Every table starts at phi(1) = 1, delta(1) = 0, so the model
tends to the homoscedastic one where cells are almost surely missing (the paper's theorem 2).
One file for each linkage, ``base`` for what all of them have, ``curve`` for those with one parameter c.
Linkages are immutable: :meth:`Linkage.start` fills in what is to be learned, the M-step returns a new one.
"""

from __future__ import annotations

from nmar.prob.linkage.base import Linkage
from nmar.prob.linkage.compound import Compound
from nmar.prob.linkage.curve import FLOOR, Curve
from nmar.prob.linkage.exponential import Exponential
from nmar.prob.linkage.free import Free
from nmar.prob.linkage.geometric import Geometric
from nmar.prob.linkage.ignorable import Ignorable
from nmar.prob.linkage.linear import Linear

__all__ = [
    "FLOOR",
    "LINKAGES",
    "Compound",
    "Curve",
    "Exponential",
    "Free",
    "Geometric",
    "Ignorable",
    "Linear",
    "Linkage",
    "linkage",
]

LINKAGES: dict[str, type[Linkage]] = {
    kind.name: kind for kind in (Ignorable, Linear, Exponential, Compound, Geometric, Free)
}


def linkage(name_or_instance: str | Linkage) -> Linkage:
    """Return the linkage of that name with its defaults; an instance is returned as it is.

    Examples
    --------
    >>> linkage("linear")
    Linear(mean=None, levels=12, learn=None, shift=None, scale=None, shift_width=None, scale_width=0.1, \
thinning=1.0, c=None, prior_width=0.1)
    """
    if isinstance(name_or_instance, Linkage):
        return name_or_instance
    if name_or_instance in LINKAGES:
        return LINKAGES[name_or_instance]()
    raise ValueError(f"linkage is {name_or_instance!r}; choose one of {', '.join(LINKAGES)}")
