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

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of lines: an array of the backend (prob/arrays.py)
Room = Callable[[tuple[int, ...], Any], Array]  # where memory comes from: an uninitialised array of a shape and a type
View = Any  # a side as a backend's loops read it, in whatever layout they like

LOCATION, NATURAL, NO_VALUES = range(3)  # forms of a cell's statistics, see CellLaw
EMPTY_INT = np.empty(0, np.int32)
EMPTY_FLOAT = np.empty(0, np.float64)
NO_FUNCTIONS = np.empty((0, 0), np.float64)

KINDS = ("tail", "parity", "open", "known")
TAIL, PARITY, OPEN, KNOWN = range(4)


class Lines(NamedTuple):
    """A block of lines and their cells."""

    indptr: Array  # int64 (n+1), starting at 0
    indices: Array  # the other side's line of each cell
    values: Array  # y
    group: Array  # int32 class of each cell (known bin, or index of a distinct value); empty when unused
    offset: Array  # known part of E[μ] of each cell; empty when unused
    functions: Array = NO_FUNCTIONS  # (F, m) functions of y that the law's slopes multiply, in the type of ``values``
    weight: Array = EMPTY_FLOAT  # how often each cell counts among the values; empty: once
    precision: Array = EMPTY_FLOAT  # location: E[λ_i] E[ρ_j] of the noise of each cell; empty: 1

    def segment(self, start: int, stop: int) -> Lines:
        """Some cells of a single line, as a line."""
        parts = (self.group, self.offset, self.weight, self.precision)
        group, offset, weight, precision = (part[start:stop] if part.size else part for part in parts)
        indices, values, functions = self.indices[start:stop], self.values[start:stop], self.functions[:, start:stop]
        return Lines(np.array([0, len(indices)]), indices, values, group, offset, functions, weight, precision)


class CellLaw(NamedTuple):
    """The shared law of a cell: the form of its statistics, bins of q(n), and tables over bins.

    Every family is linear in its own statistics: the expected log density of a cell in bin b is, but for what depends
    on the value alone,

        f_b = own + Σ_v slopes[v, b] basis_v   (+ by_value[group, b])

    with the same ``basis`` whose q(n)-weighted sums are the n-vectors of the M-steps (prob/families), and ``own``
    a part that does not depend on the bin. The basis is of one of two forms:

    natural    1, the functions of y (``Lines.functions``), E[Ψ(θ)]; own = y E[θ]
    location   1, E[(y − μ)²]; with ``mean_linkage`` 1, y, y², yE[μ], E[μ], E[μ²]; own = 0

    all of it, with ``by_value``, times the weight of the cell, if it has one.
    """

    form: int
    kind: int
    separate: bool  # the pattern is fitted as if ignorable: control and two-stage baseline
    allocate: bool  # E[θ] = log Σ_k first first: Poisson factorization
    diagonal: bool  # ``first`` and ``second`` are means and variances of diagonal normal lines
    mean_linkage: bool  # φ1 or δ in use
    concave: bool  # open table linear in n and f concave in it: the log-concave stopping rule holds
    log_rate: float  # separate: log Λ̄
    log_norm: float  # separate: log(e^Λ̄ − 1)
    dispersion: float  # σ² (Gaussian), κ
    slopes: Array  # (V, B)
    linear: Array  # (B,) location: E[1/σ²] φ1/φ2, which multiplies y in ωt
    shift: Array  # (B,) location: the same times δ, which is taken off
    quadratic: Array  # (B,) location: E[1/σ²] φ1²/φ2, whose mean is ω; natural: κφ, whose mean is the exposure
    by_value: Array  # (groups, B) h(y, κφ) of the families kept by distinct value; else empty
    log_factorial: Array  # log e! − log(s^e − (s−1)^e), e = 0 …; log n! without thinning
    ceiling: float  # sup of f over all bins and cells, where nothing better is known
    low: float  # range of φ over n ≥ 1 (an open table goes on beyond its arrays)
    high: float
    grid: Array  # (V, G) slopes over the range of κφ, each dispersion ``GRID_RATIO`` times the one before; else empty
    thinning: float = 1.0  # events for each recorded one, s
    starts: Array = EMPTY_INT  # first count of each closed bin; empty: 1, 2, …
    learns: bool = True  # ``statistics`` will be asked for
    tail: float = 0.0  # location, one bin or known bins: degrees of freedom of a Student tail; 0: normal values

    @property
    def bins(self) -> int:
        """Number of bins B in the tables."""
        return self.slopes.shape[1]

    def counted(self, scale: float) -> CellLaw:
        """The law of cells that count ``scale`` times in the weights of a Gaussian data model; q(n) is the same."""
        if scale == 1.0:
            return self
        return self._replace(linear=scale * self.linear, shift=scale * self.shift, quadratic=scale * self.quadratic)


