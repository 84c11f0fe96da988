"""The test of residual variance against P(observed): quiet without a link, whatever the noise, and loud with one."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.evaluate.clustered import Regression, clustered_regression
from nmar.evaluate.dispersion import double_glm
from nmar.evaluate.missingness import Residuals, folded, spread_trend, weaker_trend
from nmar.fit.train import train

SETTINGS = {"factors": 3, "rank": 2, "max_iter": 40, "n_jobs": 1, "folds": 2}


def p_values(linkage: nmar.Ignorable, seeds: range) -> list[float]:
    found = []
    for seed in seeds:
        cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), linkage, density=0.3, seed=seed)
        found.append(nmar.missingness_test(cells, random_state=seed, **SETTINGS).p_value)
    return found


def test_residuals_are_those_of_one_dispersion(linked: nmar.Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise by row and column, which are observed unequally often, would take up what is tested for."""
    seen = []

    def fitted(cells, options, **rest):
        seen.append(train(cells, options, **rest))
        return seen[-1]

    monkeypatch.setattr("nmar.evaluate.missingness.train", fitted)
    nmar.missingness_test(linked, **{**SETTINGS, "max_iter": 3})
    assert len(seen) == 2 and all(one.posterior.state.shared.noise is None for one in seen)


@pytest.mark.slow
def test_quiet_without_a_link() -> None:
    found = p_values(nmar.Ignorable(), range(6))
    assert min(found) > 0.01 and np.median(found) > 0.1


def test_loud_with_a_link() -> None:
    assert max(p_values(nmar.Geometric(-0.8), range(3))) < 1e-4


@pytest.mark.slow
def test_noise_of_rows_and_columns_is_no_link() -> None:
    """Lines differ in noise and in how often they are observed, the one unrelated to the other."""
    low = 0
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        log_sd, tilt = (rng.normal(size=(120, 1)) + rng.normal(size=(1, 60)) for _ in range(2))
        values = np.exp(0.5 * log_sd) * rng.normal(size=(120, 60))
        values[2.0 * tilt + rng.logistic(size=(120, 60)) < 0.0] = np.nan
        low += nmar.missingness_test(values, random_state=seed, **{**SETTINGS, "max_iter": 15}).p_value < 0.05
    assert low <= 4  # 5 or more of 20 have probability 0.003 at 5 %


def test_lines_with_few_cells_are_no_link() -> None:
    """Lines with few cells are predicted worse; that alone is not to count, though raw residuals show it."""
    cells, _ = nmar.simulate((600, 300), nmar.Factorization(3), nmar.Ignorable(), density=0.1, seed=3)
    result = nmar.missingness_test(cells, factors=5, rank=3, max_iter=40, n_jobs=1, bins=5)
    residual = [b.residual_variance for b in result.bins]
    assert residual[0] > 1.15 * residual[-1]
    assert result.p_value > 0.05


def test_result(linked: nmar.Cells) -> None:
    cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), nmar.Geometric(-0.8), density=0.3, seed=0)
    result = nmar.missingness_test(cells, bins=20, **SETTINGS)
    assert len(result.bins) == 20 and sum(b.cells for b in result.bins) == result.n_test == len(cells)
    assert result.folds == 2 and f"{len(cells):,} cells in 2 folds" in result.text()
    probability = [b.observed_probability for b in result.bins]
    assert probability == sorted(probability) and probability[0] > 0 and probability[-1] < 1
    assert result.df == 1 and 100 < result.df_error < 150 and result.slope < 0
    assert 9.0 < result.statistic <= (result.slope / result.slope_se) ** 2 * (1.0 + 1e-9)
    assert "falls" in result.text() and "no proof of a cause" in str(result)
    bent = nmar.missingness_test(linked, degree=2, **SETTINGS)
    assert bent.df == 2 and "F(2, " in bent.text()


def test_every_cell_is_held_out_once_and_unseen_by_its_fit(linked: nmar.Cells) -> None:
    seen = np.zeros(len(linked), int)
    place = linked.with_values(np.arange(len(linked)))
    for parts in folded(place, folds=3, valid=0.1, seed=4):
        kept, stopping, held_out = (part.values.astype(int) for part in parts)
        seen[held_out] += 1
        assert np.array_equal(np.sort(np.concatenate([kept, stopping, held_out])), np.arange(len(linked)))
        assert len(stopping) == round(0.1 * len(linked))
    assert (seen == 1).all()


