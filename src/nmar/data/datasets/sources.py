"""The data sets: one record each, and the one loader that turns a record's files into cells.

Checksums are those that the publisher prints beside the file (GroupLens does, as MD5); where none is published there is
none here, and a download is not checked.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache as once
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nmar.data.build import Duplicates
from nmar.data.cells import Cells
from nmar.data.datasets.archive import members, readable
from nmar.data.datasets.formats import (
    Parser,
    Record,
    Triplets,
    blocks,
    fields,
    grid,
    json_lines,
    matrix,
    movies,
    records,
    sheet,
    table,
)

__all__ = ["SOURCES", "Source", "StrPath"]

log = logging.getLogger("nmar")

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Source:
    """A data set, or one version of it."""

    title: str  # what it is called in messages
    # patterns of the names of its files, and the parser of each; the first pattern that matches is taken
    formats: tuple[tuple[str, Parser], ...]
    terms: str  # under which it may be used, in a sentence
    page: str  # where it comes from
    url: str | None = None  # what is downloaded; None: users have to get it themselves
    # "algorithm:hexdigest" of the download; None: none is published, and it is not checked
    known_hash: str | None = None
    # what becomes of a cell that occurs more than once; "last" is the latest where the files tell times
    duplicates: Duplicates = "error"

    @classmethod
    def of(cls, name: str, version: str) -> Source:
        """A version of a data set."""
        versions = [key.removeprefix(f"{name}-") for key in SOURCES if key.startswith(f"{name}-")]
        if version not in versions:
            raise ValueError(f"version={version!r} of {name}; use one of {', '.join(map(repr, versions))}")
        return SOURCES[f"{name}-{version}"]

    def locate(self, path: StrPath | None, cache: StrPath | None, known_hash: str | None) -> Path:
        """Where the files are; states the terms."""
        from nmar.data.datasets.download import fetch, verify

        tell_terms(self.title, self.terms, self.page)
        if path is None:
            return fetch(self, cache, known_hash)
        if known_hash is not None:
            verify(Path(path), known_hash)
        return Path(path)

    def triplets(self, path: Path) -> Triplets:
        """Ids and values of all files, the latest last where there are times."""
        with readable(path):
            parts = [self._parsed(*member) for member in members(path, [pattern for pattern, _ in self.formats])]
        if not parts:
            names = " or ".join(repr(pattern) for pattern, _ in self.formats)
            raise ValueError(f"path={str(path)!r} holds no file named like {names}; is it the right one?")
        found = Triplets.join(parts)
        if found.time is None:
            return found
        order = np.argsort(found.time, kind="stable")
        return Triplets(found.row[order], found.col[order], found.value[order])

    def _parsed(self, pattern: str, where: str, stream: Any) -> Triplets:
        try:
            return dict(self.formats)[pattern](stream)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{where!r} is not in the format that was expected: {error}") from None

    def cells(self, path: StrPath | None = None, cache: StrPath | None = None, known_hash: str | None = None) -> Cells:
        """The observed cells."""
        row, col, value, *_ = self.triplets(self.locate(path, cache, known_hash))
        cells = Cells.from_frame({"row": row, "col": col, "value": value}, "row", "col", "value", self.duplicates)
        if len(cells) < len(value):
            log.info("%s: %d entries, %d distinct cells (%s)", self.title, len(value), len(cells), self.duplicates)
        return cells


@once
def tell_terms(title: str, terms: str, page: str) -> None:
    """Once in the life of the program."""
    log.warning("%s: %s. %s", title, terms, page)


def _liked(line: Record) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The posts that a user liked, one by one: trainUsers.json."""
    for like in line["likes"]:
        yield line["uid"], like["blog"], 1, like.get("like_dt", "")


def _like_counts(line: Record) -> Iterator[tuple[Any, Any, Any, Any]]:
    """How many posts of each blog a user liked in six months: kaggle-stats-users-*.json."""
    for blog in line["like_blog_dist"]:
        yield line["user_id"], blog["blog_id"], blog["likes"], ""


def _json(entries: Any) -> Parser:
    return partial(records, read=json_lines, entries=entries)


def _texts(*columns: str) -> Parser:
    return partial(table, separator=",", columns=columns, text_ids=True)


GROUPLENS = "https://files.grouplens.org/datasets/movielens"
MOVIELENS = Source(
    "MovieLens",
    (("ratings.csv", partial(table, separator=",", columns=("userId", "movieId", "rating"))),),
    "for research; not to be redistributed or sold without permission; cite Harper and Konstan (2015)",
    "https://grouplens.org/datasets/movielens/",
)
GENOME = replace(
    MOVIELENS,
    title="MovieLens tag genome",
    formats=(
        ("genome-scores.csv", partial(table, separator=",", columns=("movieId", "tagId", "relevance"))),
        ("tag_relevance.dat", partial(table, separator="\t", columns=(0, 1, 2))),
    ),
)
MD5_20M, MD5_25M = "md5:cd245b17a1ae2cc31bb14903e1204af3", "md5:6b51fb2759a8657d3bfcbfc42b592ada"


