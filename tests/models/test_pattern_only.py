"""Poisson factorization of which cells are observed, without a model of the values."""

import numpy as np
import pytest

import nmar
from nmar.kernels.choose import choose
from nmar.kernels.layout import bare_view
from nmar.models.missingness import Pattern

COMMON = {"linkage": "ignorable", "factors": 3, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def cells():
    """A table observed in two blocks; its values must not matter."""
    rng = np.random.default_rng(0)
    rate = np.full((40, 30), 0.05)
    rate[:20, :15] = rate[20:, 15:] = 0.6
    seen = rng.random(rate.shape) < rate
    return nmar.Cells.from_dense(np.where(seen, rng.normal(size=rate.shape), np.nan))


def fit(cells, **given):
    return nmar.CCPF(nmar.PatternOnly(), **{**COMMON, "max_iter": 30, **given}).fit(cells)


def test_both_backends_agree_and_the_bound_never_falls(cells):
    compiled, reference = (fit(cells, backend=backend).bound_trace_ for backend in ("numba", "reference"))
    np.testing.assert_allclose(compiled, reference, rtol=1e-11)
    assert np.all(np.diff(compiled) >= -1e-10 * np.abs(compiled[1:]))


def test_weights_are_read_where_they_are_if_they_lie_well(cells):
    """16 factors fill whole vectors: nothing is copied, and the answer is that of the definition all the same."""
    for factors, copied in ((16, False), (3, True)):
        given = [fit(cells, factors=factors, backend=backend) for backend in ("numba", "reference")]
        np.testing.assert_allclose(*(model.bound_trace_ for model in given), rtol=1e-11)
        pair = Pattern(factors).init(4, np.ones(4), 0.1, np.random.default_rng(0)).empty(choose("reference").empty)
        assert (bare_view(pair.log_weights, pair.geometric) is None) == copied
        part = pair.take(slice(1, 3))
        shown = bare_view(part.log_weights, part.geometric)
        assert copied or np.shares_memory(shown.packed, pair.geometric)


def test_it_is_the_pattern_of_the_ignorable_model(cells):
    """Values that are ignorable do not move the pattern."""
    alone = fit(cells)
    with_values = nmar.CCPF(nmar.Factorization(2), **COMMON, max_iter=30).fit(cells)
    rows, cols = np.indices(cells.shape)
    found = (m.observed_probability(rows.ravel(), cols.ravel()) for m in (alone, with_values))
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_values_do_not_matter(cells):
    other = fit(cells.map_values(lambda y: 7.0 - 3.0 * y))
    np.testing.assert_array_equal(other.bound_trace_, fit(cells).bound_trace_)


def test_it_finds_the_blocks(cells):
    model = fit(cells, max_iter=100)
    inside, outside = model.observed_probability([0, 30], [0, 20]), model.observed_probability([0, 30], [20, 0])
    assert inside.min() > 3 * outside.max()
    best, _ = model.recommend([0], n=3, by="observed", exclude_seen=False)
    assert np.all(best < 15)


def test_what_asks_for_values_is_refused(cells, tmp_path):
    model = fit(cells, max_iter=2)
    with pytest.raises(ValueError, match="observed_probability"):
        model.predict_entries([0], [0])
    with pytest.raises(ValueError, match="ignorable"):
        fit(cells, linkage="free")
    model.save(tmp_path / "m.nmar")
    again = nmar.load(tmp_path / "m.nmar")
    assert again.observed_probability([0], [0]) == model.observed_probability([0], [0])
