"""The contract of the loops over cells: every backend equals the NumPy reference (kernels/spec.py)."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from problems import BareModel, functions_of, make_view, sampled
from scipy.special import gammaln, logsumexp, psi

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.layout import CACHE_LINE, VECTOR, empty_view, fill_view
from nmar.kernels.layout import empty as empty_array
from nmar.kernels.spec import (
    EMPTY_FLOAT,
    EMPTY_INT,
    KINDS,
    KNOWN,
    NO_VALUES,
    OPEN,
    GammaTable,
    GammaUpdate,
    Lines,
    NormalPrior,
)
from nmar.models.cell_law import cell_law
from nmar.models.law import Law
from nmar.models.missingness import Pattern
from nmar.models.state import Shared
from nmar.prob.factor import pack, unpack
from nmar.prob.families import FAMILIES
from nmar.prob.linkage import Compound, Free, Geometric, Ignorable, Linear
from nmar.prob.twostage import Quadratic

LINES, OTHERS = 6, 150
FACTORS, RANK = 2, 4  # widths that the tests of models use too: loops are compiled for each width
RAGGED, SHIFT, SCALE = (1.0, 0.6, 1.7, 0.4), (0.0, 0.4, -0.3, 0.2), (1.0, 0.8, 1.3, 1.1)
BINS = Quadratic(edges=(-0.5, 0.5), places=(-1.0, 0.0, 1.0), slope=0.6, bend=0.1)
LINKAGES = {
    "single": Ignorable(),
    "tail": Free(values=RAGGED, learn=False),
    "parity": Linear(0.3),
    "parity-falling": Linear(-0.3),
    "known": BINS,
    "rising": Compound(),
    "curve": Geometric(0.25),
    "falling": Geometric(-0.3),
    "tail-shift": Free(values=RAGGED, learn=False, mean="shift", shift=SHIFT),
    "tail-scale": Free(values=RAGGED, learn=False, mean="scale", scale=SCALE),
    "rising-scale": Compound(mean="scale"),
    "falling-shift": Geometric(-0.3, mean="shift", levels=4, shift=SHIFT),
}
THINNED = {
    "tail-thin8": Free(values=RAGGED, learn=False, thinning=8.0),
    "tail-shift-thin8": Free(values=RAGGED, learn=False, mean="shift", shift=SHIFT, thinning=8.0),
    "parity-thin1.5": Linear(0.3, thinning=1.5),
    "rising-thin1.5": Compound(thinning=1.5),
    "falling-thin8": Geometric(-0.3, thinning=8.0),
}
LINKAGES.update(THINNED)
COUNTS = 120  # size of an open table that is long enough for the rates here
MANY = 400  # the same with several events for each recorded one
VALUES = np.arange(5.0)  # what the families kept by distinct value are observed at
DISPERSION = {"gaussian": 1.3, "poisson": 1.0, "binomial": 6.0}
# float64: the same sums in another order, and an open sum that may leave out EPSILON = 1e-12 of a cell (times
# the growth of φ where φ is summed). float32: inner products of RANK terms round at 6e-8 and f(n) multiplies
# that by the residual squared, of order 10 in these data; sums over cells then agree to a few times 1e-5.
CLOSE = {np.float64: {"rtol": 1e-12, "atol": 1e-12}, np.float32: {"rtol": 1e-4, "atol": 1e-4}}
OPEN_CLOSE = {np.float64: {"rtol": 1e-9, "atol": 1e-9}, np.float32: {"rtol": 1e-4, "atol": 1e-4}}
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
others = pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "reference"])
both = pytest.mark.parametrize("backend", BACKENDS)


@dataclass(frozen=True)
class Case:
    """One row of the table of laws."""

    family: str
    linkage: str  # key of LINKAGES
    layout: str = "full"  # full, diagonal, plain (scalar families), allocate
    separate: bool = False
    offset: bool = False

    def __str__(self):
        flags = [f for f in ("separate", "offset") if getattr(self, f)]
        return "-".join([self.family, self.linkage, self.layout, *flags])

    @property
    def by_value(self):
        """Whether the family is kept by distinct value."""
        return self.family in ("negative_binomial", "binomial")


def every_case():
    """All laws that a fit can ask for."""
    for separate in (False, True):
        for name in LINKAGES:
            if name in THINNED:
                continue
            if name == "known" and not separate:
                continue  # known bins belong to the second stage of two, whose pattern is fixed
            for layout in ("full", "diagonal"):
                yield Case("gaussian", name, layout, separate)
                if name in ("tail", "known", "curve", "tail-scale"):
                    yield Case("gaussian", name, layout, separate, True)
            if LINKAGES[name].mean is None:
                yield Case("poisson", name, "allocate", separate)
            if LINKAGES[name].mean is None and name != "known":
                for family in ("poisson", "gamma", "inverse_gaussian", "negative_binomial"):
                    yield Case(family, name, "plain", separate)
        for name in ("single", "rising"):
            yield Case("binomial", name, "plain", separate)
    yield from thinned_cases()


def thinned_cases():
    """Some laws with more events than are recorded: every kind of bins, layout and way a family is kept."""
    for name in THINNED:
        yield Case("gaussian", name)
    for name in ("tail-thin8", "parity-thin1.5"):
        yield Case("gaussian", name, separate=True)
        yield Case("gaussian", name, "diagonal", offset=name == "tail-thin8")
        yield Case("poisson", name, "allocate")
        yield Case("negative_binomial", name, "plain")
    yield Case("gaussian", "falling-thin8", separate=True)
    yield Case("gamma", "rising-thin1.5", "plain")
    yield Case("binomial", "rising-thin1.5", "plain")


CASES = list(every_case())
NORMAL = [case for case in CASES if case.layout == "diagonal"]


def some(these, share):
    """One of each ``share`` of these cases; the others are slow."""
    return pytest.mark.parametrize("case", sampled(these, share), ids=str)


def crossing_of(case, size=None):
    """The shared law of a case; ``size`` is that of an open table."""
    size = size or (MANY if case.linkage in THINNED else COUNTS)
    data = BareModel(case.family, case.layout == "allocate", case.layout == "diagonal")
    shared = Shared(
        dispersion=DISPERSION.get(case.family, 1.6),
        linkage=LINKAGES[case.linkage].start(),
        data=None,
        rate=0.8 if case.separate else None,
        table_size=size,
    )
    return cell_law(Law(Pattern(FACTORS), data, control=case.separate), shared, VALUES if case.by_value else None)


@dataclass(frozen=True)
class Side:
    """Lines of one side before they are made a view: E[log u] and the features of the data model."""

    logs: np.ndarray
    first: np.ndarray
    second: np.ndarray
    first_top: np.ndarray

    def view(self, dtype=np.float64):
        """As the kernels read it, stored as ``dtype``."""
        return make_view(*(np.asarray(a, dtype) for a in (self.logs, self.first, self.second, self.first_top)))

    def take(self, start, stop):
        """Some of the lines."""
        return Side(*(a[start:stop] for a in (self.logs, self.first, self.second, self.first_top)))

    def changed(self, **fields):
        """A copy with some arrays replaced."""
        return Side(**{**vars(self), **fields})


@dataclass(frozen=True)
class Block:
    """A block of lines and both sides."""

    lines: Lines
    mine: Side
    theirs: Side

    def views(self, dtype=np.float64):
        """What the kernels are called with."""
        return self.lines, self.mine.view(dtype), self.theirs.view(dtype)


def lines_of(case, dtype, rng):
    """Cells of a block whose second and last lines are empty and one so long that tiles end inside it."""
    degree = np.array([3, 0, 140, 1, 21, 0])
    indptr = np.concatenate([[0], np.cumsum(degree)])
    indices = np.concatenate([np.sort(rng.permutation(OTHERS)[:d]) for d in degree]).astype(np.int32)
    n = len(indices)
    group, offset = EMPTY_INT, EMPTY_FLOAT
    if case.family == "gaussian":
        values = rng.normal(0.5, 1.5, n)
        values[0] = 9.0
    elif case.family in ("gamma", "inverse_gaussian"):
        values = rng.gamma(2.0, 1.0, n)
    else:
        values = rng.choice(VALUES, n)
    if case.by_value:
        group = np.searchsorted(VALUES, values).astype(np.int32)
    if case.linkage == "known":
        group = rng.integers(0, BINS.size, n).astype(np.int32)
    if case.offset:
        offset = rng.normal(0.0, 0.5, n)
    values = values.astype(dtype)
    return Lines(indptr.astype(np.int64), indices, values, group, offset, functions_of(case.family, values))


def side_of(case, n, rng):
    """Random lines that the family allows; the features of a Gaussian are moments of some normal."""
    logs, top = rng.normal(-1.0, 1.0, (n, FACTORS)), np.zeros(n)
    if case.layout == "full":
        first = rng.normal(0.0, 0.7, (n, RANK))
        root = 0.3 * rng.normal(size=(n, RANK, RANK))
        second = pack(first[:, :, None] * first[:, None, :] + root @ root.transpose(0, 2, 1))
    elif case.layout == "diagonal":
        first, second = rng.normal(0.0, 0.7, (n, RANK)), rng.uniform(0.05, 0.4, (n, RANK))
    elif case.layout == "allocate":
        logs_of_lines = rng.normal(-0.5, 0.8, (n, RANK))
        top = logs_of_lines.max(axis=1)
        first = np.exp(logs_of_lines - top[:, None])
        second = np.exp(logs_of_lines) * rng.uniform(1.1, 1.6, (n, RANK))
    else:
        first, second = rng.normal(-0.4, 0.3, (n, 2)), np.sqrt(rng.uniform(0.3, 1.2, (n, 2)))
    return Side(logs, first, second, top)


def block_of(case, dtype=np.float64, seed=0):
    """The lines and both sides of a case; the inverse Gaussian needs E[Ψ] < 0."""
    rng = np.random.default_rng(seed)
    lines = lines_of(case, dtype, rng)
    mine, theirs = side_of(case, LINES, rng), side_of(case, OTHERS, rng)
    if case.family == "inverse_gaussian":
        theirs = theirs.changed(second=-theirs.second)
    return Block(lines, mine, theirs)


def agree(found, expected, tolerance, sums=True):
    """Compare two expectations, but for q(n): its layout is the backend's own, and ``statistics`` show it."""
    assert bool(found.short) is bool(expected.short) is False
    for name in ("pattern", "linear", "quadratic") if sums else ("pattern",):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **tolerance, err_msg=name)
    np.testing.assert_allclose(found.log_z, expected.log_z, **tolerance)
    np.testing.assert_allclose(found.counted, expected.counted, **tolerance)


