"""Values that look like ratings, where a model takes them for numbers: said once, in one line.

Ratings are few distinct numbers, whole steps apart, none of which is rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.prob.support import support_of

MOST = 20  # distinct values, at most
FEWEST = 3
RARE = 0.001  # share of the cells of the least frequent one, at least
SOME = 1_000_000  # values that are looked at


def ratings_taken_for_numbers(cells: Cells, data: Any) -> str | None:
    """What to say where a Gaussian data model is given ratings; None where there is nothing to say.

    Examples
    --------
    >>> import nmar
    >>> cells = nmar.Cells.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 3.0, 2.0])
    >>> print(ratings_taken_for_numbers(cells, nmar.Factorization(2)))
    values are 3 levels from 1 to 3, taken for numbers; family="levels" gives the probability of each level
    """
    if getattr(data, "family", None) != "gaussian" or not len(cells):
        return None
    levels, counts = np.unique(cells.by(0).some_values(SOME), return_counts=True)
    even = FEWEST <= len(levels) <= MOST and counts.min() >= RARE * counts.sum()
    if not even or support_of("auto", levels.astype(np.float64)) is None:
        return None
    return (
        f'values are {len(levels)} levels from {levels[0]:g} to {levels[-1]:g}, taken for numbers; family="levels"'
        " gives the probability of each level"
    )
