"""What covariates are worth on MovieLens-1M, and what they and weights cost.

    python -m benchmarks.covariates movies [--seeds 0 1 2]
    python -m benchmarks.covariates costs

``movies``: genres and year of films. 100 films are held out wholly, and a fifth of the other ratings; rank 10,
ignorable linkage, with and without covariates, paired by rating. ``costs``: time of a sweep with 50 columns of noise on
both sides, and with weights, interleaved with a plain one; medians.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas

from benchmarks.problems import folder, triplets
from nmar import CCPF, Cells, Factorization

NEW = 100
FEW = 10


def films() -> pandas.DataFrame:
    """Genres and year, by film."""
    frame = pandas.read_parquet(folder() / "ml_1m" / "movies.parquet").set_index("movie_id")
    return frame.drop(columns=["title", "genres"])


def all_cells() -> Cells:
    """All ratings, with the ids of the original files."""
    row, col, value = triplets(folder() / "ml_1m" / "ratings.parquet")
    return Cells.from_frame({"user": row, "film": col, "stars": value}, row="user", col="film", value="stars")


def paired(name: str, plain: np.ndarray, known: np.ndarray) -> None:
    """A difference with its standard error."""
    gain = plain - known
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(f"    {name:24s} {plain.mean():.4f} → {known.mean():.4f}  gain {gain.mean():+.4f} ± {error:.4f}", flush=True)


def movies(seeds: list[int]) -> None:
    """Ratings of films with few or no training ratings."""
    cells, frame = all_cells(), films()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        gone = rng.choice(cells.shape[1], NEW, replace=False)
        away = np.isin(cells.col_index, gone)
        test = ~away & (rng.random(len(cells)) < 0.2)
        train = cells.select(~away & ~test).align(cols=cells.cols.take(np.setdiff1d(np.arange(cells.shape[1]), gone)))
        fits = {
            name: CCPF(Factorization(10, cols=cols), "ignorable", random_state=seed).fit(train)
            for name, cols in (("plain", None), ("covariates", frame))
        }
        degree = np.bincount(cells.col_index[~away & ~test], minlength=cells.shape[1])
        few = test & (degree[cells.col_index] < FEW) & (degree[cells.col_index] > 0)
        print(f"seed {seed}", flush=True)
        for label, mask in (
            (f"films with < {FEW} ratings", few),
            ("all other films", test & ~few),
            ("new films", away),
        ):
            part = cells.select(mask)
            i, j = part.row_ids[part.row_index], part.col_ids[part.col_index]
            found = {k: m.predict_entries(i, j, unknown="prior") - part.values for k, m in fits.items()}
            logs = {k: m.log_density(part, unknown="prior") for k, m in fits.items()}
            print(f"  {label}: {len(part)} ratings")
            paired("squared error", found["plain"] ** 2, found["covariates"] ** 2)
            paired("− log likelihood", -logs["plain"], -logs["covariates"])
            if label == "new films":
                rows = cells.select(~away & ~test)
                mean = np.bincount(rows.row_index, rows.values, cells.shape[0]) / np.bincount(
                    rows.row_index, minlength=cells.shape[0]
                )
                paired("squared error, row mean", (mean[part.row_index] - part.values) ** 2, found["covariates"] ** 2)


def costs() -> None:
    """Seconds a sweep."""
    cells = all_cells()
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(cells.shape[0], 50)), rng.normal(size=(cells.shape[1], 50))
    settings = {"linkage": "ignorable", "random_state": 0, "tol": 0.0, "max_iter": 8}
    heavy = cells.with_weights(rng.gamma(2.0, 0.5, len(cells)))
    cases = {
        "plain": (Factorization(10), cells),
        "50 covariates a side": (Factorization(10, rows=x, cols=z), cells),
        "weights": (Factorization(10), heavy),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(5):
        for name, (data, given) in cases.items():
            model = CCPF(data, **settings).fit(given)
            times[name] += np.diff(model.seconds_trace_)[1:].tolist()
    plain = np.median(times["plain"])
    for name, each in times.items():
        low, middle, high = np.quantile(each, (0.25, 0.5, 0.75))
        print(f"{name:24s} {1e3 * middle:.1f} ms [{1e3 * low:.1f}–{1e3 * high:.1f}]  {middle / plain:.3f} × plain")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["movies", "costs"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    movies(args.seeds) if args.what == "movies" else costs()
    print(f"({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
