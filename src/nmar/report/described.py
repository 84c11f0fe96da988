"""A fitted model in words: what it is, how it links values and missingness, and the members of its factors.

Plain text throughout; pages and notebooks escape it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nmar.evaluate.curves import posterior_of
from nmar.evaluate.notes import KINDS, ZIGZAG
from nmar.fit.names import thinned_by
from nmar.posterior.posterior import Posterior
from nmar.report.document import Fact

__all__ = ["Group", "groups", "kind_of", "linkage_words", "model_facts"]

PAIRS = 20_000  # cells that are drawn to see how likely observed ones were
NEGLIGIBLE = 0.01  # share of the largest factor below which one is left out
MOST = 12  # factors shown


def kind_of(model: Any) -> str:
    """ "coupled", "tail", "two-stage", "taste", "shuffled" or "ignorable"."""
    known = posterior_of(model)
    linkage = known.state.shared.linkage
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
        *([] if law.taste is None else [Fact("mechanism", "taste", KINDS["taste"].plain)]),
        Fact("dispersion", f"{known.dispersion:.4g}"),
        Fact("pattern components", str(law.pattern.factors)),
    ]
    if shared.noise is not None and shared.noise.freedom:
        found.append(Fact("tail", f"{shared.noise.freedom:.3g}", "degrees of freedom; infinite for normal values"))
    reason = getattr(model, "stop_reason_", None)
    return [*found, Fact("sweeps", str(model.n_iter_), reason)] if reason else found


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


class Group(NamedTuple):
    """A factor, a component of the pattern or a cluster, by the lines that stand out in it."""

    name: str
    detail: str
    members: tuple[tuple[str, str], ...]  # what they are ("rows, high"), and their ids


def groups(model: Any, members: int = 5) -> list[tuple[str, str, list[Group]]]:
    """Title, explanation and members of the factors of the values, of the clusters and of the pattern."""
    found = []
    if (sides := _sides(model, "factors_")) is not None:
        signs = ("high", "low") if min(side.mean.min() for side in sides) < 0.0 else ("high",)
        found.append(("Factors of the values", VALUES, _by_factor(sides, members, signs, "factor")))
    if getattr(model, "labels_", None) is not None:
        found.append(("Clusters", CLUSTERS, _clusters(model, members)))
    if (sides := _sides(model, "pattern_")) is not None:
        found.append(("Components of the missingness", PATTERN, _by_factor(sides, members, ("high",), "component")))
    if posterior_of(model).law.scale is not None:
        found.append(("How levels are used", STYLES, _styles(model, members)))
    if noise := _noise_groups(model, members):
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


def _by_factor(sides: tuple[Any, Any], members: int, signs: tuple[str, ...], word: str) -> list[Group]:
    rows, cols = sides
    size = np.sqrt(np.mean(rows.mean**2, axis=0) * np.mean(cols.mean**2, axis=0))
    kept = [k for k in np.argsort(-size, kind="stable") if size[k] > NEGLIGIBLE * size.max()][:MOST]
    tops = [
        (f"{what}, {sign}" if len(signs) > 1 else what, side.top(members, sign))
        for sign in signs
        for what, side in (("rows", rows), ("columns", cols))
    ]
    return [
        Group(
            f"{word} {k + 1}",
            f"size {size[k] / size.sum():.0%}",
            tuple((what, _listed(top[rows.names[k]])) for what, top in tops),
        )
        for k in kept
    ]


def _noise_groups(model: Any, members: int) -> list[Group]:
    """The noisiest and the quietest rows and columns, with their noise."""
    found = []
    for name, what in (("row_noise_", "rows"), ("col_noise_", "columns")):
        noise = getattr(model, name, None)
        if noise is None:
            continue
        order = np.argsort(-noise.level, kind="stable")
        ends = (("noisiest", order[:members]), ("quietest", order[::-1][:members]))
        shown = tuple((end, ", ".join(f"{noise.ids[k]} ({noise.level[k]:.3g})" for k in which)) for end, which in ends)
        found.append(Group(what, f"median {np.median(noise.level):.3g}", shown))
    return found


def _styles(model: Any, members: int) -> list[Group]:
    """The styles by their share of the lines, the levels that each hardly uses, and typical lines."""
    styles, levels = model.styles_, model.levels_
    what = ("rows", "columns")[posterior_of(model).state.shared.reader.axis]
    several, found = len(styles.cuts) > 1, []
    for k in np.argsort(-styles.share, kind="stable")[:MOST]:
        cuts = ", ".join(f"{low:g}|{high:g} at {cut:.2f}" for low, high, cut in _between(levels, styles.cuts[k]))
        typical = ", ".join(str(one) for one in styles.typical(int(k), members))
        shown = (("cut points", cuts), *(((f"typical {what}", typical),) if several else ()))
        found.append(Group(f"style {k + 1}", f"{styles.share[k]:.0%} of the {what}", shown))
    return found


def _between(levels: Any, cuts: Any) -> list[tuple[float, float, float]]:
    return list(zip(levels[:-1], levels[1:], cuts, strict=True))


def _listed(found: list[tuple[Any, float]]) -> str:
    return ", ".join(str(one) for one, _ in found)


def _clusters(model: Any, members: int) -> list[Group]:
    share, known = np.asarray(model.responsibilities_), posterior_of(model)
    axis: int = known.law.data.axis  # type: ignore[attr-defined]
    ids, what = ((known.rows, "rows"), (known.cols, "columns"))[axis]
    count = np.bincount(model.labels_, minlength=share.shape[1])
    found = []
    for k in np.argsort(-count, kind="stable")[:MOST]:
        surest = [int(p) for p in np.argsort(-share[:, k], kind="stable")[:members] if model.labels_[p] == k]
        if surest:
            shown = ", ".join(str(ids.ids[p]) for p in surest)
            found.append(Group(f"cluster {k + 1}", f"{count[k]:,} {what}", ((what, shown),)))
    return found
