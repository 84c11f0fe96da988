"""Standard errors of paired differences: cells, rows and columns, fits."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar.evaluate.gains import Gain, Judges


def grid(rows: int, cols: int, first: int = 0) -> nmar.Cells:
    row, col = np.divmod(np.arange(rows * cols), cols)
    return nmar.Cells.from_arrays(row + first, col, np.ones(rows * cols), shape=(10_000, cols))


def test_independent_cells_have_the_usual_error() -> None:
    values = np.random.default_rng(0).normal(size=6000)
    found = Judges.of([grid(100, 60)]).average([values])
    plain = values.std(ddof=1) / np.sqrt(6000)
    assert found.mean == values.mean() and plain * (1 - 1e-9) < found.se < 1.25 * plain


@pytest.mark.parametrize("axis", [0, 1])
def test_dependence_within_lines_widens_the_error(axis: int) -> None:
    rng = np.random.default_rng(1)
    lines, means = np.divmod(np.arange(6000), 60)[axis], []
    judges, errors = Judges.of([grid(100, 60)]), []
    for _ in range(300):
        found = judges.average([rng.normal(size=6000) + 0.5 * rng.normal(size=100)[lines]])
        means.append(found.mean)
        errors.append(found.se)
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)
    assert np.mean(errors) > 2 * np.sqrt(1.25 / 6000)  # what cells taken as independent would say


def test_a_cell_tested_twice_counts_once() -> None:
    values = np.random.default_rng(0).normal(size=4000)
    once = Judges.of([grid(100, 40)]).average([values])
    twice = Judges.of([grid(100, 40)] * 2).average([values, values])
    fresh = Judges.of([grid(100, 40), grid(100, 40, 100)]).average([values, values[::-1]])
    assert twice.se == pytest.approx(once.se, rel=1e-3)
    assert fresh.se < 0.85 * once.se


def test_seeds_that_disagree_widen_the_error() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    apart = Judges.of([grid(25, 40), grid(25, 40, 100)]).average([values, values + 10.0])
    assert apart.se == pytest.approx(5.0, rel=1e-3)
    assert apart.df == pytest.approx(1.0, rel=1e-2)
    assert not apart.above_zero()  # a single degree of freedom: 5 ± 5 says nothing


def test_starts_on_one_split_are_told_from_cells() -> None:
    """The same cells in every seed: all of the spread of the means is due to the fits."""
    rng = np.random.default_rng(0)
    values, starts = rng.normal(size=1000), np.array([0.0, 0.04, 0.08])
    found = Judges.of([grid(25, 40)] * 3).average([values + start for start in starts])
    cells = Judges.of([grid(25, 40)]).average([values])
    assert found.se**2 - cells.se**2 == pytest.approx(starts.var(ddof=1) / 3, rel=1e-6)


def test_error_over_splits_and_fits_is_honest() -> None:
    """Splits of one population with a random effect of each fit: the mean error is the spread of the means."""
    rng = np.random.default_rng(2)
    means, errors = [], []
    for _ in range(200):
        population = rng.normal(size=(50, 40))
        parts, values = [], []
        for _seed in range(3):
            chosen = np.sort(rng.permutation(2000)[:400])
            row, col = np.divmod(chosen, 40)
            parts.append(nmar.Cells.from_arrays(row, col, np.ones(400), shape=(50, 40)))
            values.append(population[row, col] + 0.05 * rng.normal())
        found = Judges.of(parts).average(values)
        means.append(found.mean)
        errors.append(found.se**2)
    assert np.sqrt(np.mean(errors)) == pytest.approx(np.std(means), rel=0.2)


def test_no_verdict_on_what_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="too few cells"):
        Gain(0.1, float("nan"))
    assert Gain(0.0, 0.0).z == 0.0 and Gain(0.1, 0.0).above_zero() and not Gain(-0.1, 0.0).above_zero()


def test_one_error_for_comparisons_and_single_means() -> None:
    cells, rng = grid(100, 60), np.random.default_rng(3)
    values = rng.normal(size=6000) + rng.normal(size=100)[cells.row_index]
    judges = Judges.of([cells])
    assert judges.error(values) == pytest.approx(judges.average([values]).se, rel=1e-12)
    assert judges.error(values, np.full(6000, 2.5)) == pytest.approx(judges.error(values), rel=1e-12)
    assert Judges.at(cells.row_index, cells.col_index).error(values) == pytest.approx(judges.error(values), rel=1e-12)


def test_a_weight_of_0_leaves_a_cell_out_of_the_error() -> None:
    values, weights = np.random.default_rng(4).normal(size=6000), np.repeat([1.0, 0.0], 3000)
    part = Judges.of([grid(50, 60)]).error(values[:3000])
    assert Judges.of([grid(100, 60)]).error(values, weights) == pytest.approx(part, rel=0.02)


def test_one_cell_has_no_error() -> None:
    assert np.isnan(Judges.at(np.array([0]), np.array([0])).error(np.array([1.0])))
