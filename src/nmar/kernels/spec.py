"""What the loops over cells read and write: plain records of arrays, the same for every backend.

One half sweep over a block of lines (rows, or columns seen as rows) is two passes:

``expect``      gather the other side once, compute s, the data moments and q(n), and accumulate what both models
                need; q(n) of the block is handed back so that it can be *held*;
``statistics``  after the block's own update, sum q(n) times the family's features into n-vectors for the M-steps.

A data model enters only through features: for a line a and a line b the two moments that the count posterior
needs are inner products, ``first(a)·first(b)`` and ``second(a)·second(b)``:

================  ==============================  ====================================
data model        first                           second
================  ==============================  ====================================
Gaussian          E[μ]                            E[μ²]
scalar families   E[θ] (or exp E[θ]: allocate)    E[Ψ(θ)]
================  ==============================  ====================================

and what comes back is ``linear = Σ w1 first(b)``, ``quadratic = Σ w2 second(b)``: precision-weighted targets and
precisions (Gaussian), values and exposures (scalar). This is the whole coupling (theory.md, Crossing).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FAMILIES = ("gaussian", "poisson", "gamma", "inverse_gaussian", "negative_binomial", "binomial")
GAUSSIAN, POISSON, GAMMA, INVERSE_GAUSSIAN, NEGATIVE_BINOMIAL, BINOMIAL = range(6)

KINDS = ("tail", "parity", "open", "known")
TAIL, PARITY, OPEN, KNOWN = range(4)


class Lines(NamedTuple):
    """A block of lines and their cells."""

    indptr: Array  # int64 (n+1), starting at 0
    indices: Array  # the other side's line of each cell
    values: Array  # y
    group: Array  # int32 class of each cell (known bin, or index of a distinct value); empty when unused
    offset: Array  # known part of E[μ] of each cell; empty when unused


class SideView(NamedTuple):
    """One side's lines as the loops read them."""

    weights: Array  # (n, K) exp(E[log u] − top); paper exp(ψ(α))/β
    top: Array  # (n,) largest E[log u] over k, so that the weights cannot all underflow
    log_weights: Array  # (n, K) E[log u], read only where the weighted sum underflows
    first: Array  # (n, D1)
    first_top: Array  # (n,) as ``top`` for ``first`` of an allocating model, else zeros
    second: Array  # (n, D2)


class Crossing(NamedTuple):
    """The shared law of a cell: family, bins of q(n), and tables over bins."""

    family: int
    kind: int
    separate: bool  # the pattern is fitted as if ignorable: control and two-stage baseline
    allocate: bool  # E[θ] = log Σ_k first first: Poisson factorization
    diagonal: bool  # ``first`` and ``second`` are means and variances of diagonal normal lines
    mean_linkage: bool  # φ1 or δ in use
    concave: bool  # open table linear in n and family concave in x: the log-concave stopping rule holds
    log_rate: float  # separate: log Λ̄
    log_norm: float  # separate: log(e^Λ̄ − 1)
    dispersion: float  # κ of the scalar families
    phi1: Array  # (B,) mean scale of each bin
    delta: Array  # (B,) mean shift
    phi2: Array  # (B,) dispersion table φ
    constant: Array  # (B,) part of f that depends on the bin alone
    inverse: Array  # (B,) Gaussian: E[1/σ²]/φ2; scalar: κφ
    log_factorial: Array  # (B+2,) log n!, n = 0 …
    ceiling: float  # Gaussian with a mean linkage: sup of f over all bins and cells
    low: float  # range of φ over n ≥ 1 (an open table goes on beyond its arrays)
    high: float
    groups: int  # number of classes in ``Lines.group``


class Expectation(NamedTuple):
    """What ``expect`` returns for a block of n lines and m cells."""

    pattern: Array  # (n, K) Σ_j E[n_ij] ϕ_ijk
    linear: Array  # (n, D1)
    quadratic: Array  # (n, D2)
    log_z: float  # Σ log Z over the block
    count: float  # Σ E[n]
    probability: Array  # (m, B) q(n), held for ``statistics``
    used: Array  # (m,) bins of ``probability`` that are filled (open bins); empty otherwise
    short: bool  # the open table was too short: nothing else here may be used


class NormalPrior(NamedTuple):
    """Prior of a normal line and which coordinates are free (the rest are known constants)."""

    mean: Array  # (d,)
    precision: Array  # (d,)
    free: Array  # (d,) bool


class Kernels(Protocol):
    """The few loops. Every backend passes one contract against the NumPy reference."""

    name: str

    def expect(self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing) -> Expectation:
        """E-step and accumulation of one block."""
        ...

    def statistics(
        self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, held: Expectation
    ) -> tuple[Array, Array]:
        """n-vectors (V, B) of the block with q(n) held, and q summed by ``group`` (groups, B)."""
        ...

    def solve_normal(
        self, linear: Array, quadratic: Array, constant: Array, prior: NormalPrior
    ) -> tuple[Array, Array, Array]:
        """Full-covariance posterior of every line: mean (n, d), packed covariance, log determinant."""
        ...

    def descend(
        self, lines: Lines, mine: SideView, theirs: SideView, crossing: Crossing, prior: NormalPrior
    ) -> tuple[Expectation, Array, Array]:
        """As ``expect`` for a diagonal normal side, with its update: also the new mean and variance (n, d)."""
        ...


def statistic_rows(family: int, mean_linkage: bool) -> int:
    """How many n-vectors the family keeps (prob/family.py names them)."""
    if family == GAUSSIAN:
        return 6 if mean_linkage else 2
    return 2 if family in (NEGATIVE_BINOMIAL, BINOMIAL) else 3


PASSES = 2  # passes of coordinate descent over a diagonal line in one half sweep

EMPTY_INT = np.empty(0, np.int32)
EMPTY_FLOAT = np.empty(0, np.float64)
