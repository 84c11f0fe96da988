"""What covariates are worth on MovieLens-1M, and what they and weights cost.

    python -m benchmarks.covariates movies [--seeds 0 1 2] [--year linear]
    python -m benchmarks.covariates clusters
    python -m benchmarks.covariates costs

``movies``: genres and year of films, the latter as a line with knots (or as one line). 100 films are held out wholly,
and a fifth of the other ratings; rank 10, ignorable linkage, with and without covariates, paired by rating. Ten splits
by default, pooled; standard errors are clustered by film, over all splits. ``clusters``: five clusters of Coat's users,
on training cells alone; 40 users and 40 items are held out wholly, and a fifth of the other ratings; five splits,
differences with their standard error over splits. ``costs``: time of a sweep with 50 columns of noise on both sides,
and with weights, interleaved with a plain one; medians.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas

from benchmarks.problems import coat, folder, triplets
from benchmarks.target import features
from nmar import CCPF, Cells, Factorization, Mixture

NEW = 100
FEW = 10


KNOTS = (1940, 1955, 1970, 1980, 1990, 1996)  # where the slope of the year may change


def films(year: str = "knots") -> pandas.DataFrame:
    """Genres and year, by film."""
    frame = pandas.read_parquet(folder() / "ml_1m" / "movies.parquet").set_index("movie_id")
    frame = frame.drop(columns=["title", "genres"])
    if year == "linear":
        return frame
    return frame.assign(**{f"years after {k}": (frame["year"] - k).clip(lower=0.0) for k in KNOTS})


def all_cells() -> Cells:
    """All ratings, with the ids of the original files."""
    row, col, value = triplets(folder() / "ml_1m" / "ratings.parquet")
    return Cells.from_frame({"user": row, "film": col, "stars": value}, row="user", col="film", value="stars")


def clustered(gain: np.ndarray, film: np.ndarray) -> tuple[float, float]:
    """A mean and its standard error; ratings of one film, in whatever split, go together."""
    sums = np.bincount(np.unique(film, return_inverse=True)[1], gain - gain.mean())
    count = np.count_nonzero(np.bincount(film))
    return float(gain.mean()), float(np.sqrt(np.sum(sums**2) * count / (count - 1)) / len(gain))


def paired(name: str, plain: np.ndarray, known: np.ndarray, film: np.ndarray) -> None:
    """A difference with its standard error."""
    gain, error = clustered(plain - known, film)
    print(f"    {name:32s} {plain.mean():.4f} → {known.mean():.4f}  gain {gain:+.4f} ± {error:.4f}", flush=True)


def split(cells: Cells, seed: int) -> tuple[Cells, dict[str, Cells]]:
    """Training cells, and test cells by how well their film is known."""
    rng = np.random.default_rng(seed)
    gone = rng.choice(cells.shape[1], NEW, replace=False)
    away = np.isin(cells.col_index, gone)
    test = ~away & (rng.random(len(cells)) < 0.2)
    train = cells.select(~away & ~test).align(cols=cells.cols.take(np.setdiff1d(np.arange(cells.shape[1]), gone)))
    degree = np.bincount(cells.col_index[~away & ~test], minlength=cells.shape[1])[cells.col_index]
    few = test & (degree < FEW) & (degree > 0)
    masks = {f"films with < {FEW} ratings": few, "all other films": test & ~few, "new films": away}
    return train, {label: cells.select(mask) for label, mask in masks.items()}


def judged(model: CCPF, part: Cells) -> np.ndarray:
    """(3, ratings) squared error, − log likelihood and squared error over predictive variance."""
    i, j = part.row_ids[part.row_index], part.col_ids[part.col_index]
    mean, sd = model.predict_entries(i, j, unknown="prior", return_std=True)
    error = (mean - part.values) ** 2
    return np.stack([error, -model.log_density(part, unknown="prior"), error / sd**2])


def constants(train: Cells, part: Cells) -> np.ndarray:
    """(2, ratings) squared errors of the mean of all ratings and of the user's mean."""
    mean = float(train.values.mean())
    sums = np.bincount(train.row_index, train.values - mean, train.shape[0])
    own = mean + sums / np.maximum(np.bincount(train.row_index, minlength=train.shape[0]), 1)
    return np.stack([(part.values - mean) ** 2, (part.values - own[part.row_index]) ** 2])


