"""Kernels of predictions: compiled loops equal their definition, and Student constants hold to 1e-12."""

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal, norm, t

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.spec import EMPTY_FLOAT, Mixture, NormalPairs, RatePairs
from nmar.prob.factor import pack

ROWS, COLS, CELLS, SIZE = 7, 5, 150, 4
NOWHERE = np.empty((0, 0))
others = pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "reference"])
both = pytest.mark.parametrize("backend", BACKENDS)


def lines(kind, n, rng):
    """Means and packed covariances, variances, or nothing."""
    mean = rng.normal(size=(n, SIZE))
    if kind == "full":
        root = rng.normal(size=(n, SIZE, SIZE))
        return mean, pack(root @ root.transpose(0, 2, 1))
    return mean, rng.gamma(1.0, size=(n, SIZE if kind == "diagonal" else 0))


def pairs(kind, dtype=np.float64, seed=0):
    """Cells in no order, some of one row in turn, some of the last lines by −1."""
    rng = np.random.default_rng(seed)
    sides = [part.astype(dtype) for n in (ROWS, COLS) for part in lines(kind, n, rng)]
    rows, cols = rng.integers(-1, ROWS, CELLS), rng.integers(-1, COLS, CELLS)
    rows[20:40] = 3
    return NormalPairs(*sides, rows, cols)


@others
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "none"])
def test_moments_of_pairs_equal_the_definition(kind, dtype, backend):
    given = pairs(kind, dtype)
    found, exact = (choose(each).pair_moments(given) for each in (backend, "reference"))
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
    rates = RatePairs(*(np.abs(part).astype(np.float64) for part in given[:4]), *given[4:])
    if kind != "full":
        found, exact = (choose(each).pair_rates(rates) for each in (backend, "reference"))
        np.testing.assert_allclose(found, exact, rtol=1e-12)


@both
def test_moments_of_pairs_are_those_of_draws(backend):
    given, n = pairs("full"), 200_000
    i, j = given.rows[0], given.cols[0]
    at = [(mean[k], unpacked(spread[k])) for mean, spread, k in ((*given[:2], i), (*given[2:4], j))]
    a, b = (multivariate_normal(*one, seed=0).rvs(n) for one in at)
    b = b[np.random.default_rng(1).permutation(n)]
    mean, variance = choose(backend).pair_moments(given)[:, 0]
    products = np.sum(a * b, axis=1)
    assert abs(products.mean() - mean) < 4.0 * np.sqrt(variance / n)
    assert products.var() == pytest.approx(variance, rel=0.05)


def unpacked(vector):
    """A packed covariance as a matrix, entry by entry."""
    out, entries = np.empty((SIZE, SIZE)), iter(vector)
    for p in range(SIZE):
        for q in range(p, SIZE):
            out[p, q] = out[q, p] = next(entries) * (1.0 if p == q else np.sqrt(0.5))
    return out


def mixture(components, bins, student, seed=0):
    """Laws of cells; some components and bins have no weight."""
    rng = np.random.default_rng(seed)
    weights = [np.log(rng.dirichlet(np.ones(n), CELLS)) for n in (components, bins)]
    for weight in weights:
        weight[::5, 1:2] = -np.inf
    of_component, of_bin = (w if w.shape[1] > 1 else NOWHERE for w in weights)
    mean, variance = rng.normal(size=(CELLS, components)), rng.gamma(1.0, size=(CELLS, components))
    freedom = np.geomspace(0.4, 200.0, CELLS) if student else EMPTY_FLOAT
    precision = rng.gamma(5.0, size=CELLS) if student else EMPTY_FLOAT
    tables = rng.gamma(5.0, size=(3, bins))
    return Mixture(mean, variance, of_component, precision, freedom, of_bin, *tables), 4.0 * rng.normal(size=CELLS)


@others
@pytest.mark.parametrize("student", [False, True], ids=["normal", "student"])
@pytest.mark.parametrize(("components", "bins"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_densities_equal_the_definition(components, bins, student, backend):
    law, y = mixture(components, bins, student)
    found, exact = (choose(each).log_mixture(y, law) for each in (backend, "reference"))
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=1e-12)


@both
def test_a_density_is_that_of_scipy(backend):
    law, y = mixture(1, 1, True)
    mean = law.phi1 * law.mean[:, 0] + law.delta
    scale = np.sqrt(law.phi1**2 * law.variance[:, 0] + law.noise / law.precision)
    exact = t.logpdf(y, law.freedom, mean, scale)
    np.testing.assert_allclose(choose(backend).log_mixture(y, law), exact, atol=1e-12)
    plain = law._replace(freedom=EMPTY_FLOAT)
    np.testing.assert_allclose(choose(backend).log_mixture(y, plain), norm.logpdf(y, mean, scale), atol=1e-12)


@both
def test_no_weight_is_no_density(backend):
    law, y = mixture(1, 2, True)
    nobody = law._replace(of_bin=np.full((CELLS, 2), -np.inf))
    assert np.all(choose(backend).log_mixture(y, nobody) == -np.inf)


def at_center(freedom):
    """log Γ((ν+1)/2)/Γ(ν/2) of the compiled loop: the density at the center less what is known beside it."""
    n = len(freedom)
    ones, zeros = np.ones((n, 1)), np.zeros((n, 1))
    law = Mixture(zeros, zeros, NOWHERE, EMPTY_FLOAT, freedom, NOWHERE, np.ones(1), np.zeros(1), np.ones(1))
    return choose("numba").log_mixture(zeros[:, 0], law) + 0.5 * np.log(np.pi * freedom * ones[:, 0])


def test_the_constant_of_a_student_density():
    x = np.geomspace(0.01, 5.0, 400)
    np.testing.assert_allclose(at_center(2.0 * x), gammaln(x + 0.5) - gammaln(x), rtol=0.0, atol=1e-13)
    # scipy's difference loses digits where Γ is large; there Γ(x + 1) = x Γ(x) holds the two halves together
    x = np.geomspace(1.0, 5e8, 400)
    np.testing.assert_allclose(at_center(2.0 * x) + at_center(2.0 * x + 1.0), np.log(x), rtol=1e-14, atol=1e-14)


def test_what_does_not_fit_is_named():
    cpu, given = choose("numba"), pairs("full")
    for place, far in (("rows", ROWS), ("rows", -ROWS - 1), ("cols", COLS)):
        wrong = getattr(given, place).copy()
        wrong[-1] = far
        with pytest.raises(IndexError, match=str(far)):
            cpu.pair_moments(given._replace(**{place: wrong}))
    with pytest.raises(ValueError, match="one width"):
        cpu.pair_moments(given._replace(mean=given.mean[:, :2].copy()))
    with pytest.raises(ValueError, match="covariances"):
        cpu.pair_moments(
            given._replace(spread=given.spread[:, :3].copy(), other_spread=given.other_spread[:, :3].copy())
        )
    with pytest.raises(ValueError, match="one of each"):
        cpu.pair_moments(given._replace(rows=given.rows[:3]))
    law, y = mixture(3, 4, True)
    for name in ("variance", "of_bin", "precision", "freedom"):
        with pytest.raises(ValueError, match="do not fit"):
            cpu.log_mixture(y, law._replace(**{name: getattr(law, name)[:-1].copy()}))
