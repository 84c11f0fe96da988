"""q(n), E[n], log Z and what crosses to the data model, cell by cell against enumeration (theory §3, §13, §16)."""

from types import SimpleNamespace

import enumeration as oracle
import numpy as np
import pytest
from problems import FIXED, FIXED_MEAN, RAGGED
from scipy.special import gammaln

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, FAMILIES, Lines, SideView
from nmar.models.coupled import Law, Shared, crossing
from nmar.models.missingness import Pattern
from nmar.prob.linkage import Compound, Free

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
every_pair = pytest.mark.parametrize(("family", "name", "linkage"), PAIRS, ids=[f"{f}-{n}" for f, n, _ in PAIRS])
both = pytest.mark.parametrize("backend", BACKENDS)


def one_cell_a_line(family, rates=RATES):
    """Lines of one cell each, built so that the accumulated sums are the cell's own E[n], weights and log Z."""
    grid = [(rate, *cell) for rate in rates for cell in CELLS[family]]
    log_rate, y, first, second = (np.array(column) for column in zip(*grid, strict=True))
    n = len(y)
    lines = Lines(np.arange(n + 1), np.zeros(n, np.int32), y, EMPTY_INT, EMPTY_FLOAT)
    if family in ("negative_binomial", "binomial"):
        lines = lines._replace(group=np.unique(y, return_inverse=True)[1].astype(np.int32))
    ones, zeros = np.ones((n, 1)), np.zeros(n)
    mine = SideView(ones, log_rate, log_rate[:, None], first[:, None], zeros, second[:, None])
    unit = np.ones((1, 1))
    theirs = SideView(unit, np.zeros(1), np.zeros((1, 1)), unit, np.zeros(1), unit)
    return lines, mine, theirs


def law_of(family, linkage, control=False, size=oracle.COUNTS, rate=0.9):
    """Crossing of one family and linkage, and the shared parameters it was made from."""
    data = SimpleNamespace(family=family, allocates=False, diagonal=False)
    shared = Shared(DISPERSION.get(family, 1.5), linkage.start(), None, rate if control else None, 0.0, size)
    return crossing(Law(Pattern(1), data, control=control), shared, 3), shared


def fold(q, kind, size):
    """Enumerated q(n) in the library's bins."""
    if kind == "parity":
        return np.array([q[::2].sum(), q[1::2].sum()])
    if kind == "tail":
        return np.append(q[: size - 1], q[size - 1 :].sum())
    return q[:size]


@both
@pytest.mark.parametrize("control", [False, True], ids=["coupled", "control"])
@every_pair
def test_every_cell_equals_enumeration(family, name, linkage, control, backend):
    lines, mine, theirs = one_cell_a_line(family)
    table, shared = law_of(family, linkage, control)
    tables, kernels = oracle.table(shared.linkage), choose(backend)
    found = kernels.expect(lines, mine, theirs, table)
    assert not found.short
    total, n = 0.0, np.arange(1, oracle.COUNTS + 1)
    for p, y in enumerate(lines.values):
        f = oracle.log_density(family, y, mine.first[p, 0], mine.second[p, 0], shared.dispersion, tables)
        log_z, q = oracle.count_posterior(np.log(shared.rate) if control else mine.top[p], f)
        pattern_q = q
        if control:
            pattern_log_z, pattern_q = oracle.count_posterior(mine.top[p], np.zeros(oracle.COUNTS))
            log_z += pattern_log_z - oracle.log_truncation(shared.rate)
        total += log_z
        used = found.used[p] if len(found.used) else len(table.phi2)
        expected = fold(q, linkage.bins, used)
        np.testing.assert_allclose(found.probability[p, :used], expected, rtol=EXACT, atol=EXACT)
        assert found.pattern[p, 0] == pytest.approx(pattern_q @ n, rel=EXACT)
        if family == "gaussian":
            over = q / (tables.spread * shared.dispersion)
            target = over @ (tables.scale * (y - tables.shift))
            weight = over @ tables.scale**2
        else:
            target, weight = y, shared.dispersion * (q @ tables.spread)
        assert found.linear[p, 0] == pytest.approx(target, rel=EXACT, abs=EXACT)
        assert found.quadratic[p, 0] == pytest.approx(weight, rel=EXACT)
        alone = kernels.expect(*cell_alone(lines, mine, p), theirs, table)
        assert alone.log_z == pytest.approx(log_z, rel=EXACT, abs=EXACT)
        assert alone.count == pytest.approx(q @ n, rel=EXACT)
    assert found.log_z == pytest.approx(total, rel=EXACT)


def cell_alone(lines, mine, p):
    """The line of cell ``p`` as a block of its own."""
    group = lines.group[p : p + 1] if lines.group.size else lines.group
    one = Lines(np.array([0, 1]), lines.indices[p : p + 1], lines.values[p : p + 1], group, lines.offset)
    return one, SideView(*(part[p : p + 1] for part in mine))


@both
@pytest.mark.parametrize("spread", [(1.0, 0.1, 10.0), RAGGED])
def test_stopping_rule_does_not_cut_outliers(spread, backend):
    """Theory §13: "stop when the term is small" is wrong by whole nats here."""
    data = np.array([5.0, 6.0, 12.0])
    lines, mine, theirs = one_cell_a_line("gaussian", rates=[np.log(0.5)])
    lines = lines._replace(values=data)
    table, shared = law_of("gaussian", Free(values=spread, learn=False))
    found = choose(backend).expect(lines, mine, theirs, table)
    tables = oracle.table(shared.linkage)
    moments = zip(data, mine.first[:, 0], mine.second[:, 0], strict=True)
    expected = [oracle.log_density("gaussian", *cell, shared.dispersion, tables) for cell in moments]
    exact = sum(oracle.count_posterior(np.log(0.5), f)[0] for f in expected)
    assert found.log_z == pytest.approx(exact, abs=EXACT)


@both
def test_binomial_needs_enough_trials(backend):
    """y above κ: counts with κn < y have probability 0, and log Z is that of the others."""
    lines, mine, theirs = one_cell_a_line("binomial", rates=[np.log(0.4)])
    lines = lines._replace(values=np.array([0.0, 6.0, 11.0]))
    table, shared = law_of("binomial", Compound())
    found = choose(backend).expect(lines, mine, theirs, table)
    assert np.all(found.probability[2, :2] == 0.0)
    tables, total = oracle.table(shared.linkage), 0.0
    for y, first, second in zip(lines.values, mine.first[:, 0], mine.second[:, 0], strict=True):
        f = oracle.log_density("binomial", y, first, second, shared.dispersion, tables)
        total += oracle.count_posterior(np.log(0.4), f)[0]
    assert found.log_z == pytest.approx(total, abs=EXACT)


def test_oracle_knows_the_zero_truncated_poisson():
    """The oracle itself against closed forms, so that a common error cannot hide."""
    for rate in (0.01, 1.0, 30.0):
        n = np.arange(1, oracle.COUNTS + 1)
        assert oracle.log_truncation(rate) == pytest.approx(np.log(np.expm1(rate)), rel=1e-13)
        assert oracle.truncated_poisson(rate) @ n == pytest.approx(rate / -np.expm1(-rate), rel=1e-13)
    n = np.arange(1, 60)
    terms = n * np.log(2.0) - gammaln(n + 1)
    assert oracle.count_posterior(np.log(2.0), np.zeros(59))[0] == pytest.approx(np.log(np.exp(terms).sum()))
