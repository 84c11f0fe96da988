"""Every linkage through every check."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from nmar.prob.families import FAMILIES, family
from nmar.prob.linkage import (
    FLOOR,
    LINKAGES,
    Compound,
    Exponential,
    Free,
    Geometric,
    Ignorable,
    Linear,
    linkage,
)

TABLE = (1.0, 0.4, 2.5, 3.0)
ALL = [
    Ignorable(),
    Ignorable(mean="shift"),
    Linear(),
    Linear(0.3),
    Linear(0.49),
    Linear(-1.2, mean="scale"),
    Exponential(),
    Exponential(0.5),
    Exponential(-0.1),
    Exponential(-0.003),
    Exponential(-2.0),
    Compound(),
    Compound(mean="scale"),
    Geometric(0.3),
    Geometric(-0.3),
    Geometric(-0.01),
    Geometric(-5.0),
    Free(),
    Free(values=TABLE),
    Free(values=TABLE, mean="shift"),
    Ignorable(thinning=8.0),
    Ignorable(mean="shift", thinning=1.5),
    Linear(0.3, thinning=8.0),
    Exponential(-0.1, thinning=8.0),
    Geometric(-0.01, thinning=1.5),
    Compound(thinning=8.0),
    Free(values=TABLE, thinning=8.0),
    Free(thinning=1.5),
]
every_linkage = pytest.mark.parametrize(
    "link", ALL, ids=lambda v: f"{v.name}-{getattr(v, 'c', '')}-{v.mean}-{v.thinning:g}"
)


def log_truncated_poisson(counts, rate):
    return counts * np.log(rate) - gammaln(counts + 1) - rate - np.log(-np.expm1(-rate))


def log_observed_law(counts, rate, s):
    """log P(e) of an observed cell: of e ~ Po(s rate) events one or more were recorded, each with chance 1/s."""
    recorded = -np.expm1(counts * np.log1p(-1.0 / s)) if s > 1.0 else np.ones(len(counts))
    return counts * np.log(s * rate) - gammaln(counts + 1) - s * rate + np.log(recorded) - np.log(-np.expm1(-rate))


@every_linkage
def test_tables_start_at_one_and_stay_inside_the_limits(link):
    table = link.table(1000)
    assert table[0] == 1
    low, high = link.limits
    assert low <= table.min() and table.max() <= high and low > 0
    if np.isfinite(high) and link.name != "ignorable":
        assert low == pytest.approx(table.min()) and high == pytest.approx(table.max())


@every_linkage
def test_expected_is_the_mean_over_observed_counts(link):
    counts = np.arange(1.0, 900)
    for rate in (1e-8, 1e-4, 0.1, 1.0, 5.0, 50.0):
        brute = np.exp(log_observed_law(counts, rate, link.events)) @ link.table(counts.size)
        assert link.expected(rate) == pytest.approx(brute, rel=2e-13 if link.events == 1.0 else 2e-12)
    assert link.expected(np.full((2, 1), rate)).shape == (2, 1)


@every_linkage
def test_expected_at_the_ends(link):
    assert link.expected(0.0) == pytest.approx(1, rel=1e-14)
    assert np.isfinite(link.expected(1e4))


@pytest.mark.parametrize(
    ("link", "limit"),
    [
        (Linear(0.3), 0.7),
        (Exponential(0.5), 0.5 + 0.5e4),
        (Exponential(-0.1), FLOOR),
        (Geometric(-0.1), FLOOR),
        (Compound(), 1e4),
        (Free(values=TABLE), 3.0),
    ],
)
def test_expected_at_a_large_rate(link, limit):
    assert link.expected(1e4) == pytest.approx(limit, rel=1e-13)


@pytest.mark.parametrize("c", [0.3, -1.2, 0.49, 0.0])
def test_printed_tables(c):
    n = np.arange(1, 9)
    np.testing.assert_allclose(Linear(c).table(8), np.maximum(1 - c + c * (-1.0) ** (n + 1), FLOOR))
    np.testing.assert_allclose(Exponential(c).table(8), np.maximum(1 - c + c * n, FLOOR))
    np.testing.assert_allclose(Geometric(c).table(8), np.maximum(np.exp(c * (n - 1)), FLOOR))
    np.testing.assert_array_equal(Compound().table(8), n)
    np.testing.assert_array_equal(Linear(c).bin_table(), Linear(c).table(2))


def test_large_tables_do_not_overflow():
    assert np.all(np.isfinite(Geometric(5.0).table(2000)))
    assert np.isfinite(Geometric(5.0).expected(1e4))
    assert np.all(np.isfinite(Geometric(5.0).slope(2000)))


@pytest.mark.parametrize(
    ("link", "bins", "size"),
    [
        (Ignorable(), "tail", 1),
        (Ignorable(mean="shift", levels=5), "tail", 5),
        (Linear(), "parity", 2),
        (Linear(mean="shift"), "open", None),
        (Exponential(), "open", None),
        (Compound(mean="scale"), "open", None),
        (Geometric(), "open", None),
        (Free(), "tail", 12),
        (Free(4, mean="scale"), "tail", 4),
    ],
)
def test_bins(link, bins, size):
    assert (link.bins, link.size) == (bins, size)
    count = size or 20
    scale, shift = link.start().mean_tables(count)
    assert len(link.bin_table(count)) == len(scale) == len(shift) == count
    with pytest.raises(ValueError, match="size is"):
        link.bin_table(None if size is None else size + 1)


@pytest.mark.parametrize("s", [1.5, 8.0, 64.0, 256.0])
@pytest.mark.parametrize("levels", [0, 2, 5, 40])
def test_bins_of_a_thinned_table_grow_wider_and_reach_as_far_as_counts_do(levels, s):
    link = Free(levels, thinning=s)
    starts = np.array(link.starts)
    assert starts[0] == 1 and len(starts) == link.levels == link.size
    width = np.diff(starts)
    assert np.all(width >= 1)
    assert np.all(np.diff(width) >= -1)  # rounding of equal ratios
    assert starts[-1] == max(round(4.0 * s), link.levels)
    link = Free(values=tuple(np.linspace(1.0, 0.5, link.levels).tolist()), thinning=s)
    table, counts = link.table(600), np.arange(1, 601)
    bins = [max(b for b, start in enumerate(starts) if start <= e) for e in counts]  # the last that has begun
    np.testing.assert_array_equal(table, np.array(link.values)[bins])


def test_events_are_what_can_matter():
    assert Ignorable(thinning=8.0).events == 1.0 and Ignorable(mean="shift", thinning=8.0).events == 8.0
    assert Linear().events == 1.0 and Linear(thinning=1.5).events == 1.5
    assert Free(4).starts == (1, 2, 3, 4) and Free(thinning=8.0).levels > Free().levels


@every_linkage
def test_start_fills_in_what_is_learned(link):
    started = link.start(sd=3.0)
    assert started.learn is not None and started.start(sd=9.0) == started
    np.testing.assert_array_equal(started.table(20), link.table(20))
    if link.mean == "shift":
        assert started.shift == (0.0,) * link.levels and started.shift_width == pytest.approx(3.0)
    if link.mean == "scale" and link.name != "compound":
        assert started.scale == (1.0,) * link.levels
    if hasattr(link, "c"):
        assert started.learn is (link.c is None) and started.c == (link.c or 0.0)


def test_starting_value_that_is_learned_on():
    assert Linear(0.2, learn=True).start().learn and Linear(0.2, learn=True).start().c == 0.2
    assert Free().start().learn and not Free(learn=False).start().learn


def test_location_tables():
    free = Free(levels=3, mean="shift", shift=(0.0, 1.0, 2.0))
    assert free.mean_tables(3)[1].tolist() == [0, 1, 2]
    bent = Exponential(0.2, levels=3, mean="scale", scale=(1.0, 1.5, 2.0))
    scale, shift = bent.mean_tables(5)
    assert scale.tolist() == [1, 1.5, 2, 2, 2] and shift.tolist() == [0] * 5
    tied = Compound(mean="scale").start()
    assert tied.mean_tables(4)[0].tolist() == [1, 2, 3, 4] and not tied.learns_mean


@pytest.mark.parametrize("link", [Linear(0.3), Exponential(0.4), Exponential(-0.21), Geometric(-0.7)])
def test_slope_in_c(link):
    size, h = link.size or 8, 1e-6
    up, down = (replace(link, c=link.c + k * h).bin_table(size) for k in (1, -1))
    np.testing.assert_allclose(link.slope(size), (up - down) / (2 * h), rtol=1e-8, atol=1e-9)


@every_linkage
def test_log_prior_is_zero_before_anything_is_learned(link):
    if not isinstance(link, Free) or link.values is None:
        assert link.start().log_prior() == 0


def test_log_priors():
    assert Linear(0.2, learn=True, prior_width=0.1).log_prior() == pytest.approx(-2)
    assert Linear(0.2).start().log_prior() == 0
    strength, table = 7.0, np.array(TABLE)
    printed = np.sum(strength * np.log(table[:-1]) - strength * np.log(table[1:]) - strength * table[:-1] / table[1:])
    free = Free(values=TABLE, strength=strength).start()
    assert free.log_prior() == pytest.approx(printed + 3 * strength, rel=1e-13)
    moved = Ignorable(mean="shift", levels=3, shift=(0.0, 1.0, -1.0), shift_width=2.0)
    assert moved.log_prior() == pytest.approx(-0.5 * (0.25 + 1))
    scaled = Ignorable(mean="scale", levels=3, scale=(1.0, 1.2, 0.9), scale_width=0.1)
    assert scaled.log_prior() == pytest.approx(-0.5 * (4 + 1))


@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.parametrize("kind", list(LINKAGES))
def test_theorem_2_the_mixture_tends_to_the_family(name, kind):
    """As the rate falls to 0 the mixture over n tends to p(theta, kappa), at first order in the rate."""
    law = family(name)
    settings = {"linear": Linear(0.3), "exponential": Exponential(0.5), "geometric": Geometric(-0.4)}
    link = settings.get(kind) or (Free(values=TABLE) if kind == "free" else linkage(kind))
    theta = -0.6 if law.domain[1] == 0 else 0.4
    kappa, y = 3.0, 2.0
    if name == "binomial" and kind not in ("ignorable", "compound"):
        with pytest.raises(ValueError, match=f"{kind}.*not an integer.*'ignorable' or 'compound'"):
            link.supports(law)
        return
    link.supports(law)
    target = float(law.log_density(y, theta, kappa))
    counts = np.arange(1.0, 40)
    each = law.log_density(y, theta, kappa * link.table(counts.size))
    gap = [logsumexp(each + log_truncated_poisson(counts, rate)) - target for rate in (1e-3, 1e-4, 1e-12)]
    assert abs(gap[2]) < 1e-11
    if kind == "ignorable":
        np.testing.assert_allclose(gap, 0, atol=1e-13)
    else:
        assert gap[0] / gap[1] == pytest.approx(10, rel=0.01) and abs(gap[1]) > 1e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Linear(0.5), "c is 0.5.*below 0.5"),
        (lambda: Linear(thinning=0.5), "thinning is 0.5.*from 1 to 1000"),
        (lambda: Free(thinning=np.inf), "thinning is inf"),
        (lambda: Linear(thinning=1e6), "thinning is 1000000.0; give a number from 1 to 1000"),
        (lambda: Free(thinning="auto"), "thinning is 'auto'; give a number from 1 to 1000"),
        (lambda: Geometric(np.inf), "c is inf.*finite"),
        (lambda: Exponential(prior_width=0), "prior_width is 0.*above zero"),
        (lambda: Linear(mean="slide"), "mean is 'slide'.*'shift' or 'scale'"),
        (lambda: Free(levels=1), "levels is 1.*at least 2"),
        (lambda: Ignorable(levels=0), "levels is 0"),
        (lambda: Free(values=(1.0, -2.0)), "values.*above zero"),
        (lambda: Free(values=(2.0, 1.0)), "values.*first of them 1"),
        (lambda: Free(strength=-1.0), "strength is -1.0"),
        (lambda: Ignorable(mean="shift", levels=2, shift=(0.1, 0.2)), "shift is .*first of them 0"),
        (lambda: linkage("cubic"), "'cubic'.*ignorable, linear, exponential, compound, geometric, free"),
        (lambda: Free(mean="shift").supports(family("gamma")), "mean='shift'.*gamma.*mean=None"),
    ],
)
def test_errors_name_the_argument_and_the_remedy(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_resolver():
    for name, kind in LINKAGES.items():
        assert linkage(name) == kind()
    chosen = Free(4)
    assert linkage(chosen) is chosen and Free(values=TABLE).levels == 4


@pytest.mark.parametrize("c", ["x", True, np.nan, np.inf])
def test_a_parameter_is_a_finite_number(c):
    for kind in (Linear, Exponential, Geometric):
        with pytest.raises(ValueError, match="give a finite number, or None to learn it"):
            kind(c)
    with pytest.raises(ValueError, match="prior_width is 'x'"):
        Linear(prior_width="x")
