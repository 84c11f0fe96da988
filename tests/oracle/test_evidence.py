"""The bound lies below the log evidence, which tiny problems let us integrate by quadrature.

Two rows, one column, one factor in each model. The rates r, w integrate out in closed form:
u = ϱx/(1−x) with x ~ Beta(η, ρ), so Gauss–Jacobi nodes in x integrate over u and v (and over the gamma lines
of a Poisson product); normal lines take Gauss–Hermite nodes. Given v and the column's line b, rows are
independent. Priors are tight, so that mean field loses little and a forgotten term of the bound shows.
"""

from dataclasses import replace

import enumeration as oracle
import numpy as np
import pytest
from problems import FIXED, advanced
from scipy.special import gammaln, logsumexp, roots_hermitenorm, roots_jacobi

from nmar.data.cells import Cells
from nmar.fit.executor import Serial
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context, Observed
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.product import Product
from nmar.models.settings import Factorization

PATTERN = Pattern(1, shape=5.0, activity_shape=200.0, activity_rate=40.0)
NODES, COUNTS = 120, 200
GAP = 0.6  # nats; mean field loses 0.16 to 0.37 here, a forgotten KL term or factorial more


def beta_prime(shape, scale_shape, scale_rate, nodes=NODES):
    """Nodes and weights of u ~ Ga(shape, r), r ~ Ga(scale_shape, scale_rate), r integrated out."""
    x, weight = roots_jacobi(nodes, scale_shape - 1.0, shape - 1.0)
    x = 0.5 * (1.0 + x)
    return scale_rate * x / (1.0 - x), weight / weight.sum()


def log_count_law(v):
    """log P(n | v), n = 0 … COUNTS, one row's weight u integrated out."""
    u, weight = beta_prime(PATTERN.shape, PATTERN.activity_shape, PATTERN.activity_rate)
    n = np.arange(COUNTS + 1)[:, None]
    return logsumexp(n * np.log(u * v) - u * v - gammaln(n + 1), b=weight, axis=1)


def gaussian_given_column(y, state):
    """log p(y | n, b): (nodes of b, n), the row's a integrated out; and the weights of the nodes."""
    priors, shared = state.shared.data, state.shared
    node, weight = roots_hermitenorm(NODES)
    b = node * np.sqrt(priors.variance[1][0])
    spread = oracle.table(shared.linkage, COUNTS).spread * shared.dispersion
    variance = b[:, None] ** 2 * priors.variance[0][0] + spread
    return -0.5 * np.log(2 * np.pi * variance) - 0.5 * y**2 / variance, weight / weight.sum()


def product_given_column(y, state, model):
    """As :func:`gaussian_given_column` for y ~ Po(φ(n) a b), gamma lines."""
    b, weight = beta_prime(model.shape, model.scale_shape, model.scale_rate)
    a, own = beta_prime(model.shape, model.scale_shape, model.scale_rate)
    rate = oracle.table(state.shared.linkage, COUNTS).spread[None, :, None] * b[:, None, None] * a
    logs = y * np.log(rate) - rate - gammaln(y + 1.0)
    return logsumexp(logs, b=own, axis=2), weight


def log_evidence(values, state, given_column):
    """log p(pattern and values); a value of None is a missing cell."""
    v, v_weight = beta_prime(PATTERN.shape, PATTERN.activity_shape, PATTERN.activity_rate)
    tables = [None if y is None else given_column(y) for y in values]
    b_weight = next(t[1] for t in tables if t is not None)
    total = np.empty(len(v))
    for at, node in enumerate(v):
        log_n = log_count_law(node)
        rows = np.zeros(len(b_weight))
        for t in tables:
            rows = rows + (log_n[0] if t is None else logsumexp(log_n[1:] + t[0], axis=1))
        total[at] = logsumexp(rows, b=b_weight)
    return float(logsumexp(total, b=v_weight))


def fitted(values, model, linkage, sweeps=60):
    """A state fitted to one column of values (None: missing), values not centred."""
    seen = [i for i, y in enumerate(values) if y is not None]
    cells = Cells.from_arrays(seen, [0] * len(seen), [values[i] for i in seen], shape=(len(values), 1))
    started = begin(cells, model, linkage, PATTERN)
    state = replace(started.state, shared=replace(started.state.shared, center=0.0))
    started = replace(started, state=state, observed=Observed(cells))
    return started, advanced(started, sweeps)


@pytest.mark.parametrize("values", [(1.5, None), (0.5, 1.0)], ids=["one-missing", "both-seen"])
@pytest.mark.parametrize("link", ["ignorable", "linear+", "free", "compound"])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_bound_is_below_the_log_evidence(family, link, values):
    if family == "poisson":
        values = tuple(None if y is None else float(round(y)) for y in values)
        model = Product(1, shape=5.0, scale_shape=200.0, scale_rate=40.0)
    else:
        model = Factorization(1, bias=False).build(None)
    started, state = fitted(values, model, FIXED[link])
    _, info, _ = half_sweep(0, state, Context(started.observed, started.law, choose("numba"), Serial()))
    reached = bound(state, info.log_z, started.law) - oracle.log_priors(started.law, state)

    def given_column(y):
        return gaussian_given_column(y, state) if family == "gaussian" else product_given_column(y, state, model)

    exact = log_evidence(values, state, given_column)
    assert reached <= exact + 1e-6
    assert reached >= exact - GAP


def test_quadrature_integrates_the_prior():
    """P(n) over n sums to one, and a fine grid of nodes gives the same evidence of a missing cell."""
    v, weight = beta_prime(PATTERN.shape, PATTERN.activity_shape, PATTERN.activity_rate)
    exact = beta_prime(PATTERN.shape, PATTERN.activity_shape, PATTERN.activity_rate, 400)
    coarse = weight @ [np.exp(log_count_law(x)[0]) for x in v]
    fine = exact[1] @ [np.exp(log_count_law(x)[0]) for x in exact[0]]
    assert coarse == pytest.approx(fine, rel=1e-6)
    assert np.exp(logsumexp(log_count_law(1.0))) == pytest.approx(1.0, abs=1e-6)
