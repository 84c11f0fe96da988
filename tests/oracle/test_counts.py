"""q(n), E[n], log Z and what crosses to the data model, cell by cell against enumeration (3, 13, 16, 23)."""

import enumeration as oracle
import numpy as np
import pytest
from problems import FIXED, FIXED_MEAN, RAGGED, THINNED, BareModel, functions_of, make_view, sampled
from scipy.special import gammaln

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Lines
from nmar.models.cell_law import cell_law
from nmar.models.law import Law
from nmar.models.missingness import Pattern
from nmar.models.state import Shared
from nmar.prob.families import FAMILIES
from nmar.prob.families import family as family_of
from nmar.prob.linkage import Compound, Exponential, Free, Geometric

EXACT = 1e-10  # both sides sum the same series in double precision; open tables leave out 1e-12
RATES = np.log([1e-30, 1e-9, 0.02, 0.7, 3.0, 11.0, 60.0])
# (y, E[θ] or E[μ], E[Ψ] or E[μ²]) of a few cells, the last an outlier
CELLS = {
    "gaussian": [(0.0, 0.2, 0.3), (1.5, 1.1, 1.4), (9.0, 0.1, 0.4)],
    "poisson": [(0.0, 0.2, 1.6), (3.0, 0.9, 2.9), (40.0, 0.1, 1.5)],
    "gamma": [(0.05, -1.1, -0.2), (1.7, -0.8, 0.3), (30.0, -1.2, -0.1)],
    "inverse_gaussian": [(0.05, -0.6, -1.2), (1.7, -0.3, -0.8), (30.0, -0.5, -1.1)],
    "negative_binomial": [(0.0, -0.7, 0.7), (3.0, -0.6, 0.9), (40.0, -0.8, 0.6)],
    "binomial": [(0.0, 0.1, 0.8), (3.0, -0.4, 0.6), (4.0, 0.3, 0.9)],
}
DISPERSION = {"gaussian": 1.3, "poisson": 1.0, "gamma": 1.4, "inverse_gaussian": 1.2, "binomial": 4.0}
PAIRS = [(f, name, link) for f in FAMILIES if f != "binomial" for name, link in FIXED.items()]
PAIRS += [("gaussian", name, link) for name, link in FIXED_MEAN.items()]
PAIRS += [("binomial", name, FIXED[name]) for name in ("ignorable", "compound")]
PAIRS += [("gaussian", name, link) for name, link in THINNED.items() if "thin" in name]
PAIRS += [(f, name, THINNED[name]) for f in ("poisson", "gamma", "negative_binomial") for name in ("free-thin8",)]
PAIRS += [("inverse_gaussian", "linear-thin8", THINNED["linear-thin8"])]
PAIRS += [(f, "compound-thin1.5", THINNED["compound-thin1.5"]) for f in ("gamma", "binomial")]
NAMES = {(family, name): linkage for family, name, linkage in PAIRS}
both = pytest.mark.parametrize("backend", BACKENDS)


def one_cell_a_line(family, rates=RATES, values=None):
    """Lines of one cell each, so that the accumulated sums are the cell's own E[n], weights and log Z."""
    grid = [(rate, *cell) for rate in rates for cell in CELLS[family]]
    log_rate, y, first, second = (np.array(column) for column in zip(*grid, strict=True))
    return log_rate, y if values is None else np.array(values), first, second


def block(family, log_rate, y, first, second):
    """The cells as the kernels read them; the other side is one line of ones."""
    n, group = len(y), EMPTY_INT
    if family in ("negative_binomial", "binomial"):
        group = np.searchsorted(distinct_values(family), y).astype(np.int32)
    lines = Lines(np.arange(n + 1), np.zeros(n, np.int32), y, group, EMPTY_FLOAT, functions_of(family, y))
    unit = np.ones((1, 1))
    return (
        lines,
        make_view(log_rate[:, None], first[:, None], second[:, None]),
        make_view(0.0 * unit, unit, unit),
    )


def log_density(family, y, *rest):
    """f of every count but for what depends on the value alone, which kernels leave out."""
    return oracle.log_density(family, y, *rest) - float(family_of(family).constant(np.array(y)))


def distinct_values(family):
    """The classes of the families that are kept by distinct value."""
    return np.array([0.0, 3.0, 4.0, 6.0, 11.0, 40.0]) if family in ("negative_binomial", "binomial") else None


def law_of(family, linkage, control=False, size=oracle.COUNTS, rate=0.9):
    """CellLaw of one family and linkage, and the shared parameters it was made from."""
    shared = Shared(DISPERSION.get(family, 1.5), linkage.start(), None, rate if control else None, 0.0, size)
    return cell_law(Law(Pattern(1), BareModel(family), control=control), shared, distinct_values(family)), shared


def fold(q, linkage, size):
    """Enumerated q(n) in the library's bins."""
    if linkage.bins == "parity":
        return np.array([q[::2].sum(), q[1::2].sum()])
    if linkage.bins == "tail":
        starts = linkage.starts or tuple(range(1, size + 1))
        ends = [*starts[1:], len(q) + 1]
        return np.array([q[start - 1 : end - 1].sum() for start, end in zip(starts, ends, strict=True)])
    return q[:size]