def _movielens(name: str, known_hash: str | None, base: Source = MOVIELENS, **more: Any) -> Source:
    return replace(base, title=f"{base.title} ({name})", url=f"{GROUPLENS}/{name}.zip", known_hash=known_hash, **more)


def _numbers(file: str, separator: str, columns: tuple[int, int, int]) -> tuple[tuple[str, Parser], ...]:
    """The format of one file of numbers without a header."""
    return ((file, partial(table, separator=separator, columns=columns)),)


SOURCES: dict[str, Source] = {
    "movielens-small": _movielens("ml-latest-small", None),  # replaced from time to time, so that no checksum lasts
    "movielens-100k": _movielens(
        "ml-100k", "md5:0e33842e24a9c977be4e0107933c0723", formats=_numbers("u.data", "\t", (0, 1, 2))
    ),
    "movielens-1m": _movielens(  # fields are separated by "::"
        "ml-1m", "md5:c4d9eecfca2ab87c1945afe126590906", formats=_numbers("ratings.dat", ":", (0, 2, 4))
    ),
    "movielens-20m": _movielens("ml-20m", MD5_20M),
    "movielens-25m": _movielens("ml-25m", MD5_25M),
    "movielens-latest": _movielens("ml-latest", None),
    "tag_genome-20m": _movielens("ml-20m", MD5_20M, GENOME),
    "tag_genome-25m": _movielens("ml-25m", MD5_25M, GENOME),
    "tag_genome-latest": _movielens("ml-latest", None, GENOME),
    "amazon": Source(
        "Amazon fine foods",
        (
            (
                "finefoods.txt",
                partial(
                    records,
                    read=blocks,
                    entries=fields("review/userId", "product/productId", "review/score", "review/time"),
                ),
            ),
            ("Reviews.csv", _texts("UserId", "ProductId", "Score", "Time")),
        ),
        "no licence is stated, so it is not downloaded for you; cite McAuley and Leskovec (2013)",
        "https://snap.stanford.edu/data/web-FineFoods.html (finefoods.txt.gz)",
        duplicates="last",
    ),
    "netflix": Source(
        "Netflix prize",
        (("mv_*.txt", movies), ("combined_data_*.txt", movies)),
        "withdrawn by Netflix; its rules forbid passing it on, so you need a copy of your own",
        "https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
    ),
    "yelp": Source(
        "Yelp open dataset",
        (("*review*.json", _json(fields("user_id", "business_id", "stars", "date"))),),
        "academic use under Yelp's dataset agreement, which every user has to accept; not to be redistributed",
        "https://business.yelp.com/data/resources/open-dataset/",
        duplicates="last",
    ),
    "wordpress": Source(
        "WordPress likes (GigaOM challenge)",
        (("kaggle-stats-users-*.json", _json(_like_counts)), ("trainUsers.json", _json(_liked))),
        "released by WordPress.com for research; the Kaggle competition's rules apply to its copy",
        "http://developer.wordpress.com/docs/2012-like-prediction-competition-data/",
        duplicates="sum",
    ),
    "geuvadis": Source(
        "GEUVADIS expression",
        (("GD*.GeneQuant*.txt", partial(matrix, name="TargetID", skip=4)),),
        "open data of E-GEUV-1 at the EBI; cite Lappalainen et al. (2013)",
        "https://www.ebi.ac.uk/biostudies/arrayexpress/studies/E-GEUV-1",
        "https://www.ebi.ac.uk/arrayexpress/files/E-GEUV-1/GD462.GeneQuantRPKM.50FN.samplename.resk10.txt.gz",
    ),
    "coat-train": Source(
        "Coat, self-selected ratings",
        (("train.ascii", partial(grid, missing=0.0)),),
        "for research; cite Schnabel et al. (2016)",
        "https://www.cs.cornell.edu/~schnabts/mnar/",
        "https://www.cs.cornell.edu/~schnabts/mnar/coat.zip",
    ),
    "jester-1": Source(
        "Jester 1",
        (
            ("jester-data-*.xls", partial(sheet, missing=99.0, skip=1, first=1)),
            ("jester*.csv", partial(grid, missing=99.0, separator=",", skip=1, first=1)),
        ),
        "free for research; cite Goldberg et al. (2001)",
        "https://eigentaste.berkeley.edu/dataset/",
        "https://eigentaste.berkeley.edu/dataset/jester_dataset_1_1.zip",
    ),
}
SOURCES["coat-test"] = replace(
    SOURCES["coat-train"],
    title="Coat, ratings of random items",
    formats=(("test.ascii", partial(grid, missing=0.0)),),
)
SOURCES["jester-2"] = replace(  # fields are separated by two tabs
    SOURCES["jester-1"],
    title="Jester 2",
    formats=_numbers("jester_ratings.dat", "\t", (0, 2, 4)),
    url="https://eigentaste.berkeley.edu/dataset/jester_dataset_2.zip",
)