def movies(seeds: list[int], year: str) -> None:
    """Ratings of films with few or no training ratings."""
    cells, known = all_cells(), films(year)
    found: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        train, parts = split(cells, seed)
        plain, with_known = (
            CCPF(Factorization(10, cols=cols), "ignorable", noise="constant", random_state=seed).fit(train)
            for cols in (None, known)
        )
        for label, part in parts.items():
            rows = [part.col_index, judged(plain, part), judged(with_known, part), constants(train, part)]
            found.setdefault(label, []).append(np.vstack(rows))
            gain = (found[label][-1][1:3] - found[label][-1][4:6]).mean(axis=1)
            print(f"  split {seed}, {label}: squared error {gain[0]:+.4f}, log likelihood {gain[1]:+.4f}", flush=True)
    for label, each in found.items():
        film, *scores = np.hstack(each)
        film = film.astype(np.int64)
        print(f"{label}: {len(film)} ratings of {len(np.unique(film))} films")
        for name, at in (("squared error", 0), ("− log likelihood", 1), ("squared error / variance", 2)):
            paired(name, scores[at], scores[at + 3], film)
        if label == "new films":
            paired("squared error, overall mean", scores[6], scores[3], film)
            paired("squared error, user's mean", scores[7], scores[3], film)


def clusters(splits: int = 5) -> None:
    """Coat's users in clusters, with covariates of users, of items, and of both."""
    cells, known = coat()[0], {}
    for axis, x in features().items():
        known[axis] = pandas.DataFrame(x, columns=[f"{axis} {k}" for k in range(x.shape[1])]).rename_axis("id")
    cases = {"without": (), "users": ("rows",), "items": ("cols",), "both": ("rows", "cols")}
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        users, items = (rng.choice(size, 40, replace=False) for size in cells.shape)
        old_user, old_item = ~np.isin(cells.row_index, users), ~np.isin(cells.col_index, items)
        test = old_user & old_item & (rng.random(len(cells)) < 0.2)
        left = [axis.take(np.setdiff1d(axis.ids, gone)) for axis, gone in ((cells.rows, users), (cells.cols, items))]
        train = cells.select(old_user & old_item & ~test).align(*left)
        for name, axes in cases.items():
            data = Mixture(5, **{axis: known[axis] for axis in axes})
            model = CCPF(data, "ignorable", factors=3, noise="constant", random_state=seed).fit(train)
            for label, mask in (
                ("old", test),
                ("new users", ~old_user & old_item),
                ("new items", old_user & ~old_item),
            ):
                found.setdefault((label, name), []).append(judged(model, cells.select(mask))[:2].mean(axis=1))
    for (label, name), each in found.items():
        gain = np.array(found[label, "without"]) - np.array(each)
        error = gain.std(axis=0, ddof=1) / np.sqrt(splits)
        texts = [f"{m:.4f} ({g:+.4f} ± {e:.4f})" for m, g, e in zip(np.mean(each, 0), gain.mean(0), error, strict=True)]
        print(f"{label:10s} {name:8s} squared error {texts[0]}  − log likelihood {texts[1]}", flush=True)


def costs() -> None:
    """Seconds a sweep."""
    cells = all_cells()
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(cells.shape[0], 50)), rng.normal(size=(cells.shape[1], 50))
    settings = {"linkage": "ignorable", "noise": "constant", "random_state": 0, "tol": 0.0, "max_iter": 8}
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
    parser.add_argument("what", choices=["movies", "clusters", "costs"])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--year", choices=["knots", "linear"], default="knots")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    what = {"movies": lambda: movies(args.seeds, args.year), "clusters": clusters, "costs": costs}
    what[args.what]()
    print(f"({time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