@both
@pytest.mark.parametrize("control", [False, True], ids=["coupled", "control"])
@pytest.mark.parametrize(("family", "name"), sampled(NAMES, 2))
def test_every_cell_equals_enumeration(family, name, control, backend):
    linkage = NAMES[family, name]
    s = oracle.thinning_of(linkage)
    cells = one_cell_a_line(family, RATES[np.exp(RATES) * s < 100.0])  # counts to 400 are then far enough
    table, shared = law_of(family, linkage, control)
    tables, kernels = oracle.table(shared.linkage), choose(backend)
    found = kernels.expect(*block(family, *cells), table)
    assert not found.short
    total, n = 0.0, np.arange(1, oracle.COUNTS + 1)
    for p, (log_rate, y, first, second) in enumerate(zip(*cells, strict=True)):
        f = log_density(family, y, first, second, shared.dispersion, tables)
        log_z, q = oracle.count_posterior(np.log(shared.rate) if control else log_rate, f, s)
        pattern_q = q
        if control:
            pattern_log_z, pattern_q = oracle.count_posterior(log_rate, np.zeros(oracle.COUNTS))
            log_z += pattern_log_z - oracle.log_truncation(shared.rate, thinning=s)
        total += log_z
        assert found.pattern[p, 0] == pytest.approx(pattern_q @ n, rel=EXACT)
        if family == "gaussian":
            over = q / (tables.spread * shared.dispersion)
            target, weight = over @ (tables.scale * (y - tables.shift)), over @ tables.scale**2
        else:
            target, weight = y, shared.dispersion * (q @ tables.spread)
        assert found.linear[p, 0] == pytest.approx(target, rel=EXACT, abs=EXACT)
        assert found.quadratic[p, 0] == pytest.approx(weight, rel=EXACT)
        alone = block(family, *(column[p : p + 1] for column in cells))
        own = kernels.expect(*alone, table)
        assert own.log_z == pytest.approx(log_z, rel=EXACT, abs=EXACT)
        assert own.counted == pytest.approx(q @ n, rel=EXACT)
        held = kernels.statistics(*alone, table, own)[0][0]  # one cell: the vector of cells is q itself
        np.testing.assert_allclose(held, fold(q, linkage, len(held)), rtol=EXACT, atol=EXACT)
    assert found.log_z == pytest.approx(total, rel=EXACT)


def total_log_z(family, cells, shared):
    """Σ log Z by enumeration."""
    tables = oracle.table(shared.linkage)
    densities = [
        log_density(family, y, first, second, shared.dispersion, tables)
        for _, y, first, second in zip(*cells, strict=True)
    ]
    return sum(oracle.count_posterior(rate, f)[0] for rate, f in zip(cells[0], densities, strict=True))


@both
@pytest.mark.parametrize("spread", [(1.0, 0.1, 10.0), RAGGED])
def test_stopping_rule_does_not_cut_outliers(spread, backend):
    """Theory 13: "stop when the term is small" is wrong by whole nats here."""
    cells = one_cell_a_line("gaussian", rates=[np.log(0.5)], values=[5.0, 6.0, 12.0])
    table, shared = law_of("gaussian", Free(values=spread, learn=False))
    found = choose(backend).expect(*block("gaussian", *cells), table)
    assert found.log_z == pytest.approx(total_log_z("gaussian", cells, shared), abs=EXACT)


@both
@pytest.mark.parametrize("linkage", [Geometric(1.0), Exponential(3.0), Geometric(-0.9)], ids=lambda a: a.name)
@pytest.mark.parametrize("family", ["gaussian", "gamma"])
def test_open_sums_reach_what_an_outlier_favours(family, linkage, backend):
    """Steep tables: a cell far out puts its mass on counts that its rate alone makes rare (13)."""
    far = [25.0, 40.0, 8.0] if family == "gaussian" else [300.0, 1000.0, 1e-4]
    cells = one_cell_a_line(family, rates=np.log([0.1, 1.0]), values=far * 2)
    table, shared = law_of(family, linkage, size=200)
    found = choose(backend).expect(*block(family, *cells), table)
    assert not found.short
    assert found.log_z == pytest.approx(total_log_z(family, cells, shared), rel=EXACT)


@both
def test_binomial_needs_enough_trials(backend):
    """y above κ: counts with κn < y have probability 0, and log Z is that of the others."""
    cells = one_cell_a_line("binomial", rates=[np.log(0.4)], values=[0.0, 6.0, 11.0])
    table, shared = law_of("binomial", Compound())
    kernels = choose(backend)
    found = kernels.expect(*block("binomial", *cells), table)
    assert found.log_z == pytest.approx(total_log_z("binomial", cells, shared), abs=EXACT)
    last = block("binomial", *(column[2:] for column in cells))
    q = kernels.statistics(*last, table, kernels.expect(*last, table))[0][0]
    assert q[0] == q[1] == 0.0 and q[2] > 0.0


def test_oracle_knows_the_law_of_observed_counts():
    """The oracle itself against closed forms, so that a common error cannot hide."""
    for rate in (0.01, 1.0, 30.0):
        n = np.arange(1, oracle.COUNTS + 1)
        assert oracle.log_truncation(rate) == pytest.approx(np.log(np.expm1(rate)), rel=1e-13)
        assert oracle.truncated_poisson(rate) @ n == pytest.approx(rate / -np.expm1(-rate), rel=1e-13)
    for s in (1.5, 8.0):
        for rate in (0.01, 1.0, 12.0):
            law = oracle.truncated_poisson(rate, thinning=s)
            exact = np.log(np.exp(s * rate) - np.exp((s - 1.0) * rate))
            assert oracle.log_truncation(rate, thinning=s) == pytest.approx(exact, rel=1e-11)
            assert law @ np.arange(1, oracle.COUNTS + 1) == pytest.approx(rate / -np.expm1(-rate) + (s - 1.0) * rate)
    n = np.arange(1, 60)
    terms = n * np.log(2.0) - gammaln(n + 1)
    assert oracle.count_posterior(np.log(2.0), np.zeros(59))[0] == pytest.approx(np.log(np.exp(terms).sum()))
