"""The stages of the two-stage baseline: a pattern by itself, then values whose bins it gives (theory.md, Control)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nmar.models.context import Observed
from nmar.models.protocol import KnownLines
from nmar.models.state import Shared, Side, State
from nmar.models.unmodelled import Unmodelled
from nmar.posterior.posterior import Posterior
from nmar.prob.linkage import Ignorable
from nmar.prob.twostage import Quadratic, quadratic


def pattern_alone(posterior: Posterior) -> Posterior:
    """The first stage of a fitted baseline: its pattern, without a model of the values."""
    law = replace(posterior.law, data=Unmodelled(), pattern_fixed=False, taste=None, scale=None)
    bare = (KnownLines(np.empty((len(side.pattern.weights.alpha), 0))) for side in posterior.state.sides)
    rows, cols = (Side(side.pattern, lines) for side, lines in zip(posterior.state.sides, bare, strict=True))
    shared = Shared(
        1.0, Ignorable().start(), None, shapes=posterior.state.shared.shapes, effects=posterior.state.shared.effects
    )
    return Posterior(law, State((rows, cols), shared), posterior.rows, posterior.cols)


def on_pattern(state: State, observed: Observed, pattern: Posterior) -> tuple[State, Observed]:
    """A state of the values, and what its sweeps read, on the pattern of a first stage.

    Bins are quantiles of its rates. Where a quadratic was fitted before, the new one starts from it.
    """
    rates, old = pattern.rates(*observed.cells.positions()), state.shared.linkage
    link = quadratic(rates).start()
    if isinstance(old, Quadratic):
        link = replace(link, slope=old.slope, bend=old.bend)
    first, second = pattern.state.sides
    rows, cols = state.sides
    sides = (replace(rows, pattern=first.pattern), replace(cols, pattern=second.pattern))
    known = pattern.state.shared
    shared = replace(state.shared, linkage=link, shapes=known.shapes, effects=known.effects)
    return State(sides, shared), replace(observed, group=link.group(rates))
