"""Finished comparisons as files: what they came of, and their records.

Enters: records, and the settings and data that they came of. Leaves: a text that holds finite numbers only; or the
records of a file, if it came of the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["FORMAT", "Record", "as_text", "finished"]

FORMAT = 1  # of the files: those of another format are made again

Record = dict[str, Any]


def finished(file: Path, origin: Record) -> list[Record] | None:
    """The records of a finished comparison; None where there are none that came of these settings and data.

    Parameters
    ----------
    file : where the comparison would be; it may be missing, broken, or another file altogether
    origin : settings and data, as :func:`as_text` was given them
    """
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(kept, dict):
        return None
    rows = kept.pop("rows", None)
    whole = isinstance(rows, list) and len(rows) > 0 and all(isinstance(one, dict) for one in rows)
    return rows if whole and kept == {"format": FORMAT, **origin} else None


def as_text(origin: Record, rows: list[Record]) -> str:
    """Records, and the settings and data that they came of, as JSON; an error names the number that is not finite."""
    for row in rows:
        for wrong in _not_finite(row):
            raise ValueError(f"{row.get('name', row.get('data'))}: {wrong}, no finite number")
    return json.dumps({"format": FORMAT, **origin, "rows": rows}, indent=1, allow_nan=False)


def _not_finite(value: Any, name: str = "") -> Iterator[str]:
    """The numbers in a record that are not finite, each with its name."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{name} is {value}"
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _not_finite(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _not_finite(one, name)
