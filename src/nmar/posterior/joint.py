"""Joint draws: the lines of both sides once, then cells given them, so that cells of a line go together.

Enters: a posterior. Leaves: posteriors without uncertainty, draws of the whole model, and values of cells given one of
them. :func:`nmar.posterior.posterior.sample` draws cells independently: right for one cell, too narrow for a
mean or a correlation of many.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from nmar.arrays import Array
from nmar.models.state import Shared, Side, State
from nmar.posterior import levels
from nmar.posterior.mixing import draws, mixtures
from nmar.posterior.posterior import Posterior


def drawn_shared(posterior: Posterior, shared: Shared, rng: np.random.Generator) -> Shared:
    """The data model's globals drawn, and the dispersion where they hold its posterior."""
    model = posterior.law.data
    data = model.drawn_shared(shared.data, rng)
    precision = model.precision(data)
    return replace(shared, data=data, dispersion=shared.dispersion if precision is None else 1.0 / precision.mean)


def drawn_side(posterior: Posterior, axis: int, side: Side, shared: Shared, rng: np.random.Generator) -> Side:
    """Lines of one axis with those of the data model, noise levels and a reader's own drawn, the pattern as it is."""
    data = posterior.law.data.drawn_lines(axis, side.data, shared.data, rng)
    noise = None if side.noise is None else side.noise.drawn(rng)
    reading = None if side.reading is None else side.reading.drawn(rng)
    return replace(side, data=data, noise=noise, reading=reading)


def drawn_pattern(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """The pattern's lines drawn, where P(observed) has a say in the values."""
    linkage = posterior.state.shared.linkage
    return posterior if posterior.law.separate or not linkage.couples else with_pattern_drawn(posterior, rng)


def with_pattern_drawn(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """The pattern's lines drawn."""
    shared = posterior.state.shared
    rows, cols = (
        replace(side, pattern=posterior.law.pattern_of(shared, axis).drawn(side.pattern, rng))
        for axis, side in enumerate(posterior.state.sides)
    )
    return replace(posterior, state=State((rows, cols), shared))


def drawn(posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """One draw of both sides' lines and of what all cells share, from the fitted (mean-field) posterior."""
    shared = drawn_shared(posterior, posterior.state.shared, rng)
    rows, cols = (drawn_side(posterior, axis, side, shared, rng) for axis, side in enumerate(posterior.state.sides))
    return drawn_pattern(replace(posterior, state=State((rows, cols), shared)), rng)


def values_given(known: Posterior, i: Array, j: Array, seed: np.random.SeedSequence) -> Array:
    """One value of each cell (i, j), given a draw of the model, in the user's units.

    Noise depends on the seed and on the cells: the same cells get the same values, and other cells noise of their own.
    """
    return as_seen(known, latent_given(known, i, j, seed))


def latent_given(known: Posterior, i: Array, j: Array, seed: np.random.SeedSequence) -> Array:
    """The same before :func:`as_seen`, so that what is seen can be moved by less than a step.

    Ratings lie between their levels, and counts have a uniform number from 0 to 1 added to them.
    """
    cells = [zlib.crc32(np.asarray(part, np.int64).tobytes()) for part in (i, j)]
    rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *cells)))
    if known.law.scale is not None:
        found = levels.sample(known, i, j, 1, rng)[:, 0]
        return known.law.scale.spread(found, rng.random(len(i)))
    out = np.empty(len(i))
    for m in mixtures(known, i, j):
        out[m.where] = draws(m, 1, rng)[:, 0]
    out = known.units.to_user(out)
    if not known.law.family.discrete:
        return out
    return np.minimum(out + rng.random(len(out)), np.nextafter(out + 1.0, out))  # a large count must not round up


def as_seen(known: Posterior, latent: Array) -> Array:
    """What can be seen of such values: ratings on their levels and within their range, counts whole."""
    support = known.law.support
    if known.law.scale is not None:
        return known.law.scale.nearest(latent)
    if support is not None:
        return support.seen(latent)
    return np.floor(latent) if known.law.family.discrete else latent