class NormalLines(NamedTuple):
    """Diagonal normal lines in the storage type, and the log determinant of each one's free coordinates."""

    mean: Array  # (n, d)
    variance: Array  # (n, d)
    log_det: Array  # (n,)


class Expectation(NamedTuple):
    """What ``expect`` returns for a block of n lines and m cells."""

    pattern: Array  # (n, K) Σ_j E[n_ij] ϕ_ijk
    linear: Array  # (n, D1)
    quadratic: Array  # (n, D2)
    log_z: float  # Σ log Z over the block
    counted: float  # Σ E[n]
    probability: Array  # q(n) of the block, held for ``statistics``; its layout is the backend's own
    used: Array  # (m,) bins of ``probability`` that are filled (open bins); empty otherwise
    short: bool  # the open table was too short: nothing else here may be used
    cellwise: Array | None = None  # (3, m) weights of first and second and the first moment of each cell
    moments: tuple[Array, Array] | None = None  # after ``descend``, where known: E[⟨a, b⟩] and its variance (m,) each
    updated: NormalLines | None = None  # new lines of the data model, where the loop makes them itself
    squares: Array = EMPTY_FLOAT  # (n,) Σ ω E[(y − μ)²] of the location form, ω with the noise of the line


class LineNoise(NamedTuple):
    """Noise of the lines of a block: what turns Σ ω E[(y − μ)²] into the new precision of a line."""

    mean: Array  # (n,) E[λ] before the update
    shape: Array  # (n,) shape of the new q(λ)
    rate: float  # prior rate


NO_NOISE = LineNoise(EMPTY_FLOAT, EMPTY_FLOAT, 0.0)


class GammaTable(NamedTuple):
    """What the loops and the bound need of gamma factors (n, K)."""

    log_mean: Array  # (n, K) E[log u], in the storage type
    geometric: Array  # (n, K) exp E[log u]
    totals: Array  # (n, 3) float64: Σ_k E[log q(u)], Σ_k E[log u], Σ_k E[u]


class GammaUpdate(NamedTuple):
    """New gamma factors: shape ``prior_shape + allocated``, rate ``activity + exposure``."""

    allocated: Array  # (n, K) Σ E[n]ϕ
    exposure: Array  # (1 or n, K) Σ E[v]
    activity: Array  # (n,) E[r]
    prior_shape: float


class NormalPrior(NamedTuple):
    """Prior of a normal line and which coordinates are free (the rest are known constants)."""

    mean: Array  # (1 or n, d): one for all lines, or one each
    precision: Array  # (d,)
    free: Array  # (d,) bool
    scale: Array = EMPTY_FLOAT  # (n,) what the precision of each line is multiplied by; empty: 1

    def line_precision(self, lines: int) -> Array:
        """Prior precision of each line and coordinate (lines, d)."""
        return (self.scale[:, None] if self.scale.size else np.ones((lines, 1))) * self.precision


class LevelCells(NamedTuple):
    """Cells of a block whose values are levels, each between two cut points of a normal value y*.

    Styles are the lines' own, those of the other side's lines, or one for all cells: then both are empty.
    """

    indptr: Array  # int64 (n+1)
    indices: Array  # the other side's line of each cell
    level: Array  # int32 (m,) from 0
    weight: Array  # (m,) how often each cell counts; empty: once
    mean: Array  # (m,) E[μ]
    variance: Array  # (m,) Var[μ]
    noise: Array  # (m,) variance of y* around μ
    cuts: Array  # (G, L+1) cut points of each style, from −∞ to ∞
    mine: Array  # (n, G) probabilities of the styles of the block's lines; empty: not theirs
    theirs: Array  # (N, G) the same of the other side's lines
    log_share: Array  # (G,) where the styles of the block's lines are to be found anew: log of their prior; else empty
    sums: bool  # whether cut points will be learned


