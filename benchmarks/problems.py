"""Real data for benchmarks, read from a folder given by --data or the environment variable NMAR_DATA."""

from __future__ import annotations

import os
from pathlib import Path

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


PROBLEMS = {
    "yelp_250k": yelp_250k,
    "ml_1m": ml_1m,
    "ml_latest_small": ml_latest_small,
    "geuvadis": geuvadis,
    "cptac": cptac,
}


def coat() -> tuple[Cells, Cells]:
    """Self-selected training ratings, and test ratings of uniformly random items less the pairs seen in training."""
    shape = (290, 300)
    row, col, value = triplets(folder() / "coat" / "train.parquet")
    test_row, test_col, test_value = triplets(folder() / "coat" / "test.parquet")
    new = ~np.isin(test_row.astype(np.int64) * 300 + test_col, row.astype(np.int64) * 300 + col)
    train = Cells.from_arrays(row, col, value, shape)
    return train, Cells.from_arrays(test_row[new], test_col[new], test_value[new], shape)
