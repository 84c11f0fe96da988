"""Counts of observed cells with s from 1 to 256 events for each recorded one, at rates from 1e-30 to 1e4 (13, 23).

Counts are enumerated as far as their law goes, millions of them at the largest rate: term by term from the mode
outwards by the ratio of neighbours, so that no large logarithms cancel.
"""

from functools import cache

import numpy as np
import pytest
from problems import BareModel, make_view, sampled
from scipy.special import gammaln, logsumexp

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Lines
from nmar.models.cell_law import cell_law
from nmar.models.law import Law
from nmar.models.missingness import Pattern
from nmar.models.state import Shared
from nmar.prob import counts
from nmar.prob.learn import event_rate
from nmar.prob.linkage import Compound, Exponential, Free, Geometric, Ignorable, Linear

RATES = (1e-30, 1e-12, 1e-6, 1e-3, 0.02, 0.3, 1.0, 3.0, 4.2, 11.0, 60.0, 1e3, 1e4)
THINNINGS = (1.0, 1.5, 2.0, 8.0, 64.0, 256.0)
CELLS = ((0.1, 0.2, 0.3), (1.5, 0.4, 0.5), (9.0, 0.2, 0.3))  # y, E[μ], E[μ²]; the last an outlier
# logarithms of size sg are rounded to 1e-16 of themselves, and what is left of their differences has that error
ROUNDING = 2e-15
CLOSE = {np.float64: {"rtol": 1e-11, "atol": 1e-12}, np.float32: {"rtol": 1e-4, "atol": 1e-4}}
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
both = pytest.mark.parametrize("backend", BACKENDS)


def falling(levels, low=0.1):
    """A table from 1 down to ``low``, ragged so that no two entries are alike."""
    table = np.geomspace(1.0, low, levels) * np.where(np.arange(levels) % 2, 1.2, 1.0)
    return tuple(table.tolist())


CLOSED = {
    "free": lambda s: Free(values=falling(Free(thinning=s).levels), learn=False, thinning=s),
    "free-rising": lambda s: Free(values=falling(5, 6.0), learn=False, thinning=s),
    "counts": lambda s: Ignorable(mean="shift", levels=4, shift=(0.0, 0.4, -0.3, 0.2), thinning=s),
    "linear+": lambda s: Linear(0.3, thinning=s),
    "linear-": lambda s: Linear(-0.5, thinning=s),
}
some_closed = pytest.mark.parametrize(("name", "s"), sampled([(name, s) for s in THINNINGS for name in CLOSED], 2))


def log_choices(e, s):
    """log(s^e − (s−1)^e) by s^e − (s−1)^e = Σ_{k<e} s^{e−1−k} (s−1)^k, whose terms are all positive."""
    return (e - 1) * np.log(s) + np.log(np.cumsum((1.0 - 1.0 / s) ** np.arange(len(e))))


@cache
def law(rate, s):
    """P(e) of an observed cell for e = 1 … N, where nothing that is left out matters."""
    mean = s * rate
    e = np.arange(1, int(mean + 45.0 * np.sqrt(mean + 1.0)) + 400)
    series = np.cumsum((1.0 - 1.0 / s) ** np.arange(len(e)))
    step = np.log(mean * (series[1:] / series[:-1]) / e[1:])  # of count e + 1 over count e
    mode = int(np.argmax(step < 0.0))
    logs = np.concatenate([-np.cumsum(step[:mode][::-1])[::-1], [0.0], np.cumsum(step[mode:])])
    p = np.exp(logs)
    return p / p.sum()


def log_norm(rate, s):
    """log(e^{sg} − e^{(s−1)g})."""
    return s * rate + np.log(-np.expm1(-rate))


def bins_of(linkage, size):
    """Which bin each of 1 … size counts falls into."""
    e = np.arange(1, size + 1)
    if linkage.bins == "parity":
        return (e + 1) % 2
    starts = np.array(linkage.starts or range(1, linkage.size + 1))
    return (e[:, None] >= starts).sum(axis=1) - 1


@cache
def in_bins(linkage, rate, s):
    """Probability of every bin and the mean count within it (NaN where nothing falls)."""
    p, size = law(rate, s), linkage.size
    where = bins_of(linkage, len(p))
    mass = np.bincount(where, p, size)
    counted = np.bincount(where, p * np.arange(1, len(p) + 1), size)
    return mass, counted / np.where(mass > 0.0, mass, np.nan)


def table_of(linkage, size=32):
    """The law of a cell as the kernels read it, σ² = 1.3."""
    shared = Shared(1.3, linkage.start(), None, None, 0.0, size)
    return cell_law(Law(Pattern(1), BareModel("gaussian")), shared)


