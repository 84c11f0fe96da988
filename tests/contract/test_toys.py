"""A family, a linkage and a data model of this file alone: they are fitted, saved, loaded, folded in and grown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import digamma, gammaln
from test_kernels import LINKAGES, Case, agree, block_of, crossing_of, tolerance_of

import nmar
from nmar.kernels.choose import choose
from nmar.models.predictive import NormalPredictive
from nmar.models.protocol import DataModel, Features, KnownLines, Start
from nmar.prob.families import FAMILIES
from nmar.prob.families.base import Conjugate, CountFamily
from nmar.prob.learn_dispersion import best_dispersion, value_at
from nmar.prob.linkage.base import Linkage


@nmar.register
@dataclass(frozen=True)
class Step(Linkage):
    """phi2(1) = 1 and phi2(n) = exp(height) from n = 2 on, with a normal prior of the height."""

    name: ClassVar[str] = "step"
    height: float = 0.0

    @property
    def bins(self):
        return "tail"

    @property
    def size(self):
        return 2

    @property
    def parameters(self):
        return 1

    @property
    def limits(self):
        return min(1.0, float(np.exp(self.height))), max(1.0, float(np.exp(self.height)))

    def start(self, sd=1.0):
        return replace(super().start(sd), learn=True)

    def table(self, n):
        return np.exp(self.height * (np.arange(1, n + 1) > 1))

    def _expected(self, rate):
        one = rate / np.expm1(rate)
        return one + (1.0 - one) * np.exp(self.height)

    def log_prior(self):
        return -0.5 * self.height**2

    def bent(self, sign, sd):
        return replace(self, height=0.3 * sign)

    def learn_spread(self, family, dispersion, stats, learn_dispersion):
        def at(height):
            moved = replace(self, height=float(height))
            table = moved.bin_table(stats.size)
            best = best_dispersion(family, stats, table, dispersion) if learn_dispersion else dispersion
            return value_at(family, stats, table, best) + moved.log_prior(), moved, best

        def slope(height):  # of the objective at its best dispersion
            _, moved, best = at(height)
            x = best * moved.bin_table(stats.size)
            return float((family.derivatives(stats, x)[0] * x)[1:].sum()) - height

        found = brentq(slope, -50.0, 50.0, xtol=1e-14)
        return max((at(found), at(self.height)), key=lambda each: each[0])[1:]


@nmar.register
@dataclass(frozen=True, eq=False)
class Means:
    """Normal means of lines."""

    mean: np.ndarray  # (n,)
    variance: np.ndarray  # (n,)

    def take(self, lines):
        return Means(self.mean[lines], self.variance[lines])


@nmar.register
@dataclass(frozen=True)
class RowMeans(DataModel):
    """y_ij ~ N(a_i, ·), a_i ~ N(0, 1)."""

    def init(self, cells, lead, rng):
        rows, cols = cells.shape
        return Start(Means(np.zeros(rows), np.ones(rows)), KnownLines(np.ones((cols, 1))), None)

    def draw(self, shape, rng):
        return Start(Means(rng.normal(size=shape[0]), np.zeros(shape[0])), KnownLines(np.ones((shape[1], 1))), None)

    def features(self, side, axis, shared):
        if axis == 1:
            return Features(side.shown, side.shown)
        return Features(side.mean[:, None], (side.mean**2 + side.variance)[:, None])

    def update(self, side, axis, shared, found, kernels):
        if axis == 1:
            return side
        variance = 1.0 / (1.0 + found.quadratic[:, 0])
        return Means(variance * found.linear[:, 0], variance)

    def divergence(self, side, axis, shared):
        if axis == 1:
            return 0.0
        return 0.5 * float(np.sum(side.mean**2 + side.variance - 1.0 - np.log(side.variance)))

    def predictive(self, rows, cols, shared):
        return NormalPredictive(rows.mean[:, None], rows.variance[:, None])

    def prior_line(self, axis, side, shared):
        return KnownLines(np.ones((1, 1))) if axis == 1 else Means(np.zeros(1), np.ones(1))


class EvenConjugate(Conjugate):
    """exp(2 theta) ~ Ga(a / 2, b)."""

    def theta(self, a, b):
        return 0.5 * float(digamma(a / 2) - np.log(b))

    def psi(self, a, b):
        return 0.5 * a / b

    def spread(self, a, b):
        return 2.0 * a / b, 2.0 * a / b**2

    def log_normaliser(self, a, b):
        return gammaln(a / 2) - a / 2 * np.log(b) - np.log(2.0)

    def draw(self, a, b, size, rng):
        return 0.5 * np.log(rng.gamma(a / 2, 1.0 / b, size))


@dataclass(frozen=True)
class Pairs(CountFamily):
    """Events come in pairs: half of y is Poisson with rate x exp(2 theta)."""

    name: ClassVar[str] = "pairs"
    learns_dispersion: ClassVar[bool] = False
    basis: ClassVar[tuple[str, ...]] = ("cells", "half", "psi")
    conjugate: ClassVar[Conjugate] = EvenConjugate()

    def log_partition(self, theta):
        return np.exp(2.0 * np.asarray(theta))

    def log_base(self, y, x):
        half = np.asarray(y) / 2
        inside = (half >= 0) & (half == np.floor(half))
        return np.where(inside, half * np.log(x) - gammaln(half + 1.0), -np.inf)

    def slopes(self, x):
        return np.stack([np.zeros_like(x), np.log(x), -x])

    def functions(self, y):
        return (0.5 * y,)

    def constant(self, y):
        return -gammaln(0.5 * y + 1.0)

    def mean(self, theta, x):
        return 2.0 * np.asarray(x) * np.exp(2.0 * np.asarray(theta))

    def natural(self, slope):
        return 0.5 * float(np.log(slope / 2.0))

    def variance(self, theta, x):
        return 2.0 * self.mean(theta, x)

    def sample(self, theta, x, rng):
        return 2.0 * rng.poisson(0.5 * self.mean(theta, x))

    def peak(self, y, e_psi):
        return 0.5 * np.asarray(y) / np.asarray(e_psi)

    def derivatives(self, stats, x):
        half = stats.vector("half")
        return half / x - stats.vector("psi"), -half / x**2


@pytest.fixture(autouse=True, scope="module")
def registered():
    """Other test files list the families there are, so this one is known only here."""
    yield nmar.register(Pairs)
    del FAMILIES["pairs"]


TOYS = {
    "family": ("pairs", "free"),
    "family, open table": ("pairs", nmar.Geometric()),
    "family and linkage": ("pairs", Step(thinning=4.0)),
    "linkage": (nmar.Factorization(2), Step()),
    "thinned linkage": (nmar.Factorization(2), Step(thinning=4.0)),
    "data model": (RowMeans(), "free"),
    "both": (RowMeans(), Step()),
}


@pytest.fixture(params=TOYS)
def toy(request):
    data, link = TOYS[request.param]
    return (nmar.Constant(data), link) if data == "pairs" else (data, link)


@pytest.fixture
def cells(toy):
    data = toy[0] if isinstance(toy[0], nmar.Constant) else nmar.Effects("rows")
    return nmar.simulate((40, 30), data, nmar.Linear(0.4), 0.3, 0)[0]


@pytest.fixture
def model(toy):
    data, link = toy
    return nmar.CCPF(data, link, factors=3, max_iter=15, tol=0.0, random_state=0)


def test_the_bound_never_falls_and_backends_agree(model, cells):
    bounds = model.fit(cells).bound_trace_
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(bounds))
    slow = nmar.CCPF(**{**model.get_params(deep=False), "backend": "reference"}).fit(cells)
    np.testing.assert_allclose(slow.bound_trace_, bounds, rtol=1e-9)


def test_the_family_is_the_poisson_of_half_the_values():
    cells, _ = nmar.simulate((40, 30), nmar.Constant("pairs"), nmar.Linear(0.4), 0.3, 0)
    halved = cells.with_values(cells.values / 2)
    pairs, poisson = (
        nmar.CCPF(nmar.Constant(name), "free", factors=3, max_iter=10, tol=0.0, random_state=0).fit(given)
        for name, given in (("pairs", cells), ("poisson", halved))
    )
    np.testing.assert_allclose(pairs.bound_trace_, poisson.bound_trace_, rtol=1e-11)
    rows, cols = cells.pairs()
    np.testing.assert_allclose(pairs.predict_entries(rows, cols), 2.0 * poisson.predict_entries(rows, cols), rtol=1e-9)


@pytest.mark.parametrize("linkage", [name for name, link in LINKAGES.items() if link.bins != "known"])
@pytest.mark.parametrize("separate", [False, True])
def test_kernels_agree_on_the_family(linkage, separate):
    """The contract table of the kernels."""
    case = Case("pairs", linkage, "plain", separate)
    block, law = block_of(case), crossing_of(case)
    found = {name: choose(name).expect(*block.views(), law) for name in ("reference", "numba")}
    agree(found["numba"], found["reference"], tolerance_of(law, np.float64))
    exact, vectors = (choose(name).statistics(*block.views(), law, held)[0] for name, held in found.items())
    np.testing.assert_allclose(vectors, exact, **tolerance_of(law, np.float64))


@pytest.mark.parametrize("height", [-1.5, 1.5])
def test_a_step_is_learned(height):
    drawn, _ = nmar.simulate((150, 100), RowMeans(), Step(height=height), 0.5, 0)
    found = nmar.CCPF(RowMeans(), Step(), factors=3, random_state=0).fit(drawn)
    assert found.linkage_.height == pytest.approx(height, abs=0.5)


def test_files_keep_everything(model, cells, tmp_path):
    model.fit(cells).save(tmp_path / "model")
    again = nmar.load(tmp_path / "model")
    rows, cols = cells.pairs()
    for ask in ("predict_entries", "observed_probability"):
        np.testing.assert_array_equal(getattr(again, ask)(rows, cols), getattr(model, ask)(rows, cols))
    assert again.linkage_ == model.linkage_


def test_rows_are_folded_in_and_cells_added(model, cells):
    first = cells.take_rows(np.arange(30))
    model.fit(first)
    folded = model.fold_in(cells.take_rows(np.arange(30, 40)))
    assert np.isfinite(folded.log_likelihood(cells.take_rows(np.arange(30, 40))))
    model.partial_fit(cells, sweeps=15)
    assert model.posterior_.rows.size == 40 and np.isfinite(model.score(cells))


def test_settings_are_searched_like_any_other():
    cells = nmar.simulate((40, 30), nmar.Effects("rows"), nmar.Linear(0.4), 0.3, 0)[0]
    model = nmar.CCPF(RowMeans(), Step(thinning=4.0), factors="auto", max_iter=6, random_state=0).fit(cells)
    assert {choice.setting for choice in model.choices_} == {"factors"}