def test_folds_that_are_not_tested_are_only_learned_from(linked: nmar.Cells) -> None:
    some = nmar.missingness_test(linked, **{**SETTINGS, "max_iter": 10, "folds": 5})
    assert some.folds == 3 and abs(some.n_test - 0.6 * len(linked)) < 3
    one = nmar.missingness_test(linked, **{**SETTINGS, "max_iter": 10, "tested": 1})
    assert one.folds == 1 and abs(one.n_test - len(linked) / 2) <= 1


def test_a_change_of_shape_alone_is_no_link() -> None:
    """Tails grow with P(observed), the variance stays: absolute residuals have a trend, squares have none."""
    rng, n = np.random.default_rng(3), 6000
    row, col = np.divmod(rng.choice(200 * 100, n, replace=False), 100)
    rate = rng.permutation(n) / n
    heavy = rng.random(n) < rate
    shape = np.where(heavy, rng.choice([0.5, np.sqrt(3.25)], n, p=[0.75, 0.25]), 1.0)  # of mean square 1 either way
    of = Residuals(row, col, rate, shape * rng.normal(size=n), np.ones(n))
    assert spread_trend(of, 1)[0].p_value < 1e-3
    assert weaker_trend(of, 1).p_value > 0.05


def test_trends_of_opposite_signs_are_a_change_of_shape() -> None:
    """Most residuals shrink and a few grow: their size falls, their squares rise, and neither is by chance."""
    rng, n = np.random.default_rng(4), 16_000
    row, col = np.divmod(rng.choice(200 * 100, n, replace=False), 100)
    rate = rng.permutation(n) / n
    shape = np.where(rng.random(n) < rate, rng.choice([0.3, 3.2], n, p=[0.85, 0.15]), 1.0)
    of = Residuals(row, col, rate, shape * rng.normal(size=n), np.ones(n))
    size, square = (spread_trend(of, 1, power)[0] for power in (1, 2))
    assert size.coefficient[0] < 0.0 < square.coefficient[0] and max(size.p_value, square.p_value) < 1e-3
    found = weaker_trend(of, 1)
    assert (found.statistic, found.p_value, found.df) == (0.0, 1.0, 1)
    assert weaker_trend(of, 2).statistic > 0.0  # a trend and a bend have no common sign


def test_both_sentences_say_the_same_way(linked: nmar.Cells) -> None:
    found = replace(nmar.missingness_test(linked, **{**SETTINGS, "max_iter": 10}), p_value=0.001)
    assert found.dispersion.ratio < 1.0 and "falls to" in found.sentence()
    falls, split = (replace(found, slope=slope).text() for slope in (-0.1, 0.1))
    assert "variance falls with P(observed)" in falls
    assert "variance depends on P(observed)" in split and "rises" not in split


@pytest.mark.parametrize("kind", ["none", "generator", "bits", "old", "sequence"])
def test_seeds_of_every_kind(linked: nmar.Cells, kind: str) -> None:
    """The same generator gives the same test, and None another each time."""
    make = {
        "none": lambda: None,
        "generator": lambda: np.random.default_rng(3),
        "bits": lambda: np.random.PCG64(3),
        "old": lambda: np.random.RandomState(3),
        "sequence": lambda: np.random.SeedSequence(3),
    }[kind]
    settings = {**SETTINGS, "max_iter": 2, "tested": 1}
    first, again = (nmar.missingness_test(linked, make(), **settings) for _ in range(2))
    assert (first.statistic == again.statistic) == (kind != "none")


