"""Names that people read in place of ids: titles of films, symbols of genes, annotations of samples.

Enters: what a user passes as ``labels``. Leaves: the label of each id, the id itself where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data import outside
from nmar.data.ids import object_array

Labels = Mapping[Any, Any] | Any
ACCEPTED = "a dict from ids to labels, a pandas Series, or a table whose first two columns are ids and labels"


def labels_of(labels: Labels | None, ids: NDArray[Any]) -> dict[Any, Any] | None:
    """A dict from ids to labels, or None where there are none.

    Labels of which not one belongs to ``ids``, those of a whole axis, are refused: they are those of the other axis, or
    text for numbers.
    """
    if labels is None:
        return None
    known = _as_dict(labels)
    listed = np.asarray(ids).tolist()
    if listed and known and not any(one in known for one in listed):
        raise ValueError(
            f"labels: none of the ids has a label; ids are like {listed[0]!r}, and labels are those of ids like"
            f" {next(iter(known))!r}"
        )
    return known


def _as_dict(labels: Labels) -> dict[Any, Any]:
    if isinstance(labels, Mapping):
        return dict(labels)
    if outside.is_frame(labels) and len(outside.column_names(labels)) >= 2:
        ids, names = (np.asarray(labels[name]).tolist() for name in outside.column_names(labels)[:2])
        return dict(zip(ids, names, strict=True))
    if outside.library(labels) == "pandas" and hasattr(labels, "to_dict"):
        return dict(labels.to_dict())
    raise TypeError(f"labels is a {type(labels).__name__}; pass {ACCEPTED}")


def labelled(ids: NDArray[Any], known: dict[Any, Any] | None) -> NDArray[Any]:
    """The label of each id as text, and the id as text where it has none; ids as they are where there are no labels."""
    if known is None:
        return ids
    listed = np.asarray(ids).ravel().tolist()
    return object_array([str(known.get(one, one)) for one in listed]).reshape(np.shape(ids))
