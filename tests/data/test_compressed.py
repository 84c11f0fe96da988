"""One orientation, and its pieces."""

import itertools

import numpy as np
import pytest

from nmar.data import Cells


@pytest.fixture
def lines():
    rng = np.random.default_rng(0)
    row, col = np.nonzero(rng.random((40, 30)) < 0.15 * (np.arange(40) % 3)[:, None])  # every third line is empty
    return Cells.from_arrays(row, col, rng.normal(size=len(row)), shape=(40, 30)).by(0)


def dense(lines):
    array = np.full((lines.n, lines.n_other), np.nan)
    array[lines.major(), lines.indices] = lines.values
    return array


def test_sizes(lines):
    assert lines.n == 40
    assert lines.n_cells == lines.indptr[-1] == len(lines.values)
    assert lines.indptr.dtype == np.int64
    assert lines.indices.dtype == np.int32
    assert lines.major().dtype == np.int32


def test_lines_are_views_of_a_range(lines):
    part = lines.lines(5, 17)
    np.testing.assert_array_equal(dense(part), dense(lines)[5:17])
    assert part.indptr[0] == 0
    assert np.shares_memory(part.values, lines.values)
    assert np.shares_memory(part.indices, lines.indices)
    assert lines.lines(3, 3).n_cells == 0
    with pytest.raises(ValueError, match=r"start=4, stop=41"):
        lines.lines(4, 41)


def test_take_chosen_lines(lines):
    chosen = [7, 0, 39, 7, 2]
    np.testing.assert_array_equal(dense(lines.take(chosen)), dense(lines)[chosen])
    np.testing.assert_array_equal(dense(lines.take(np.arange(40) % 2 == 0)), dense(lines)[::2])
    assert lines.take([]).n == 0


def test_select_keeps_the_lines(lines):
    mask = np.random.default_rng(1).random(lines.n_cells) < 0.5
    part = lines.select(mask)
    expected = dense(lines)
    expected[lines.major()[~mask], lines.indices[~mask]] = np.nan
    np.testing.assert_array_equal(dense(part), expected)


@pytest.mark.parametrize("size", [1, 2, 5, 13, 50, 10**6])
def test_chunks_partition_the_lines(lines, size):
    chunks = lines.chunks(size)
    assert [start for start, _ in chunks] == [0, *(stop for _, stop in chunks[:-1])]
    assert chunks[-1][1] == lines.n
    counts = [lines.lines(*chunk).n_cells for chunk in chunks]
    assert sum(counts) == lines.n_cells
    for (start, stop), count in zip(chunks, counts, strict=True):
        assert stop > start
        assert count <= size or np.count_nonzero(np.diff(lines.indptr[start : stop + 1])) == 1
    for (start, _), (_, stop) in itertools.pairwise(chunks):
        assert lines.lines(start, stop).n_cells > size  # none could be joined with the next


def test_chunks_of_lines_without_cells(lines):
    empty = lines.take([0, 3, 6])
    assert empty.n_cells == 0
    assert empty.chunks(4) == [(0, 3)]
    assert lines.lines(0, 0).chunks(4) == []
    with pytest.raises(ValueError, match=r"cells_per_chunk=0"):
        lines.chunks(0)
