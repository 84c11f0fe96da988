"""A fitted model in words: what it is, how it links values and missingness, and the members of its factors.

Plain text throughout; pages and notebooks escape it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nmar.data.labels import labelled
from nmar.evaluate.curves import posterior_of
from nmar.evaluate.notes import KINDS, ZIGZAG
from nmar.fit.names import thinned_by
from nmar.models.noise import MOST as NORMAL
from nmar.posterior.posterior import Posterior
from nmar.report.document import Fact

__all__ = ["Group", "Labels", "chosen_words", "groups", "kind_of", "linkage_words", "model_facts", "noise_words"]

PAIRS = 20_000  # cells that are drawn to see how likely observed ones were
NEGLIGIBLE = 0.01  # share of the largest factor below which one is left out
MOST = 12  # factors shown


def kind_of(model: Any) -> str:
    """ "coupled", "tail", "two-stage", "taste", "shuffled", "value" or "ignorable"."""
    known = posterior_of(model)
    linkage = known.state.shared.linkage
    if known.state.shared.mechanism is not None:
        return "value"
    if linkage.bins == "known":
        return "two-stage"
    if linkage.couples:
        return "tail" if known.law.control else "coupled"
    if known.law.taste is None:
        return "ignorable"
    return "shuffled" if getattr(model, "control", False) == "shuffled" else "taste"


def model_facts(model: Any) -> list[Fact]:
    """Size, family, linkage, dispersion, and how the fit ended."""
    known = posterior_of(model)
    shared, law = known.state.shared, known.law
    found = [
        Fact("rows × columns", f"{len(known.rows):,} × {len(known.cols):,}"),
        Fact("family", law.family.name.replace("_", " ") if law.scale is None else "levels"),
        Fact("linkage", shared.linkage.name, _settings(known)),
        *_mechanism(known),
        Fact("noise", *_noise(known)),
        Fact("pattern components", str(law.pattern.factors)),
    ]
    if shared.noise is not None and shared.noise.freedom:
        found.append(_tail(shared.noise.freedom))
    if law.support is not None:
        found.append(Fact("values within", *_range(known)))
    reason = getattr(model, "stop_reason_", None)
    if reason:
        found.append(Fact("sweeps", str(model.n_iter_), reason))
    seed = getattr(model, "random_state", None)
    return [*found, Fact("seed", str(seed))] if isinstance(seed, int) else found


def _tail(freedom: float) -> Fact:
    """Degrees of freedom of the tail; very many are none."""
    if freedom >= NORMAL:
        return Fact("tail", "normal", "no heavier tail was seen")
    return Fact("tail", f"{freedom:.3g}", "degrees of freedom; infinite for normal values")


def _mechanism(known: Posterior) -> list[Fact]:
    """Why values are missing, where the model says so."""
    if known.law.taste is not None:
        return [Fact("mechanism", "taste", KINDS["taste"].plain)]
    found = known.state.shared.mechanism
    if found is None:
        return []
    return [Fact("mechanism", "value", f"slope Γ = {found.slope:+.2f} ± {found.error:.2f}")]


def _noise(known: Posterior) -> tuple[str, str]:
    """How far values scatter, and the number that the fit has for it."""
    kappa = f"{known.dispersion:.4g}"
    if known.law.family.name == "gaussian":
        return (
            f"± {np.sqrt(known.dispersion):.3g}",
            f"typical distance of a value from its mean; dispersion {kappa} is its square",
        )
    return f"κ = {kappa}", "dispersion: factor of the variance that the family has"


def noise_words(model: Any) -> str:
    """How far values scatter, in a sentence."""
    known = posterior_of(model)
    if known.law.family.name != "gaussian":
        return f"dispersion {known.dispersion:.4g}"
    where = "" if known.state.shared.noise is None else " in a row and column of average noise"
    far = f"{np.sqrt(known.dispersion):.3g}"
    return f"values scatter by {far} around their means{where} (dispersion {known.dispersion:.4g})"


def _range(known: Posterior) -> tuple[str, str]:
    support = known.law.support
    assert support is not None
    return f"{support.low:g} … {support.high:g}", "" if support.step is None else f"in steps of {support.step:g}"


def chosen_words(model: Any) -> str:
    """What the fit chose by itself, and why, in a line."""
    known = posterior_of(model)
    law, shared = known.law, known.state.shared
    found = [
        f"{choice.setting} {choice.value} (best of those tried on held-out cells)" for choice in _best_choices(model)
    ]
    if getattr(model, "linkage", None) is None:
        found.append(f"linkage {shared.linkage.name} (none was named)")
    if shared.noise is not None and getattr(model, "noise", None) is None:
        tail = " with a heavy tail" if shared.noise.freedom else ""
        found.append(f"noise by row and column{tail} (values are real numbers)")
    if law.support is not None:
        low_high, step = _range(known)
        found.append(f"predictions within {low_high} {step} (values are ratings)".replace("  ", " "))
    return "; ".join(found)


def _best_choices(model: Any) -> list[Any]:
    """The chosen value of each setting that was left open."""
    found: dict[str, Any] = {}
    for choice in getattr(model, "choices_", ()):
        found.setdefault(choice.setting, choice)
    return list(found.values())


def _settings(known: Posterior) -> str:
    """c, s and whether it is a control, where they are not the usual ones."""
    linkage = known.state.shared.linkage
    c = getattr(linkage, "c", None)
    found = (f", c = {c:.3g}" if c is not None else "") + thinned_by(linkage)
    if known.law.control:
        found += ", tail-only control"
    return found.removeprefix(", ")


def linkage_words(model: Any) -> str:
    """What the linkage does, in a sentence or two."""
    kind, known = kind_of(model), posterior_of(model)
    linkage = known.state.shared.linkage
    if kind == "ignorable" and known.state.shared.noise is not None:
        return "Rows and columns have noise of their own. Which cells are missing has no say in the values."
    if kind != "coupled":
        return KINDS[kind].what
    low, high = _likely(known)
    rare, common = (float(linkage.expected(-np.log1p(-p))) for p in (low, high))
    ratio = common / rare
    found = f"Of the observed cells, a tenth had a chance of being observed below {low:.2g}, a tenth above {high:.2g}."
    if 0.98 < ratio < 1.02:
        found += " Between the two the noise hardly differs: the link is weak."
    else:
        found += f" From the first to the second the noise (dispersion) is multiplied by {ratio:.2f}: values are"
        found += f" {'less' if ratio < 1 else 'more'} noisy where they were likely to be observed."
    if linkage.mean is not None:
        found += " The linkage also moves the mean with the latent count."
    return f"{found} {ZIGZAG}" if linkage.name == "linear" else found


def _likely(known: Posterior) -> tuple[float, float]:
    """P(observed) below which, and above which, a tenth of the observed cells lies."""
    rng = np.random.default_rng(0)
    i, j = (rng.integers(0, len(axis), PAIRS) for axis in (known.rows, known.cols))
    chance = np.sort(known.observed_probability(i, j))
    share = np.cumsum(chance) / chance.sum()
    low, high = (float(chance[np.searchsorted(share, level)]) for level in (0.1, 0.9))
    return low, min(high, 0.999)


# --- factors ------------------------------------------------------------------------------------------------


class Labels(NamedTuple):
    """Names of rows and of columns by id; None where ids are shown."""

    rows: dict[Any, Any] | None = None
    cols: dict[Any, Any] | None = None


BY_ID = Labels()


class Group(NamedTuple):
    """A factor, a component of the pattern or a cluster, by the lines that stand out in it."""

    name: str
    detail: str
    members: tuple[tuple[str, str], ...]  # what they are ("rows, high"), and their ids


def groups(model: Any, labels: Labels = BY_ID, members: int = 5) -> list[tuple[str, str, list[Group]]]:
    """Title, explanation and members of the factors of the values, of the clusters and of the pattern."""
    found = []
    if (sides := _sides(model, "factors_")) is not None:
        signs = ("high", "low") if min(side.mean.min() for side in sides) < 0.0 else ("high",)
        found.append(("Factors of the values", VALUES, _by_factor(sides, members, labels, signs, "factor")))
    if getattr(model, "labels_", None) is not None:
        found.append(("Clusters", CLUSTERS, _clusters(model, members, labels)))
    if (sides := _sides(model, "pattern_")) is not None:
        found.append(
            ("Components of the missingness", PATTERN, _by_factor(sides, members, labels, ("high",), "component"))
        )
    if posterior_of(model).law.scale is not None:
        found.append(("How levels are used", STYLES, _styles(model, members, labels)))
    if noise := _noise_groups(model, members, labels):
        found.append(("Noise", NOISE, noise))
    return found


VALUES = (
    "The rows and columns that stand out in each factor, the largest factor (by its share of their sizes) first. A row"
    " and a column on the same side (both high, or both low) have higher values together; on opposite sides, lower"
    " ones. Factors may be turned against each other without changing any prediction: they describe, and cause nothing."
)
PATTERN = (
    "Rows and columns of the same component are observed together more often than others: who looks at what, not what"
    " they find there."
)
NOISE = (
    "How far values lie from their prediction, as a standard deviation in units of the values: a row's where columns"
    " have their average noise, and a column's where rows have."
)
STYLES = (
    "Values are levels: a level is given where a latent value lies between two cut points. Rows, or columns, of one"
    " style share their cut points. A level whose two cut points coincide is not used."
)
CLUSTERS = "Lines whose values have the same profile, with those that belong there most surely."


def _sides(model: Any, name: str) -> tuple[Any, Any] | None:
    """Factors of both sides where both have the same ones."""
    rows, cols = (getattr(model, f"{side}_{name}", None) for side in ("row", "col"))
    if rows is None or cols is None or rows.mean.shape[1] != cols.mean.shape[1]:
        return None
    return rows, cols


def _by_factor(sides: tuple[Any, Any], members: int, labels: Labels, signs: tuple[str, ...], word: str) -> list[Group]:
    rows, cols = sides
    size = np.sqrt(np.mean(rows.mean**2, axis=0) * np.mean(cols.mean**2, axis=0))
    kept = [k for k in np.argsort(-size, kind="stable") if size[k] > NEGLIGIBLE * size.max()][:MOST]
    tops = [
        (f"{what}, {sign}" if len(signs) > 1 else what, side.top(members, sign, names))
        for sign in signs
        for what, side, names in (("rows", rows, labels.rows), ("columns", cols, labels.cols))
    ]
    return [
        Group(
            f"{word} {k + 1}",
            f"size {size[k] / size.sum():.0%}",
            tuple((what, _listed(top[rows.names[k]])) for what, top in tops),
        )
        for k in kept
    ]


def _noise_groups(model: Any, members: int, labels: Labels) -> list[Group]:
    """The noisiest and the quietest rows and columns, with their noise."""
    found = []
    for name, what, names in (("row_noise_", "rows", labels.rows), ("col_noise_", "columns", labels.cols)):
        noise = getattr(model, name, None)
        if noise is None:
            continue
        order, ids = np.argsort(-noise.level, kind="stable"), labelled(noise.ids, names)
        ends = (("noisiest", order[:members]), ("quietest", order[::-1][:members]))
        shown = tuple((end, _listed([(f"{ids[k]} ({noise.level[k]:.3g})", 0.0) for k in which])) for end, which in ends)
        found.append(Group(what, f"median {np.median(noise.level):.3g}", shown))
    return found


def _styles(model: Any, members: int, labels: Labels) -> list[Group]:
    """The styles by their share of the lines, the levels that each hardly uses, and typical lines."""
    styles, levels = model.styles_, model.levels_
    axis: int = posterior_of(model).state.shared.reader.axis
    what = ("rows", "columns")[axis]
    several, found = len(styles.cuts) > 1, []
    for k in np.argsort(-styles.share, kind="stable")[:MOST]:
        cuts = ", ".join(f"{low:g}|{high:g} at {cut:.2f}" for low, high, cut in _between(levels, styles.cuts[k]))
        typical = ", ".join(str(one) for one in labelled(styles.typical(int(k), members), labels[axis]))
        shown = (("cut points", cuts), *(((f"typical {what}", typical),) if several else ()))
        found.append(Group(f"style {k + 1}", f"{styles.share[k]:.0%} of the {what}", shown))
    return found


def _between(levels: Any, cuts: Any) -> list[tuple[float, float, float]]:
    return list(zip(levels[:-1], levels[1:], cuts, strict=True))


def _listed(found: list[tuple[Any, float]]) -> str:
    names = [str(one) for one, _ in found]
    return ("; " if any("," in name for name in names) else ", ").join(names)


def _clusters(model: Any, members: int, labels: Labels) -> list[Group]:
    share, known = np.asarray(model.responsibilities_), posterior_of(model)
    axis: int = known.law.data.axis  # type: ignore[attr-defined]
    side, what = ((known.rows, "rows"), (known.cols, "columns"))[axis]
    ids = labelled(side.ids, labels[axis])
    count = np.bincount(model.labels_, minlength=share.shape[1])
    found = []
    for k in np.argsort(-count, kind="stable")[:MOST]:
        surest = [int(p) for p in np.argsort(-share[:, k], kind="stable")[:members] if model.labels_[p] == k]
        if surest:
            shown = ", ".join(str(ids[p]) for p in surest)
            found.append(Group(f"cluster {k + 1}", f"{count[k]:,} {what}", ((what, shown),)))
    return found
