"""Seeds that users give, checked where they enter."""

from __future__ import annotations

import numpy as np

KINDS = (np.random.Generator, np.random.RandomState, np.random.SeedSequence, np.random.BitGenerator)


def check_seed(argument: str, seed: object) -> None:
    """Raise unless random numbers can be made from ``seed``: a whole number, several, None or a generator of numpy's.

    Examples
    --------
    >>> check_seed("seed", 3)
    >>> check_seed("seed", -1)
    Traceback (most recent call last):
    ValueError: seed=-1; give a whole number of at least 0, None, or a random generator of numpy's
    """
    if isinstance(seed, KINDS):
        return
    try:
        np.random.SeedSequence(seed)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(
            f"{argument}={seed!r}; give a whole number of at least 0, None, or a random generator of numpy's"
        ) from None
