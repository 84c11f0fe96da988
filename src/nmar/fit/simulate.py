"""Draws from the exact generative model: pattern, counts, natural parameters, values (theory.md, Model)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.fit.options import Options
from nmar.fit.problem import seed_sequence
from nmar.models.law import Law
from nmar.models.missingness import Pattern, PatternSide
from nmar.models.noise import Noise
from nmar.models.protocol import DataModel
from nmar.models.settings import Factorization, Settings
from nmar.models.settings.leveled import LevelSettings
from nmar.models.state import Shared, Side, State
from nmar.posterior import levels
from nmar.posterior.posterior import Posterior
from nmar.prob.counts import chance
from nmar.prob.factor import SURE, GammaFactor
from nmar.prob.linkage import Linkage, linkage

PATTERN = Pattern(factors=5, shape=1.0, activity_shape=3.0, activity_rate=1.0)


@dataclass(frozen=True, eq=False)
class Truth:
    """What the data were drawn from.

    Attributes
    ----------
    counts : ndarray
        Events of each observed cell, row-major, with thinning those that were not recorded too.
    posterior : Posterior
        The true parameters as a posterior without uncertainty, so that the truth can be scored.
    linkage : Linkage
        Linkage of the cells.
    dispersion : float
        Dispersion of the values.
    """

    counts: Array
    posterior: Posterior

    @property
    def linkage(self) -> Linkage:
        """The true linkage."""
        return self.posterior.state.shared.linkage

    @property
    def dispersion(self) -> float:
        """The true σ² or κ."""
        return self.posterior.state.shared.dispersion

    @property
    def rates(self) -> tuple[Array, Array]:
        """True row and column weights of the pattern, u and v."""
        rows, cols = self.posterior.state.sides
        return rows.pattern.weights.mean, cols.pattern.weights.mean

    @property
    def noise(self) -> tuple[Array | None, Array | None]:
        """True noise levels λ and ρ of rows and columns; None where an axis has none."""
        rows, cols = (None if side.noise is None else side.noise.mean for side in self.posterior.state.sides)
        return rows, cols


def simulate(
    shape: tuple[int, int] = (1000, 500),
    data: Settings | None = None,
    linkage: str | Linkage = "linear",
    density: float = 0.05,
    seed: Any = 0,
    *,
    dispersion: float = 1.0,
    pattern: Pattern = PATTERN,
    noise: str = "constant",
    tail: float | Literal[False] = False,
) -> tuple[Cells, Truth]:
    """Draw a matrix from the coupled model.

    Parameters
    ----------
    shape : tuple of (int, int), default=(1000, 500)
        Numbers of rows and columns.
    data : data model or None, default=None
        Data model. None: ``Factorization(5)``. With ``family="levels"`` its levels are given (``levels=range(1, 6)``),
        and cut points and styles are drawn.
    linkage : str or Linkage, default="linear"
        Linkage, or its name. A parameter that would be learned has its starting value.
    density : float, default=0.05
        Expected share of observed cells.
    seed : int, Generator or None, default=0
        Seed of all draws.
    dispersion : float, default=1.0
        Dispersion, σ² of the Gaussian or κ of the other families.
    pattern : Pattern, optional
        Law of the missingness pattern; its scale is set by ``density``.
    noise : {"constant", "rows", "cols", "rows+cols"}, default="constant"
        Which lines have noise levels of their own, λ ~ Ga(5, 5).
    tail : float or False, default=False
        Degrees of freedom of a Student tail. False: normal values.

    Returns
    -------
    cells : Cells
        The observed cells.
    truth : Truth
        Parameters and counts that they were drawn from.

    Examples
    --------
    >>> cells, truth = simulate(shape=(50, 40), density=0.1, seed=0)
    >>> cells.shape, len(truth.counts) == cells.n_observed
    ((50, 40), True)
    >>> cells, truth = simulate((50, 40), linkage="ignorable", density=0.1, noise="rows", tail=4.0)
    >>> truth.noise[0].shape, truth.noise[1]
    ((50,), None)
    """
    if not 0.0 < density < 1.0:
        raise ValueError(f"density={density!r}; give a share between 0 and 1")
    _check_shape(shape)
    if not (isinstance(dispersion, int | float | np.number) and 0.0 < dispersion < np.inf):
        raise ValueError(f"dispersion={dispersion!r}; give a number above 0")
    check_seed("seed", seed)
    if pattern.has_covariates:
        raise ValueError("a pattern with covariates cannot be simulated; simulate without them")
    link = _resolve(linkage)
    streams = (np.random.default_rng(s) for s in seed_sequence(seed).spawn(4))
    for_pattern, for_data, for_values, for_noise = streams
    u, v = _weights(shape, pattern, density, for_pattern)
    i, j, recorded = thrown(u, v, for_pattern)
    n = recorded + _unrecorded(u[i], v[j], link.events, for_pattern)
    model = (Factorization(5) if data is None else data).build(None)
    noises, law = _noise(model, link, noise, tail), Law(pattern, model)
    start = model.draw(shape, for_data)
    link.supports(law.family)
    sides = (
        Side(_known(u, pattern), start.rows, _levels(noises, 0, shape, for_noise)),
        Side(_known(v, pattern), start.cols, _levels(noises, 1, shape, for_noise)),
    )
    state = State(sides, Shared(float(dispersion), link, start.globals, noise=noises))
    known = Posterior(law, state, Axis.range(shape[0]), Axis.range(shape[1]))
    settings = getattr(data, "level_settings", lambda: None)()
    if settings is not None:
        if link.couples:
            raise ValueError(f"linkage={link.name!r} links the spread of values; levels need linkage='ignorable'")
        known = _with_levels(known, settings, i, j, for_noise)
    values = _values(known, i, j, n, for_values)
    return Cells.from_arrays(i, j, values, shape), Truth(n, known)


def _with_levels(known: Posterior, settings: LevelSettings, i: Array, j: Array, rng: np.random.Generator) -> Posterior:
    """The truth with cut points, and with the styles of its lines."""
    mean, variance = known.cells(i, j).moments(known.table(None))
    spread = float(np.sqrt(mean.var() + variance.mean()))
    lines = (len(known.rows), len(known.cols))[settings.axis]
    first, state = settings.draw(lines, spread, rng), known.state
    rows, cols = (replace(side, reading=first.reading(axis)) for axis, side in enumerate(state.sides))
    state = State((rows, cols), replace(state.shared, reader=first.reader))
    return replace(known, law=replace(known.law, scale=first.scale), state=state)


def _check_shape(shape: Any) -> None:
    """Refuse anything but two whole numbers that a matrix of cells can have for a shape."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(sizes) != 2 or not all(isinstance(size, int | np.integer) and size >= 2 for size in sizes):
        raise ValueError(f"shape={shape!r}; give two whole numbers, rows and columns, of at least 2 each")


