"""Lists on MovieLens-1M: how good they are beside other libraries, and how fast they are made.

    python -m benchmarks.recommend lists [--seeds 3] [--only TEXT ...]
    python -m benchmarks.recommend choices [--only TEXT ...]
    python -m benchmarks.recommend quality [--factors 10 30] [--seeds 3]
    python -m benchmarks.recommend stopping
    python -m benchmarks.recommend speed
    python -m benchmarks.recommend reading

All held-out cells are relevant, whatever the rating, because the rankings are of what will be observed. Cells of the
training part are left out of every list. Nothing is chosen on the held-out cells.

*lists*: a fifth of each row is held out, lists of 10, every library with settings chosen on training cells: *choices*
holds out a fifth of each row of the training part of seed 0 and tries them there. *quality*: a fifth of all cells is
held out, lists of 100, each library with its defaults and the same number of factors; where ours stops was chosen on a
tenth of training cells (*stopping*). Processor time beside wall time, because other programs may run.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import scipy.sparse as sparse

import nmar
from benchmarks.problems import folder, ml_1m, ml_latest_small, parts, triplets
from nmar import Cells, metrics
from nmar.fit.loop.callbacks import Record

Lists = np.ndarray
N = 100


def pattern_of(cells: Cells) -> sparse.csr_matrix:
    """Ones where a cell is observed."""
    return sparse.csr_matrix((np.ones(len(cells), np.float32), cells.positions()), shape=cells.shape)


def best(scores: np.ndarray, train: Cells) -> Lists:
    """Columns of the highest scores that are not in the training part."""
    scores[train.positions()] = -np.inf
    some = np.argpartition(-scores, N, axis=1)[:, :N]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)


def popularity(train: Cells, factors: int, seed: int) -> Lists:
    """The same list for everybody: how often a column is observed."""
    counts = np.bincount(train.col_index, minlength=train.shape[1]).astype(float)
    return best(np.tile(counts, (train.shape[0], 1)), train)


def hpfrec(train: Cells, factors: int, seed: int) -> Lists:
    """Hierarchical Poisson factorization of the pattern, defaults."""
    import pandas
    from hpfrec import HPF

    row, col = train.positions()
    frame = pandas.DataFrame({"UserId": row, "ItemId": col, "Count": np.ones(len(row))})
    model = HPF(k=factors, random_seed=seed + 1, verbose=False, ncores=2, reindex=False, keep_all_objs=False)
    model.fit(frame)
    return best((model.Theta @ model.Beta.T).astype(np.float64), train)


def implicit(train: Cells, factors: int, seed: int) -> Lists:
    """Weighted alternating least squares of the pattern, defaults (15 sweeps, regularization 0.01)."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=factors, random_state=seed, num_threads=2)
    model.fit(pattern_of(train), show_progress=False)
    return best(np.asarray(model.user_factors, np.float64) @ np.asarray(model.item_factors, np.float64).T, train)


def ours(data: object, linkage: str | None = None, by: str = "observed", **settings: object) -> Callable[..., Lists]:
    """A model of ours, ranked by P(observed) or otherwise."""

    def lists(train: Cells, factors: int, seed: int) -> Lists:
        model = nmar.CCPF(data, linkage, factors=factors, random_state=seed, **settings).fit(train)
        return model.recommend(np.arange(train.shape[0]), n=N, by=by)[0]

    return lists


MODELS: dict[str, Callable[..., Lists]] = {
    "popularity": popularity,
    "hpfrec": hpfrec,
    "implicit (ALS)": implicit,
    "nmar PatternOnly, by observed": ours(nmar.PatternOnly()),
    "nmar PatternOnly, tol 1e-4, by observed": ours(nmar.PatternOnly(), tol=1e-4),  # where other models stop
    "nmar PatternOnly, 100 sweeps, by observed": ours(nmar.PatternOnly(), tol=0, max_iter=100),  # as hpfrec makes
    "nmar PatternOnly, prior learned, by observed": ours(nmar.PatternOnly(), prior="learned"),
    "nmar CCPF free, by observed": ours(nmar.Factorization(10), "free", noise="constant"),
    "nmar CCPF free, by expected": ours(nmar.Factorization(10), "free", "expected", noise="constant"),
    "nmar CCPF free, by value": ours(nmar.Factorization(10), "free", "value", noise="constant"),
}