def block_of(rates, dtype=np.float64):
    """Each rate with each value, a line of one cell each."""
    grid = [(np.log(rate), *cell) for rate in rates for cell in CELLS]
    log_rate, y, first, second = (np.array(column, dtype) for column in zip(*grid, strict=True))
    n, unit = len(y), np.ones((1, 1), dtype)
    lines = Lines(np.arange(n + 1), np.zeros(n, np.int32), y, EMPTY_INT, EMPTY_FLOAT)
    return lines, make_view(log_rate[:, None], first[:, None], second[:, None]), make_view(0.0 * unit, unit, unit)


def density(linkage, y, first, second, size):
    """f of every bin."""
    variance = 1.3 * linkage.bin_table(size)
    scale, shift = linkage.mean_tables(size)
    away = (y - shift - scale * first) ** 2 + scale**2 * (second - first**2)
    return -0.5 * np.log(2.0 * np.pi * variance) - 0.5 * away / variance


def exact(linkage, s, rate, cell):
    """log Z, q of the bins and E[e] of one cell."""
    mass, mean = in_bins(linkage, rate, s)
    f = density(linkage, *cell, linkage.size)
    with np.errstate(divide="ignore"):
        terms = np.log(mass) + f
    total = logsumexp(terms)
    q = np.exp(terms - total)
    return log_norm(rate, s) + total, q, float(np.nansum(q * mean))


# --- closed bins ------------------------------------------------------------------------------------------------


@dtypes
@both
@some_closed
def test_closed_bins_at_every_rate(s, name, backend, dtype):
    linkage, kernels, tolerance = CLOSED[name](s), choose(backend), CLOSE[dtype]
    table = table_of(linkage)
    found = kernels.expect(*block_of(RATES, dtype), table)
    assert not found.short
    every = [exact(linkage, s, rate, cell) for rate in RATES for cell in CELLS]
    log_z, mean = (np.array([cell[part] for cell in every]) for part in (0, 2))
    np.testing.assert_allclose(found.log_z, log_z.sum(), **tolerance)
    np.testing.assert_allclose(found.pattern[:, 0], mean, **tolerance)
    np.testing.assert_allclose(found.counted, mean.sum(), **tolerance)
    for p, rate in enumerate(RATES):  # q and log Z of single rates: the largest would hide the others' in the sums
        part = block_of((rate,), dtype)
        own = kernels.expect(*part, table)
        np.testing.assert_allclose(own.log_z, log_z[3 * p : 3 * p + 3].sum(), **tolerance)
        held = kernels.statistics(*part, table, own)[0][0]
        wide = {**tolerance, "rtol": tolerance["rtol"] + ROUNDING * s * rate}
        np.testing.assert_allclose(held, sum(cell[1] for cell in every[3 * p : 3 * p + 3]), **wide)


@some_closed
def test_weights_of_closed_bins(s, name):
    """Log weight and mean count of each bin by itself, those that q never reaches too."""
    linkage = CLOSED[name](s)
    log_w, mean = counts.log_weights(np.log(RATES), linkage.bins, linkage.size, s, linkage.starts)
    for at, rate in enumerate(RATES):
        mass, middle = in_bins(linkage, rate, s)
        seen = mass > 1e-280
        share = np.exp(log_w[at, seen] - log_norm(rate, s))
        np.testing.assert_allclose(share, mass[seen], rtol=1e-11 + ROUNDING * s * rate)
        np.testing.assert_allclose(mean[at, seen], middle[seen], rtol=1e-11)
    total = np.array([log_norm(rate, s) for rate in RATES])
    np.testing.assert_allclose(logsumexp(log_w, axis=1), total, rtol=1e-13)
    np.testing.assert_allclose(counts.log_truncation(np.array(RATES), s), total, rtol=1e-14)


@some_closed
def test_tiny_rates_leave_the_first_count_of_each_bin(s, name):
    linkage, rates = CLOSED[name](s), np.array([1e-30, 1e-18])
    first = np.array((1, 2) if linkage.bins == "parity" else linkage.starts or range(1, linkage.size + 1))
    log_w, mean = counts.log_weights(np.log(rates), linkage.bins, linkage.size, s, linkage.starts)
    e = np.arange(1, first[-1] + 1)
    constants = (log_choices(e, s) - gammaln(e + 1.0))[first - 1]
    np.testing.assert_allclose(log_w, np.log(rates)[:, None] * first + constants, rtol=1e-13)
    np.testing.assert_allclose(mean, np.broadcast_to(first, mean.shape), rtol=1e-13)


