"""The tag genome of MovieLens: covariates of films."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.data.datasets.archive import members, single
from nmar.data.datasets.sources import Source, StrPath

__all__ = ["TagGenome", "tag_genome"]


class TagGenome(NamedTuple):
    """How relevant each tag is to each film, from 0 to 1.

    Parameters
    ----------
    movies : int array
        MovieLens ids of the films.
    tags : tuple of str
        Names of the tags.
    relevance : ndarray of shape (movies, tags)
        Relevance of each tag to each film.

    Examples
    --------
    >>> import numpy as np, nmar
    >>> genome = nmar.datasets.TagGenome(np.array([1, 7]), ("space", "slow"), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> genome.of([7]).tolist()
    [[0.2, 0.8]]
    """

    movies: NDArray[np.int64]
    tags: tuple[str, ...]
    relevance: NDArray[np.float64]  # (movies, tags)

    def of(self, ids: Any) -> NDArray[np.float64]:
        """The lines of these films, in their order: covariates for :class:`nmar.Regression`."""
        place = {movie: k for k, movie in enumerate(self.movies.tolist())}
        absent = [one for one in np.asarray(ids).tolist() if one not in place]
        if absent:
            raise ValueError(f"ids: {len(absent)} films have no tags, {absent[:3]} among them; leave their cells out")
        return self.relevance[[place[one] for one in np.asarray(ids).tolist()]]


def tag_genome(
    version: str = "25m", path: StrPath | None = None, *, cache: StrPath | None = None, known_hash: str | None = None
) -> TagGenome:
    """The tag genome of MovieLens: 1,128 numbers about each of some ten thousand films.

    Parameters
    ----------
    version : str, default="25m"
        Release of MovieLens: "20m", "25m" or "latest".
    path : str, path-like or None, default=None
        That release's zip file or folder, or genome-scores.csv (or tag_relevance.dat, of the first edition) itself;
        tags are called by their numbers where there is no file of their names.
    cache : str, path-like or None, default=None
        As in :func:`movielens`.
    known_hash : str or None, default=None
        As in :func:`movielens`.

    Returns
    -------
    TagGenome
        Films, tags and their relevance.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "genome-scores.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("movieId,tagId,relevance\\n1,1,0.25\\n7,1,0.75\\n")
    >>> nmar.datasets.tag_genome("25m", path).movies.tolist()
    [1, 7]
    """
    source = Source.of("tag_genome", version)
    found = source.locate(path, cache, known_hash)
    row, col, value, *_ = source.triplets(found)
    (films, row), (tags, col) = (np.unique(ids, return_inverse=True) for ids in (row, col))
    relevance = np.full((len(films), len(tags)), np.nan)
    relevance[row, col] = value
    if np.isnan(relevance).any():
        raise ValueError(
            f"path={str(found)!r}: {np.isnan(relevance).sum():,} films and tags have no relevance; is it whole?"
        )
    names = _tag_names(found)
    return TagGenome(films, tuple(names.get(tag, str(tag)) for tag in tags.tolist()), relevance)


def _tag_names(path: Path) -> dict[int, str]:
    """Names of tags by number; none where only the file of relevances was given, or has no file of names beside it."""
    if single(path) is not None:
        return {}
    for pattern, _, stream in members(path, ["genome-tags.csv", "tags.dat"]):
        separator = "," if pattern.endswith(".csv") else "\t"
        with io.TextIOWrapper(stream, "utf-8", newline="") as text:
            lines = [line for line in csv.reader(text, delimiter=separator) if line and line[0].isdigit()]
        return {int(line[0]): line[1] for line in lines}
    return {}
