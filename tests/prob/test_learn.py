"""The M-steps: never worse, stationary, equal to brute force, and they find the truth again."""

from dataclasses import replace

import numpy as np
import pytest
from problems import sampled
from scipy.optimize import minimize, minimize_scalar

from nmar.prob.families import FAMILIES, family
from nmar.prob.learn import event_rate, log_prior_dispersion, objective, update
from nmar.prob.learn_linkage import Chain
from nmar.prob.linkage import FLOOR, LINKAGES, Exponential, Free, Geometric, Ignorable, Linear
from nmar.prob.statistics import Statistics

THETA = {
    "gaussian": 0.5,
    "gamma": -1.2,
    "inverse_gaussian": -0.5,
    "poisson": 0.6,
    "binomial": 0.3,
    "negative_binomial": -0.7,
}
VALID = [
    (name, kind, mean)
    for name in FAMILIES
    for kind in LINKAGES
    for mean in (None, "shift", "scale")
    if (mean is None or name == "gaussian") and (name != "binomial" or kind in ("ignorable", "compound"))
]
every_pair = pytest.mark.parametrize(("name", "kind", "mean"), VALID)


def random_statistics(law, link, rng, cells=200, size=9, empty=()):
    """Random valid cells: random dispersions, random q(n), some bins without mass."""
    size = link.size or size
    x = 20.0 if law.name == "binomial" else rng.uniform(0.5, 4, cells)
    y = law.sample(np.full(cells, THETA[law.name]), np.broadcast_to(x, (cells,)), rng)
    theta = np.full(cells, THETA[law.name])
    second = law.log_partition(theta)
    if law.name == "gaussian":
        theta = rng.normal(0.5, 1, cells)
        second = theta**2 + rng.uniform(0, 0.5, cells)
    q = rng.dirichlet(np.full(size, 0.5), cells)
    q[:, [n for n in empty if n < size and size > 3]] = 0
    q /= q.sum(axis=1, keepdims=True)
    return law.collect(y, theta, second, q, 1.0, mean_linkage=link.mean is not None)


def random_state(kind, mean, law, rng):
    """A started linkage at a random place, and a random dispersion."""
    link = LINKAGES[kind](mean=mean, levels=6).start(sd=2.0)
    levels = link.levels
    if kind == "free":
        link = replace(link, values=(1.0, *np.exp(rng.normal(0, 0.7, levels - 1))))
    if hasattr(link, "c"):
        link = replace(link, c=float(rng.uniform(max(link.bounds[0], -1), min(link.bounds[1], 1))))
    if mean == "shift":
        link = replace(link, shift=(0.0, *rng.normal(size=levels - 1)))
    if mean == "scale" and kind != "compound":
        link = replace(link, scale=(1.0, *rng.uniform(0.5, 1.5, levels - 1)))
    fixed = {"binomial": 20.0, "poisson": 1.0}
    return link, fixed.get(law.name) or float(np.exp(rng.normal()))


def coordinates(link, law, dispersion):
    """The free parameters as a vector, and the way back."""
    parts = {"dispersion": [np.log(dispersion)] if law.learns_dispersion else []}
    parts["c"] = [link.c] if getattr(link, "c", None) is not None and link.learn else []
    parts["values"] = list(np.log(link.values[1:])) if link.name == "free" and link.learn else []
    parts["shift"] = list(link.shift[1:]) if link.mean == "shift" else []
    parts["scale"] = list(link.scale[1:]) if link.mean == "scale" and link.learns_mean else []

    def back(vector):
        left, changed, size = list(vector), link, dispersion
        taken = {name: [left.pop(0) for _ in part] for name, part in parts.items()}
        if taken["dispersion"]:
            size = float(np.exp(taken["dispersion"][0]))
        if taken["c"]:
            changed = replace(changed, c=taken["c"][0])
        for name, first in (("shift", 0.0), ("scale", 1.0)):
            if taken[name]:
                changed = replace(changed, **{name: (first, *taken[name])})
        if taken["values"]:
            changed = replace(changed, values=(1.0, *np.exp(taken["values"])))
        return changed, size

    return np.array([v for part in parts.values() for v in part]), back


def gradient(value, point, h=1e-5):
    steps = h * np.eye(point.size)
    return np.array([(value(point + s) - value(point - s)) / (2 * h) for s in steps])


