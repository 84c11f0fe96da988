"""Clusters of rows or of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_count
from nmar.models.mixture import ClusterModel
from nmar.models.protocol import DataModel
from nmar.models.settings.leveled import Leveled
from nmar.models.settings.lines import designs


@dataclass(frozen=True)
class Mixture(Leveled):
    """Clusters of rows or of columns.

    Parameters
    ----------
    clusters : int, default=10
        Number of clusters.
    axis : {"rows", "cols"}, default="rows"
        Which lines are clustered.
    family : {"gaussian", "poisson", "levels"}, default="gaussian"
        Family of the values.
    concentration : float, default=1.0
        Dirichlet prior of each cluster weight.
    restarts : int, default=4
        Number of random starts; the one with the best bound is used.
    rows, cols : DataFrame, array-like or None, default=None
        Covariates, as in :class:`Factorization`. Those of the axis that is clustered change the prior probabilities of
        its clusters, those of the other axis the prior means of the clusters' profiles (Gaussian only).
    levels, styles, styles_by : optional
        Levels and styles of ``family="levels"``, as in :class:`Factorization`.

    Examples
    --------
    >>> import numpy as np
    >>> Mixture(3, "cols", cols=np.arange(8.0).reshape(4, 2)).describe()
    'mixture:3:cols+covariates'
    """

    clusters: int = 10
    axis: Literal["rows", "cols"] = "rows"
    family: Literal["gaussian", "poisson", "levels"] = "gaussian"
    concentration: float = 1.0
    restarts: int = 4
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_count("clusters", self.clusters, 1)
        check_count("restarts", self.restarts, 1)
        check_choice("axis", self.axis, ("rows", "cols"))
        check_choice("family", self.family, ("gaussian", "poisson", "levels"))
        self.check_levels(self.family)
        if not self.concentration > 0:
            raise ValueError(f"concentration={self.concentration!r}; give a number above 0")
        other = "cols" if self.axis == "rows" else "rows"
        if self.family == "poisson" and getattr(self, other) is not None:
            raise ValueError(
                f"{other} must be None with family={self.family!r}: profiles of the clusters have gamma priors there,"
                f" whose means cannot be linear in covariates; those of {self.axis}, which are clustered, can be given"
            )
        if self.clusters == 1 and getattr(self, self.axis) is not None:
            raise ValueError(f"clusters=1: covariates of {self.axis} move the odds of clusters, and there is only one")

    def build(self, cells: Cells | None) -> DataModel:
        """A cluster model."""
        axis, known = 0 if self.axis == "rows" else 1, designs(cells, self.rows, self.cols)
        latent = "gaussian" if self.family == "levels" else self.family
        return ClusterModel(self.clusters, axis, latent, self.concentration, self.restarts, known)

    def describe(self) -> str:
        """Name, clusters and axis, and whether it has covariates."""
        known = "" if self.rows is None and self.cols is None else "+covariates"
        return f"{self.kind}mixture:{self.clusters}:{self.axis}{self.styles_name}{known}"