@pytest.mark.parametrize("s", [1.0, 1.5, 8.0, 256.0])
def test_enumeration_from_the_mode_is_log_sum_exp(s):
    """The enumeration above against the plain sum of g^e (s^e − (s−1)^e)/e! where that has no large logarithms."""
    for rate in (1e-6, 0.02, 0.5, 1.8):
        p = law(rate, s)
        e = np.arange(1, len(p) + 1)
        terms = e * np.log(rate) + log_choices(e, s) - gammaln(e + 1.0)
        assert logsumexp(terms) == pytest.approx(log_norm(rate, s), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(np.exp(terms - logsumexp(terms)), p, rtol=1e-10, atol=1e-300)


# --- open tables ------------------------------------------------------------------------------------------------


OPEN = {
    "compound": lambda s: Compound(thinning=s),
    "exponential": lambda s: Exponential(0.4, thinning=s),
    "geometric-": lambda s: Geometric(-0.3, thinning=s),
    "linear-shift": lambda s: Linear(0.3, mean="shift", levels=3, shift=(0.0, 0.4, -0.3), thinning=s),
}
LENGTHS = [*range(2, 100), *np.geomspace(100, 12_000, 60).astype(int).tolist()]


@both
@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("s", [1.0, 8.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1.5, 256.0))])
def test_an_open_table_is_long_enough_or_says_that_it_is_short(s, name, backend):
    """Whatever the rate, an accepted table has left out at most EPSILON of the sum; one that is long is accepted."""
    linkage, kernels = OPEN[name](s), choose(backend)
    accepted, refused = 0, 0
    for rate in (1e-30, 1e-3, 0.3, 4.2, 60.0, 1e4):
        p, part = law(rate, s) if s * rate <= 1e4 else None, block_of((rate,))
        for size in LENGTHS:
            found = kernels.expect(*part, table_of(linkage, size))
            enough = size > 2.0 * s * rate + 20.0 * np.sqrt(s * rate + 1.0) + 60.0  # far beyond the law's own tail
            assert not (found.short and enough), (rate, size)
            if found.short:
                refused += 1
                continue
            accepted += 1
            assert p is not None, "no table is long enough for such a rate"
            e, log_z, mean = np.arange(1, len(p) + 1), 0.0, []
            with np.errstate(divide="ignore"):
                logs = np.log(p)
            for cell in CELLS:
                terms = logs + density(linkage, *cell, len(p))
                log_z += log_norm(rate, s) + logsumexp(terms)
                mean.append(np.exp(terms - logsumexp(terms)) @ e)
            np.testing.assert_allclose(found.log_z, log_z, rtol=1e-12, atol=10 * counts.EPSILON)
            np.testing.assert_allclose(found.pattern[:, 0], mean, rtol=1e-9)
            break  # the first that is accepted is the test; longer ones are accepted too: test_kernels.py
    assert accepted and refused


# --- the law ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", THINNINGS)
def test_moments_of_an_observed_cell(s):
    for rate in RATES:
        p = law(rate, s)
        mean = float(p @ np.arange(1, len(p) + 1))
        assert counts.truncated_mean(np.array(rate), s) == pytest.approx(mean, rel=1e-11)
        if rate > 1e-3:  # below, the mean count holds no more than a few digits of the rate
            assert event_rate(mean, s) == pytest.approx(rate, rel=1e-10)
    assert 0.0 < event_rate(1.0, s) <= 1e-8


def drawn(rate, s, size, rng):
    """Events of observed cells: n ~ Po(Λ) given n ≥ 1 recorded ones and m ~ Po((s−1)Λ) others."""
    n = np.zeros(size, np.int64)
    while np.any(n == 0):
        n[n == 0] = rng.poisson(rate, np.sum(n == 0))
    return n + rng.poisson((s - 1.0) * rate, size)


@pytest.mark.parametrize(("rate", "s"), [(0.02, 8.0), (0.8, 1.5), (2.0, 8.0), (0.3, 256.0), (1.1, 1.0)])
def test_weights_are_the_law_of_recorded_and_unrecorded_events(rate, s):
    """Frequencies of 60,000 draws: |z| < 4.5 in each of some 30 bins has a chance of 2e-4 to fail for a new seed."""
    e = drawn(rate, s, 60_000, np.random.default_rng(17))
    laws = [*(make(s) for make in CLOSED.values()), Compound(thinning=s)]
    for linkage in laws:
        size = linkage.size or counts.open_size(rate, s)
        log_w, mean = counts.log_weights(np.log([rate]), linkage.bins, size, s, linkage.starts)
        p = np.exp(log_w[0] - counts.log_truncation(np.array(rate), s))
        assert p.sum() == pytest.approx(1.0, rel=1e-10)
        where = np.minimum(e - 1, size - 1) if linkage.size is None else bins_of(linkage, int(e.max()))[e - 1]
        seen = np.bincount(where, minlength=size)
        often = p * len(e) > 20.0
        z = (seen - p * len(e))[often] / np.sqrt(len(e) * p * (1.0 - p) + 1e-300)[often]
        assert np.all(np.abs(z[p[often] < 1.0 - 1e-6]) < 4.5), (linkage, z)
        for b in np.flatnonzero(often):
            inside = e[where == b]
            assert abs(inside.mean() - mean[0, b]) < 4.5 * inside.std() / np.sqrt(len(inside)) + 1e-6
        phi = linkage.table(int(e.max()))[e - 1]
        assert abs(phi.mean() - linkage.expected(rate)) < 4.5 * phi.std() / np.sqrt(len(phi)) + 1e-6