class LevelReading(NamedTuple):
    """Normal values that stand for levels."""

    value: Array  # (m,) top of the parabola in μ that touches log P(level), mixed over styles, at E[μ]
    information: Array  # (m,) its curvature × noise: 1 where y* itself is observed
    square: Array  # (m,) E[(y* − μ)²], to second order in μ around E[μ]
    log_z: float  # Σ weight Σ_g q(g) (log P(level | g) + ½ Var[μ] ∂² log P(level | g)/∂μ²) under the styles given
    styles: Array  # (n, G) probabilities of the styles of the block's lines, under which y* was found
    sums: Array  # (G, L, 4) by style and level Σ q(g) weight × (1, density at the lower end / σ, at the upper, 1/σ²)


class NormalPairs(NamedTuple):
    """Pairs of normal lines, by position; −1 is the last line."""

    mean: Array  # (I, d) E[a]
    spread: Array  # (I, d(d+1)/2) packed covariances (prob.factor.pack), (I, d) variances, or (I, 0): not asked for
    other_mean: Array  # (J, d) E[b]
    other_spread: Array
    rows: Array  # (m,)
    cols: Array  # (m,)


class RatePairs(NamedTuple):
    """Pairs of lines of non-negative weights, by position; −1 is the last line."""

    mean: Array  # (I, K) E[u], float64
    variance: Array  # (I, K) Var[u], float64, or (I, 0): not asked for
    other_mean: Array  # (J, K) E[v]
    other_variance: Array
    rows: Array  # (m,)
    cols: Array  # (m,)


class Mixture(NamedTuple):
    """Laws of the values of cells: mixtures over components and bins of normal laws, or of Student laws.

    In a bin a component has the mean φ1 μ + δ and the variance (a Student law: squared scale) φ1² Var μ + noise.
    """

    mean: Array  # (m, C) E[μ]
    variance: Array  # (m, C) Var[μ]
    of_component: Array  # (m, C) log weights of the components; (0, 0): one component
    precision: Array  # (m,) what the noise of a cell is divided by; empty: 1
    freedom: Array  # (m,) degrees of freedom; empty: normal laws
    of_bin: Array  # (m, B) log weights of the bins; (0, 0): one bin
    phi1: Array  # (B,)
    delta: Array  # (B,)
    noise: Array  # (B,) σ²φ2


