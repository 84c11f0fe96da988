"""From settings and cells to a law, what a sweep reads, and the first state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.missingness import Pattern, PatternSide
from nmar.models.noise import Noise
from nmar.models.pattern_covariates import DesignedPattern, PatternEffects, first_effects
from nmar.models.protocol import DataModel
from nmar.models.settings.leveled import FirstLevels, LevelSettings
from nmar.models.state import Shared, Side, State
from nmar.prob.linkage import Linkage
from nmar.prob.scale import Scale
from nmar.prob.support import LEVELS, Bounds, Support, support_of
from nmar.prob.tree import map_arrays
from nmar.prob.units import Units

SOME = 1 << 20  # values of cells on disk from which the first dispersion is taken
DISTINCT = 1 << 16  # distinct values of cells on disk that tables are made for, at most


@dataclass(frozen=True, eq=False)
class Problem:
    """A fit about to start."""

    law: Law
    observed: Observed
    state: State


def leading_axis(cells: Cells) -> int:
    """The longer axis leads each sweep, so that a transposed matrix gives the transposed answer."""
    return 0 if cells.shape[0] >= cells.shape[1] else 1


def observe(cells: Cells, law: Law, hidden: Cells | None, units: Units, dtype: Any) -> Observed:
    """Cells as the law sees them: values in its units and stored as asked, classes where the family needs them."""
    if law.scale is not None:
        return _observe_levels(cells, law.scale, hidden, dtype)
    seen = cells.map_values(partial(_as_seen, units, dtype))
    if not law.family.needs_values:
        return Observed(seen, hidden)
    if not cells.in_memory:  # classes of a block are looked up when it is read
        return Observed(seen, hidden, distinct=distinct_values(seen))
    distinct, group = np.unique(seen.values, return_inverse=True)
    return Observed(seen, hidden, group.astype(np.int32), distinct)


def _observe_levels(cells: Cells, scale: Scale, hidden: Cells | None, dtype: Any) -> Observed:
    """Levels as the normal values that they begin with, and the place of each on the scale."""
    seen = cells.map_values(partial(_as_scores, scale, dtype))
    if not cells.in_memory:
        return Observed(seen, hidden, distinct=np.array(scale.scores, dtype).astype(np.float64))
    return Observed(seen, hidden, scale.places(cells.values))


def _as_scores(scale: Scale, dtype: Any, values: Array) -> Array:
    return scale.as_scores(values).astype(dtype, copy=False)


def _as_seen(units: Units, dtype: Any, values: Array) -> Array:
    """Values, a copy that may be written to, in the model's units and stored as asked."""
    return units.to_model(values, out=values).astype(dtype, copy=False)


def distinct_values(cells: Cells) -> Array:
    """The distinct values of cells on disk, of which there must not be many."""
    found = np.empty(0)
    for part in cells.by(0).value_parts():
        found = np.union1d(found, part.astype(np.float64))
        if len(found) > DISTINCT:
            raise ValueError(f"more than {DISTINCT} distinct values, one table row each; load the cells: to_cells()")
    return found


def units_of(cells: Cells, law: Law, linkage: Linkage) -> Units:
    """Mean and spread of the values for the Gaussian, their median for families on y > 0; counts have no units.

    A data model may have a center of its own. A scale linkage is not invariant under a shift, so its center is 0.
    """
    if law.family.unit_power is None or not law.data.has_values:
        return Units()
    values: Any = cells.by(law.lead).values  # in the order of the leading axis: the same bits transposed
    if not law.family.location:
        return Units.of_positive(values)
    center = law.data.center
    if linkage.mean == "scale":
        if center:
            raise ValueError(f"center={center!r} of the data model and a linkage of the mean by a factor, which is 0's")
        center = 0.0
    return Units.of_real(values, center)