def test_a_generator_seeds_the_paired_test_too(linked: nmar.Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one whole number, which is what comparisons take."""
    seeds: list[int] = []
    monkeypatch.setattr("nmar.evaluate.missingness.against_controls", lambda *given: seeds.append(given[3]))
    for _ in range(2):
        nmar.missingness_test(linked, np.random.default_rng(3), **{**SETTINGS, "max_iter": 2}, paired=True)
    assert isinstance(seeds[0], int) and seeds[0] == seeds[1]


@pytest.mark.slow
def test_folds_find_what_one_held_out_fifth_does_not() -> None:
    """c = 0.3 at 6,000 cells: at the same density the trend of one fold alone is lost in its noise."""
    found = []
    for seed in range(6):
        cells, _ = nmar.simulate((200, 100), nmar.Factorization(2), nmar.Linear(0.3), density=0.3, seed=seed)
        found.append(nmar.missingness_test(cells, random_state=seed, **{**SETTINGS, "folds": 5, "tested": 5}))
    assert sum(one.p_value < 0.05 for one in found) >= 5 and all(one.slope < 0.0 for one in found)


def drawn(rng: np.random.Generator, shape: tuple[int, int], cells: int, spread: float) -> tuple[np.ndarray, ...]:
    """Ranks of a score, and residuals of unequal noise that have nothing to do with it, with rows and columns."""
    row, col = np.divmod(rng.choice(shape[0] * shape[1], cells, replace=False), shape[1])
    score = rng.normal(size=shape[0])[row] + rng.normal(size=shape[1])[col] + rng.normal(size=cells)
    log_sd = spread * (rng.normal(size=shape[0])[row] + rng.normal(size=shape[1])[col])
    place = score.argsort().argsort() / cells - 0.5
    return place, np.exp(log_sd) * np.abs(rng.normal(size=cells)), row, col


@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("degree", [1, 2])
def test_size_with_noise_of_rows_and_columns(spread: float, degree: int) -> None:
    rng, low = np.random.default_rng(0), 0
    for _ in range(400):
        place, response, row, col = drawn(rng, (200, 80), 1500, spread)
        terms = np.stack([place**k for k in range(1, degree + 1)], axis=1)
        low += clustered_regression(response, terms, row, col).p_value < 0.05
    assert 0.02 < low / 400 < 0.09


def refitted(place: np.ndarray, response: np.ndarray, group: np.ndarray) -> float:
    """Jackknife variance of the slope, every line left out in turn and the regression fitted anew."""
    slope = np.polyfit(place, response, 1)[0]
    keep = [group != one for one in np.unique(group)]
    change = np.array([np.polyfit(place[k], response[k], 1)[0] for k in keep]) - slope
    return (len(keep) - 1) / len(keep) * float(change @ change)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_variance_is_the_jackknife_by_rows_and_by_columns(spread: float) -> None:
    place, response, row, col = drawn(np.random.default_rng(1), (20, 12), 150, spread)
    found = clustered_regression(response, place[:, None], row, col)
    by_row, by_col, by_cell = (refitted(place, response, g) for g in (row, col, np.arange(150)))
    expected = max(by_row, by_col, by_row + by_col - by_cell)
    assert found.error[0] == pytest.approx(np.sqrt(expected), rel=1e-9)
    assert found.coefficient[0] == pytest.approx(np.polyfit(place, response, 1)[0])
    assert (found.df, found.df_error) == (1, 11)


def test_two_way_variance_may_be_negative() -> None:
    """Where residuals cancel within rows and columns V_R + V_C − V_0 is below 0; the p-value is a number still."""
    row, col = np.divmod(np.arange(100), 10)
    place = np.where((row + col) % 2, 0.5, -0.5) * (1.0 + 0.01 * np.sin(np.arange(100)))
    response = 1.0 + np.where((row // 2 + col // 2) % 2, 0.3, -0.3) + 0.01 * np.cos(np.arange(100))
    by_row, by_col, by_cell = (refitted(place, response, g) for g in (row, col, np.arange(100)))
    assert by_row + by_col - by_cell < 0
    found = clustered_regression(response, place[:, None], row, col)
    assert 0.0 <= found.p_value <= 1.0 and found.error[0] ** 2 == pytest.approx(max(by_row, by_col))


def test_one_long_row_does_not_break_the_test() -> None:
    """Without the only row whose P(observed) varies no slope is left; the statistic stays a number."""
    row = np.concatenate([np.zeros(30, int), np.arange(1, 9)])
    col = np.concatenate([np.arange(30), np.zeros(8, int)])
    place = np.concatenate([np.linspace(-0.5, 0.5, 30), np.zeros(8)])
    response = np.abs(np.random.default_rng(2).normal(size=38))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(clustered_regression(response, place[:, None], row, col), Regression)


def test_nothing_to_regress_is_an_error() -> None:
    row, col = np.divmod(np.arange(100), 10)
    varied, same = np.random.default_rng(0).random(100), np.ones(100)
    for response, term in ((same, varied), (varied, same)):
        with pytest.raises(ValueError, match="same in all cells"):
            clustered_regression(response, term[:, None], row, col)
    with pytest.raises(ValueError, match="4 rows or columns"):
        clustered_regression(varied[:40], varied[:40, None], row[:40], col[:40])


HALF = np.random.default_rng(0).random((30, 20)) < 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.where(HALF, 3.0, np.nan), "values are 3; without spread"),
        (np.random.default_rng(1).random((30, 20)), "no cell is missing"),
        (np.where(HALF, np.random.default_rng(1).random((30, 20)), np.nan)[:, :4], "rows or columns"),
    ],
    ids=["constant", "complete", "narrow"],
)
def test_nothing_to_test_is_an_error(values: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nmar.missingness_test(values, **SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"degree": 3}, "degree=3"),
        ({"bins": 1}, "bins=1"),
        ({"folds": 1}, "folds=1"),
        ({"folds": 2.5}, "folds=2.5"),
        ({"folds": 5.0}, "folds=5.0; give a whole number of at least 2"),
        ({"tested": 2.0}, "tested=2.0; give a whole number"),
        ({"bins": 2.5}, "bins=2.5; give a whole number"),
        ({"folds": 10_000}, "too few"),
        ({"tested": 3}, "tested=3; give a whole number from 1 to folds=2"),
        ({"tested": 0}, "tested=0"),
        ({"valid": 0.5}, "valid=0.5 with folds=2"),
    ],
)
def test_errors(linked: nmar.Cells, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nmar.missingness_test(linked, **{**SETTINGS, **arguments})


# --- double generalized linear model ------------------------------------------------------------------------


def fan(rng: np.random.Generator, cells: int, slope: float, mean: float = 0.0) -> tuple[np.ndarray, ...]:
    """Independent residuals whose log variance and mean are linear in a quantile, with rows and columns."""
    place = rng.permutation(cells) / cells - 0.5
    row, col = np.divmod(rng.choice(200 * 100, cells, replace=False), 100)
    return mean * place + np.exp(0.5 * (0.7 + slope * place)) * rng.normal(size=cells), place, row, col


def test_double_glm_is_at_the_maximum_of_the_likelihood() -> None:
    from scipy.optimize import minimize

    residual, place, row, col = fan(np.random.default_rng(0), 3000, -0.8, 0.3)

    def loss(at: np.ndarray) -> float:
        log_variance = at[2] + at[3] * place
        return 0.5 * float(np.sum(log_variance + (residual - at[0] - at[1] * place) ** 2 * np.exp(-log_variance)))

    found = double_glm(residual, place, row, col)
    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    assert found.mean.value == pytest.approx(best.x[1], abs=1e-6)
    assert found.log_variance.value == pytest.approx(best.x[3], abs=1e-6)
    assert found.log_variance.naive_se == pytest.approx(np.sqrt(2.0 / np.sum((place - place.mean()) ** 2)))


def test_double_glm_recovers_slopes_within_its_errors() -> None:
    covered = []
    for seed in range(100):
        found = double_glm(*fan(np.random.default_rng(seed), 2000, -0.8, 0.3))
        for slope, truth in ((found.mean, 0.3), (found.log_variance, -0.8)):
            low, high = slope.interval()
            covered.append(low < truth < high)
    assert 180 <= sum(covered) <= 199  # 190 expected, standard deviation 3.1
    low, high = found.ratio_interval()
    assert low < found.ratio < high and found.ratio == pytest.approx(np.exp(found.log_variance.value))


def test_naive_errors_are_too_small_where_rows_differ_in_noise() -> None:
    rng, naive, honest = np.random.default_rng(1), 0, 0
    for _ in range(100):
        place, size, row, col = drawn(rng, (100, 60), 1500, 0.5)
        found = double_glm(size * rng.choice([-1.0, 1.0], len(size)), place, row, col).log_variance
        naive += found.naive_p < 0.05
        honest += found.p_value < 0.05
    assert naive > 40 and honest <= 12


def test_heavy_tails_do_not_break_the_double_glm() -> None:
    rng = np.random.default_rng(2)
    _, place, row, col = fan(rng, 2000, 0.0)
    found = double_glm(rng.standard_cauchy(2000), place, row, col)
    assert np.isfinite([found.mean.value, found.log_variance.value, found.log_variance.se]).all()


def test_bins_have_intervals_and_both_curves(linked: nmar.Cells) -> None:
    result = nmar.missingness_test(linked, bins=8, **SETTINGS)
    for one in result.bins:
        assert one.low < one.residual_variance < one.high
        assert one.standardised_low < one.standardised < one.standardised_high
    mean = np.average([b.standardised for b in result.bins], weights=[b.cells for b in result.bins])
    assert 0.7 < mean < 1.3, "the model's own variance is about right"
    assert result.sentence() in result.text() and "relative to what is expected, falls to" in result.sentence()
    assert result.dispersion.log_variance.value < 0
