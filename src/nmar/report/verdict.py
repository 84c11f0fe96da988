"""What a comparison says, in words, and no more than it says.

A coupled model is judged against the best of three controls. Choosing the best of several linkages and then testing it
on the same cells favours it, so each test is at 5 % divided by the number of linkages (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nmar.report.gains import Gain

if TYPE_CHECKING:
    from nmar.report.comparison import Comparison, Key

SMALL = 0.01  # nats per cell: one per cent of probability
NEARLY_ALL = 0.9  # of the gain over the ignorable model

ONE_START = " With one split and start this error leaves out what other starts would change; seeds=3 measures it."
NO_TRUST = "the pattern is trusted not at all, ω = 0, which is the blind control"

MEANING = {  # of a control that is as good as the coupled model
    "tail": "the values have a heavier tail than {family}, whatever is missing",
    "two-stage": "the spread of the values depends on P(observed), but a latent count is not needed",
    "blind": "rows and columns differ in noise, but not because of what is missing",
}


@dataclass(frozen=True)
class Finding:
    """What is said about one data model.

    Attributes
    ----------
    data : the data model
    plain : in plain words, without a number
    numbers : the differences behind it
    helps : whether a coupled model beats the ignorable one and the best control
    linked : whether the spread of the values was shown to go with P(observed): it helps, or two-stage wins
    recommended : name of the model to use
    line : the Python that fits it
    """

    data: str
    plain: str
    numbers: str
    helps: bool
    linked: bool
    recommended: str
    line: str

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
    findings : one per data model
    helps, recommended, line : of the best data model
    """

    findings: tuple[Finding, ...]
    helps: bool
    recommended: str
    line: str

    @classmethod
    def of(cls, findings: tuple[Finding, ...], best: int) -> Verdict:
        """From what is said about each data model."""
        several = len(findings) > 1
        found = cls("\n".join(f"{one.data}: {one}" if several else str(one) for one in findings))
        found.findings, chosen = findings, findings[best]
        found.helps, found.recommended, found.line = chosen.helps, chosen.recommended, chosen.line
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
        keys = [key for key in result.entries if key.data == data]
        self.base = next(key for key in keys if key.kind == "ignorable")
        self.linkages = result.ranked([key for key in keys if key.kind == "coupled"])
        self.controls = [key for key in keys if key.kind in MEANING]
        self.control = result.best_control(data)

    def over(self, one: Key, other: Key | None = None) -> Gain:
        """Gain over another model, by default the ignorable one."""
        return self.result.difference(one, other or self.base)

    def judge(self) -> Judged:
        """What to use and what to say."""
        if not self.linkages:
            used = self.control if self.control and self._beats_ignorable(self.control) else self.base
            return Judged(used, "No coupled model was fitted, so there is nothing to say about the missingness.")
        lead, control, tests = self.linkages[0], self.control, len(self.linkages)
        if control is None:
            return self._without_control(lead)
        for key in self.linkages:
            beats = self.over(key, control).above_zero(tests) and self.over(key).above_zero(tests)
            if beats and not self.result.blinded(key):
                return self._helps(key, control)
        if self._beats_ignorable(control):
            words = self._control_wins(lead, control)
            return Judged(control, *words, linked=control.kind == "two-stage")
        return self._undecided(lead, control)

    def _beats_ignorable(self, control: Key) -> bool:
        return self.over(control).above_zero(len(self.controls))

    def _helps(self, key: Key, control: Key) -> Judged:
        name, over, beyond = self.result.name(key), self.over(key), self.over(key, control)
        if not any(one.kind == "blind" for one in self.controls):
            plain = (
                "A coupled model gains, but no blind control was fitted, so this cannot tell modelled missingness from"
                " rows and columns of unequal noise (control=True fits it)."
            )
            numbers = f"The {name} model gains {_amount(beyond)} over its controls."
            return Judged(key, plain, numbers, linked=control.kind == "two-stage")
        plain = (
            "Modelling the missingness helps: held-out values are more probable than under the best of the other"
            f" explanations, {self.result.plain(control)}."
        )
        numbers = (
            f"The {name} model gains {_amount(beyond)} over that control, and {_amount(over)} over ignoring the"
            " missingness."
        )
        alone = ONE_START if self.result.setting.seeds == 1 else ""
        return Judged(key, plain, numbers + self._nearly_all(key, control) + _size(beyond) + alone, True, True)

    def _control_wins(self, lead: Key, control: Key) -> tuple[str, str]:
        beyond, name = self.over(lead, control), self.result.name(lead)
        begins = "Modelling the missingness does not help:"
        if self.result.blinded(lead):
            begins = f"Modelling the missingness does not help ({NO_TRUST}):"
        elif control.kind == "two-stage":
            begins = "The missingness is linked to the values, but a latent count adds nothing:"
        elif beyond.mean > 0:
            begins = "No evidence that modelling the missingness helps; it does no better than a model in which"
        plain = f"{begins} {MEANING[control.kind].format(family=self._family())}."
        numbers = (
            f"The best control, {self.result.plain(control)}, gains {_amount(self.over(control))} over the ignorable"
            f" model; {name} differs from it by {beyond}."
        )
        if control.kind == "two-stage":
            numbers += " That the variance follows P(observed) is itself evidence that what is missing is linked to it."
            return plain, numbers
        return plain, numbers + self._nearly_all(lead, control) + self._two_stage_too(control)

    def _nearly_all(self, key: Key, control: Key) -> str:
        """Whether noise by row and column accounts for the gain over the ignorable model."""
        over = self.over(key)
        if control.kind != "blind" or not over.above_zero():
            return ""
        share = self.over(control).mean / over.mean
        if share < NEARLY_ALL:
            return ""
        found = f" ({100 * share:.0f} %)" if share < 0.995 else ""
        return f" Nearly all of the gain over the ignorable model{found} is noise by row and column."

    def _two_stage_too(self, control: Key) -> str:
        """The spread may follow P(observed) even where another control explains more."""
        two_stage = self.base._replace(linkage="two-stage")
        if two_stage not in self.controls or not self._beats_ignorable(two_stage):
            return ""
        return (
            f" The spread does depend on P(observed): two-stage gains {_amount(self.over(two_stage))} over the"
            " ignorable model; but that is worth less."
        )

    def _undecided(self, lead: Key, control: Key) -> Judged:
        """No control beats the ignorable model, and no coupled model beats both."""
        over, beyond, tests = self.over(lead), self.over(lead, control), len(self.linkages)
        name, best = self.result.name(lead), self.result.plain(control)
        if self.result.blinded(lead):
            return self._no_trust(self.base, over)
        if over.above_zero(tests):
            used = control if self.over(control).mean > 0 else self.base
            plain = (
                "Open: modelling the missingness is better than ignoring it, but cannot be told apart from the best"
                f" control, {best}."
            )
            numbers = f"The {name} model beats the ignorable one by {_amount(over)}, and that control by {beyond}."
            return Judged(used, plain, numbers)
        if (-over).above_zero(tests):
            plain = "Modelling the missingness hurts here."
            numbers = f"The {name} model is worse than ignoring it by {_amount(-over)}."
        elif beyond.above_zero(tests):
            plain = "No net gain: modelling the missingness beats the controls, but not the model that ignores it."
            numbers = (
                f"The {name} model beats the best control, {best}, by {_amount(beyond)}; it differs from the ignorable"
                f" one by {over}."
            )
        else:
            plain = "No evidence that modelling the missingness helps, nor that any of the controls does."
            numbers = (
                f"The {name} model differs from the ignorable one by {over} nats per cell, and from the best control,"
                f" {best}, by {beyond}."
            )
        return Judged(self.base, plain, numbers)

    def _without_control(self, lead: Key) -> Judged:
        over, tests, name = self.over(lead), len(self.linkages), self.result.name(lead)
        if self.result.blinded(lead):
            return self._no_trust(lead if over.above_zero(tests) else self.base, over)
        if not (over.above_zero(tests) or (-over).above_zero(tests)):
            numbers = f"The {name} model differs from the ignorable one by {over}."
            return Judged(self.base, "No evidence that modelling the missingness helps.", numbers)
        better = over.mean > 0
        plain = (
            f"Modelling the missingness is {'better' if better else 'worse'} than ignoring it. No control was fitted,"
            " so this cannot tell modelled missingness from a heavier tail, or from rows and columns of unequal noise."
        )
        numbers = (
            f"The {name} model is {'better' if better else 'worse'} than the ignorable one by"
            f" {_amount(over if better else -over)}."
        )
        return Judged(lead if better else self.base, plain, numbers)

    def _no_trust(self, used: Key, over: Gain) -> Judged:
        plain = f"Modelling the missingness does not help: {NO_TRUST}."
        return Judged(used, plain, f"Its gain over the ignorable model is {over}.")

    def _family(self) -> str:
        name = self.result.entries[self.base][0].fitted.posterior.law.family.name
        return "normal" if name == "gaussian" else f"the {name.replace('_', ' ')} family allows"


def _amount(gain: Gain) -> str:
    return f"{gain.mean:.4f} ± {gain.se:.4f} nats per cell"


def _size(gain: Gain) -> str:
    if gain.mean >= SMALL:
        return ""
    return f" The effect is small: held-out values become about {100 * gain.mean:.2g} % more probable."
