"""Records of arrays as trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmar.models.state import Side
from nmar.prob.factor import GammaFactor
from nmar.prob.tree import LineRecord, alike, arrays_of, join, map_arrays


@dataclass(frozen=True, eq=False)
class Lines(LineRecord):
    first: np.ndarray
    pair: tuple
    name: str
    rest: GammaFactor | None = None


def lines(n, rest=True):
    factor = GammaFactor(np.arange(1.0, n + 1), np.ones(n)) if rest else None
    return Lines(np.arange(2 * n).reshape(n, 2), (np.arange(n), "text"), "lines", factor)


def test_all_arrays_are_found_in_order():
    assert [array.shape for array in arrays_of(lines(3))] == [(3, 2), (3,), (3,), (3,)]
    assert arrays_of("nothing") == [] and arrays_of(None) == []


def test_lines_are_taken_from_every_array_and_joined_again():
    whole = lines(5)
    parts = [whole.take(slice(0, 2)), whole.take(np.array([2, 3, 4]))]
    assert parts[1].name == "lines" and parts[1].pair[1] == "text" and isinstance(parts[1].rest, GammaFactor)
    for part, start, stop in zip(parts, (0, 2), (2, 5), strict=True):
        for some, array in zip(arrays_of(part), arrays_of(whole), strict=True):
            np.testing.assert_array_equal(some, array[start:stop])
    sides = [Side(part.rest, part.rest) for part in parts]
    np.testing.assert_array_equal(join(sides).data.alpha, whole.rest.alpha)
    assert join([Side(None, None, None), Side(None, None, parts[0].rest)]).noise is None


def test_records_are_alike_in_type_shapes_and_dtypes():
    one = lines(3)
    assert alike(one, lines(3)) and not alike(one, lines(4)) and not alike(one, lines(3, rest=False))
    assert not alike(one, map_arrays(one, lambda array: array.astype(np.float32)))
