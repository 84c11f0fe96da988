"""What is said about a comparison: made-up scores for the words, small simulations for the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.report.comparison import Comparison, Entry, Key
from nmar.report.scoring import Scores

DATA = "factorization:2"
FREE, LINEAR, TWO_STAGE = (Key(DATA, name) for name in ("free", "linear", "two-stage"))


def made_up(comparison: Comparison, gains: dict[Key, float], noise: float = 0.05) -> Comparison:
    """The same comparison with scores that differ from the ignorable ones by known amounts, 0 if not given."""
    rng = np.random.default_rng(0)
    base = rng.normal(-1.3, 1.0, 4000)
    entries = {}
    for key, (entry, *_) in comparison.entries.items():
        found = base + gains.get(key, 0.0) + (noise * rng.normal(size=4000) if key.linkage != "ignorable" else 0.0)
        entries[key] = [Entry(entry.fitted, Scores(found, found, np.ones(4000)), 1.0)]
    cells = nmar.Cells.from_arrays(np.arange(4000) // 80, np.arange(4000) % 80, base)
    return replace(comparison, entries=entries, test_cells=(cells,))


def gains(coupled: float, tail: float, two_stage: float, blind: float) -> dict[Key, float]:
    """The same for both linkages."""
    found = {TWO_STAGE: two_stage}
    for key in (FREE, LINEAR):
        found |= {key: coupled, key._replace(control="tail"): tail, key._replace(control="blind"): blind}
    return found


@pytest.mark.parametrize(
    ("given", "begins", "recommended", "tied"),
    [
        (gains(0.06, 0.03, 0.02, 0.04), "Modelling the missingness helps", "coupled", True),
        (gains(0.06, 0.00, 0.05, 0.00), "Modelling the missingness helps", "coupled", True),
        (gains(0.05, 0.07, 0.00, 0.06), "Modelling the missingness does not help: the values have a", "tail", False),
        (
            gains(0.05, 0.00, 0.07, 0.00),
            "The missingness is linked to the values, but a latent count adds nothing: the spread",
            "two-stage",
            True,
        ),
        (gains(0.05, 0.00, 0.00, 0.07), "Modelling the missingness does not help: rows and", "blind", False),
        (gains(0.00, 0.00, 0.00, 0.00), "No evidence", "ignorable", False),
        (gains(-0.05, -0.05, -0.05, -0.05), "Modelling the missingness hurts", "ignorable", False),
        (gains(0.00, -0.05, -0.05, -0.05), "No net gain", "ignorable", False),
    ],
)
def test_the_best_of_three_decides(
    comparison: Comparison, given: dict[Key, float], begins: str, recommended: str, tied: bool
) -> None:
    found = made_up(comparison, given).verdict
    assert found.startswith(begins)
    assert found.helps == ("helps" in begins)
    assert next(row for row in comparison.rows if row.name == found.recommended).kind == recommended
    assert found.findings[0].linked == tied


def test_a_tie_with_a_control_is_no_evidence(comparison: Comparison) -> None:
    given = gains(0.0501, 0.0, 0.0, 0.05) | {LINEAR: 0.0, LINEAR._replace(control="blind"): 0.0}
    found = made_up(comparison, given, noise=0.2)
    beyond = found.difference(FREE, FREE._replace(control="blind"))
    assert abs(beyond.z) < 2 and not found.verdict.helps
    assert found.verdict.recommended == "free (blind)"


def test_the_control_of_another_linkage_counts_too(comparison: Comparison) -> None:
    given = {LINEAR: 0.02, FREE._replace(control="tail"): 0.06}
    found = made_up(comparison, given).verdict
    assert found.startswith("Modelling the missingness does not help") and found.recommended == "free (tail)"


def test_nearly_all_is_noise_by_row_and_column(comparison: Comparison) -> None:
    words = "Nearly all of the gain over the ignorable model"
    helps = made_up(comparison, gains(0.30, 0.1, 0.1, 0.28), noise=0.02).verdict
    assert helps.helps and f"{words} (93 %) is noise by row and column" in helps
    assert words not in made_up(comparison, gains(0.30, 0.1, 0.1, 0.25), noise=0.02).verdict
    assert f"{words} is noise" in made_up(comparison, gains(0.30, 0.1, 0.1, 0.31), noise=0.02).verdict
    assert words not in made_up(comparison, gains(0.30, 0.31, 0.1, 0.29), noise=0.02).verdict


def test_the_spread_may_follow_the_pattern_and_be_worth_less(comparison: Comparison) -> None:
    found = made_up(comparison, gains(0.2, 0.0, 0.03, 0.25)).verdict
    assert "two-stage gains 0.03" in found and found.recommended.endswith("(blind)")


def test_a_small_effect_is_called_small(comparison: Comparison) -> None:
    given = gains(-0.1, -0.1, -0.1, -0.1) | {FREE: 0.013, FREE._replace(control="blind"): 0.010}
    found = made_up(comparison, given, noise=0.01).verdict
    assert found.helps and "The effect is small" in found and "0.31 % more probable" in found
    assert "small" not in made_up(comparison, given | {FREE: 0.03}, noise=0.01).verdict


def test_one_split_says_what_its_error_leaves_out(comparison: Comparison) -> None:
    found = made_up(comparison, gains(0.1, 0.0, 0.0, 0.0))
    assert found.setting.seeds == 1 and found.verdict.helps and "seeds=3 measures it" in found.verdict
    several = replace(found, setting=replace(found.setting, seeds=3))
    assert several.verdict.helps and "seeds=3" not in several.verdict


def test_without_any_control_nothing_is_claimed(comparison: Comparison) -> None:
    found = made_up(comparison, {FREE: 0.05})
    kept = {key: value for key, value in found.entries.items() if key.kind in ("coupled", "ignorable")}
    bare = replace(found, entries=kept)
    assert all(row.best_control is None and row.gain_over_control is None for row in bare.rows)
    assert not bare.verdict.helps and "helps" not in bare.verdict
    assert "better than the ignorable one by 0.0499 ± 0.0009" in bare.verdict
    assert "No control was fitted, so this cannot tell modelled missingness from a heavier tail" in bare.verdict


def test_without_the_blind_control_nothing_is_claimed(comparison: Comparison) -> None:
    found = made_up(comparison, {FREE: 0.05})
    kept = {key: value for key, value in found.entries.items() if key.control != "blind"}
    text = replace(found, entries=kept).verdict
    assert not text.helps and "helps" not in text and "no blind control was fitted" in text


def test_the_recommended_line_of_python_fits(comparison: Comparison, linked: nmar.Cells) -> None:
    for given in (gains(0.0, 0.0, 0.0, 0.1), gains(0.0, 0.0, 0.1, 0.0), gains(0.1, 0.0, 0.0, 0.0)):
        found = made_up(comparison, given).verdict
        assert found.line in found and found.line.startswith("nmar.CCPF(nmar.Factorization(2), ")
        line = found.line.replace(").fit", ", max_iter=2, n_jobs=1).fit")
        fitted = eval(line, {"nmar": nmar, "cells": linked})
        assert fitted.posterior_.law.trust == (0.0 if found.recommended.endswith("(blind)") else 1.0)


@pytest.mark.slow
def test_several_data_models_each_have_their_say(linked: nmar.Cells) -> None:
    options = {"factors": 3, "max_iter": 2, "seeds": 1, "control": "blind", "two_stage": False, "n_jobs": 1}
    found = nmar.compare(linked, ["factorization:1", "effects:rows"], ["geometric"], **options)
    assert [one.data for one in found.verdict.findings] == ["factorization:1", "effects:rows"]
    assert all(found.best_control(one.data)[0] == one.data for one in found.verdict.findings)  # type: ignore[index]
    assert "effects:rows: " in found.verdict and found.verdict.recommended in [row.name for row in found.rows]


# --- simulations --------------------------------------------------------------------------------------------

SMALL = {"factors": 3, "max_iter": 40, "valid": 0.05, "seeds": 2, "n_jobs": 1}


def unequal_rows(seed: int) -> nmar.Cells:
    """Rows of unequal noise, masked completely at random."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 80))
    y = mean + np.exp(0.8 * rng.normal(size=(120, 1))) * rng.normal(size=(120, 80))
    return nmar.Cells.from_dense(np.where(rng.random(y.shape) < 0.4, y, np.nan))


@pytest.mark.slow
def test_unequal_noise_masked_at_random_is_not_taken_for_informative_missingness() -> None:
    found = nmar.compare(unequal_rows(0), DATA, [nmar.Free(thinning=8)], **SMALL)
    key = Key(DATA, "free, s = 8")
    assert found.difference(key, key._replace(control="tail")).z > 2
    assert found.difference(key, key._replace(control="blind")).z < 2
    assert not found.verdict.helps and "not because of what is missing" in found.verdict
    assert found.verdict.recommended == "free, s = 8 (blind)"


@pytest.mark.slow
def test_a_falling_table_is_found_to_help() -> None:
    table = np.exp(-4.0 * (1.0 - np.exp(-np.arange(18) / 5.0)))
    truth = nmar.Free(thinning=8, values=tuple(table.tolist()), learn=False)
    cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), truth, density=0.25, seed=1)
    found = nmar.compare(cells, DATA, [nmar.Free(thinning=8)], **SMALL)
    row = next(r for r in found.rows if r.kind == "coupled")
    assert row.gain_over_control is not None and row.gain_over_control_se is not None
    assert row.gain_over_control > 5 * row.gain_over_control_se
    assert found.verdict.helps and found.verdict.startswith("Modelling the missingness helps")