RIDGE = 400.0  # of EASE
ALS = {"factors": 64, "regularization": 50.0, "alpha": 5.0}
PATTERN = nmar.Pattern(30, members=8)
Scores = dict[str, Lists]  # by name: lists of one fit, ranked in one way or in several


def of_each_row(cells: Cells, seed: int, share: float = 0.2) -> tuple[Cells, Cells]:
    """Training and test part: so much of the cells of each row is held out."""
    chance = np.random.default_rng(seed).random(len(cells))
    row, degree = cells.row_index, np.diff(cells.by(0).indptr)
    place = np.empty(len(cells), np.int64)
    place[np.lexsort((chance, row))] = np.arange(len(cells)) - np.repeat(cells.by(0).indptr[:-1], degree)
    away = place < np.round(share * degree[row])
    return cells.select(~away), cells.select(away)


def ease(train: Cells, seed: int, ridge: float = RIDGE) -> Scores:
    """Linear regression of each column on all others (Steck 2019), the ten lines of its paper."""
    x = pattern_of(train)
    gram = (x.T @ x).toarray()
    gram[np.diag_indices_from(gram)] += ridge
    inverse = np.linalg.inv(gram)
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return {f"EASE, ridge {ridge:g}": best(np.asarray(x @ weights, np.float64), train)}


def als(train: Cells, seed: int, **settings: float) -> Scores:
    """implicit's weighted least squares."""
    from implicit.als import AlternatingLeastSquares

    chosen = settings or ALS
    model = AlternatingLeastSquares(random_state=seed, num_threads=1, **chosen)
    model.fit(pattern_of(train), show_progress=False)
    scores = np.asarray(model.user_factors, np.float64) @ np.asarray(model.item_factors, np.float64).T
    return {f"implicit ALS, {', '.join(f'{name} {value:g}' for name, value in chosen.items())}": best(scores, train)}


def nmar_lists(name: str, rules: tuple[str, ...], data: object = None, **settings: object) -> Callable[..., Scores]:
    """Lists of one fit by several rules."""

    def lists(train: Cells, seed: int) -> Scores:
        model = nmar.CCPF(data or nmar.PatternOnly(), random_state=seed, n_jobs=1, **settings).fit(train)
        rows = np.arange(train.shape[0])
        return {f'nmar {name}, by="{by}"': model.recommend(rows, n=10, by=by)[0] for by in rules}

    return lists


BOTH = ("observed", "regression")
LISTS: dict[str, Callable[..., Scores]] = {
    "popularity": lambda train, seed: {"popularity": popularity(train, 0, seed)},
    "EASE": ease,
    "ALS": als,
    "nmar Pattern(30)": nmar_lists("Pattern(30)", BOTH, pattern=nmar.Pattern(30)),
    "nmar members": nmar_lists("Pattern(30, members=8)", BOTH, pattern=PATTERN),
}
CHOICES: dict[str, Callable[..., Scores]] = {
    **{f"EASE {ridge:g}": partial(ease, ridge=ridge) for ridge in (200.0, 400.0, 800.0)},
    **{
        f"ALS {penalty:g} {alpha:g}": partial(als, factors=64, regularization=penalty, alpha=alpha)
        for penalty, alpha in ((0.05, 1.0), (1.0, 1.0), (10.0, 1.0), (50.0, 5.0))
    },
    **{
        f"nmar {name}": nmar_lists(name, BOTH, pattern=pattern, **more)
        for name, pattern, more in (
            ("Pattern(30)", nmar.Pattern(30), {}),
            ("Pattern(50)", nmar.Pattern(50), {}),
            ("Pattern(100)", nmar.Pattern(100), {}),
            ("Pattern(30, shape=0.1)", nmar.Pattern(30, shape=0.1), {}),
            ("Pattern(30, shape=0.6)", nmar.Pattern(30, shape=0.6), {}),
            ('Pattern(30), prior="learned"', nmar.Pattern(30), {"prior": "learned"}),
            ("Pattern(30, members=4)", nmar.Pattern(30, members=4), {}),
            ("Pattern(20, members=8)", nmar.Pattern(20, members=8), {}),
            ("Pattern(30, members=8)", nmar.Pattern(30, members=8), {}),
            ("Pattern(50, members=8)", nmar.Pattern(50, members=8), {}),
        )
    },
}