def tolerance_of(table, dtype):
    """Open sums stop early, closed ones do not."""
    return (OPEN_CLOSE if table.kind == OPEN else CLOSE)[dtype]


# --- expect and statistics --------------------------------------------------------------------------------


def test_every_kind_and_family_is_here():
    assert {LINKAGES[c.linkage].bins for c in CASES} == set(KINDS)
    assert {c.family for c in CASES} == set(FAMILIES)


@dtypes
@others
@some(CASES, 6)
def test_expect_and_statistics_equal_the_reference(case, backend, dtype):
    block, table = block_of(case, dtype), crossing_of(case)
    kernels, reference = choose(backend), choose("reference")
    tolerance = tolerance_of(table, dtype)
    found, expected = (k.expect(*block.views(dtype), table) for k in (kernels, reference))
    agree(found, expected, tolerance)
    after = Block(block.lines, block.mine.changed(first=0.9 * block.mine.first), block.theirs).views(dtype)
    vectors, by_value = kernels.statistics(*after, table, found)
    exact, exact_by_value = reference.statistics(*after, table, expected)
    np.testing.assert_allclose(vectors, exact, **tolerance)
    np.testing.assert_allclose(by_value, exact_by_value, **tolerance)
    if case.family == "gaussian":
        moments, exact_moments = (k.moments(*block.views(dtype), table) for k in (kernels, reference))
        np.testing.assert_allclose(moments, exact_moments, **CLOSE[dtype])


