"""Which data stand for which column of the paper, and how they are read from a folder.

Enters: a folder. Leaves: a :class:`Problem` for each column: cells or a split of its own, covariates, how they relate
to the paper's data, and how many cells were kept. The original files are looked for first (through nmar.datasets, in a
subfolder named like the column), then the nearest data, as parquet files with columns row, col and value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Cells
from nmar.data.read import read

__all__ = ["NEAREST", "Nearest", "Problem", "capped", "find", "missing"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """Data for one column.

    Attributes
    ----------
    name : what was read
    relation : how it relates to the paper's data
    cells : all cells; a split of its own is in ``train``, ``valid`` and ``test`` instead
    covariates : one line per column of the matrix, for the regression
    available : cells there were before some rows were left out
    """

    name: str
    relation: str
    cells: Cells
    train: Cells | None = None
    valid: Cells | None = None
    test: Cells | None = None
    covariates: Array | None = None
    available: int = 0

    @property
    def fingerprint(self) -> str:
        """A digest of what is fitted and judged: cells, split and covariates. Ids change no number and are left out."""
        digest = hashlib.sha256()
        for part in (self.cells, self.train, self.valid, self.test):
            arrays = () if part is None else (np.array(part.shape), *part.positions(), part.values)
            _add(digest, *arrays)
        _add(digest, *(() if self.covariates is None else (self.covariates,)))
        return digest.hexdigest()

    def parts(self) -> dict[str, Any]:
        """The arguments of :func:`nmar.compare` that say what to fit and to judge."""
        if self.train is None:
            return {"cells": self.cells}
        return {"train": self.train, "test_cells": self.test, "valid_cells": self.valid}


def _add(digest: Any, *arrays: Array) -> None:
    """Add arrays with kinds and shapes, and a mark, so that no two lists of arrays read the same."""
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    digest.update(b"|")


@dataclass(frozen=True)
class Nearest:
    """Data that may stand for a column.

    Attributes
    ----------
    folder : subfolder to look for
    relation : how it relates to the paper's data
    load : reads it
    """

    folder: str
    relation: str
    load: Callable[[Path], Problem | Cells]


def find(column: str, folder: Path, most: int, seed: int = 0, purpose: str = "") -> Problem:
    """The data of a column, at most so many cells of it.

    Parameters
    ----------
    column : of the paper, such as "yelp"
    folder : where the data lie
    most : cells to keep, whole rows at random; 0: all
    seed : of the choice of rows
    purpose : "regression" asks for data with covariates
    """
    for one in NEAREST[purpose or column]:
        if (folder / one.folder).exists():
            found = one.load(folder / one.folder)
            problem = found if isinstance(found, Problem) else Problem(one.folder, one.relation, found)
            problem = replace(problem, name=one.folder, relation=one.relation, available=len(problem.cells))
            return capped(problem, most, seed)
    raise FileNotFoundError(missing(column, folder, purpose))


def missing(column: str, folder: Path, purpose: str = "") -> str:
    """What to put where, if nothing stands for a column."""
    names = ", ".join(repr(one.folder) for one in NEAREST[purpose or column])
    return f"no data for {column}: {str(folder)!r} has none of {names}; nmar.datasets.{column} says where to get them"


def capped(problem: Problem, most: int, seed: int) -> Problem:
    """At most so many cells: whole rows at random, so that rows keep their cells and a split stays a split."""
    if not most or len(problem.cells) <= most:
        return problem
    counts = np.diff(problem.cells.by(0).indptr)
    order = np.random.default_rng(seed).permutation(len(counts))
    chosen = order[np.cumsum(counts[order]) <= most]
    rows = np.sort(chosen)
    cols = np.unique(problem.cells.take_rows(rows).col_index)
    axes = (problem.cells.rows.take(rows), problem.cells.cols.take(cols))
    parts = (problem.cells, problem.train, problem.valid, problem.test)
    cells, train, valid, test = (None if part is None else part.align(*axes, unknown="drop") for part in parts)
    assert cells is not None
    covariates = None if problem.covariates is None else problem.covariates[cols]
    return replace(problem, cells=cells, train=train, valid=valid, test=test, covariates=covariates)


def _used(cells: Cells) -> tuple[Cells, Array]:
    """The cells on the rows and columns that have any, and the positions of the columns that were kept."""
    rows, cols = (np.unique(index) for index in cells.positions())
    return cells.align(cells.rows.take(rows), cells.cols.take(cols)), cols


# --- reading ------------------------------------------------------------------------------------------------


def _parquet(name: str, change: Callable[[Array], Array] | None = None) -> Callable[[Path], Cells]:
    """Triplets of a parquet file, values changed."""

    def load(folder: Path) -> Cells:
        return _changed(read(folder / name, duplicates="last"), change)

    return load


def _original(name: str, change: Callable[[Array], Array] | None = None, **settings: Any) -> Callable[[Path], Cells]:
    """A data set in its original files."""

    def load(folder: Path) -> Cells:
        from nmar.data import datasets

        return _changed(datasets.LOADERS[name](path=folder, **settings), change)

    return load


def _changed(cells: Cells, change: Callable[[Array], Array] | None) -> Cells:
    return cells if change is None else cells.map_values(change)


def _doubled(values: Array) -> Array:
    """Half stars from 0.5 to 5 as the paper has them, 1 to 10."""
    return 2.0 * values


def _authors_split(folder: Path) -> Problem:
    """Training, validation and test cells in files of their own, on the axes of all of them."""
    parts = [read(folder / f"{name}.parquet", duplicates="last") for name in ("train", "val", "test")]
    whole = parts[0].concat(parts[1]).concat(parts[2])
    train, valid, test = (part.align(whole.rows, whole.cols) for part in parts)
    return Problem("", "", whole, train, valid, test)


def _with_tags(folder: Path) -> Problem:
    """Ratings of the films of a partial tag genome, which lie beside it."""
    import pandas

    tags = pandas.read_parquet(folder / "genome_scores_wide.parquet").set_index("movieId")
    return _with_covariates(folder.parent / "ml_1m" / "ratings.parquet", tags.index.to_numpy(), tags.to_numpy())


def _with_genres(folder: Path) -> Problem:
    """Ratings with genres and year of the films."""
    import pandas

    films = pandas.read_parquet(folder / "movies.parquet")
    x = films[[name for name in films if name.startswith("genre_") or name == "year"]].to_numpy(np.float64)
    return _with_covariates(
        folder / "ratings.parquet", films["movie_id"].to_numpy(), np.where(np.isfinite(x), x, np.nanmean(x, axis=0))
    )


def _with_covariates(file: Path, ids: Array, x: Array) -> Problem:
    """The cells whose columns have covariates."""
    cells = read(file)
    kept = cells.select(np.isin(cells.col_ids, ids)[cells.col_index])
    place = {one: k for k, one in enumerate(ids.tolist())}
    used, cols = _used(kept)
    return Problem("", "", used, covariates=x[[place[one] for one in cells.col_ids[cols].tolist()]])


def _with_genome(folder: Path) -> Problem:
    """MovieLens with its tag genome, in the original files."""
    from nmar.data import datasets

    genome = datasets.tag_genome(path=folder)
    cells = datasets.movielens("25m", path=folder)
    kept, cols = _used(cells.select(np.isin(cells.col_ids, genome.movies)[cells.col_index]))
    return Problem("", "", kept.map_values(_doubled), covariates=genome.of(cells.col_ids[cols]))


# --- what stands for what ------------------------------------------------------------------------------------

SAME, RATINGS = "the same data", _parquet("ratings.parquet")
NEAREST: dict[str, tuple[Nearest, ...]] = {
    "movielens": (
        Nearest("movielens", "MovieLens, values doubled", _original("movielens", _doubled, version="25m")),
        Nearest(
            "ml_latest_small_2016",
            "MovieLens-small, values doubled: 1/220 of the paper's cells",
            _parquet("ratings.parquet", _doubled),
        ),
        Nearest("ml_1m", "MovieLens-1M, values 1 to 5: an earlier release", RATINGS),
    ),
    "amazon": (Nearest("amazon", SAME, _original("amazon")),),
    "netflix": (
        Nearest("netflix", SAME, _original("netflix")),
        Nearest("ml_1m", "MovieLens-1M: other ratings of films from 1 to 5", RATINGS),
    ),
    "yelp": (
        Nearest("yelp", "Yelp's data of another year", _original("yelp")),
        Nearest("yelp_250k", "the authors' own subset and split: a tenth of the paper's cells", _authors_split),
    ),
    "wordpress": (
        Nearest("wordpress", SAME, _original("wordpress")),
        Nearest("pbmc3k_counts", "molecules in single cells: other counts from 1 on", _parquet("counts.parquet")),
        Nearest("lastfm_hetrec2k", "Last.fm: listening counts", RATINGS),
    ),
    "geuvadis": (
        Nearest("geuvadis", "the same study", _original("geuvadis")),
        Nearest(
            "geuvadis_chr19_transcripts_CEU",
            "the same study: transcripts of one chromosome, one population, log counts",
            _parquet("counts_nonzero.parquet", np.log),
        ),
    ),
    "regression": (
        Nearest("movielens", "MovieLens with its tag genome, values doubled", _with_genome),
        Nearest("tag_genome_partial", "MovieLens-1M, values 1 to 5, and the tags of 177 films", _with_tags),
    ),
    "genres": (Nearest("ml_1m", "MovieLens-1M, values 1 to 5, 18 genres and year in place of tags", _with_genres),),
}
