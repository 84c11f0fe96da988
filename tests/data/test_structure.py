"""Compressed sparse arrays of damaged files: each kind of damage is named."""

import numpy as np
import pytest

from nmar.data.structure import check_structure

GOOD = {
    "indptr": np.array([0, 2, 2, 4]),
    "indices": np.array([1, 3, 0, 4]),
    "values": np.array([1.0, 2.0, 3.0, 4.0]),
    "weights": np.array([1.0, 0.0, 2.0, 1.0]),
}


def ask(**changed):
    check_structure(**{**GOOD, **changed}, shape=(3, 5), where="file 'a'", remedy="restore it", strict=True)


def test_a_matrix_is_accepted():
    ask()
    ask(weights=None, values=np.array([1, 2, 3, 4]), indptr=np.array([0, 0, 0, 4]), indices=np.array([0, 1, 2, 3]))
    none = np.empty(0)
    check_structure(np.zeros(4, int), none.astype(int), none, (3, 0), "a", "b", strict=True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"indptr": [1, 2, 2, 4]}, "indptr begins with 1, not 0"),
        ({"indptr": [0, 3, 2, 4]}, "indptr falls from 3 to 2 at line 1"),
        ({"indptr": [0, 2**62, 2, 4]}, "indptr falls from 4611686018427387904 to 2"),
        ({"indptr": np.array([0, 2, 1, 4], np.uint64)}, "indptr falls from 2 to 1"),
        ({"indptr": [0, 2, 2, 5]}, "indptr ends with 5, and there are 4 indices"),
        ({"indptr": [0, 2, 4]}, "indptr has 3 entries, and 3 lines need 4"),
        ({"indptr": [0.0, 2.0, 2.0, 4.0]}, "indptr is float64 of shape .* not a list of integers"),
        ({"indptr": "0224"}, "indptr is str, not a list of integers"),
        ({"indices": [1, 3, 0, 10**8]}, "indices has 100000000 at place 3, outside 0 … 4"),
        ({"indices": [1, 3, -1, 4]}, "indices has -1 at place 2"),
        ({"indices": np.array([1, 3, 0, 2**64 - 1], np.uint64)}, "indices has 18446744073709551615 at place 3"),
        ({"indices": [3, 1, 0, 4]}, "indices does not rise within a line: 3, then 1"),
        ({"indices": [1, 1, 0, 4]}, "indices does not rise within a line: 1, then 1"),
        ({"indices": [[1, 3], [0, 4]]}, "indices is int64 of shape"),
        ({"values": [1.0, 2.0, 3.0]}, "there are 3 values for 4 indices"),
        ({"values": [1.0, np.nan, 3.0, 4.0]}, "values has nan at place 1"),
        ({"values": ["a", "b", "c", "d"]}, "not a list of numbers"),
        ({"weights": [1.0, 0.0, -2.0, 1.0]}, "weights has -2.0 at place 2, below 0"),
        ({"weights": [1.0, 0.0, np.inf, 1.0]}, "weights has inf at place 2"),
        ({"weights": [1.0]}, "there are 1 weights for 4 indices"),
    ],
)
def test_damage_is_named(changed, told):
    arrays = {name: array if isinstance(array, str) else np.asarray(array) for name, array in changed.items()}
    with pytest.raises(ValueError, match=rf"^file 'a': .*{told}.*; restore it$"):
        ask(**arrays)