@both
@some(CASES, 9)
def test_what_holds_of_every_expectation(case, backend):
    block, table, kernels = block_of(case), crossing_of(case), choose(backend)
    found = kernels.expect(*block.views(), table)
    vectors = check_counts(case, block, table, kernels, found)
    check_parts(block, table, kernels, found, vectors)
    if case.layout != "allocate":  # which shares y among components before it sums
        check_weights(block, table, kernels, found)


def check_weights(block, table, kernels, sums):
    """``weigh`` gives cell by cell what ``expect`` sums."""
    found = kernels.weigh(*block.views(), table)
    agree(found, sums, {"rtol": 1e-12, "atol": 1e-13}, sums=False)
    linear, quadratic = found.cellwise[:2]
    lines = block.lines
    major = np.repeat(np.arange(LINES), np.diff(lines.indptr))
    for weight, features, expected in (
        (linear, block.theirs.first, sums.linear),
        (quadratic, block.theirs.second, sums.quadratic),
    ):
        total = np.zeros(expected.shape)
        np.add.at(total, major, weight[:, None] * features[lines.indices])
        np.testing.assert_allclose(total, expected, rtol=1e-11, atol=1e-11)


def check_counts(case, block, table, kernels, found):
    """q sums to 1, and vectors count the cells; returns the vectors."""
    vectors, by_value = kernels.statistics(*block.views(), table, found)
    assert vectors[0].sum() == pytest.approx(len(block.lines.values), rel=1e-12)
    if case.by_value:
        cells_of_value = np.bincount(block.lines.group, minlength=len(VALUES))
        np.testing.assert_allclose(by_value.sum(axis=1), cells_of_value, rtol=1e-12, atol=1e-14)
    if table.kind == KNOWN:
        np.testing.assert_allclose(vectors[0], np.bincount(block.lines.group, minlength=3), rtol=1e-15)
    for empty in (1, LINES - 1):  # lines without cells receive nothing
        for part in (found.pattern, found.linear, found.quadratic):
            assert not part[empty].any()
    return vectors


@both
def test_block_without_cells(backend):
    block, table = block_of(Case("gaussian", "tail")), crossing_of(Case("gaussian", "tail"))
    indices, values = block.lines.indices[:0], block.lines.values[:0]
    nothing = Lines(np.zeros(LINES + 1, np.int64), indices, values, EMPTY_INT, EMPTY_FLOAT)
    empty = Block(nothing, block.mine, block.theirs).views()
    found = choose(backend).expect(*empty, table)
    assert found.log_z == 0.0 and found.counted == 0.0 and not found.short
    assert not found.pattern.any() and not found.linear.any() and not found.quadratic.any()
    assert not choose(backend).statistics(*empty, table, found)[0].any()


