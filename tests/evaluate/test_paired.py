"""The paired test: the best model of the missingness against the best control; errors allow for rows and columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import nmar
from nmar.evaluate.comparison import Comparison, Key
from nmar.evaluate.gains import Errors

SETTINGS = {"factors": 3, "rank": 2, "max_iter": 12, "n_jobs": 1, "folds": 2, "tested": 1}


def moved(result: Comparison, key: Key, by: np.ndarray | float) -> Comparison:
    """The comparison with this added to the log densities of one fit."""
    shifted = [
        replace(one, scores=replace(one.scores, predictive=one.scores.predictive + by)) for one in result.entries[key]
    ]
    return replace(result, entries={**result.entries, key: shifted})


def best(result: Comparison) -> tuple[Key, Key]:
    model = result.ranked([key for key in result.entries if key.kind in ("coupled", "taste")])[0]
    return model, result.best_control(model)


def test_it_is_the_difference_of_the_best_two(comparison: Comparison) -> None:
    model, control = best(comparison)
    gain, found = comparison.difference(model, control), comparison.paired_test()
    assert (found.gain, found.se) == (gain.mean, gain.se)
    assert found.control == comparison.plain(control) and found.model == comparison.plain(model)
    assert found.n_test == len(comparison.test_cells[0]) and found.splits == 1
    lines = min(comparison.test_cells[0].shape)
    assert found.df == lines - 1
    # two coupled linkages and taste were fitted, and the best of them is tested
    assert found.p_value == pytest.approx(min(1.0, 3.0 * student.sf(gain.mean / gain.se, lines - 1)))


def test_the_error_is_never_below_one_of_its_parts(comparison: Comparison) -> None:
    """Noise of whole rows: cells taken as independent would say too little."""
    model, _ = best(comparison)
    rows = comparison.test_cells[0].positions()[0]
    noise = 0.3 * np.random.default_rng(0).normal(size=comparison.test_cells[0].shape[0])[rows]
    found = moved(comparison, model, noise).paired_test()
    assert isinstance(found.errors, Errors)
    assert found.errors.rows > 1.3 * found.errors.cells
    assert found.se >= max(found.errors)


def test_a_gain_is_found_and_a_loss_is_none(comparison: Comparison) -> None:
    model, control = best(comparison)
    up, down = (moved(comparison, key, 0.5).paired_test() for key in (model, control))
    assert up.p_value < 1e-6 and f"more probable under {up.model} than under {up.control}" in up.text()
    assert down.gain < 0 and down.p_value == 1.0 and "No evidence" in down.text()


def test_choices_are_tested_where_they_are_the_best(comparison: Comparison) -> None:
    key = Key(next(iter(comparison.entries)).data, "taste")
    found = moved(comparison, key, 0.7).paired_test()
    assert found.model == "choices describe values [taste]"


def test_without_a_model_of_the_missingness_there_is_no_test(linked: nmar.Cells) -> None:
    settings = {"factors": 2, "max_iter": 3, "seeds": 1, "n_jobs": 1, "taste": False, "two_stage": False}
    alone = nmar.compare(linked, nmar.Factorization(2), ["ignorable"], **settings)
    with pytest.raises(ValueError, match="no model of the missingness to be compared with a control"):
        alone.paired_test()


def test_beside_the_residuals(linked: nmar.Cells) -> None:
    plain = nmar.missingness_test(linked, **SETTINGS)
    both = nmar.missingness_test(linked, **SETTINGS, paired=True)
    assert plain.paired is None and both.paired is not None
    assert both.p_value == plain.p_value and both.paired.splits == 1
    assert abs(both.paired.n_test - 0.2 * len(linked)) < 2
    assert both.paired.text() in both.text() and "best control" not in plain.text()
