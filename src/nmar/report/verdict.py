"""What a comparison says, in words, and no more than it says.

Choosing the best of several linkages and then testing it on the same cells favours it, so each test is at 5 %
divided by the number of linkages (Bonferroni).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.stats import norm

from nmar.report.scoring import Gain

if TYPE_CHECKING:
    from nmar.report.comparison import Comparison, Key, Row

SMALL = 0.01  # nats per cell: one per cent of probability


def verdict(result: Comparison) -> str:
    """One or two sentences per data model, a line each."""
    models = list(dict.fromkeys(key.data for key in result.entries))
    found = [_of_model(result, model) for model in models]
    if len(models) == 1:
        return found[0]
    return "\n".join(f"{model}: {text}" for model, text in zip(models, found, strict=True))


def _of_model(result: Comparison, model: str) -> str:
    coupled = [
        key
        for key in result.entries
        if key.data == model and not key.control and key.linkage not in ("ignorable", "two-stage")
    ]
    if not coupled:
        return "No coupled model was fitted, so there is nothing to say about the missingness."
    level = float(norm.isf(0.025 / len(coupled)))
    coupled.sort(key=lambda key: -_row(result, key).log_likelihood)
    base, best = coupled[0]._replace(linkage="ignorable"), coupled[0]
    if best._replace(control=True) not in result.entries:
        return _without_control(best, result.difference(best, base), level)
    tails = [key._replace(control=True) for key in coupled]
    tail = max(tails, key=lambda key: _row(result, key).log_likelihood)
    for key in coupled:  # one that helps on both counts, the best of them, before one that only looks best
        if min(result.difference(key, other).z for other in (base, key._replace(control=True))) > level:
            worse = result.difference(tail, key)
            return _mixed(result, key, tail, worse) if worse.z > level else _helps(result, key, level)
    if result.difference(tail, base).z > level:
        return _only_tail(result, tail, base)
    return _sentence(best.linkage, result.difference(best, base), result.difference(best, tails[0]), level)


def _only_tail(result: Comparison, tail: Key, base: Key) -> str:
    over, beyond = result.difference(tail, base), result.difference(tail._replace(control=False), tail)
    return (
        f"Only a heavier tail helps: the tail-only control of the {tail.linkage} linkage, which knows"
        f" nothing of the missingness, gains {_amount(over.mean, over.se)} over the ignorable model; the"
        f" coupled model differs from it by {beyond}. This is no evidence that the missingness matters."
    )


def _mixed(result: Comparison, key: Key, tail: Key, worse: Gain) -> str:
    beyond = result.difference(key, key._replace(control=True))
    return (
        f"Mixed: the {key.linkage} linkage gains {_amount(beyond.mean, beyond.se)} over its own tail-only"
        f" control, but the control of the {tail.linkage} linkage, which knows nothing of the missingness, is"
        f" better still by {_amount(worse.mean, worse.se)}. A heavier tail is worth more here than modelling"
        " the missingness."
    )


def _helps(result: Comparison, key: Key, level: float) -> str:
    over = result.difference(key, key._replace(linkage="ignorable"))
    beyond = result.difference(key, key._replace(control=True))
    text = (
        f"Modelling the missingness helps: the {key.linkage} linkage gains {_amount(beyond.mean, beyond.se)}"
        f" over its tail-only control, and {_amount(over.mean, over.se)} over ignoring the"
        f" missingness.{_size(over)}"
    )
    two_stage = key._replace(linkage="two-stage")
    if two_stage in result.entries:
        text += " " + _against_two_stage(result.difference(key, two_stage), level)
    return text


def _row(result: Comparison, key: Key) -> Row:
    return next(row for row in result.rows if (row.data, row.linkage, row.control) == key)


def _sentence(name: str, over: Gain, beyond: Gain, level: float) -> str:
    if over.z < -level:
        return (
            f"Modelling the missingness hurts here: the best coupled model ({name}) is worse than ignoring"
            f" it by {_amount(-over.mean, over.se)}. Use the ignorable model."
        )
    if over.z > level:
        return (
            f"The {name} linkage beats the ignorable model by {_amount(over.mean, over.se)}, but it cannot"
            f" be told apart from its tail-only control (difference {beyond}): whether the missingness"
            " matters is open."
        )
    if beyond.z > level:
        return (
            f"No net gain: the {name} linkage beats its tail-only control by"
            f" {_amount(beyond.mean, beyond.se)}, so the missingness does tell something, but it does not"
            f" beat the ignorable model (difference {over})."
        )
    return (
        f"No evidence that modelling the missingness helps: the best coupled model ({name}) differs from the"
        f" ignorable one by {over} nats per cell, and from its tail-only control by {beyond}."
    )


def _without_control(best: Key, over: Gain, level: float) -> str:
    if abs(over.z) <= level:
        return f"No evidence that the {best.linkage} linkage helps: it differs from ignoring by {over}."
    word = "better" if over.mean > 0 else "worse"
    return (
        f"The {best.linkage} linkage is {word} than the ignorable model by"
        f" {_amount(abs(over.mean), over.se)}. No control was fitted, so this cannot tell modelled"
        " missingness from a heavier tail."
    )


def _against_two_stage(gain: Gain, level: float) -> str:
    if gain.z > level:
        return f"A two-stage regression of the variance gets less (by {_amount(gain.mean, gain.se)})."
    if gain.z < -level:
        return f"A two-stage regression of the variance does better still (by {_amount(-gain.mean, gain.se)})."
    return f"A two-stage regression of the variance does about as well (difference {gain})."


def _amount(mean: float, se: float) -> str:
    return f"{mean:.4f} ± {se:.4f} nats per cell"


def _size(gain: Gain) -> str:
    if gain.mean >= SMALL:
        return ""
    return f" The effect is small: held-out values become about {100 * gain.mean:.2g} % more probable."