def lists(makers: dict[str, Callable[..., Scores]], seeds: int, inner: bool, only: list[str] | None) -> Iterator[str]:
    """NDCG, recall and mean average precision at 10: mean over splits, and their spread."""
    row, col, value = triplets(folder() / "ml_1m" / "ratings.parquet")
    row, col = (np.unique(ids, return_inverse=True)[1] for ids in (row, col))
    whole = Cells.from_arrays(row, col, value)
    yield "| model | NDCG@10 | recall@10 | MAP@10 | seconds |"
    yield "|---|---|---|---|---|"
    for kind, make in makers.items():
        if only and not any(one in kind for one in only):
            continue
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            train, test = of_each_row(whole, seed)
            train, test = of_each_row(train, 100 + seed) if inner else (train, test)
            began = perf_counter()
            for name, listed in make(train, seed).items():
                measures = (metrics.ndcg, metrics.recall, metrics.average_precision)
                each = [one(listed, np.arange(train.shape[0]), test, 10) for one in measures]
                found.setdefault(name, []).append([*each, perf_counter() - began])
        for name, each in found.items():
            mean, spread = np.mean(each, axis=0), np.std(each, axis=0, ddof=1 if seeds > 1 else 0)
            shown = " | ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean[:3], spread[:3], strict=True))
            yield f"| {name} | {shown} | {mean[3]:.0f} |"


def ndcg_of_rows(listed: Lists, test: Cells) -> np.ndarray:
    """NDCG@100 of each row that has a held-out cell."""
    degree = np.diff(test.by(0).indptr)
    rows = np.flatnonzero(degree)
    hits = test.contains(np.repeat(rows, N), listed[rows, :N].ravel()).reshape(len(rows), N)
    discount = 1.0 / np.log2(np.arange(2, N + 2))
    return hits @ discount / np.cumsum(discount)[np.minimum(degree[rows], N) - 1]


def paired(mine: list[np.ndarray], theirs: list[np.ndarray] | None) -> str:
    """Mean difference of the same rows and its standard error over rows, each averaged over splits."""
    if theirs is None or theirs is mine:
        return ""
    each = [a - b for a, b in zip(mine, theirs, strict=True)]
    mean = np.mean([one.mean() for one in each])
    error = np.mean([one.std(ddof=1) / np.sqrt(len(one)) for one in each])  # splits share rows: not divided again
    return f"{mean:+.4f} ± {error:.4f}"


def quality(factors: list[int], seeds: int, only: list[str] | None) -> Iterator[str]:
    """NDCG, recall and mean average precision at 100: mean over splits, and their spread."""
    yield f"| model | K | NDCG@{N} | recall@{N} | MAP@{N} | NDCG − hpfrec, by user | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for k in factors:
        theirs: list[np.ndarray] | None = None
        for name, make in MODELS.items():
            if only and not any(one in name for one in only):
                continue
            found, each = [], []
            for seed in range(seeds):
                train, _, test = ml_1m(seed)
                began = perf_counter()
                listed = make(train, k, seed)
                spent = perf_counter() - began
                measures = (metrics.ndcg, metrics.recall, metrics.average_precision)
                each.append(ndcg_of_rows(listed, test))
                found.append([*(one(listed, np.arange(train.shape[0]), test, N) for one in measures), spent])
            mean, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1 if seeds > 1 else 0)
            shown = " | ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean[:3], spread[:3], strict=True))
            theirs = each if name == "hpfrec" else theirs
            yield f"| {name} | {k} | {shown} | {paired(each, theirs)} | {mean[3]:.0f} |"


def lastfm(seed: int = 0) -> tuple[Cells, Cells, Cells]:
    """Who listened to whom (HetRec 2011)."""
    return parts(*triplets(folder() / "lastfm_hetrec2k" / "ratings.parquet"), seed)