@pytest.mark.parametrize(
    ("name", "kind", "mean", "seed"), sampled([(*pair, seed) for pair in VALID for seed in range(4)], 4)
)
def test_update_never_lowers_the_objective_and_is_stationary(name, kind, mean, seed):
    rng = np.random.default_rng(seed)
    law = family(name)
    link, dispersion = random_state(kind, mean, law, rng)
    stats = random_statistics(law, link, rng, empty=(2, 4) if seed % 2 else ())
    before = objective(link, law, dispersion, stats)
    better, size = update(link, law, dispersion, stats)
    after = objective(better, law, size, stats)
    assert after >= before
    again = objective(*_reorder(update(better, law, size, stats), law), stats)
    assert 0 <= again - after <= 1e-9 * max(1, abs(after))
    if not law.learns_dispersion:
        assert size == dispersion
    point, back = coordinates(better, law, size)

    def value(vector):
        changed, changed_size = back(vector)
        return objective(changed, law, changed_size, stats)

    if not point.size or not _smooth(better, stats.size):
        return
    slopes = gradient(value, point)
    assert np.abs(slopes).max() < (1e-5 if mean else 2e-6) * stats.cells**0.5
    for step in 1e-3 * np.eye(point.size):
        assert value(point + step) < after and value(point - step) < after


def _reorder(pair, law):
    return pair[0], law, pair[1]


def _smooth(link, size):
    """Whether c is inside its bounds and no entry of the table sits at the edge of the floor."""
    if not hasattr(link, "c"):
        return True
    if min(link.c - link.bounds[0], link.bounds[1] - link.c) < 2e-3:
        return False
    around = (replace(link, c=link.c + s).slope(size) == 0 for s in (-2e-3, 2e-3))
    return np.array_equal(*around)


@every_pair
def test_a_given_dispersion_stays(name, kind, mean):
    rng = np.random.default_rng(3)
    law = family(name)
    link, dispersion = random_state(kind, mean, law, rng)
    stats = random_statistics(law, link, rng)
    better, size = update(link, law, dispersion, stats, learn_dispersion=False)
    assert size == dispersion
    assert objective(better, law, size, stats) >= objective(link, law, dispersion, stats)


@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse_gaussian", "poisson", "negative_binomial"])
def test_free_table_equals_a_brute_force_optimum(name):
    law, rng = family(name), np.random.default_rng(7)
    link = Free(4).start()
    stats = random_statistics(law, link, rng, cells=500)
    better, size = update(link, law, 1.0, stats)
    point, back = coordinates(link, law, 1.0)

    def cost(vector):
        changed, changed_size = back(vector)
        return -objective(changed, law, changed_size, stats) / 500

    options = {"xatol": 1e-9, "fatol": 1e-15, "maxfev": 20000, "maxiter": 20000, "adaptive": True}
    brute = minimize(cost, point, method="Nelder-Mead", options=options)
    found, _ = coordinates(better, law, size)
    np.testing.assert_allclose(found, brute.x, atol=1e-6)


def test_free_table_satisfies_the_closed_forms():
    rng = np.random.default_rng(8)
    a, link = 25.0, Free(6).start()
    law = family("gaussian")
    stats = random_statistics(law, link, rng)
    better, variance = update(link, law, 1.0, stats)
    table = better.table(6)
    q, r = stats.vectors
    assert variance == pytest.approx((2 + np.sum(r / table)) / (2.02 + 2 + q.sum()), rel=1e-9)
    for n in range(1, 6):
        pull = r[n] / (2 * variance) + a * table[n - 1]
        if n < 5:
            root = 2 * pull / (q[n] / 2 + np.sqrt(q[n] ** 2 / 4 + 4 * a * pull / table[n + 1]))
        else:
            root = pull / (q[n] / 2 + a)
        assert table[n] == pytest.approx(root, rel=1e-9)
    law = family("poisson")
    stats = random_statistics(law, link, rng)
    table = update(link, law, 1.0, stats)[0].table(6)
    _, y, psi = stats.vectors
    for n in range(1, 6):
        quadratic = psi[n] + (a / table[n + 1] if n < 5 else 0)
        linear = y[n] - (a if n == 5 else 0)
        assert quadratic * table[n] ** 2 - linear * table[n] == pytest.approx(a * table[n - 1], rel=1e-9)


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse_gaussian", "poisson", "negative_binomial"])
def test_free_table_derivatives(name, learn):
    """A wrong Hessian would only slow the climb down, so it has its own check."""
    law, rng = family(name), np.random.default_rng(6)
    link, dispersion = random_state("free", None, law, rng)
    learn = learn and law.learns_dispersion
    chain = Chain(link, law, random_statistics(law, link, rng), dispersion, learn)
    point = rng.normal(0, 0.3, link.levels - 1 + learn)
    slopes, bends = chain.curvature(point)
    np.testing.assert_allclose(slopes, gradient(chain.value, point), rtol=1e-6, atol=1e-5)
    for n, row in enumerate(bends):
        by_difference = gradient(lambda v, n=n: chain.curvature(v)[0][n], point)
        np.testing.assert_allclose(row, by_difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "exponential", "geometric"])
