"""The data sets: where each comes from, under what terms, and in which files and formats.

One line per data set and version; nothing is read here. Checksums are those that the publisher prints beside the file
(GroupLens does, as MD5); where none is published there is none here, and a download is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from nmar.data.build import Duplicates
from nmar.data.datasets.formats import Blocks, Grid, JsonLines, Matrix, Movies, Parser, Quoted, Table

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True)
class Source:
    """A data set, or one version of it.

    Attributes
    ----------
    title : str
        What it is called in messages.
    formats : tuple of tuple of (str, callable)
        Patterns of the names of its files, and the parser of each; the first pattern that matches is taken.
    terms : str
        Under which it may be used, in a sentence.
    page : str
        Where it comes from.
    url : str or None
        What is downloaded; None: users have to get it themselves.
    known_hash : str or None
        "algorithm:hexdigest" of the download; None: none is published, and it is not checked.
    duplicates : {"error", "last", "mean", "sum"}
        What becomes of a cell that occurs more than once; "last" is the latest where the files tell times.
    """

    title: str
    formats: tuple[tuple[str, Parser], ...]
    terms: str
    page: str
    url: str | None = None
    known_hash: str | None = None
    duplicates: Duplicates = field(default="error")


def _review(line: dict[str, Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """A review of Yelp."""
    yield line["user_id"], line["business_id"], line["stars"], line["date"]


def _liked(line: dict[str, Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The posts that a user liked, one by one: trainUsers.json."""
    for like in line["likes"]:
        yield line["uid"], like["blog"], 1, like.get("like_dt", "")


def _like_counts(line: dict[str, Any]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """How many posts of each blog a user liked in six months: kaggle-stats-users-*.json."""
    for blog in line["like_blog_dist"]:
        yield line["user_id"], blog["blog_id"], blog["likes"], ""


GROUPLENS = "https://files.grouplens.org/datasets/movielens"
MOVIELENS = Source(
    "MovieLens",
    (("ratings.csv", Table(",", ("userId", "movieId", "rating"))),),
    "for research; not to be redistributed or sold without permission; cite Harper and Konstan (2015)",
    "https://grouplens.org/datasets/movielens/",
)
GENOME = replace(
    MOVIELENS,
    title="MovieLens tag genome",
    formats=(
        ("genome-scores.csv", Table(",", ("movieId", "tagId", "relevance"))),
        ("tag_relevance.dat", Table("\t")),
    ),
)


def _movielens(name: str, known_hash: str | None, base: Source = MOVIELENS, **more: Any) -> Source:
    return replace(base, title=f"{base.title} ({name})", url=f"{GROUPLENS}/{name}.zip", known_hash=known_hash, **more)


MD5_20M, MD5_25M = "md5:cd245b17a1ae2cc31bb14903e1204af3", "md5:6b51fb2759a8657d3bfcbfc42b592ada"

SOURCES: dict[str, Source] = {
    "movielens-small": _movielens("ml-latest-small", None),  # replaced from time to time, so that no checksum lasts
    "movielens-100k": _movielens("ml-100k", "md5:0e33842e24a9c977be4e0107933c0723", formats=(("u.data", Table("\t")),)),
    "movielens-1m": _movielens(
        "ml-1m", "md5:c4d9eecfca2ab87c1945afe126590906", formats=(("ratings.dat", Table("::")),)
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
            ("finefoods.txt", Blocks("review/userId", "product/productId", "review/score", "review/time")),
            ("Reviews.csv", Quoted("UserId", "ProductId", "Score", "Time")),
        ),
        "no licence is stated, so it is not downloaded for you; cite McAuley and Leskovec (2013)",
        "https://snap.stanford.edu/data/web-FineFoods.html (finefoods.txt.gz)",
        duplicates="last",
    ),
    "netflix": Source(
        "Netflix prize",
        (("mv_*.txt", Movies()), ("combined_data_*.txt", Movies())),
        "withdrawn by Netflix; its rules forbid passing it on, so you need a copy of your own",
        "https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
    ),
    "yelp": Source(
        "Yelp open dataset",
        (("*review*.json", JsonLines(_review)),),
        "academic use under Yelp's dataset agreement, which every user has to accept; not to be redistributed",
        "https://business.yelp.com/data/resources/open-dataset/",
        duplicates="last",
    ),
    "wordpress": Source(
        "WordPress likes (GigaOM challenge)",
        (("kaggle-stats-users-*.json", JsonLines(_like_counts)), ("trainUsers.json", JsonLines(_liked))),
        "released by WordPress.com for research; the Kaggle competition's rules apply to its copy",
        "http://developer.wordpress.com/docs/2012-like-prediction-competition-data/",
        duplicates="sum",
    ),
    "geuvadis": Source(
        "GEUVADIS expression",
        (("GD*.GeneQuant*.txt", Matrix("TargetID", 4)),),
        "open data of E-GEUV-1 at the EBI; cite Lappalainen et al. (2013)",
        "https://www.ebi.ac.uk/biostudies/arrayexpress/studies/E-GEUV-1",
        "https://www.ebi.ac.uk/arrayexpress/files/E-GEUV-1/GD462.GeneQuantRPKM.50FN.samplename.resk10.txt.gz",
    ),
    "coat-train": Source(
        "Coat, self-selected ratings",
        (("train.ascii", Grid(0.0)),),
        "for research; cite Schnabel et al. (2016)",
        "https://www.cs.cornell.edu/~schnabts/mnar/",
        "https://www.cs.cornell.edu/~schnabts/mnar/coat.zip",
    ),
    "jester-1": Source(
        "Jester 1",
        (("jester-data-*.xls", Grid(99.0, skip=1, first=1)), ("jester*.csv", Grid(99.0, ",", skip=1, first=1))),
        "free for research; cite Goldberg et al. (2001)",
        "https://eigentaste.berkeley.edu/dataset/",
        "https://eigentaste.berkeley.edu/dataset/jester_dataset_1_1.zip",
    ),
}
SOURCES["coat-test"] = replace(
    SOURCES["coat-train"], title="Coat, ratings of random items", formats=(("test.ascii", Grid(0.0)),)
)
SOURCES["jester-2"] = replace(
    SOURCES["jester-1"],
    title="Jester 2",
    formats=(("jester_ratings.dat", Table()),),
    url="https://eigentaste.berkeley.edu/dataset/jester_dataset_2.zip",
)