def check_parts(block, table, kernels, whole, exact):
    """Blocks of some lines concatenate to the whole."""
    parts, vectors = [], 0.0
    for start, stop in ((0, 2), (2, 3), (3, LINES)):
        part = shard(block, start, stop).views()
        found = kernels.expect(*part, table)
        vectors = vectors + kernels.statistics(*part, table, found)[0]
        parts.append(found)
    for name in ("pattern", "linear", "quadratic"):
        joined = np.concatenate([getattr(p, name) for p in parts])
        # to rounding: where a cell falls in a tile may change how its inner products associate
        np.testing.assert_allclose(joined, getattr(whole, name), rtol=1e-13, atol=1e-14)
    for name in ("log_z", "counted"):
        assert sum(getattr(p, name) for p in parts) == pytest.approx(getattr(whole, name), rel=1e-13)
    np.testing.assert_allclose(vectors, exact, rtol=1e-12, atol=1e-13)


def shard(block, start, stop):
    """Some lines of a block, with their cells."""
    lines = block.lines
    cells = slice(int(lines.indptr[start]), int(lines.indptr[stop]))
    group, offset = (a[cells] if a.size else a for a in (lines.group, lines.offset))
    indptr = lines.indptr[start : stop + 1] - lines.indptr[start]
    part = Lines(indptr, lines.indices[cells], lines.values[cells], group, offset, lines.functions[:, cells])
    return Block(part, block.mine.take(start, stop), block.theirs)


# --- underflow and short tables ---------------------------------------------------------------------------


def opposed(case, dtype, depth=-800.0):
    """A block whose lines and others use different factors: every inner product of weights underflows."""
    block = block_of(case, dtype)
    one, two = np.full((LINES, FACTORS), depth), np.full((OTHERS, FACTORS), depth)
    one[:, 0], two[:, 1] = 0.3, -0.2
    return Block(block.lines, block.mine.changed(logs=one), block.theirs.changed(logs=two))


CLOSED_AND_OPEN = ("single", "tail", "parity", "curve", "falling", "tail-shift")
UNDERFLOW = [Case("gaussian", name) for name in CLOSED_AND_OPEN]
UNDERFLOW += [Case("gaussian", name, separate=True) for name in ("tail", "known")]
UNDERFLOW += [Case("gaussian", "tail", "diagonal")]
UNDERFLOW += [Case("poisson", "rising", "allocate"), Case("gamma", "rising", "plain")]
UNDERFLOW += [Case("gaussian", name) for name in ("tail-thin8", "parity-thin1.5", "falling-thin8")]


@dtypes
@both
@pytest.mark.parametrize("case", UNDERFLOW, ids=str)
def test_rates_that_underflow_keep_their_logarithm(case, backend, dtype):
    block, table = opposed(case, dtype), crossing_of(case)
    found, expected = (choose(b).expect(*block.views(dtype), table) for b in (backend, "reference"))
    agree(found, expected, tolerance_of(table, dtype))
    degree = np.diff(block.lines.indptr)
    # s = e^−799.7 + e^−800.2: one event a cell, shared between the two factors in these proportions
    log_s = np.logaddexp(-800.0 + 0.3, -800.0 - 0.2)
    assert found.counted == pytest.approx(degree.sum(), rel=1e-6) or case.separate
    np.testing.assert_allclose(found.pattern.sum(axis=1), degree, rtol=1e-5)
    np.testing.assert_allclose(found.pattern[:, 0], degree * np.exp(-799.7 - log_s), rtol=1e-4)


@others
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("name", ["parity", "parity-falling", "parity-thin1.5"])
def test_parity_at_every_rate_and_for_outliers(name, separate, backend):
    """Odd counts weigh sinh s, even ones cosh s − 1, whatever s is and however far apart their densities are."""
    case = Case("gaussian", name, separate=separate)
    block, table = block_of(case), crossing_of(case)
    values = block.lines.values * np.exp(np.linspace(0.0, 5.0, len(block.lines.values)))  # up to hundreds of σ
    for level in (2.0, 0.0, -5.0, -10.0, -60.0, -120.0, -200.0, -1000.0):
        mine = block.mine.changed(logs=block.mine.logs + level)
        outlying = Block(block.lines._replace(values=values), mine, block.theirs)
        found, expected = (choose(b).expect(*outlying.views(), table) for b in (backend, "reference"))
        agree(found, expected, {"rtol": 1e-11, "atol": 1e-12})


