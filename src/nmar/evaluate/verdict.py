"""What a comparison says, in words, and no more than it says.

A model of the missingness is judged against the best of the models in which what is missing tells nothing about the
values (ignorable, tail-only; for taste also shuffled) or tells it by P(observed) alone (two-stage). Choosing the best
of several models and then testing it on the same cells favours it, so each test is at 5 % divided by their number
(Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nmar.evaluate.gains import Gain

if TYPE_CHECKING:
    from nmar.evaluate.comparison import Comparison, Key

SMALL = 0.01  # nats per cell: one per cent of probability

ONE_START = " With one split and start this error leaves out what other starts would change; seeds=3 measures it."

HELPS = {  # by the kind of model that helps
    "taste": "What rows and columns choose tells about their values",
    "coupled": "Modelling the missingness helps",
}

UNCONTROLLED = {  # what else a gain may be where the control of a model was not fitted
    "taste": "from covariates that mean nothing",
    "coupled": "from a heavier tail",
}

INSTEAD = {  # what does as well as the models of the missingness
    "ignorable": "a model that ignores it",
    "tail": "a heavier tail of all values, whatever is missing,",
    "shuffled": "the same model with the choices of other rows and columns",
}


@dataclass(frozen=True)
class Finding:
    """What is said about one data model."""

    data: str  # the data model
    plain: str  # the finding in plain words, without a number
    numbers: str  # the differences behind it
    helps: bool  # whether a model of the missingness beats the best control
    linked: bool  # whether what is missing was shown to be linked to the values: a model of it helps, or two-stage wins
    recommended: str  # name of the model to use
    line: str  # the Python that fits it

    @property
    def text(self) -> str:
        """Plain words, then numbers."""
        return f"{self.plain} {self.numbers}".strip()

    def __str__(self) -> str:
        return f"{self.text}\nRecommended: {self.recommended}\n    {self.line}"


class Verdict(str):
    """The words of all findings, and the one of the data model whose recommended fit scores best.

    Attributes
    ----------
    findings : tuple of Finding
        One per data model.
    helps : bool
        Whether it helps with the best data model.
    data, recommended, line : str
        Best data model, model to use with it, and the Python that fits it.
    """

    findings: tuple[Finding, ...]
    helps: bool
    data: str
    recommended: str
    line: str

    @classmethod
    def of(cls, findings: tuple[Finding, ...], best: int) -> Verdict:
        """From what is said about each data model."""
        several = len(findings) > 1
        found = cls("\n".join(f"{one.data}: {one}" if several else str(one) for one in findings))
        found.findings, chosen = findings, findings[best]
        found.helps, found.data = chosen.helps, chosen.data
        found.recommended, found.line = chosen.recommended, chosen.line
        return found

    def __call__(self) -> Verdict:
        """Itself, so that ``result.verdict()`` reads like ``result.verdict``."""
        return self


def verdict(result: Comparison) -> Verdict:
    """A few sentences per data model, and the model to use."""
    models = list(dict.fromkeys(key.data for key in result.entries))
    cases = [Case(result, model) for model in models]
    found = [case.judge() for case in cases]
    place = result.ranked([one.used for one in found])[0].data
    findings = tuple(
        Finding(case.data, one.plain, one.numbers, one.helps, one.linked, result.name(one.used), result.line(one.used))
        for case, one in zip(cases, found, strict=True)
    )
    return Verdict.of(findings, models.index(place))


class Judged(NamedTuple):
    """The model to use, and what is said."""

    used: Key
    plain: str
    numbers: str = ""
    helps: bool = False
    linked: bool = False


class Case:
    """One data model of a comparison, with the differences that decide."""

    def __init__(self, result: Comparison, data: str) -> None:
        self.result, self.data = result, data
        self.base = next(key for key in result.entries if key.data == data and key.kind == "ignorable")
        self.modelled = result.modelled(data)
        self.usable = result.controls(self.base)  # the best one first

    def over(self, one: Key, other: Key | None = None) -> Gain:
        """Gain over another model, by default the ignorable one."""
        return self.result.difference(one, other or self.base)

    def wins(self, control: Key) -> bool:
        """Whether a control is better than the ignorable model."""
        return control != self.base and self.over(control).above_zero(max(1, len(self.usable) - 1))

    def judge(self) -> Judged:
        """What to use and what to say."""
        if not self.modelled:
            used = self.usable[0] if self.wins(self.usable[0]) else self.base
            return Judged(used, "No model of the missingness was fitted, so there is nothing to say about it.")
        for key in self.modelled:
            if self.over(key, self.result.best_control(key)).above_zero(len(self.modelled)):
                return self._helps(key)
        lead = self.modelled[0]
        control = self.result.best_control(lead)
        if self.wins(control):
            return self._control_wins(lead, control)
        return self._undecided(lead, control)

    def _helps(self, key: Key) -> Judged:
        name, control = self.result.name(key), self.result.best_control(key)
        beyond, best = self.over(key, control), self.result.plain(control)
        numbers = f"The {name} model gains {self._amount(beyond)} over that one"
        numbers += (
            "." if control == self.base else f", and {self._amount(self.over(key))} over ignoring the missingness."
        )
        if self.result.own_control(key) not in self.result.entries:
            plain = (
                f"The {name} model is better than {best}, but its own control was not fitted, so this cannot tell"
                f" modelled missingness {UNCONTROLLED[key.kind]} (control=True fits it)."
            )
            return Judged(key, plain, numbers, linked=control.kind == "two-stage" and self.wins(control))
        plain = (
            f"{HELPS[key.kind]}: held-out values are more probable than under the best of the other explanations,"
            f" {best}."
        )
        alone = ONE_START if self.result.setting.seeds == 1 else ""
        return Judged(key, plain, numbers + _size(beyond) + alone, True, True)

    def _control_wins(self, lead: Key, control: Key) -> Judged:
        """A control beats the ignorable model, and no model of the missingness beats the control."""
        used = self.usable[0] if self.wins(self.usable[0]) else self.base
        numbers = f"{self._apart(lead, control)}, and that one from the ignorable model by {self.over(control)}."
        if control.kind != "two-stage":
            return Judged(used, self._no_gain(lead, control), numbers)
        plain = (
            "The missingness is linked to the values: their spread depends on P(observed). No model of both together is"
            " shown to add to that."
        )
        return Judged(used, plain, numbers, linked=True)

    def _undecided(self, lead: Key, control: Key) -> Judged:
        """No control beats the ignorable model, and no model of the missingness beats its controls."""
        if control != self.base and self.over(lead).above_zero(len(self.modelled)):
            plain = (
                "Open: modelling the missingness is better than ignoring it, but cannot be told apart from the best"
                f" control, {self.result.plain(control)}."
            )
            numbers = f"{self._apart(lead, control)}, and from the ignorable model by {self.over(lead)}."
            return Judged(self.usable[0], plain, numbers)
        numbers = f"{self._apart(lead, control)}"
        numbers += "." if control == self.base else f", and that one from the ignorable model by {self.over(control)}."
        return Judged(self.base, self._no_gain(lead, self.base), numbers)

    def _no_gain(self, lead: Key, other: Key) -> str:
        """That a simpler explanation does as well, or better."""
        if (-self.over(lead, other)).above_zero(len(self.modelled)):
            return f"Modelling the missingness does not help: {INSTEAD[other.kind]} does better."
        return f"No evidence that modelling the missingness helps: {INSTEAD[other.kind]} does as well."

    def _amount(self, gain: Gain) -> str:
        return f"{gain.mean:.4f} ± {gain.se:.4f} {self.result.unit}"

    def _apart(self, lead: Key, control: Key) -> str:
        name, best = self.result.name(lead), self.result.plain(control)
        return f"The {name} model differs from the best control, {best}, by {self.over(lead, control)}"


def _size(gain: Gain) -> str:
    if gain.mean >= SMALL:
        return ""
    return f" The effect is small: held-out values become about {100 * gain.mean:.2g} % more probable."
