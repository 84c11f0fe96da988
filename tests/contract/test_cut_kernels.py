"""Levels read as normal values: every backend equals the definition, and the definition equals quadrature."""

import numpy as np
import pytest

from nmar.kernels.choose import BACKENDS, choose
from nmar.kernels.levels import LEAST, SLIGHT
from nmar.kernels.spec import EMPTY_FLOAT, LevelCells

CELLS, LINES, OTHERS, LEVELS = 300, 7, 11, 5
NOBODY = np.empty((0, 0))
PER_CELL = ("indices", "level", "weight", "mean", "variance", "noise")
KINDS = ["one", "mine", "mine-anew", "theirs"]
others = pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "reference"])
both = pytest.mark.parametrize("backend", BACKENDS)


def level_cells(kind, weighted=True, dtype=np.float64, seed=0):
    """Cells of lines of unequal length, one of them empty."""
    rng, styles = np.random.default_rng(seed), 1 if kind == "one" else 3
    inner = np.sort(rng.normal(size=(styles, LEVELS - 1)), axis=1)
    inner[-1, 1:3] = inner[-1, 1] + np.array([0.0, 1e-5])  # a level that a style hardly has
    lengths = rng.multinomial(CELLS, rng.dirichlet(np.ones(LINES)))
    lengths[:2] = [lengths[:2].sum(), 0]
    share = rng.dirichlet(np.ones(styles), LINES + OTHERS).astype(dtype)
    return LevelCells(
        np.concatenate([[0], np.cumsum(lengths)]),
        rng.integers(0, OTHERS, CELLS).astype(np.int32),
        rng.integers(0, LEVELS, CELLS).astype(np.int32),
        rng.random(CELLS).astype(dtype) if weighted else EMPTY_FLOAT,
        2.0 * rng.normal(size=CELLS),
        rng.random(CELLS),
        rng.gamma(2.0, size=CELLS) + 0.05,
        np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf))),
        share[:LINES] if kind.startswith("mine") else NOBODY,
        share[LINES:] if kind == "theirs" else NOBODY,
        np.log(np.full(styles, 1.0 / styles)) if kind == "mine-anew" else EMPTY_FLOAT,
        True,
    )


@others
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_backend_equals_the_definition(kind, weighted, dtype, backend):
    cells = level_cells(kind, weighted, dtype)
    found, exact = (choose(each).read_levels(cells) for each in (backend, "reference"))
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(found.square, exact.square, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.information, exact.information, rtol=1e-9, atol=1e-10)
    assert found.log_z == pytest.approx(exact.log_z, rel=1e-12)
    np.testing.assert_allclose(found.styles, exact.styles, rtol=1e-10)
    np.testing.assert_allclose(found.sums, exact.sums, rtol=1e-8)


@both
def test_a_cell_is_what_quadrature_makes_of_it(backend):
    """E_q log ∫ N(y*; μ, noise) dy* between the cut points, to second order in μ, and the moments of y* there."""
    cells = level_cells("one", weighted=False)
    found = choose(backend).read_levels(cells)
    nodes, weights = np.polynomial.legendre.leggauss(300)
    total = 0.0
    for p in range(CELLS):
        m, v, noise = cells.mean[p], cells.variance[p], cells.noise[p]
        reach = m + 14.0 * np.sqrt(noise) * np.array([-1.0, 1.0])
        start, stop = min(reach[0], -20.0), max(reach[1], 20.0)
        low, high = np.clip(cells.cuts[0, cells.level[p] : cells.level[p] + 2], start, stop)
        y, w = low + (high - low) * (nodes + 1.0) / 2.0, weights * (high - low) / 2.0
        density = np.exp(-0.5 * (np.log(2.0 * np.pi * noise) + (y - m) ** 2 / noise)) * w
        mean = density @ y / density.sum()
        curvature = (density @ ((y - m) ** 2 / noise - 1.0) / density.sum() - (mean - m) ** 2 / noise) / noise
        total += np.log(density.sum()) + 0.5 * v * curvature
        information = max(-noise * curvature, LEAST)
        square = density @ (y - m) ** 2 / density.sum() + (noise * curvature) ** 2 * v
        assert found.information[p] == pytest.approx(information, abs=1e-10)
        assert found.value[p] == pytest.approx(m + (mean - m) / information, abs=1e-9)
        assert found.square[p] == pytest.approx(square, abs=1e-9)
    assert found.log_z == pytest.approx(total, abs=1e-8)


@both
def test_styles_are_found_from_the_levels_of_a_line(backend):
    """r ∝ share × Π P(level)^weight, and log Z is under the styles that were given."""
    cells = level_cells("mine-anew")
    line = np.repeat(np.arange(LINES), np.diff(cells.indptr))
    one_by_one = np.zeros((LINES, 3))
    held = 0.0
    for style in range(3):
        for i in range(LINES):
            only = cells._replace(
                indptr=np.array([0, np.sum(line == i)]),
                **{k: getattr(cells, k)[line == i] for k in PER_CELL},
                cuts=cells.cuts[[style]],
                mine=NOBODY,
                log_share=EMPTY_FLOAT,
            )
            one_by_one[i, style] = choose(backend).read_levels(only).log_z
            held += cells.mine[i, style] * one_by_one[i, style]
    expected = np.exp(one_by_one + cells.log_share)
    expected[expected < SLIGHT * expected.max(axis=1, keepdims=True)] = 0.0
    found = choose(backend).read_levels(cells)
    np.testing.assert_allclose(found.styles, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    assert found.log_z == pytest.approx(held, rel=1e-11)


@others
def test_what_does_not_fit_is_refused(backend):
    cells = level_cells("theirs")
    for wrong, message in (
        (cells._replace(level=cells.level + 1), "levels from 1 to 5; there are 5"),
        (cells._replace(mean=cells.mean[1:]), "cells differ in number"),
        (cells._replace(indices=cells.indices + 1), "styles of the other side"),
        (cells._replace(mine=cells.theirs), "styles of 11 lines"),
    ):
        with pytest.raises(ValueError, match=message):
            choose(backend).read_levels(wrong)
