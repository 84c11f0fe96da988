"""What is said about a comparison: made-up scores for the words, small simulations for the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.evaluate.comparison import Comparison, Entry, Key
from nmar.evaluate.scoring import Scores

DATA = "factorization:2"
FREE, LINEAR, TASTE, TWO_STAGE = (Key(DATA, name) for name in ("free", "linear", "taste", "two-stage"))
TAIL, SHUFFLED = FREE._replace(control="tail"), TASTE._replace(control="shuffled")


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


def gains(
    coupled: float, tail: float, two_stage: float, taste: float = -0.1, shuffled: float = -0.1
) -> dict[Key, float]:
    """The same for both linkages."""
    found = {TWO_STAGE: two_stage, TASTE: taste, SHUFFLED: shuffled}
    for key in (FREE, LINEAR):
        found |= {key: coupled, key._replace(control="tail"): tail}
    return found


LINKED = "The missingness is linked to the values: their spread depends on P(observed)"
CHOICES = "What rows and columns choose tells about their values"
NONE, NOT = ("No evidence that modelling the missingness helps: ", "Modelling the missingness does not help: ")
VERDICTS = [
    # coupled, tail-only, two-stage, taste, shuffled
    (gains(0.06, 0.03, 0.02), "Modelling the missingness helps", "coupled", True),
    (gains(0.06, 0.00, 0.05), "Modelling the missingness helps", "coupled", True),
    (gains(0.06, 0.03, 0.02, 0.08, 0.04), CHOICES, "taste", True),
    (gains(0.06, 0.03, 0.02, 0.05, 0.07), "Modelling the missingness helps", "coupled", True),  # no control of it
    (gains(0.06, 0.03, 0.02, 0.08, 0.08), "Modelling the missingness helps", "coupled", True),  # the second best
    (gains(0.05, 0.07, 0.00), f"{NOT}a heavier tail of all values, whatever is missing, does better", "tail", False),
    (gains(0.05, 0.05, 0.00), f"{NONE}a heavier tail of all values, whatever is missing, does as", "tail", False),
    (gains(0.05, 0.00, 0.07), LINKED, "two-stage", True),
    (gains(0.05, 0.00, 0.05), LINKED, "two-stage", True),
    (gains(0.00, 0.00, 0.00, 0.05, 0.05), f"{NONE}the same model with the choices of other", "ignorable", False),
    (gains(0.00, 0.02, 0.00, 0.05, 0.05), f"{NONE}the same model with the choices of other", "tail", False),
    (gains(0.00, 0.00, 0.00, 0.00, 0.00), f"{NONE}a model that ignores it does as well", "ignorable", False),
    (gains(-0.05, -0.05, -0.05), f"{NOT}a model that ignores it does better", "ignorable", False),
    (gains(0.00, -0.05, -0.05), f"{NONE}a model that ignores it does as well", "ignorable", False),
]


@pytest.mark.parametrize(("given", "begins", "recommended", "tied"), VERDICTS)
def test_the_best_control_decides(
    comparison: Comparison, given: dict[Key, float], begins: str, recommended: str, tied: bool
) -> None:
    found = made_up(comparison, given).verdict
    assert found.startswith(begins)
    assert found.helps == (recommended in ("coupled", "taste"))
    assert next(row for row in comparison.rows if row.name == found.recommended).kind == recommended
    assert found.findings[0].linked == tied


def test_a_tie_with_a_control_is_no_evidence(comparison: Comparison) -> None:
    given = gains(0.0501, 0.0, 0.0) | {TAIL: 0.05, LINEAR: 0.0}
    found = made_up(comparison, given, noise=0.2)
    assert abs(found.difference(FREE, TAIL).z) < 2 and not found.verdict.helps
    assert found.verdict.recommended == "free (tail)"


def test_a_gain_that_a_control_may_have_too_is_open(comparison: Comparison) -> None:
    given = gains(0.06, 0.05, -0.1) | {LINEAR: -0.1, LINEAR._replace(control="tail"): -0.1}
    found = made_up(comparison, given, noise=1.2)
    assert found.difference(FREE, Key(DATA, "ignorable")).above_zero(3)
    assert not found.difference(TAIL, Key(DATA, "ignorable")).above_zero(3)
    assert found.verdict.startswith("Open: modelling the missingness is better than ignoring it, but cannot be told")
    assert not found.verdict.helps and found.verdict.recommended == "free (tail)"


def test_the_control_of_another_linkage_counts_too(comparison: Comparison) -> None:
    found = made_up(comparison, {LINEAR: 0.02, TAIL: 0.06}).verdict
    assert found.startswith(NOT) and found.recommended == "free (tail)"


def test_a_small_effect_is_called_small(comparison: Comparison) -> None:
    given = gains(-0.1, -0.1, -0.1) | {FREE: 0.013, TAIL: 0.010}
    result = made_up(comparison, given, noise=0.01)
    found, percent = result.verdict, 100.0 * result.difference(FREE, TAIL).mean
    assert percent == pytest.approx(0.3, abs=0.03)
    assert found.helps and "The effect is small" in found and f"{percent:.2g} % more probable" in found
    assert "small" not in made_up(comparison, given | {FREE: 0.03}, noise=0.01).verdict


def test_one_split_says_what_its_error_leaves_out(comparison: Comparison) -> None:
    found = made_up(comparison, gains(0.1, 0.0, 0.0))
    assert found.setting.seeds == 1 and found.verdict.helps and "seeds=3 measures it" in found.verdict
    several = replace(found, setting=replace(found.setting, seeds=3))
    assert several.verdict.helps and "seeds=3" not in several.verdict


@pytest.mark.parametrize(
    ("key", "words"), [(FREE, "from a heavier tail"), (TASTE, "from covariates that mean nothing")]
)
def test_without_its_control_nothing_is_claimed(comparison: Comparison, key: Key, words: str) -> None:
    found = made_up(comparison, {key: 0.05})
    bare = replace(found, entries={k: v for k, v in found.entries.items() if k.kind not in ("tail", "shuffled")})
    text = bare.verdict
    assert not text.helps and "helps" not in text and not text.findings[0].linked
    assert f"its own control was not fitted, so this cannot tell modelled missingness {words}" in text


def test_without_a_model_of_the_missingness_nothing_is_said(comparison: Comparison) -> None:
    for best, gain in (("two-stage", 0.05), ("ignorable", 0.0)):
        found = made_up(comparison, {TWO_STAGE: gain})
        kept = {k: v for k, v in found.entries.items() if k.kind in ("ignorable", "two-stage")}
        verdict = replace(found, entries=kept).verdict
        assert verdict.startswith("No model of the missingness was fitted") and verdict.recommended == best


def test_the_recommended_line_of_python_fits(comparison: Comparison, linked: nmar.Cells) -> None:
    for given in (gains(0.0, 0.1, 0.0), gains(0.0, 0.0, 0.1), gains(0.1, 0.0, 0.0), gains(0.0, 0.0, 0.0, 0.1)):
        found = made_up(comparison, given).verdict
        assert found.line in found and found.line.startswith("nmar.CCPF(nmar.Factorization(2), ")
        line = found.line.replace(").fit", ", max_iter=2, n_jobs=1).fit")
        fitted = eval(line, {"nmar": nmar, "cells": linked})
        law = fitted.posterior_.law
        assert law.control == found.recommended.endswith("(tail)")
        assert (law.taste is not None) == (found.recommended == "taste")


@pytest.mark.slow
def test_several_data_models_each_have_their_say(linked: nmar.Cells) -> None:
    options = {"factors": 3, "max_iter": 2, "seeds": 1, "taste": False, "two_stage": False, "n_jobs": 1}
    found = nmar.compare(linked, ["factorization:1", "effects:rows"], ["geometric"], **options)
    assert [one.data for one in found.verdict.findings] == ["factorization:1", "effects:rows"]
    assert all(found.best_control(key).data == key.data for key in found.entries)
    assert "effects:rows: " in found.verdict and found.verdict.recommended in [row.name for row in found.rows]


# --- simulations --------------------------------------------------------------------------------------------

SMALL = {"factors": 3, "max_iter": 40, "seeds": 2, "n_jobs": 1}


def unequal_rows(seed: int) -> nmar.Cells:
    """Rows of unequal noise, masked completely at random."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 80))
    y = mean + np.exp(0.8 * rng.normal(size=(120, 1))) * rng.normal(size=(120, 80))
    return nmar.Cells.from_dense(np.where(rng.random(y.shape) < 0.4, y, np.nan))


@pytest.mark.slow
def test_unequal_noise_masked_at_random_is_not_taken_for_informative_missingness() -> None:
    """With one dispersion for all cells the counts would take it up."""
    thinned = [nmar.Free(thinning=8)]
    key = Key(DATA, "free, s = 8")
    fooled = nmar.compare(unequal_rows(0), DATA, thinned, noise="constant", **SMALL)
    assert fooled.difference(key, key._replace(control="tail")).z > 2
    found = nmar.compare(unequal_rows(0), DATA, thinned, **SMALL)
    assert found.difference(key, key._replace(control="tail")).z < 2
    assert not found.verdict.helps and not found.verdict.findings[0].linked


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