def _noise(model: DataModel, link: Linkage, noise: str, tail: float | Literal[False]) -> Noise | None:
    """The noise, or None. A fit's error refuses what this model and linkage cannot have."""
    if tail is True:
        raise ValueError("tail=True; give degrees of freedom above 0, or False")
    return Options(noise=noise, tail=tail).noise_law(model, link)


def _levels(noise: Noise | None, axis: int, shape: tuple[int, int], rng: np.random.Generator) -> GammaFactor | None:
    """Noise levels drawn for an axis, without spread; None where it has none."""
    prior = None if noise is None else noise.start(axis, shape[axis])
    return None if prior is None else prior.drawn(rng)


def _resolve(link: str | Linkage) -> Linkage:
    return linkage(link).start()


def _weights(shape: tuple[int, int], pattern: Pattern, density: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """u and v with r ~ Ga, u ~ Ga(η, r), scaled so that the expected density is met (a change of ϱ)."""
    sides = []
    for n in shape:
        rate = rng.gamma(pattern.activity_shape, 1.0 / pattern.activity_rate, n)
        sides.append(rng.gamma(pattern.shape, 1.0, (n, pattern.factors)) / rate[:, None])
    u, v = sides
    probe = rng.integers(shape[0], size=20_000), rng.integers(shape[1], size=20_000)
    rates = np.einsum("pk,pk->p", u[probe[0]], v[probe[1]])

    def excess(log_scale: float) -> float:
        return float(np.mean(chance(np.exp(log_scale) * rates)) - density)

    scale = np.exp(brentq(excess, -60.0, 60.0))
    return u * np.sqrt(scale), v * np.sqrt(scale)


def thrown(u: Array, v: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """All cells with n > 0, exactly: component k throws Po(Σu_k Σv_k) points at rows ∝ u_k and columns ∝ v_k."""
    keys = []
    for k in range(u.shape[1]):
        points = rng.poisson(u[:, k].sum() * v[:, k].sum())
        row = rng.choice(len(u), points, p=u[:, k] / u[:, k].sum())
        col = rng.choice(len(v), points, p=v[:, k] / v[:, k].sum())
        keys.append(row.astype(np.int64) * len(v) + col)
    key, n = np.unique(np.concatenate(keys), return_counts=True)
    if not len(key):
        raise ValueError("density is so small that no cell was observed; raise it or the shape")
    return key // len(v), key % len(v), n


def _unrecorded(u: Array, v: Array, thinning: float, rng: np.random.Generator) -> Array:
    """m ~ Po((s − 1)Λ) of the observed cells, whose weights are given in pairs; none are drawn without thinning."""
    if thinning == 1.0:
        return np.zeros(len(u), np.int64)
    return rng.poisson((thinning - 1.0) * np.einsum("pk,pk->p", u, v))


def _known(weights: Array, pattern: Pattern) -> PatternSide:
    """Known weights as a factor without spread."""
    factor = GammaFactor(np.full(weights.shape, SURE), SURE / np.maximum(weights, 1e-300))
    return PatternSide(factor, pattern.activity(factor))


def _values(known: Posterior, i: Array, j: Array, n: Array, rng: np.random.Generator) -> Array:
    """y given the counts; levels, which have no linkage, by their probabilities."""
    if known.law.scale is not None:
        return levels.sample(known, i, j, 1, rng)[:, 0]
    link = known.state.shared.linkage
    table = known.table(int(n.max()) if link.size is None else None)
    if link.bins == "parity":
        bins = (n - 1) % 2
    elif link.starts is not None:
        bins = np.searchsorted(link.starts, n, side="right") - 1
    else:
        bins = np.minimum(n - 1, len(table.phi2) - 1)
    return known.cells(i, j).sample(bins[:, None], table, rng)[:, 0]