@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse_gaussian", "poisson", "negative_binomial"])
def test_c_beats_a_dense_scan(name, kind):
    law, rng = family(name), np.random.default_rng(9)
    link = LINKAGES[kind](prior_width=1.0).start()
    stats = random_statistics(law, link, rng, cells=60)
    better, size = update(link, law, 1.0, stats)
    best = objective(better, law, size, stats)

    def at(c):
        changed = replace(link, c=float(c))
        if not law.learns_dispersion:
            return objective(changed, law, 1.0, stats)
        cost = lambda t: -objective(changed, law, np.exp(t), stats)  # noqa: E731
        return -minimize_scalar(cost, bounds=(-8, 5), method="bounded", options={"xatol": 1e-9}).fun

    scan = max(at(c) for c in link.scan(300))
    assert best >= scan - 1e-9 and best > objective(link, law, 1.0, stats)


@pytest.mark.parametrize("factor", [1.0, 1e6])
@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse_gaussian", "negative_binomial"])
def test_the_start_of_the_dispersion_does_not_matter(name, factor):
    law, rng = family(name), np.random.default_rng(12)
    stats = random_statistics(law, Ignorable(), rng).scale(factor)
    found = [update(Ignorable(), law, start, stats)[1] for start in (1e-6, 0.1, 1.0, 30.0, 1e6)]
    np.testing.assert_allclose(found, found[2], rtol=1e-7)


def test_several_modes_do_not_lose_the_present_one():
    """A floored exponential table has one mode on each side of 0; the better one wins from either start."""
    law = family("gaussian")
    stats = Statistics(("cells", "residual"), np.array([[50.0, 60, 30], [50.0, 12, 90]]))
    results = []
    for c in (-0.9, 0.0, 2.0):
        link, size = update(Exponential(c, learn=True, prior_width=5.0), law, 1.0, stats)
        results.append(objective(link, law, size, stats))
    np.testing.assert_allclose(results, results[0], rtol=1e-12)


def test_wide_tables_do_not_overflow_the_scan():
    for name in ("gaussian", "gamma", "inverse_gaussian", "poisson", "negative_binomial"):
        law, rng = family(name), np.random.default_rng(10)
        link = Geometric().start()
        stats = random_statistics(law, link, rng, size=200)
        better, size = update(link, law, 1.0, stats)
        assert np.isfinite(objective(better, law, size, stats)) and better.table(200).min() >= FLOOR


@pytest.mark.parametrize("mean", [None, "shift", "scale"])
def test_without_cells_the_prior_decides(mean):
    """The chain on log phi leaves the table at 1; as a density of phi it would drag it to 0."""
    law, link = family("gaussian"), Free(12, mean=mean).start()
    start = replace(link, values=(1.0, *np.linspace(0.5, 2, 11)))
    names = law.statistic_names(mean is not None)
    better, size = update(start, law, 3.0, Statistics(names, np.zeros((len(names), 12))))
    np.testing.assert_allclose(better.table(12), 1, rtol=1e-8)
    assert size == pytest.approx(1 / 2.01, rel=1e-10)

    def printed(log_table):  # one more -log phi(n) in every factor
        chain = replace(link, values=(1.0, *np.exp(log_table)))
        return log_table.sum() - chain.log_prior()

    dragged = np.exp(minimize(printed, np.zeros(11), tol=1e-10).x)
    drift = np.cumprod(25 / (25 + np.arange(11, 0, -1)))  # each step falls by as many factors as follow it
    np.testing.assert_allclose(dragged, drift, rtol=1e-5)
    np.testing.assert_allclose(drift[[0, 1, 2, -1]], [0.694, 0.496, 0.365, 0.099], atol=5e-4)


