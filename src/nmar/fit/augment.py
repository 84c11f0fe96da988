"""Joint draws of a fitted model by data augmentation: half sweeps whose lines are drawn, not averaged.

Enters: a posterior and the cells it was fitted to. Leaves: draws of the whole model, one after the other. Mean field
takes the two sides as independent, so that draws from it understate how unsure sums over a line are. Here a half sweep
of one side, given a draw of the other, leaves the conditional posterior of its lines; they are drawn from it, and so on
in turn (Tanner and Wong's data augmentation; exact for Gaussian models without linkage, mixtures and effects). Counts
n and allocations of Poisson factors enter by their conditional expectation. The pattern, the linkage and the priors
stay as they were fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.fit.executor import threads
from nmar.fit.problem import cast, observe
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.predictive import BinTable
from nmar.models.shared import Info
from nmar.models.state import Shared, State
from nmar.models.views import tabulated
from nmar.posterior.joint import drawn, drawn_pattern, drawn_shared, drawn_side
from nmar.posterior.posterior import Posterior
from nmar.prob.learn_dispersion import PRIOR_SHAPE, best_dispersion

BURN = 4  # times ``sweeps`` are made before the first draw is kept


def joint_draws(
    posterior: Posterior,
    cells: Cells | None,
    n: int,
    sweeps: int,
    seed: np.random.SeedSequence,
    *,
    hidden: Cells | None = None,
    n_jobs: int | None = None,
    backend: str = "auto",
) -> Iterator[Posterior]:
    """``n`` draws of the lines of both sides and of what all cells share.

    Parameters
    ----------
    posterior : Posterior
        A fitted model.
    cells : Cells or None
        Cells that it was fitted to, needed with ``sweeps``.
    n : int
        Number of draws.
    sweeps : int
        Sweeps of data augmentation between two draws, and ``BURN`` times as many before the first. With 0 draws are
        independent, from the mean-field posterior.
    seed : SeedSequence
        Seed of the draws.
    hidden : Cells or None, default=None
        Cells that are neither observed nor missing.
    """
    rng = np.random.default_rng(seed)
    if sweeps == 0:
        for _ in range(n):
            yield drawn(posterior, rng)
        return
    assert cells is not None
    law = replace(posterior.law, dtype=np.float64)
    rows, cols = (cast(side, np.float64) for side in posterior.state.sides)
    known = replace(posterior, law=law, state=State((rows, cols), posterior.state.shared))
    observed = observe(cells, law, hidden, posterior.units, np.float64)
    link: Any = posterior.state.shared.linkage
    if link.bins == "known":
        observed = replace(observed, group=link.group(known.rates(*cells.positions())))
    with threads(n_jobs) as executor:
        context = Context(observed, law, choose(backend), executor)
        state = tabulated(drawn_lines(known, rng), context)
        for k in range(n):
            for _ in range(sweeps * (BURN if k == 0 else 1)):
                state = augmented_sweep(known, state, context, rng)
            yield drawn_pattern(replace(known, state=state), rng)


def drawn_lines(posterior: Posterior, rng: np.random.Generator) -> State:
    """The state with the lines of the data model and its globals drawn, the pattern as it is."""
    shared = drawn_shared(posterior, posterior.state.shared, rng)
    sides = [drawn_side(posterior, axis, side, shared, rng) for axis, side in enumerate(posterior.state.sides)]
    return State((sides[0], sides[1]), shared)


def augmented_sweep(known: Posterior, state: State, context: Context, rng: np.random.Generator) -> State:
    """Draw the lines of each axis from their posterior given the other side, then what all cells share."""
    law = context.law
    for axis in (law.lead, 1 - law.lead):
        side, info, size = half_sweep(axis, state, context)
        side = replace(side, pattern=state.sides[axis].pattern)
        state = State(state.sides, replace(state.shared, table_size=size)).with_side(axis, side)
        shared = drawn_dispersion(known, state.shared, info, rng)
        state = State(state.sides, shared).with_side(axis, drawn_side(known, axis, side, shared, rng))
    return state


def drawn_dispersion(known: Posterior, shared: Shared, info: Info, rng: np.random.Generator) -> Shared:
    """σ² drawn from its inverse gamma posterior (other families: at its mode), and the data model's globals."""
    law, stats = known.law, info.stats
    if not law.data.has_values or stats is None:
        return shared
    family, link = law.family, shared.linkage
    means, phi2 = link.mean_tables(stats.size), link.bin_table(stats.size)
    dispersion = shared.dispersion
    fixed = shared.reader is not None and shared.reader.scale_is_known
    if law.data.precision(shared.data) is None and not fixed:
        dispersion = best_dispersion(family, family.reduced(stats, *means), phi2, dispersion)
        if family.location:
            shape = PRIOR_SHAPE + 0.5 * stats.cells
            dispersion *= (shape + 1.0) / float(rng.gamma(shape))
    data = law.data.absorb(shared.data, stats, BinTable(*means, phi2, dispersion))
    return drawn_shared(known, replace(shared, data=data, dispersion=dispersion), rng)
