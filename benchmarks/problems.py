"""Data for benchmarks: real ones, read from the folder in the environment variable NMAR_DATA, and simulated ones."""

from __future__ import annotations

import os
from pathlib import Path

import numba as nb
import numpy as np
import pyarrow.parquet as parquet

from nmar import Cells
from nmar.data.split import split_arrays


def folder() -> Path:
    """Where the data lie: $NMAR_DATA, else ../shared/data beside the repository."""
    return Path(os.environ.get("NMAR_DATA", Path(__file__).parents[1].parent / "shared" / "data"))


def triplets(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """row, col, value of a parquet file."""
    table = parquet.read_table(path, columns=["row", "col", "value"])
    row, col, value = (table[name].to_numpy() for name in ("row", "col", "value"))
    return row, col, value.astype(np.float64)


def parts(row, col, value, seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """Split in file order: permutation, first 20 % test, next 1 % validation."""
    rows, row = np.unique(row, return_inverse=True)
    cols, col = np.unique(col, return_inverse=True)
    shape = (len(rows), len(cols))
    return tuple(Cells.from_arrays(row[k], col[k], value[k], shape) for k in split_arrays(len(value), 0.2, 0.01, seed))


def yelp_250k(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """The paper authors' own split."""
    shape = (45_981, 11_537)
    names = ("train", "val", "test")
    return tuple(
        Cells.from_arrays(*triplets(folder() / "yelp_250k" / f"{n}.parquet"), shape, duplicates="last") for n in names
    )


def ml_1m(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """MovieLens-1M."""
    return parts(*triplets(folder() / "ml_1m" / "ratings.parquet"), seed)


def ml_latest_small(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """MovieLens small, values doubled."""
    row, col, value = triplets(folder() / "ml_latest_small_2016" / "ratings.parquet")
    return parts(row, col, 2.0 * value, seed)


def geuvadis(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """Log expression counts."""
    row, col, value = triplets(folder() / "geuvadis_chr19_transcripts_CEU" / "counts_nonzero.parquet")
    return parts(row, col, np.log(value), seed)


def cptac(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """Tumour proteomics."""
    return parts(*triplets(folder() / "cptac_ucec_protein" / "values.parquet"), seed)


# rows, columns, cells of simulated matrices as large as well-known ones
SHAPES = {
    "ml_20m": (138_493, 26_744, 20_000_000),
    "ml_20m_half": (138_493, 26_744, 10_000_000),
    "netflix": (480_189, 17_770, 100_000_000),
}
RANK = 4  # of the signal in simulated values


def simulated(n_rows: int, n_cols: int, cells: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and value of distinct cells in row-major order: popular rows and columns, ratings from 1 to 5.

    Popularity is gamma distributed, with shape 0.5 for rows and 0.3 for columns; no row has more than a quarter of the
    columns. Values are rounded from effects of both sides, a signal of rank 4 and noise.

    Examples
    --------
    >>> row, col, value = simulated(50, 40, 300)
    >>> len(np.unique(row * 40 + col)), row.dtype, col.dtype, value.dtype
    (300, dtype('int32'), dtype('int32'), dtype('float32'))
    """
    rng = np.random.default_rng(seed)
    degrees = _degrees(rng.gamma(0.5, size=n_rows), cells, n_cols // 4)
    cumulative = np.cumsum(rng.gamma(0.3, size=n_cols) + 1e-9)
    cumulative /= cumulative[-1]
    guide = np.searchsorted(cumulative, np.arange(8 * n_cols) / (8 * n_cols), side="right")
    row = np.repeat(np.arange(n_rows, dtype=np.int32), degrees)
    col = _draw_columns(degrees, cumulative, guide, rng)
    left, right = (rng.normal(size=(n, RANK + 1)).astype(np.float32) for n in (n_rows, n_cols))
    return row, col, _draw_ratings(row, col, left, right, rng)


def _degrees(weights: np.ndarray, cells: int, most: int) -> np.ndarray:
    """Whole numbers of at most ``most``, proportional to the weights below that, whose sum is ``cells``."""
    if cells > most * len(weights):
        raise ValueError(f"cells={cells} does not fit: {len(weights)} rows of at most {most} cells each")
    low, high = 0.0, 1.0
    while np.minimum(high * weights, most).sum() < cells:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        enough = np.minimum(middle * weights, most).sum() >= cells
        low, high = (low, middle) if enough else (middle, high)
    ends = np.round(np.cumsum(np.minimum(high * weights, most)))
    ends[-1] = cells
    return np.diff(ends, prepend=0.0).astype(np.int64)


@nb.njit(cache=True)
def _draw_columns(degrees, cumulative, guide, rng):
    """Distinct columns for each row, ascending, drawn by popularity; ``guide`` says where to look for a quantile."""
    col, at = np.empty(degrees.sum(), np.int32), 0
    taken = np.full(len(cumulative), -1, np.int32)
    for i in range(len(degrees)):
        start = at
        while at < start + degrees[i]:
            quantile = rng.random()
            j = guide[int(quantile * len(guide))]
            while cumulative[j] <= quantile:
                j += 1
            if taken[j] != i:
                taken[j] = i
                col[at] = j
                at += 1
        col[start:at].sort()
    return col


@nb.njit(cache=True)
def _draw_ratings(row, col, left, right, rng):
    """Ratings 1 to 5; the first number of a line is its effect, the others are its factors."""
    value = np.empty(len(row), np.float32)
    for p in range(len(row)):
        a, b = left[row[p]], right[col[p]]
        mean = 3.5 + 0.4 * (a[0] + b[0])
        for k in range(1, len(a)):
            mean += 0.25 * a[k] * b[k]
        value[p] = min(max(np.round(mean + 0.8 * rng.standard_normal()), 1.0), 5.0)
    return value


PROBLEMS = {
    "yelp_250k": yelp_250k,
    "ml_1m": ml_1m,
    "ml_latest_small": ml_latest_small,
    "geuvadis": geuvadis,
    "cptac": cptac,
}


def coat(whole: bool = False) -> tuple[Cells, Cells]:
    """Self-selected training ratings, and test ratings of uniformly random items: 4,274 of pairs that are new.

    ``whole``: all 4,640, as in the literature. Of these 366 are also in the training part.
    """
    shape = (290, 300)
    row, col, value = triplets(folder() / "coat" / "train.parquet")
    test_row, test_col, test_value = triplets(folder() / "coat" / "test.parquet")
    new = whole | ~np.isin(test_row.astype(np.int64) * 300 + test_col, row.astype(np.int64) * 300 + col)
    train = Cells.from_arrays(row, col, value, shape)
    return train, Cells.from_arrays(test_row[new], test_col[new], test_value[new], shape)