def stopping(tols: tuple[float, ...] = (1e-4, 5e-5, 3e-5, 1e-5, 5e-6)) -> Iterator[str]:
    """NDCG on a tenth of the training cells where a fit of the pattern would stop, and the gain over the first."""
    yield "| data | K | tol | sweeps | NDCG@100 | over the first |"
    yield "|---|---|---|---|---|---|"
    for problem in (ml_1m, ml_latest_small, lastfm):
        inner, _, judge = problem()[0].split(test=0.1, valid=0.0, seed=7)
        for k in (10, 30):
            found = stops_of(inner, judge, k, tols)
            first = found[tols[0]][1]
            for tol, (sweep, each) in found.items():
                gain = paired([each], [first]) if tol != tols[0] else ""
                yield f"| {problem.__name__} | {k} | {tol:g} | {sweep} | {each.mean():.4f} | {gain} |"


def stops_of(train: Cells, judge: Cells, factors: int, tols: tuple[float, ...]) -> dict[float, tuple[int, np.ndarray]]:
    """The sweep at which a fit with each ``tol`` stops, and NDCG of the rows there."""
    found: dict[float, tuple[int, np.ndarray]] = {}
    bounds = []

    def look(record: Record) -> bool:
        bounds.append(record.bound)
        gain = np.inf if len(bounds) < 3 else (bounds[-1] - bounds[-2]) / abs(bounds[-1])
        for tol in [one for one in tols if one not in found and gain <= one]:
            u, v = (side.pattern.weights.mean for side in record.state.sides)
            found[tol] = record.iteration, ndcg_of_rows(best(np.asarray(u @ v.T, np.float64), train), judge)
        return tols[-1] in found

    model = nmar.CCPF(nmar.PatternOnly(), factors=factors, random_state=0, tol=0, max_iter=400)
    model.fit(train, hidden=judge, callbacks=[look])
    return found


def speed(repeats: int = 5) -> Iterator[str]:
    """Top 100 of all rows: rows a second by the clock, and processor time for one."""
    train, _, _ = ml_1m()
    settings = {"noise": "constant", "max_iter": 5, "tol": 0, "random_state": 0}
    model = nmar.CCPF(nmar.Factorization(10), "free", **settings).fit(train)
    rows = np.arange(train.shape[0])
    yield "| by | rows a second | processor time a row, µs |"
    yield "|---|---|---|"
    for by in ("value", "observed", "expected"):
        wall, work = np.inf, np.inf
        for _ in range(repeats):
            began, busy = perf_counter(), process_time()
            model.recommend(rows, n=N, by=by)
            wall, work = min(wall, perf_counter() - began), min(work, process_time() - busy)
        yield f"| {by} | {len(rows) / wall:,.0f} | {1e6 * work / len(rows):.0f} |"


def reading() -> Iterator[str]:
    """A million cells from csv and parquet to Cells, ids of numbers and of text, in shuffled order."""
    cells = ml_1m()[0].concat(ml_1m()[1]).concat(ml_1m()[2])
    order = np.random.default_rng(0).permutation(len(cells))
    row, col = (ids[order] for ids in cells.pairs())
    text = [np.array([f"{kind}{one:06d}" for one in ids], object) for kind, ids in (("user", row), ("item", col))]
    yield "| file | ids | seconds |"
    yield "|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        for ids, (a, b) in {"numbers": (row, col), "text": text}.items():
            for kind in ("csv", "parquet"):
                path = Path(folder) / f"{ids}.{kind}"
                nmar.data.write_frame(path, {"user": a, "item": b, "stars": cells.values[order]})
                times = []
                for _ in range(3):
                    began = perf_counter()
                    nmar.read(path, "user", "item", "stars")
                    times.append(perf_counter() - began)
                yield f"| {kind} | {ids} | {min(times):.2f} |"


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lists", "choices", "quality", "stopping", "speed", "reading"))
    parser.add_argument("--factors", type=int, nargs="+", default=[10, 30])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="models whose name contains one of these")
    args = parser.parse_args()
    if args.what == "quality":
        lines = quality(args.factors, args.seeds, args.only)
    elif args.what in ("lists", "choices"):
        inner = args.what == "choices"
        lines = lists(CHOICES if inner else LISTS, 1 if inner else args.seeds, inner, args.only)
    else:
        lines = {"stopping": stopping, "speed": speed, "reading": reading}[args.what]()
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
