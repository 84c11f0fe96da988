"""A tail beside the coupling: pairs of bins, their M-step, and what it contains."""

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.prob import counts
from nmar.prob.families import family
from nmar.prob.learn import objective, update
from nmar.prob.linkage import Free
from nmar.prob.statistics import Statistics

LINK = Free(levels=4, tail=2, strength=2.0).start()


def gaussian_statistics(seed=0):
    """Cells and residuals of 4 × 2 bins."""
    rng = np.random.default_rng(seed)
    cells = rng.gamma(3.0, 20.0, 8)
    return Statistics(("cells", "residual"), np.stack([cells, cells * rng.gamma(4.0, 0.4, 8)]))


def poisson_statistics(seed=0):
    """Cells, counts and rates of 4 × 2 bins."""
    rng = np.random.default_rng(seed)
    cells = rng.gamma(3.0, 20.0, 8)
    return Statistics(("cells", "y", "psi"), np.stack([cells, cells * rng.gamma(4.0, 0.5, 8), 2.0 * cells]))


@pytest.mark.parametrize(("name", "stats"), [("gaussian", gaussian_statistics()), ("poisson", poisson_statistics())])
def test_m_step_rises_and_is_flat_in_table_tail_and_shares(name, stats):
    law, started = family(name), 1.0
    linkage, dispersion = update(LINK, law, started, stats)
    assert objective(linkage, law, dispersion, stats) > objective(LINK, law, started, stats)

    def slope(changed, step=1e-4):
        ends = [objective(changed(sign * step), law, dispersion, stats) for sign in (1.0, -1.0)]
        return (ends[0] - ends[1]) / (2.0 * step)

    def scaled(values, at, h):
        return tuple(v * np.exp(h) if k == at else v for k, v in enumerate(values))

    for at in range(1, 4):
        assert abs(slope(lambda h, at=at: replace(linkage, values=scaled(linkage.values, at, h)))) < 1e-3
    assert abs(slope(lambda h: replace(linkage, tail_values=scaled(linkage.tail_values, 1, h)))) < 1e-3

    def shifted(h):
        parts = scaled(linkage.tail_parts, 1, h)
        return replace(linkage, tail_parts=tuple(p / sum(parts) for p in parts))

    assert abs(slope(shifted)) < 1e-6


def test_bins_are_pairs_and_their_weights_add_up():
    rate = np.log([0.01, 0.7, 3.0])
    plain, mean = counts.log_weights(rate, "tail", 4, 8.0, LINK.starts)
    pairs, both = counts.log_weights(rate, "tail", 8, 8.0, LINK.starts, LINK.tail_shares)
    np.testing.assert_allclose(np.exp(pairs).reshape(3, 4, 2).sum(axis=2), np.exp(plain), rtol=1e-13)
    np.testing.assert_array_equal(both.reshape(3, 4, 2)[:, :, 1], mean)
    np.testing.assert_allclose(LINK.bin_table(), np.outer(LINK.spread, LINK.tail_table).ravel())


@pytest.mark.parametrize("thinning", [1.0, 8.0])
@pytest.mark.parametrize(
    "data", [nmar.Factorization(2), nmar.Factorization(2, covariance="diagonal"), nmar.Constant("gamma")]
)
def test_backends_agree_and_the_bound_never_falls(data, thinning):
    cells, _ = nmar.simulate((40, 30), data, nmar.Linear(0.3), density=0.4, seed=0)
    link = nmar.Free(levels=5, tail=2, thinning=thinning)
    fits = [
        nmar.CCPF(data, link, factors=2, max_iter=8, tol=0.0, random_state=0, starts=1, backend=backend).fit(cells)
        for backend in ("numba", "reference")
    ]
    for fit in fits:
        assert np.all(np.diff(fit.bound_trace_) > -1e-9 * abs(fit.bound_trace_[-1]))
    np.testing.assert_allclose(fits[0].bound_trace_, fits[1].bound_trace_, rtol=1e-8)


def test_tail_is_found_where_there_is_one_and_saved_with_the_model(tmp_path):
    truth = nmar.Free(values=(1.0, 1.0), tail=2, tail_values=(1.0, 9.0), tail_parts=(0.8, 0.2), learn=False)
    cells, _ = nmar.simulate((200, 80), nmar.Effects("both"), truth, density=0.4, seed=0)
    model = nmar.CCPF(nmar.Effects("both"), nmar.Free(levels=2, tail=2), factors=2, max_iter=40, random_state=0).fit(
        cells
    )
    found = model.linkage_
    assert found.tail_table[1] == pytest.approx(9.0, rel=0.25)
    assert found.tail_shares[1] == pytest.approx(0.2, abs=0.05)
    model.save(tmp_path / "m.nmar")
    assert nmar.load(tmp_path / "m.nmar").log_likelihood(cells) == model.log_likelihood(cells)


@pytest.mark.parametrize("tail", [0, 1.5])
def test_levels_of_the_tail_are_checked(tail):
    with pytest.raises(ValueError, match="tail is"):
        nmar.Free(tail=tail)