def check_linked(data: DataModel, linkage: str, control: bool = False) -> None:
    """Refuse to link values where none are modelled."""
    if not data.has_values and (control or linkage != "ignorable"):
        raise ValueError(f"PatternOnly has no values to link; use linkage='ignorable', not {linkage!r}, no control")


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a fit starts with beside its cells and its two models."""

    control: bool = False  # whether one rate stands for all cells
    hidden: Cells | None = None  # cells that are neither observed nor missing
    seed: Any = 0  # seed of the two streams of random numbers
    dtype: Any = np.float64  # storage of the factors
    lead: int | None = None  # Axis that leads. None: the longer one.
    target: str = "observed"  # cells that predictions are about
    bounds: Bounds = None  # range of the values
    noise: Noise | None = None  # Noise by row and column. None: one dispersion.
    levels: LevelSettings | None = None  # settings of values that are levels


def begin(cells: Cells, data: DataModel, linkage: Linkage, pattern: Pattern, **how: Any) -> Problem:
    """Assemble a fit; ``how`` are fields of :class:`Start`.

    Streams of random numbers for the two models are separate, so neither moves the other.
    """
    start = Start(**how)
    lead = leading_axis(cells) if start.lead is None else start.lead
    law = Law(pattern, data, lead, start.control, dtype=start.dtype, target=start.target)
    linkage.supports(law.family)
    check_linked(data, linkage.name, start.control)
    check_values(law, linkage, cells)
    law, first = replace(law, support=_support(law, start.bounds, cells)), None
    units = units_of(cells, law, linkage)
    if start.levels is not None:
        first = start.levels.begin(cells, np.random.default_rng(seed_sequence(start.seed)))
        law, units = replace(law, scale=first.scale), first.units
    observed = observe(cells, law, start.hidden, units, start.dtype)
    sides, made, effects = _first_sides(observed.cells, cells, law, start, first)
    spread = float(np.sqrt(observed.cells.by(lead).variance())) or 1.0
    shared = Shared(
        dispersion=first_dispersion(law, observed.cells),
        linkage=linkage.rescaled(1.0 / units.scale).start(spread),
        data=made,
        rate=1.0 if start.control else None,
        center=units.center,
        scale=units.scale,
        shapes=(pattern.shape, pattern.shape) if pattern.learns else None,
        effects=effects,
        noise=start.noise,
        reader=None if first is None else first.reader,
    )
    return Problem(law, observed, State(sides, shared))


def _first_sides(
    seen: Cells, cells: Cells, law: Law, start: Start, levels: FirstLevels | None
) -> tuple[tuple[Side, Side], Any, PatternEffects | None]:
    """Both sides, and what the data model and the pattern share between lines."""
    for_pattern, for_data = (np.random.default_rng(s) for s in seed_sequence(start.seed).spawn(2))
    patterns, effects = first_pattern(cells, law.pattern, law.lead, for_pattern)
    values = law.data.init(seen, law.lead, for_data)

    def side(axis: int, record: Any) -> Side:
        noise = None if start.noise is None else start.noise.start(axis, cells.shape[axis])
        reading = None if levels is None else levels.reading(axis)
        return cast(Side(patterns[axis], record, noise, reading), start.dtype)

    return (side(0, values.rows), side(1, values.cols)), values.globals, effects


def _support(law: Law, bounds: Bounds, cells: Cells) -> Support | None:
    """Range and levels of the values, where a fit has bounds; families other than the Gaussian have their own."""
    if bounds is None or not law.data.has_values or not len(cells):
        return None
    if law.family.location:
        return support_of(bounds, _extremes(cells) if bounds != "auto" else _few_values(cells))
    if bounds != "auto":
        raise ValueError(f"bounds={bounds!r} are for Gaussian data models; the {law.family.name} family has its own")
    return None


def _extremes(cells: Cells) -> Array:
    """The least and the largest value."""
    ends = [(values.min(), values.max()) for values in cells.by(0).value_parts() if len(values)]
    return np.array([min(low for low, _ in ends), max(high for _, high in ends)], np.float64)


def _few_values(cells: Cells) -> Array:
    """The distinct values, or some of them where there are more than a scale of levels has."""
    found = np.empty(0)
    for values in cells.by(0).value_parts():
        found = np.union1d(found, values.astype(np.float64))
        if len(found) > LEVELS:
            break
    return found


def first_pattern(
    cells: Cells, pattern: Pattern, lead: int, rng: np.random.Generator
) -> tuple[dict[int, PatternSide], PatternEffects | None]:
    """The pattern's sides by axis, and what lines share of the effects of its covariates, if it has any."""
    sides, known = {}, pattern.lines(cells)
    effects = first_effects(known, lead, cells.density) if pattern.designs is not None else None
    for axis in (lead, 1 - lead):
        degree = np.diff(cells.by(axis).indptr)
        if effects is None:
            sides[axis] = pattern.init(cells.shape[axis], degree, cells.density, rng)
        else:
            mine = DesignedPattern(pattern, axis, axis == lead, effects)
            sides[axis] = mine.start(known[axis], degree, cells.density, rng)
    return sides, effects


def check_valid(law: Law, linkage: Linkage, valid: Cells) -> None:
    """Refuse validation values that the family cannot have: their likelihood is 0, whatever is learned."""
    try:
        check_values(law, linkage, valid)
    except ValueError as error:
        raise ValueError(f"valid: {error}") from None


def check_values(law: Law, linkage: Linkage, cells: Cells) -> None:
    """Refuse values that the family cannot have.

    A binomial value cannot exceed its trials; under the compound linkage counts multiply them.
    """
    if not len(cells):
        return
    for values in cells.by(0).value_parts():
        law.family.check_values(values.astype(np.float64))
        if law.scale is not None:
            law.scale.check(values)
    trials = getattr(law.data, "dispersion", None)
    if trials is None or (linkage.whole and linkage.couples):
        return
    worst = max(float(np.max(values)) for values in cells.by(0).value_parts())
    if worst > trials:
        raise ValueError(f"trials={trials:g} but a value is {worst:g}; give at least the largest value")


def first_dispersion(law: Law, cells: Cells) -> float:
    """Where the dispersion starts: half the variance for the Gaussian, otherwise what the model says, or 1."""
    lines = cells.by(law.lead)  # in the order of the leading axis: the same bits transposed
    if not law.family.location:
        return law.data.first_dispersion(lines.some_values(SOME))
    return 0.5 * lines.variance() or 1.0


def seed_sequence(seed: Any) -> np.random.SeedSequence:
    """A seed sequence from an integer, None, a generator (or what drives one) or a RandomState."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.BitGenerator):
        seed = np.random.Generator(seed)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.RandomState):
        return np.random.SeedSequence(int(seed.randint(2**31)))
    return np.random.SeedSequence(seed)


def whole_seed(seed: Any) -> int:
    """A whole number to seed several things with: whole numbers as they are, of anything else one is drawn."""
    return int(seed) if isinstance(seed, int | np.integer) else int(seed_sequence(seed).generate_state(1)[0])


def cast(record: Any, dtype: Any) -> Any:
    """Store every array of a record of factors as ``dtype``."""
    return map_arrays(record, lambda array: array.astype(dtype, copy=False))
