"""The ignorable linkage: values do not depend on counts (theory.md, Linkages)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nmar.prob.linkage.base import Bins, Linkage


@dataclass(frozen=True)
class Ignorable(Linkage):
    """Linkage phi2(n) = 1: the value does not depend on the count.

    Parameters
    ----------
    mean : {None, "shift", "scale"}, default=None
        Table of the mean that is learned beside that of the spread, for the Gaussian: a shift, a factor, or none.
    levels, learn, shift, scale, shift_width, scale_width, thinning : int, bool, tuple and float
        As for :class:`nmar.Linear`.

    Examples
    --------
    >>> Ignorable().table(3).tolist()
    [1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "ignorable"

    @property
    def bins(self) -> Bins:
        return "tail"

    @property
    def size(self) -> int:
        return 1 if self.mean is None else self.levels

    @property
    def couples(self) -> bool:
        return self.mean is not None

    @property
    def whole(self) -> bool:
        return True