class Kernels(Protocol):
    """A backend: where lines are kept, how a side lies in memory, and the few loops.

    Every backend passes one contract against the NumPy reference. Lines, their sums and cells are arrays of the backend
    (prob/arrays.py); n-vectors and numbers are on the host. What a backend does not offer it leaves out, and a fit that
    needs it says so by name (kernels/choose.py).
    """

    name: str
    # Whether lines and cells live in memory of the backend's own (a device); they are placed there when a run begins
    # and stay until it ends
    own_memory: bool

    def place(self, array: Array) -> Array:
        """An array of the host as this backend keeps it; back again by ``prob.arrays.on_host``."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array of the backend."""
        ...

    def bare_view(self, log_weights: Array, weights: Array) -> View | None:
        """Lines without features shown where they are, or None if the loops cannot read them there."""
        ...

    def empty_view(self, log_weights: Array, sizes: tuple[int, int, int], room: Any) -> View:
        """Room for a side with K weights, D1 first and D2 second features; ``room(shape, dtype)`` gives memory."""
        ...

    def fill_view(
        self, view: View, lines: slice, weights: Array, first: Array, second: Array, first_top: Array | None
    ) -> None:
        """Write the weights and features of some lines."""
        ...

    def refill_view(self, view: View, lines: slice, first: Array, second: Array, first_top: Array | None) -> None:
        """Write the features of some lines, whose weights stay as they are."""
        ...

    def empty_vectors(self, n: int, width: int, dtype: Any, room: Any) -> Array:
        """Room for one vector of ``width`` numbers for each line, as ``add_lines`` reads them."""
        ...

    def gather_first(self, view: View, lines: Array) -> Array:
        """First features of the chosen lines (m, D1), float64."""
        ...

    def features(self, view: View) -> tuple[Array, Array]:
        """First and second features of all lines of a view, as they are stored: (n, D1) and (n, D2)."""
        ...

    def moments_of_missing(self, log_rate: Array, slope: Array, over: float) -> Array:
        """Moments of missing cells whose rate of being seen depends on their value; rows of prob.detection.Missing.

        ``log_rate`` is η + Γ E[y], ``slope`` Γ τ, float64, ``over`` u; one column for each cell.
        """
        ...

    def expect(self, lines: Lines, mine: View, theirs: View, cell_law: CellLaw) -> Expectation:
        """E-step and accumulation of one block."""
        ...

    def moments(self, lines: Lines, mine: View, theirs: View, cell_law: CellLaw) -> tuple[Array, Array]:
        """E[μ] and E[μ²] of each cell (m,), float64, of the location form."""
        ...

    def read_levels(self, cells: LevelCells) -> LevelReading:
        """Normal values that stand for the levels of a block's cells (theory.md, Levels)."""
        ...

    def weigh(self, lines: Lines, mine: View, theirs: View, cell_law: CellLaw) -> Expectation:
        """As ``expect``, but each cell's weights (``cellwise``) instead of the data model's sums."""
        ...

    def statistics(
        self, lines: Lines, mine: View, theirs: View, cell_law: CellLaw, held: Expectation
    ) -> tuple[Array, Array]:
        """n-vectors (V, B) of the block with q(n) held, and q summed by ``group`` (groups, B)."""
        ...

    def solve_normal(
        self, linear: Array, quadratic: Array, constant: Array, prior: NormalPrior
    ) -> tuple[Array, Array, Array]:
        """Full-covariance posterior of every line: mean (n, d), packed covariance, log determinant."""
        ...

    def descend(
        self,
        lines: Lines,
        mine: View,
        theirs: View,
        cell_law: CellLaw,
        prior: NormalPrior,
        steps: int,
        noise: LineNoise = NO_NOISE,
    ) -> tuple[Expectation, NormalLines]:
        """As ``expect`` for a diagonal normal side, with its update, after that of the lines' noise.

        The means take ``steps`` of conjugate gradients, preconditioned by the diagonal, towards their joint optimum.
        """
        ...

    def add_lines(self, lines: Lines, theirs: Array, width: int) -> Array:
        """Σ over each line's cells of the other side's vectors: (n, width) float64, from ``empty_vectors``."""
        ...

    def update_gamma(self, update: GammaUpdate, shape: Array, rate: Array, table: GammaTable) -> None:
        """Write new gamma factors (n, K) to ``shape`` and ``rate``, and their table."""
        ...

    def tabulate(self, shape: Array, rate: Array) -> GammaTable:
        """E[log u] of gamma factors as stored, and their totals by line."""
        ...

    def pair_moments(self, pairs: NormalPairs) -> Array:
        """E and Var of ⟨a, b⟩ of independent lines: (2, m), float64; Var is 0 where it is not asked for."""
        ...

    def pair_rates(self, pairs: RatePairs) -> Array:
        """E and Var of Σ_k u_k v_k of independent weights: (2, m), float64; Var is 0 where it is not asked for."""
        ...

    def log_mixture(self, y: Array, mixture: Mixture) -> Array:
        """Log density of the value of each cell (m,), float64; −∞ where no part of the mixture has any weight."""
        ...

    def visit_normal(self, *given: Any) -> int:
        """Visits of single cells by the entrywise solver, diagonal normal lines; a backend need not offer them."""
        ...

    def visit_poisson(self, *given: Any) -> int:
        """The same for Poisson factorization."""
        ...


GRID_RATIO = 1.1
