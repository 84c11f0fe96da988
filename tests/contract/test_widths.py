"""Loops compiled for the widths of their lines and the loop for all of them give the same numbers."""

import numpy as np
import pytest
import test_kernels
from test_kernels import Case, block_of, crossing_of

from nmar.kernels.layout import VECTOR, empty
from nmar.kernels.numba import columns as cpu_columns
from nmar.kernels.numba import kernels as cpu
from nmar.kernels.numba.columns import columns_of, constants
from nmar.kernels.numba.loops import add_loop, expect_loop, statistics_loop
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Lines, NormalPrior

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

FACTORS, RANK = 40, 7  # sections of three vectors (weights), one (means) and two (a covariance)


def numbers(found):
    """All arrays of an answer."""
    parts = [found.pattern, found.linear, found.quadratic, found.log_z, found.counted]
    return [*parts, *(() if found.cellwise is None else (found.cellwise,)), *(found.moments or ())]


def answers(case, dtype, steps=0):
    """What the kernels make of a case."""
    block, table = block_of(case, dtype), crossing_of(case)
    views = block.views(dtype)
    if steps:
        prior = NormalPrior(np.linspace(-0.2, 0.2, RANK)[None], np.linspace(1.0, 2.0, RANK), np.arange(RANK) != 1)
        found, lines = cpu.descend(*views, table, prior, steps)
        return [*numbers(found), *lines, *cpu.statistics(*views, table, found)]
    found = cpu.expect(*views, table)
    return [*numbers(found), *cpu.statistics(*views, table, found)]


@pytest.fixture
def both_ways(monkeypatch):
    """A function's answers from the loop for all widths and from loops for its own."""

    def run(work):
        monkeypatch.setattr(test_kernels, "FACTORS", FACTORS)
        monkeypatch.setattr(test_kernels, "RANK", RANK)
        found = []
        for longest in (0, 10_000):
            monkeypatch.setattr(cpu_columns, "LONGEST", longest)
            found.append(work())
        return found

    return run


def same_bits(found):
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_loops_for_fixed_widths_give_the_same_bits(both_ways):
    same_bits(both_ways(lambda: answers(Case("gaussian", "tail", "full"), np.float32)))


def test_updates_of_diagonal_lines_agree(both_ways):
    """The compiler orders sums over the coordinates of a line, by whether it knows where they begin."""
    found = both_ways(lambda: answers(Case("gaussian", "tail", "diagonal"), np.float64, steps=3))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_sums_of_lines_are_the_same_bits(both_ways):
    rng = np.random.default_rng(0)
    theirs = empty((50, 3 * VECTOR), np.float32)
    theirs[:] = rng.normal(size=theirs.shape)
    indices = rng.integers(0, 50, 300).astype(np.int32)
    lines = Lines(np.array([0, 1, 1, 300]), indices, np.ones(300), EMPTY_INT, EMPTY_FLOAT)
    same_bits(both_ways(lambda: [cpu.add_lines(lines, theirs, 3 * VECTOR)]))


def test_lines_of_many_vectors_share_one_loop(monkeypatch):
    """A full covariance of rank 500 has 125,000 columns: nothing may be compiled for them."""
    monkeypatch.setattr(cpu_columns, "LONGEST", 512)
    assert constants(columns_of((10, 12, 78))) is not None
    assert constants(columns_of((160, 162, 162), updates=True)) is not None
    wide = [constants(columns_of((10, d, d * (d + 1) // 2))) for d in (66, 502)]
    assert wide == [None, None]
    assert expect_loop(wide[0], 0) is expect_loop(wide[1], 0)
    assert statistics_loop(wide[0], True) is statistics_loop(wide[1], True)
    assert add_loop(wide[0]) is add_loop(wide[1])


def test_widths_that_fill_the_same_vectors_share_their_loops():
    assert columns_of((10, 12, 78)) == columns_of((9, 11, 66))
    assert columns_of((10, 12, 78)) != columns_of((10, 13, 91))
