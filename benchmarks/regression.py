"""Regression as the data model: MovieLens-1M on genres and year, and its movies with tag genomes on 1,128 tags.

    python -m benchmarks.regression

Twenty sweeps each. Printed like the paper's last table: test log likelihood, RMSE, R²; gains with paired standard
errors.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow.parquet as parquet

import nmar
from benchmarks.problems import folder, triplets
from nmar.data.split import split_arrays


def genres() -> tuple[np.ndarray, np.ndarray]:
    """Movie ids, and genre dummies with the year."""
    table = parquet.read_table(folder() / "ml_1m" / "movies.parquet")
    names = [name for name in table.column_names if name.startswith("genre_")] + ["year"]
    x = np.column_stack([table[name].to_numpy(zero_copy_only=False).astype(float) for name in names])
    return table["movie_id"].to_numpy(), np.where(np.isfinite(x), x, np.nanmean(x, axis=0))


def tags() -> tuple[np.ndarray, np.ndarray]:
    """Movie ids and tag weights."""
    table = parquet.read_table(folder() / "tag_genome_partial" / "genome_scores_wide.parquet")
    names = [name for name in table.column_names if name != "movieId"]
    return table["movieId"].to_numpy(), np.column_stack([table[name].to_numpy() for name in names])


def problem(movies: np.ndarray, x: np.ndarray):
    """Ratings of the movies that have covariates, split, and the covariates in column order."""
    row, col, value = triplets(folder() / "ml_1m" / "ratings.parquet")
    kept = np.isin(col, movies)
    row, col, value = row[kept], col[kept], value[kept]
    users, row = np.unique(row, return_inverse=True)
    ids, col = np.unique(col, return_inverse=True)
    order = {movie: k for k, movie in enumerate(movies)}
    covariates = x[[order[movie] for movie in ids]]
    shape = (len(users), len(ids))
    made = [nmar.Cells.from_arrays(row[k], col[k], value[k], shape) for k in split_arrays(len(value), 0.2, 0.01, 0)]
    return made, covariates


def main() -> None:
    """Fit coupled and uncoupled regressions and print."""
    for name, source in (("genres and year", genres), ("tags", tags)):
        (train, _, test), covariates = problem(*source())
        rows, cols = test.pairs()
        scores = {}
        for linkage in ("ignorable", "linear", "free"):
            start = time.perf_counter()
            settings = {"noise": "constant", "random_state": 0, "max_iter": 20}
            model = nmar.CCPF(nmar.Regression(covariates), linkage, **settings)
            model.fit(train, hidden=test)
            seconds = time.perf_counter() - start
            scores[linkage] = model.log_likelihood(test, per_cell=True)
            error = model.predict_entries(rows, cols) - test.values
            r2 = 1.0 - np.mean(error**2) / np.var(test.values)
            gap = scores[linkage] - scores["ignorable"]
            se = gap.std() / np.sqrt(len(gap))
            print(
                f"{name:16s} D = {covariates.shape[1]:4d}  {linkage:10s} log likelihood {scores[linkage].mean():.4f}"
                f"  rmse {np.sqrt(np.mean(error**2)):.4f}  R2 {r2:.4f}"
                f"  gain {gap.mean():+.4f} ± {se:.4f}  {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
