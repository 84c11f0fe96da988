"""Columns told by their usual names, and lists of names short enough to read.

Enters: the names of a table's columns. Leaves: which of them hold row ids, column ids and values, where the names leave
no doubt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ROW = frozenset(("row", "rowid", "user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid"))
COL = frozenset({
    "col", "colid", "column", "columnid", "item", "itemid", "iid", "movie", "movieid", "film", "filmid", "product",
    "productid", "asin", "book", "bookid", "isbn", "business", "businessid", "song", "songid", "track", "trackid",
    "artist", "artistid", "joke", "jokeid", "anime", "animeid",
})  # fmt: skip
VALUE = frozenset(("value", "rating", "stars", "score", "overall"))
SHOWN = 10  # names in a message


def shortened(names: Sequence[Any]) -> str:
    """A list of names for a message, cut at ten."""
    shown = ", ".join(repr(name) for name in list(names)[:SHOWN])
    more = f", … ({len(names) - SHOWN:,} more)" if len(names) > SHOWN else ""
    return f"[{shown}{more}]"


def usual_pair(names: Sequence[Any]) -> tuple[Any, Any] | None:
    """The columns of row ids and of column ids; None unless there is one of each."""
    row, col = (_only(names, kind) for kind in (ROW, COL))
    return None if row is None or col is None else (row, col)


def usual_cells(names: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """The columns of row ids, column ids and values; values may have any name where one column is left for them."""
    pair = usual_pair(names)
    if pair is None:
        return None
    left = [name for name in names if name not in (*pair, "weight")]
    value = left[0] if len(left) == 1 and not is_index(left[0]) else _only(left, VALUE)
    return None if value is None else (*pair, value)


def is_index(name: Any) -> bool:
    """Whether a column is what a frame's index becomes in a file."""
    return isinstance(name, str) and (not name.strip() or name.startswith(("Unnamed:", "__index_level_")))


def _only(names: Sequence[Any], kind: frozenset[str]) -> Any:
    """The only name of a kind, whatever its capitals and underscores."""
    found = [name for name in names if isinstance(name, str) and re.sub(r"[^a-z0-9]", "", name.lower()) in kind]
    return found[0] if len(found) == 1 else None
