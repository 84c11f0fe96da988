"""Long arrays a piece at a time, so that temporaries stay in cache."""

from __future__ import annotations

from collections.abc import Iterator


def pieces(total: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size`` that cover ``range(total)``.

    Examples
    --------
    >>> list(pieces(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, total)) for start in range(0, total, size))