@dtypes
@both
@pytest.mark.parametrize("level", [2.0, -1.0, -20.0, -200.0, -400.0])
@pytest.mark.parametrize("apart", [False, True])
def test_pattern_alone_has_truncated_poisson_counts(apart, level, backend, dtype):
    """Without values q(n) is a zero-truncated Poisson law, from large rates to rates that no number holds."""
    case = Case("gaussian", "single")
    block = opposed(case, dtype) if apart else block_of(case, dtype)
    mine, theirs = (
        side.changed(logs=side.logs + level, first=side.first[:, :0], second=side.second[:, :0])
        for side in (block.mine, block.theirs)
    )
    table = crossing_of(case)._replace(form=NO_VALUES, slopes=np.zeros((1, 1)))
    found = choose(backend).expect(*Block(block.lines, mine, theirs).views(dtype), table)
    i, j = np.repeat(np.arange(LINES), np.diff(block.lines.indptr)), block.lines.indices
    logs = np.asarray(mine.logs, dtype)[i].astype(np.float64) + np.asarray(theirs.logs, dtype)[j]
    log_s = logsumexp(logs, axis=1)
    s = np.exp(log_s)
    log_z = np.where(s < 1e-9, log_s, np.log(np.expm1(np.maximum(s, 1e-9))))
    count = np.where(s < 1e-9, 1.0, s / -np.expm1(-np.maximum(s, 1e-9)))
    pattern = np.zeros((LINES, FACTORS))
    np.add.at(pattern, i, count[:, None] * np.exp(logs - log_s[:, None]))
    tolerance = {"rtol": 1e-9} if dtype == np.float64 else {"rtol": 3e-5}
    np.testing.assert_allclose(found.log_z, log_z.sum(), **tolerance)
    np.testing.assert_allclose(found.counted, count.sum(), **tolerance)
    np.testing.assert_allclose(found.pattern, pattern, **tolerance)


OPEN_LAWS = [Case("gaussian", name) for name in ("curve", "rising-scale", "falling", "falling-thin8")]


