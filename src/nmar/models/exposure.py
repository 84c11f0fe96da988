"""What the lines of the pattern are exposed to: sums of the other side over cells that are observed or missing."""

from __future__ import annotations

import numpy as np

from nmar.data.cells import Cells
from nmar.kernels.spec import Array
from nmar.models.law import Law
from nmar.models.state import State


def exposure(axis: int, state: State, law: Law, hidden: Cells | None) -> Array:
    """ω Σ_j E[v_jk] over the cells of a line of ``axis`` that are not hidden: (K,), or (n, K) where lines differ.

    Lines also differ where each is exposed to its observed cells once more; the half sweep adds that block by block.
    """
    other, (trust, more) = state.sides[1 - axis].pattern.weights, law.exposure_weights(state.shared.linkage)
    total = trust * other.column_sums
    if hidden is not None and hidden.n_observed:
        return total - trust * hidden_sums(hidden, axis, other.mean)
    lines_here = len(state.sides[axis].pattern.weights.alpha)
    return np.broadcast_to(total, (lines_here, len(total))) if more else total


def hidden_sums(hidden: Cells, axis: int, other: Array) -> Array:
    """Σ over a line's hidden cells of the other side's vectors (n, K)."""
    from scipy.sparse import csr_matrix

    lines = hidden.by(axis)  # type: ignore[arg-type]
    shape = (len(lines.indptr) - 1, len(other))
    return csr_matrix((np.ones(len(lines.indices)), lines.indices, lines.indptr), shape=shape) @ other.astype(
        np.float64
    )