TRUTH = [
    Ignorable(),
    Linear(0.3, prior_width=10.0, learn=True),
    Linear(-0.8, prior_width=10.0, learn=True),
    Exponential(0.4, prior_width=10.0, learn=True),
    Geometric(-0.3, prior_width=10.0, learn=True),
    Free(values=(1.0, 0.6, 1.5, 1.2), strength=1e-3),
    Ignorable(mean="shift", levels=4, shift=(0.0, 0.4, 0.6, 0.3), shift_width=10.0),
    Linear(0.3, prior_width=10.0, learn=True, mean="scale", levels=3, scale=(1.0, 1.4, 0.8), scale_width=10.0),
]


@pytest.mark.parametrize("name", ["gaussian", "gamma", "inverse_gaussian", "poisson", "negative_binomial"])
@pytest.mark.parametrize("truth", TRUTH, ids=lambda v: f"{v.name}-{v.mean}")
def test_recovery(name, truth):
    """From known counts the truth comes back within four standard errors, by the observed information."""
    law, rng, cells = family(name), np.random.default_rng(11), 100_000
    if truth.mean and name != "gaussian":
        return
    truth = truth.start()
    dispersion = 1.0 if name == "poisson" else 1.7
    counts = rng.poisson(1.3, 2 * cells)
    counts = counts[counts > 0][:cells]
    size = truth.size or counts.max()
    which = (counts - 1) % 2 if truth.bins == "parity" else np.minimum(counts, size) - 1
    x = dispersion * truth.bin_table(size)[which]
    scale, shift = (table[which] for table in truth.mean_tables(size))
    theta = np.full(cells, THETA[name])
    second = law.log_partition(theta)
    if name == "gaussian":
        theta = rng.normal(0.5, 1, cells)
        second = theta**2
        y = rng.normal(scale * theta + shift, np.sqrt(x))
    else:
        y = law.sample(theta, x, rng)
    stats = law.collect(y, theta, second, np.eye(size)[which], counts, truth.mean is not None)
    blank = {"shift": None, "scale": None, **({"c": 0.0} if hasattr(truth, "c") else {})}
    blank |= {"values": None} if truth.name == "free" else {}
    found, found_size = update(replace(truth, **blank).start(), law, 1.0, stats)
    point, back = coordinates(found, law, found_size)
    if not point.size:
        return
    errors = point - coordinates(truth, law, dispersion)[0]

    def value(vector):
        changed, changed_size = back(vector)
        return objective(changed, law, changed_size, stats)

    information = np.array(
        [-gradient(lambda v, s=s: gradient(value, v, 1e-3) @ s, point, 1e-3) for s in np.eye(point.size)]
    )
    deviations = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.all(np.abs(errors) < 4 * deviations) and np.all(deviations < 0.1)
    assert stats.mean_count_total / stats.cells == pytest.approx(counts.mean())


def test_log_prior_of_the_dispersion():
    assert log_prior_dispersion(family("gamma"), 2.0) == pytest.approx(-2.01 * np.log(2) - 0.5)
    assert log_prior_dispersion(family("poisson"), 2.0) == log_prior_dispersion(family("binomial"), 2.0) == 0


def test_misuse_is_refused():
    law = family("gaussian")
    stats = Statistics(("cells", "residual"), np.ones((2, 12)))
    with pytest.raises(ValueError, match="mean_linkage=True"):
        update(Free(mean="shift"), law, 1.0, stats)
    with pytest.raises(ValueError, match="size is 12"):
        update(Linear(), law, 1.0, stats)
    with pytest.raises(ValueError, match="not an integer"):
        update(Free(), family("binomial"), 1.0, stats)


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.0999, 0.1001, 1.0, 7.0, 300.0, 1e4])
def test_truncated_poisson_rate_is_the_inverse(rate):
    excess = rate / 2 + rate**2 / 12 if rate < 1e-2 else -rate / np.expm1(-rate) - 1
    assert event_rate(1 + excess) == pytest.approx(rate, rel=max(1e-12, 1e-15 / rate))


@pytest.mark.parametrize("mean", [1.0, 0.3, 1 + 1e-15])
def test_truncated_poisson_rate_stays_positive(mean):
    assert 0 < event_rate(mean) <= 1e-8