@both
@pytest.mark.parametrize("case", OPEN_LAWS, ids=str)
@pytest.mark.parametrize("separate", [False, True])
def test_short_table_is_reported(case, separate, backend):
    case = Case(case.family, case.linkage, case.layout, separate)
    block, kernels = block_of(case), choose(backend)
    most = 300 if case.linkage in THINNED else 90
    sizes = range(2, most, most // 90)
    reported = [bool(kernels.expect(*block.views(), crossing_of(case, size)).short) for size in sizes]
    assert reported[0] and not reported[-1]
    assert reported == sorted(reported, reverse=True)  # once long enough, always long enough


@both
@pytest.mark.parametrize("family", [f for f in FAMILIES if f != "gaussian"])
@pytest.mark.parametrize("name", ["rising", "curve", "falling", "rising-thin1.5"])
def test_table_that_is_accepted_is_long_enough(family, name, backend):
    """Whatever rule a backend stops by, a table it accepts gives the sum of a far longer one."""
    if family == "binomial" and not name.startswith("rising"):
        pytest.skip("κφ must be an integer")
    case = Case(family, name, "plain")
    block, kernels = block_of(case), choose(backend)
    exact = choose("reference").expect(*block.views(), crossing_of(case))
    accepted = 0
    for size in range(2, 80, 3):
        found = kernels.expect(*block.views(), crossing_of(case, size))
        if not found.short:
            accepted += 1
            assert found.log_z == pytest.approx(exact.log_z, abs=1e-10)
    assert accepted > 3


@others
@pytest.mark.parametrize("case", OPEN_LAWS, ids=str)
def test_table_is_too_short_at_the_same_size(case, backend):
    block = block_of(case)
    for size in range(2, 90) if case.linkage not in THINNED else range(20, 300, 4):
        table = crossing_of(case, size)
        found, expected = (choose(b).expect(*block.views(), table) for b in (backend, "reference"))
        assert bool(found.short) == bool(expected.short), size


# --- normal lines -------------------------------------------------------------------------------------------


def random_normal_problem(dtype, free, each=False, seed=0, n=5):
    """Sums Σ ωt b and Σ ω bb' of random cells, and a prior, whose mean and scale are one for all lines or one each."""
    rng = np.random.default_rng(seed)
    d = len(free)
    root = rng.normal(size=(n, d, d))
    linear = rng.normal(size=(n, d)).astype(dtype)
    quadratic = pack(root @ root.transpose(0, 2, 1)).astype(dtype)
    prior = NormalPrior(rng.normal(size=(n if each else 1, d)), rng.uniform(0.5, 2.0, d), np.array(free))
    if each:
        prior = prior._replace(scale=rng.uniform(0.2, 5.0, n))
    return linear, quadratic, rng.normal(size=d), prior


@dtypes
@both
@pytest.mark.parametrize(
    "free",
    [(True,), (True, True, True), (True, True, False), (False, True, True, False), (True, False, True, True)],
)
@pytest.mark.parametrize("each", [False, True])
def test_solve_normal_equals_linear_algebra(each, free, backend, dtype):
    linear, quadratic, constant, prior = random_normal_problem(dtype, free, each)
    mean, spread, log_det = choose(backend).solve_normal(linear, quadratic, constant, prior)
    on, off = np.flatnonzero(prior.free), np.flatnonzero(~prior.free)
    whole = unpack(quadratic.astype(np.float64), len(free))
    for line, matrix in enumerate(whole):
        own = prior.precision[on] * (prior.scale[line] if each else 1.0)
        precision = matrix[np.ix_(on, on)] + np.diag(own)
        right = linear[line, on] + own * prior.mean[line % len(prior.mean), on]
        right = right - matrix[np.ix_(on, off)] @ constant[off]
        np.testing.assert_allclose(mean[line, on], np.linalg.solve(precision, right), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(mean[line, off], constant[off])
        covariance = unpack(spread[line][None], len(free))[0]
        np.testing.assert_allclose(covariance[np.ix_(on, on)], np.linalg.inv(precision), rtol=1e-10, atol=1e-12)
        assert not covariance[off].any()
        assert log_det[line] == pytest.approx(-np.linalg.slogdet(precision)[1], rel=1e-10, abs=1e-12)


@both
def test_solve_normal_where_all_is_known(backend):
    linear, quadratic, constant, prior = random_normal_problem(np.float64, (False, False))
    mean, spread, log_det = choose(backend).solve_normal(linear, quadratic, constant, prior)
    np.testing.assert_array_equal(mean, np.tile(constant, (5, 1)))
    assert not spread.any() and not log_det.any()


def diagonal_prior():
    """A prior whose second coordinate is known, with a mean and a scale for each line."""
    mean, precision = np.array([0.2, 0.0, -0.3, 0.1]), np.array([1.3, 1.0, 0.7, 0.9])
    scale = np.linspace(0.3, 3.0, LINES)
    return NormalPrior(mean + 0.1 * np.arange(LINES)[:, None], precision, np.array([True, False, True, True]), scale)


@dtypes
@others
@some(NORMAL, 3)
def test_descend_equals_the_reference(case, backend, dtype):
    block, table = block_of(case, dtype), crossing_of(case)
    tolerance = tolerance_of(table, dtype)
    prior, kernels, reference = diagonal_prior(), choose(backend), choose("reference")
    found, (mean, variance, log_det) = kernels.descend(*block.views(dtype), table, prior, 2)
    exact, (exact_mean, exact_variance, exact_log_det) = reference.descend(*block.views(dtype), table, prior, 2)
    agree(found, exact, tolerance, sums=False)
    np.testing.assert_allclose(mean, exact_mean, **tolerance)
    np.testing.assert_allclose(variance, exact_variance, **tolerance)
    np.testing.assert_allclose(log_det, exact_log_det, **tolerance)
    assert mean.dtype == variance.dtype == dtype
    after = Block(block.lines, block.mine.changed(first=mean, second=variance), block.theirs).views(dtype)
    vectors, _ = kernels.statistics(*after, table, found)
    exact_vectors, _ = reference.statistics(*after, table, exact)
    np.testing.assert_allclose(vectors, exact_vectors, **tolerance)


@both
def test_descend_moves_the_same_whether_statistics_follow_or_not(backend):
    block, table, prior = wide_block(17, np.float64)
    moved = [choose(backend).descend(*block.views(), table._replace(learns=learns), prior, 2) for learns in (0, 1)]
    assert moved[0][0].moments is None
    for one, two in zip(moved[0][1], moved[1][1], strict=True):
        np.testing.assert_array_equal(one, two)


@both
@some(NORMAL, 3)
def test_descend_sees_the_same_cells_as_expect(case, backend):
    block, table = block_of(case), crossing_of(case)
    found, (mean, variance, _) = choose(backend).descend(*block.views(), table, diagonal_prior(), 2)
    expected = choose(backend).expect(*block.views(), table)
    agree(found, expected, {"rtol": 1e-12, "atol": 1e-13}, sums=False)
    prior = diagonal_prior()
    for empty in (1, LINES - 1):  # a line without cells falls back to its prior
        np.testing.assert_allclose(mean[empty, prior.free], prior.mean[empty, prior.free], rtol=1e-12)
        own = prior.scale[empty] * prior.precision[prior.free]
        np.testing.assert_allclose(variance[empty, prior.free], 1.0 / own, rtol=1e-12)


@both
@pytest.mark.parametrize("offset", [False, True])
def test_descend_repeated_reaches_the_solution(offset, backend):
    """Known bins hold the weights, so passes converge to one linear system; variance is 1 / its diagonal."""
    case = Case("gaussian", "known", "diagonal", True, offset)
    block, table, prior, kernels = block_of(case), crossing_of(case), diagonal_prior(), choose(backend)
    lines, moving = block.lines, block
    for _ in range(150):
        _, (mean, variance, _) = kernels.descend(*moving.views(), table, prior, 2)
        moving = Block(lines, block.mine.changed(first=mean), block.theirs)
    on = np.flatnonzero(prior.free)
    precisions = 1.0 / (DISPERSION["gaussian"] * BINS.table(BINS.size))
    for line in range(LINES):
        cells = slice(lines.indptr[line], lines.indptr[line + 1])
        b, noise = (part[lines.indices[cells]] for part in (block.theirs.first, block.theirs.second))
        weight = precisions[lines.group[cells]]
        known = b[:, 1] * block.mine.first[line, 1] + (lines.offset[cells] if offset else 0.0)
        own = prior.scale[line] * prior.precision[on]
        precision = np.diag(own + weight @ noise[:, on]) + (b[:, on] * weight[:, None]).T @ b[:, on]
        right = (weight * (lines.values[cells] - known)) @ b[:, on] + own * prior.mean[line, on]
        np.testing.assert_allclose(mean[line, on], np.linalg.solve(precision, right), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(variance[line, on], 1.0 / np.diag(precision), rtol=1e-12)
        assert mean[line, 1] == block.mine.first[line, 1] and variance[line, 1] == 0.0


def wide_block(size, dtype):
    """Diagonal lines of ``size`` coordinates, some known, with a line longer than sums are kept in storage type."""
    case, rng = Case("gaussian", "parity", "diagonal"), np.random.default_rng(size)
    degree, others = np.array([3, 0, 400, 1, 77]), 500
    indices = np.concatenate([np.sort(rng.permutation(others)[:d]) for d in degree]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    lines = Lines(indptr, indices, rng.normal(size=len(indices)).astype(dtype), EMPTY_INT, EMPTY_FLOAT)

    def side(n):
        first, second = rng.normal(0.0, 0.3, (n, size)), rng.gamma(1.0, 0.05, (n, size))
        return Side(rng.normal(-1.0, 1.0, (n, FACTORS)), first, second, np.zeros(n))

    free = np.arange(size) % 7 != 3
    prior = NormalPrior(rng.normal(size=(1, size)), rng.uniform(0.5, 2.0, size), free)
    return Block(lines, side(len(degree)), side(others)), crossing_of(case), prior


@dtypes
@others
@pytest.mark.parametrize("size", [1, 5, 15, 16, 17, 33, 40])
def test_descend_over_several_vectors_and_runs(size, backend, dtype):
    block, table, prior = wide_block(size, dtype)
    results = []
    for name in (backend, "reference"):
        found, lines = choose(name).descend(*block.views(dtype), table, prior, 2)
        after = Block(block.lines, block.mine.changed(first=lines.mean, second=lines.variance), block.theirs)
        vectors, _ = choose(name).statistics(*after.views(dtype), table, found)
        results.append((*lines, vectors))
    tolerance = {"rtol": 1e-10, "atol": 1e-11} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-5}
    for found, exact in zip(*results, strict=True):
        np.testing.assert_allclose(found, exact, **tolerance)


@dtypes
@both
def test_descend_along_a_direction_that_vanishes_when_stored(backend, dtype):
    """Coordinates that the data do not need shrink until their gradient, over a large precision, is 0 in storage."""
    block, table, _ = wide_block(17, dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    flat = [side.changed(first=np.full_like(side.first, tiny)) for side in (block.mine, block.theirs)]
    sharp = NormalPrior(np.zeros((1, 17)), np.full(17, 1e6), np.ones(17, np.bool_))
    _, (mean, variance, _) = choose(backend).descend(*Block(block.lines, *flat).views(dtype), table, sharp, 2)
    assert np.all(np.abs(mean) <= 1e-30)
    assert np.isfinite(variance).all()


@both
def test_descend_solves_a_line_of_as_many_coordinates_as_steps(backend):
    """Conjugate gradients end after as many steps as there are unknowns: a second update moves nothing."""
    block, table, prior = wide_block(3, np.float64)
    known = table._replace(quadratic=np.ones_like(table.quadratic), slopes=np.zeros_like(table.slopes))  # q(n) fixed
    _, once = choose(backend).descend(*block.views(), known, prior, 3)
    moved = Block(block.lines, block.mine.changed(first=once.mean), block.theirs)
    _, twice = choose(backend).descend(*moved.views(), known, prior, 3)
    np.testing.assert_allclose(twice.mean, once.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(twice.variance, once.variance, rtol=1e-12)


@both
def test_descend_never_loses(backend):
    """However far from the optimum a line begins, an update raises its quadratic."""
    block, table, prior = wide_block(33, np.float64)
    known = table._replace(quadratic=np.ones_like(table.quadratic), slopes=np.zeros_like(table.slopes))  # q(n) fixed
    lines, on = block.lines, np.flatnonzero(prior.free)
    _, new = choose(backend).descend(*block.views(), known, prior, 3)

    def loss(mean, line):
        cells = slice(lines.indptr[line], lines.indptr[line + 1])
        b, noise = (part[lines.indices[cells]] for part in (block.theirs.first, block.theirs.second))
        away = lines.values[cells] - b @ mean
        apart = mean[on] - prior.mean[0, on]
        return away @ away + noise.sum(axis=0)[on] @ mean[on] ** 2 + prior.precision[on] @ apart**2

    for line, before in enumerate(block.mine.first):
        assert loss(new.mean[line], line) < loss(before, line)


@both
def test_descend_reports_a_short_table(backend):
    case = Case("gaussian", "curve", "diagonal")
    found, _ = choose(backend).descend(*block_of(case).views(), crossing_of(case, 2), diagonal_prior(), 2)
    assert found.short


def poisoned(shape, kind):
    """Memory in which every number is NaN."""
    made = empty_array(shape, kind)
    made[:] = np.nan
    return made


@dtypes
def test_sections_begin_on_cache_lines_and_end_in_zeros(dtype):
    """Kernels read whole vectors: there must be no NaN after a section, whatever was in memory before."""
    for n, sizes in itertools.product((1, 3), itertools.product((1, 5, 16), (0, 1, 7), (0, 1, 9, 33))):
        view = empty_view(np.zeros((n, sizes[0]), dtype), sizes, poisoned)
        assert np.isnan(view.packed).all()
        fill_view(view, slice(None), *(np.full((n, size), 2.0) for size in sizes))
        assert view.packed.shape[1] % VECTOR == 0
        assert view.packed.sum() == 2.0 * n * sum(sizes)
        for section, size in zip((view.weights, view.first, view.second), sizes, strict=True):
            assert section.shape == (n, size)
            assert (section == 2.0).all()
            assert size == 0 or section.ctypes.data % CACHE_LINE == 0


@others
def test_a_data_model_without_features_still_has_values(backend):
    """E[μ] may be known cell by cell: lines then show nothing, and the counts depend on the values all the same."""
    block, table = (make(Case("gaussian", "tail", "full", offset=True)) for make in (block_of, crossing_of))
    bare = [side.changed(first=side.first[:, :0], second=side.second[:, :0]) for side in (block.mine, block.theirs)]
    found, exact = (choose(b).weigh(*Block(block.lines, *bare).views(), table) for b in (backend, "reference"))
    assert found.log_z == pytest.approx(exact.log_z, rel=1e-12)
    np.testing.assert_allclose(found.cellwise, exact.cellwise, rtol=1e-11, atol=1e-12)


@dtypes
@both
@pytest.mark.parametrize("width", [3, 19])
def test_add_lines_is_the_sum_over_a_lines_cells(width, backend, dtype):
    """What lines are exposed to by their observed cells: nothing for empty lines."""
    rng = np.random.default_rng(8)
    lines = lines_of(Case("gaussian", "tail"), dtype, rng)
    means = rng.gamma(2.0, 1.0, (OTHERS, width)).astype(dtype)
    kernels = choose(backend)
    theirs = kernels.empty_vectors(OTHERS, width, np.dtype(dtype), poisoned)
    theirs[:, :width] = means
    found = kernels.add_lines(lines, theirs, width)
    expected = np.zeros((LINES, width))
    np.add.at(expected, np.repeat(np.arange(LINES), np.diff(lines.indptr)), means[lines.indices].astype(np.float64))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-14 if dtype == np.float64 else 1e-6)


# --- gamma factors ------------------------------------------------------------------------------------------


@dtypes
@both
def test_tabulate_equals_the_definition(backend, dtype):
    rng = np.random.default_rng(3)
    shape = np.exp(rng.uniform(np.log(1e-4), np.log(1e7), (40, 33))).astype(dtype)
    rate = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), (40, 33))).astype(dtype)
    log_mean, geometric, totals = choose(backend).tabulate(shape, rate)
    a, b = shape.astype(np.float64), rate.astype(np.float64)
    exact = psi(a) - np.log(b)
    assert log_mean.dtype == dtype
    size = np.abs(psi(a)) + np.abs(np.log(b)) + np.log(a + 8.0)  # of what is added up: ψ is taken at α + 8
    assert np.all(np.abs(log_mean - exact) <= 3 * np.finfo(dtype).eps * size)
    rounding = np.finfo(dtype).eps * (3 * size + 8.0)  # of the exponent, and of the exponential
    assert np.all(np.abs(geometric - np.exp(exact)) <= rounding * np.exp(exact) + 2 * np.finfo(dtype).tiny)
    of_itself = a * np.log(b) - gammaln(a) + (a - 1.0) * exact - a
    parts = np.stack([of_itself, exact, a / b])
    scale = np.abs(np.stack([a * np.log(b), exact, a / b])).sum(axis=2).T  # the definition cancels, the kernel may not
    assert np.all(np.abs(totals - parts.sum(axis=2).T) <= 1e-13 * scale)


@dtypes
@both
@pytest.mark.parametrize("each", [False, True])
def test_renew_is_the_update_and_its_table(each, backend, dtype):
    rng = np.random.default_rng(4)
    allocated, activity = rng.gamma(0.5, 3.0, (7, 5)), rng.gamma(2.0, 1.0, 7)
    exposure = rng.gamma(2.0, 1.0, (7 if each else 1, 5))
    shape, rate, logs, geometric = (np.full((7, 5), np.nan, dtype) for _ in range(4))
    table = GammaTable(logs, geometric, np.full((7, 3), np.nan))
    choose(backend).update_gamma(GammaUpdate(allocated, exposure, activity, 0.3), shape, rate, table)
    np.testing.assert_array_equal(shape, (0.3 + allocated).astype(dtype))
    np.testing.assert_array_equal(rate, (activity[:, None] + exposure).astype(dtype))
    again = choose(backend).tabulate(shape, rate)  # what a resumed fit computes: the same bits
    for found, same in zip(table, again, strict=True):
        np.testing.assert_array_equal(found, same)


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="reference"):
        choose("fortran")
