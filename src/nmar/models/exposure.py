"""What the lines of the pattern are exposed to: sums of the other side over cells that are observed or missing."""

from __future__ import annotations

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.models.law import Law
from nmar.models.state import State
from nmar.prob.linkage import Linkage


def exposure(axis: int, state: State) -> Array:
    """Σ_j E[v_jk] over all cells of a line of ``axis``: (K,)."""
    return state.sides[1 - axis].pattern.weights.column_sums


def lines_differ(law: Law, linkage: Linkage, hidden: Cells | None) -> bool:
    """Whether each line is exposed to cells of its own: to its observed ones once more, to its hidden ones not at all.

    The half sweep adds that block by block.
    """
    return bool(law.extra_exposure(linkage)) or (hidden is not None and hidden.n_observed > 0)
