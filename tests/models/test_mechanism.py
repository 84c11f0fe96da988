"""Values that decide whether they are seen (models/mechanism.py): sums against brute force, and fits that know it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

import nmar
from nmar.kernels.choose import choose
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Lines
from nmar.models.exposed import Exposed, learned_effects, unseen_sums
from nmar.models.mechanism import Detection, Mechanism
from nmar.prob import detection
from nmar.prob.factor import pack, unpack

QUICK = {"factors": 2, "max_iter": 30, "random_state": 0}


def lines_of(observed, y):
    """Cells of a matrix of truths as a block of lines."""
    row, col = np.nonzero(observed)
    indptr = np.searchsorted(row, np.arange(len(observed) + 1))
    values = y[row, col] if y is not None else EMPTY_FLOAT
    return Lines(indptr, col.astype(np.int32), values, EMPTY_INT, EMPTY_FLOAT)


def packed(mean, spread):
    """First features, and second ones whose inner products are E[μ²] for lines without uncertainty on one side."""
    second = np.einsum("nk,nl->nkl", mean, mean) + spread[:, None, None] * np.eye(mean.shape[1])
    return mean, pack(second)


def block(seed=0, rows=4, cols=5, width=2):
    rng = np.random.default_rng(seed)
    observed = rng.random((rows, cols)) < 0.5
    hidden = ~observed & (rng.random((rows, cols)) < 0.3)
    y = rng.normal(size=(rows, cols))
    first, second = packed(rng.normal(size=(rows, width)), np.full(rows, 0.1))
    their_first, their_second = packed(rng.normal(size=(cols, width)), np.zeros(cols))
    mine = (first, second, rng.uniform(1.0, 3.0, rows), Detection(0.3 * rng.normal(size=rows), np.full(rows, 0.1)))
    theirs = (their_first, their_second, rng.uniform(0.5, 2.0, cols), 0.3 * rng.normal(size=cols))
    missing = ~observed & ~hidden
    return Exposed(0, lines_of(observed, y), lines_of(hidden, None), *mine, *theirs), observed, missing, y


def log_missing(given, mechanism, i, j):
    """log ∫ N(y; m, τ²) exp(−L(y)) dy of one cell, by quadrature."""
    m = given.first[i] @ given.their_first[j]
    variance = given.second[i] @ given.their_second[j] - m**2 + 1.0 / (given.precision[i] * given.their_precision[j])
    base = mechanism.intercept + given.lines.mean[i] + given.their_effect[j]

    def at(y):
        away = detection.log_missing(np.exp(base + mechanism.slope * y), mechanism.over)
        return np.exp(-0.5 * (y - m) ** 2 / variance + away) / np.sqrt(2 * np.pi * variance)

    return np.log(quad(at, m - 12 * variance**0.5, m + 12 * variance**0.5, epsabs=1e-13, limit=300, points=[m])[0])


def whole(given, mechanism, observed, missing, y):
    """Log likelihood of what is seen of the block, given the values that are."""
    total = 0.0
    for i, j in zip(*np.nonzero(missing), strict=True):
        total += log_missing(given, mechanism, i, j)
    for i, j in zip(*np.nonzero(observed), strict=True):
        rate = np.exp(mechanism.intercept + given.lines.mean[i] + given.their_effect[j] + mechanism.slope * y[i, j])
        total += np.log(-np.expm1(detection.log_missing(rate, mechanism.over)))
    return total


@pytest.mark.parametrize("backend", ["numba", "reference"])
@pytest.mark.parametrize(("slope", "over"), [(0.0, 0.0), (0.7, 0.0), (-0.4, 0.0), (0.7, 0.8), (0.0, 1.0)])
def test_missing_cells_pull_lines_along_their_likelihood(backend, slope, over):
    given, _, missing, _ = block()
    mechanism, step = Mechanism(-0.2, slope, over=over), 1e-5
    found = unseen_sums(given, mechanism, choose(backend))

    def of_line(i, first):
        moved = given.first.copy()
        moved[i] = first
        shifted = np.einsum("k,l->kl", first, first) - np.einsum("k,l->kl", given.first[i], given.first[i])
        second = given.second.copy()
        second[i] += pack(shifted)
        there = given._replace(first=moved, second=second)
        return sum(log_missing(there, mechanism, i, j) for j in np.flatnonzero(missing[i]))

    exact = [[log_missing(given, mechanism, i, j) for j in np.flatnonzero(missing[i])] for i in range(4)]
    assert found.log_z == pytest.approx(sum(map(sum, exact)), abs=1e-5)
    width = given.first.shape[1]
    for i in range(4):
        weights = unpack(found.quadratic[i], width)
        gradient = found.linear[i] - weights @ given.first[i]
        for k in range(width):
            along = np.eye(width)[k] * step
            difference = (of_line(i, given.first[i] + along) - of_line(i, given.first[i] - along)) / (2 * step)
            assert gradient[k] == pytest.approx(difference, abs=2e-4)
        assert np.linalg.eigvalsh(weights).min() >= -1e-12
    if not slope:
        assert not found.linear.any() and not found.quadratic.any() and not found.squares.any()


@pytest.mark.parametrize("backend", ["numba", "reference"])
@pytest.mark.parametrize("slope", [0.0, 0.7])
@pytest.mark.parametrize("over", [0.0, 0.8])
def test_effects_slope_and_shape_climb_the_likelihood(backend, slope, over):
    given, observed, missing, y = block(1)
    mechanism, step = Mechanism(-0.2, slope, spreads=(1e9, 1e9), over=over), 1e-4
    found = learned_effects(given, mechanism, choose(backend))

    def at(**change):
        return whole(given, replace(mechanism, **change), observed, missing, y)

    for i in range(4):
        moved = [given.lines.mean + sign * step * (np.arange(4) == i) for sign in (1, -1)]
        up, down = (
            whole(given._replace(lines=replace(given.lines, mean=mean)), mechanism, observed, missing, y)
            for mean in moved
        )
        newton = np.clip((up - down) / (2 * step) * float(found.lines.variance[i]), -0.3, 0.3)
        assert float(found.lines.mean[i] - given.lines.mean[i]) == pytest.approx(newton, rel=1e-3, abs=1e-5)
    # the sums of (a0, Γ) are carried to the new effects along second derivatives, of which none is needed here
    still = learned_effects(given, replace(mechanism, spreads=(1e-6, 1e-6)), choose(backend)).sums
    held = given._replace(lines=replace(given.lines, mean=np.zeros(4)))
    still = learned_effects(held, replace(mechanism, spreads=(1e-6, 1e-6)), choose(backend)).sums

    def on_held(**change):
        return whole(held, replace(mechanism, **change), observed, missing, y)

    over_a = (on_held(intercept=-0.2 + step) - on_held(intercept=-0.2 - step)) / (2 * step)
    over_slope = (on_held(slope=slope + step) - on_held(slope=slope - step)) / (2 * step)
    np.testing.assert_allclose(still[:2], [over_a, over_slope], rtol=1e-3, atol=1e-4)
    least = max(over - step, 0.0)
    by_shape = (on_held(over=over + step) - on_held(over=least)) / (over + step - least)
    assert still[2] == pytest.approx(by_shape, rel=2e-3)


def table(slope, seed, shape=(80, 40), density=0.5, shift=0.0, scale=1.0, over=0.0):
    """A table of two factors whose values decide, by ``slope`` per standard deviation of all values, and the truth."""
    rng = np.random.default_rng(seed)
    mu = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) / 1.4 + 0.7 * rng.normal(size=(shape[0], 1))
    y = mu + 0.6 * rng.normal(size=shape)
    y = (y - y.mean()) / y.std()
    effects = 0.3 * rng.normal(size=(shape[0], 1)) + 0.3 * rng.normal(size=(1, shape[1]))
    low, high = -20.0, 20.0
    chance = rng.random(shape)
    for _ in range(60):
        middle = 0.5 * (low + high)
        seen = chance < -np.expm1(detection.log_missing(np.exp(middle + effects + slope * y), over))
        low, high = (low, middle) if seen.mean() > density else (middle, high)
    y = shift + scale * y
    row, col = np.nonzero(seen)
    return nmar.Cells.from_arrays(row, col, y[row, col], shape), y, seen


def test_a_slope_fixed_at_zero_is_the_model_without_mechanism():
    cells, _, _ = table(0.8, 0)
    data = nmar.Factorization(2)
    plain = nmar.CCPF(data, tail=False, tol=0.0, **QUICK).fit(cells).posterior_.state
    fixed = nmar.CCPF(data, tail=False, tol=0.0, mechanism=nmar.ByValue(0.0), **QUICK).fit(cells).posterior_.state
    for one, other in zip(plain.sides, fixed.sides, strict=True):
        np.testing.assert_array_equal(one.data.mean, other.data.mean)
        np.testing.assert_array_equal(one.data.spread, other.data.spread)
        np.testing.assert_array_equal(one.noise.beta, other.noise.beta)
        np.testing.assert_array_equal(one.pattern.weights.beta, other.pattern.weights.beta)
    assert plain.shared.dispersion == fixed.shared.dispersion


@pytest.mark.parametrize("model", [nmar.Factorization(2), nmar.Effects("both")], ids=["factorization", "effects"])
def test_values_that_decide_are_recovered(model):
    cells, y, seen = table(1.0, 3, (150, 60))
    away = np.nonzero(~seen)
    errors = {}
    for mechanism in ("none", "value"):
        fitted = nmar.CCPF(model, mechanism=mechanism, factors=2, random_state=0, max_iter=60).fit(cells)
        errors[mechanism] = np.mean((fitted.predict_entries(*away, given="missing") - y[away]) ** 2)
    assert errors["value"] < 0.75 * errors["none"]
    if model == nmar.Effects("both"):  # which these tables, of two factors, do not follow
        return
    # Γ is per standard deviation of the observed values, which are fewer at the low end
    assert fitted.posterior_.state.shared.mechanism.slope == pytest.approx(y[seen].std(), rel=0.15)


@pytest.mark.parametrize("over", [0.0, 1.0])
def test_the_shape_of_the_curve_is_recovered_where_lines_are_known(over):
    rng = np.random.default_rng(3)
    first, second = packed(rng.normal(size=(300, 2)), np.zeros(300))
    their_first, their_second = packed(rng.normal(size=(100, 2)), np.zeros(100))
    y = first @ their_first.T + 0.5 * rng.normal(size=(300, 100))
    rate = np.exp(0.3 + 1.2 * y)  # fitted effects of lines would draw it towards 0
    seen = rng.random(y.shape) < -np.expm1(detection.log_missing(rate, over))
    found = Mechanism(0.0)
    given = Exposed(0, lines_of(seen, y), None, first, second, np.full(300, 4.0), found.first_lines(0, 300),
                    their_first, their_second, np.ones(100), np.zeros(100))  # fmt: skip
    for _ in range(60):
        made = learned_effects(given, found, choose("numba"))
        found, given = found.learned(0, made.lines, made.sums), given._replace(lines=made.lines)
    assert found.over == pytest.approx(over, abs=0.15)
    assert abs(found.slope - 1.2) < 3.0 * found.error < 0.2


def test_masks_at_random_have_no_slope():
    cells, _, _ = table(0.0, 4, (150, 60))
    found = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells).posterior_.state.shared.mechanism
    assert abs(found.slope) < 0.06


def test_backends_threads_and_units_agree():
    cells, _, _ = table(1.0, 5)
    shifted, _, _ = table(1.0, 5, shift=40.0, scale=7.0)
    few = {**QUICK, "max_iter": 4}

    def fit(given, **options):
        return nmar.CCPF(nmar.Factorization(2), mechanism="value", **few, **options).fit(given)

    one, other = fit(cells), fit(cells, backend="reference")
    mean = one.predict_entries([0, 1, 2], [3, 4, 5], given="missing")
    np.testing.assert_allclose(other.predict_entries([0, 1, 2], [3, 4, 5], given="missing"), mean, rtol=1e-6)
    np.testing.assert_array_equal(
        fit(cells, n_jobs=1).predict_entries([0, 1], [3, 4]), fit(cells, n_jobs=3).predict_entries([0, 1], [3, 4])
    )
    moved = fit(shifted).predict_entries([0, 1, 2], [3, 4, 5], given="missing")
    np.testing.assert_allclose(moved, 40.0 + 7.0 * mean, rtol=1e-8)
    turned = fit(nmar.Cells.from_arrays(cells.col_index, cells.row_index, cells.values, cells.shape[::-1]))
    np.testing.assert_allclose(turned.predict_entries([3, 4, 5], [0, 1, 2], given="missing"), mean, rtol=1e-8)


def test_hidden_cells_are_neither_observed_nor_missing():
    cells, _, seen = table(1.0, 6)
    away = np.argwhere(~seen)[:200]
    hidden = nmar.Cells.from_arrays(*away.T, np.zeros(len(away)), cells.shape)

    def fit(**options):
        return nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells, **options)

    hid, all_missing = fit(hidden=hidden), fit()
    density = [model.posterior_.state.shared.mechanism.intercept for model in (hid, all_missing)]
    assert density[0] > density[1]


def test_what_is_given_adds_up():
    cells, _, _ = table(1.0, 7)
    model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
    rows, cols = np.repeat(np.arange(20), 5), np.tile(np.arange(5), 20)
    chance = model.observed_probability(rows, cols)
    parts = [model.predict_entries(rows, cols, True, given=given) for given in ("observed", "missing", None)]
    means, sds = zip(*parts, strict=True)
    np.testing.assert_allclose(chance * means[0] + (1 - chance) * means[1], means[2], atol=1e-6)
    assert (means[0] > means[1]).all()
    squares = [sd**2 + mean**2 for mean, sd in parts[:2]]
    # that of any cell has its variance cut at few degrees of freedom, which these cells do not have
    np.testing.assert_allclose(chance * squares[0] + (1 - chance) * squares[1], sds[2] ** 2 + means[2] ** 2, rtol=1e-3)
    draws = model.sample(rows, cols, 4000, 0, given="missing")
    np.testing.assert_allclose(draws.mean(axis=1), means[1], atol=5 * (sds[1] / 60).max())
    low, high = model.interval(rows, cols, 0.8, given="missing")
    inside = (draws > low[:, None]) & (draws < high[:, None])
    assert inside.mean() == pytest.approx(0.8, abs=0.01)
    of_any = model.log_density(cells, target="all")
    given_seen = model.log_density(cells)
    i, j = cells.row_index, cells.col_index
    mechanism, sides = model.posterior_.state.shared.mechanism, model.posterior_.state.sides
    rate = mechanism.intercept + sides[0].detection.mean[i] + sides[1].detection.mean[j]
    units = model.posterior_.units
    by_value = np.exp(rate + mechanism.slope * units.to_model(cells.values.copy()))
    seen_given_y = -np.expm1(detection.log_missing(by_value, mechanism.over))
    np.testing.assert_allclose(
        given_seen, of_any + np.log(seen_given_y) - np.log(model.observed_probability(i, j)), atol=1e-6
    )


def test_the_mechanism_tells_its_slope_and_curve():
    cells, _, _ = table(1.0, 3, (150, 60))
    model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
    found = model.mechanism_
    assert found.kind == "value" and found.taste == found.value > 0.5 and 0.0 < found.value_sd < 0.2
    curve = found.curve([-2.0, 0.0, 2.0])
    assert (np.diff(curve["observed"]) > 0).all()
    assert (curve["low"] < curve["observed"]).all() and (curve["observed"] < curve["high"]).all()
    plain = nmar.CCPF(nmar.Factorization(2), **QUICK).fit(cells).mechanism_
    assert (plain.kind, plain.value) == ("none", 0.0)
    with pytest.raises(ValueError, match="no curve"):
        plain.curve([0.0])
    fixed = nmar.CCPF(nmar.Factorization(2), mechanism=nmar.ByValue(0.4), **QUICK).fit(cells).mechanism_
    assert (fixed.value, fixed.value_sd) == (0.4, 0.0)


def test_imputed_values_are_those_of_missing_cells():
    cells, y, seen = table(1.0, 3, (150, 60))
    model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
    row, col = np.nonzero(~seen)
    completed = model.impute(n=10, seed=0, cells=(row, col))
    asked = model.predict_entries(row, col, given="missing")
    assert completed.values.mean() == pytest.approx(asked.mean(), abs=0.03)
    assert abs(completed.values.mean() - y[~seen].mean()) < 0.15 < abs(y[seen].mean() - y[~seen].mean())
    assert "given that they are missing" in completed.assumes


def test_a_saved_model_answers_alike(tmp_path):
    cells, _, _ = table(1.0, 8)
    model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
    model.save(tmp_path / "m.nmar")
    again = nmar.load(tmp_path / "m.nmar")
    asked = [0, 1], [2, 3]
    np.testing.assert_array_equal(
        model.predict_entries(*asked, given="missing"), again.predict_entries(*asked, given="missing")
    )
    assert again.mechanism == "value"


def test_missing_cells_are_drawn_where_there_are_many_for_each_observed_one(monkeypatch):
    cells, _, _ = table(1.0, 8)
    slopes = []
    for few, fold in ((10**6, 4.0), (0, 4.0), (0, 0.1)):  # few, not many times as many, and many
        monkeypatch.setattr("nmar.fit.mechanism.FEW", few)
        monkeypatch.setattr("nmar.fit.mechanism.FOLD", fold)
        model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
        slopes.append(model.mechanism_.value)
        assert (model.posterior_.state.shared.mechanism.draw is None) == (fold == 4.0)
    assert slopes[0] == slopes[1]
    assert abs(slopes[2] - slopes[0]) < 3.0 * model.mechanism_.value_sd


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    cells, _, _ = table(1.0, 8)

    def fit(sweeps, **where):
        settings = {**QUICK, "max_iter": sweeps, "tol": 0.0}
        return nmar.CCPF(nmar.Factorization(2), mechanism="value", **settings).fit(cells, **where)

    fit(16, checkpoint=tmp_path / "c", every=2)  # as many sweeps go before, without the mechanism, as in longer ones
    resumed, whole = fit(18, checkpoint=tmp_path / "c", resume=True), fit(18)
    assert resumed.mechanism_.value == whole.mechanism_.value
    np.testing.assert_array_equal(resumed.predict_entries([0, 1], [2, 3]), whole.predict_entries([0, 1], [2, 3]))


def test_weights_count_values_and_not_what_is_missing():
    """A weight of 1 changes no bit; larger ones draw the line towards its cells."""
    cells, _, _ = table(1.0, 8)
    ones = cells.with_weights(np.ones(len(cells)))
    one, other = (nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(each) for each in (cells, ones))
    asked = np.arange(20), np.arange(20)
    np.testing.assert_array_equal(one.predict_entries(*asked), other.predict_entries(*asked))
    heavy = cells.with_weights(np.where(cells.row_index == 0, 50.0, 1.0))
    third = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(heavy)
    row = cells.col_index[cells.row_index == 0]
    off = [np.abs(m.predict_entries(np.zeros_like(row), row, given=None) - cells.values[cells.row_index == 0]).mean()
           for m in (one, third)]  # fmt: skip
    assert off[1] < off[0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"data": nmar.Factorization(2, family="poisson")}, "gaussian"),
        ({"data": nmar.Factorization(2, covariance="diagonal")}, "covariance='full'"),
        ({"data": nmar.Mixture(2)}, "Factorization or nmar.Effects"),
        ({"data": nmar.Constant("gaussian")}, "Factorization or nmar.Effects"),
        ({"linkage": "free"}, "linkage='ignorable'"),
        ({"solver": "minibatch"}, "solver='batch'"),
        ({"control": "tail"}, "control"),
        ({"target": "all"}, "given=None"),
        ({"tail": True}, "tail=False"),
        ({"mechanism": "values"}, "mechanism='values'"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(settings, told):
    cells, _, _ = table(0.5, 9, (12, 8))
    cells = cells.with_values(np.round(np.abs(cells.values) * 3.0))
    asked = {"data": nmar.Factorization(2), "mechanism": "value", **QUICK, **settings}
    with pytest.raises(ValueError, match=told):
        nmar.CCPF(**asked).fit(cells)


def test_slopes_and_full_tables_are_refused():
    with pytest.raises(ValueError, match="slope"):
        nmar.ByValue(np.inf)
    cells, y, seen = table(0.5, 9, (12, 8))
    row, col = np.nonzero(~seen)
    rest = nmar.Cells.from_arrays(row, col, y[row, col], cells.shape)
    with pytest.raises(ValueError, match="all cells are observed or hidden"):
        nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells, hidden=rest)
    model = nmar.CCPF(nmar.Factorization(2), mechanism="value", **QUICK).fit(cells)
    with pytest.raises(ValueError, match="folded"):
        model.fold_in(cells)
