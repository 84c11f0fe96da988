"""RMSE of held-out ratings by other libraries, on the splits of `benchmarks.taste`.

    python -m benchmarks.peers_rmse ml_latest_small [--seeds 0 1 2] [--only myfm "myfm, implicit" …]

Rank 10 and defaults otherwise, where a library has a rank; myfm draws 200 samples. "myfm, implicit" adds what each user
has rated, in training or to be predicted, to its features (divided by the root of their number), as SVD++ does. A
library that is not installed is left out, and said so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse

import nmar
from benchmarks.noise import problem

RANK = 10
Fit = Callable[[nmar.Cells, nmar.Cells, int], np.ndarray]


def _features(cells: nmar.Cells, rated: sparse.csr_matrix | None) -> sparse.csr_matrix:
    """One line for each rating: its user, its item, and what the user has rated."""
    n, places = len(cells), cells.positions()
    parts = [
        sparse.csr_matrix((np.ones(n), (np.arange(n), place)), shape=(n, size))
        for place, size in zip(places, cells.shape, strict=True)
    ]
    return sparse.hstack(parts if rated is None else [*parts, rated[places[0]]], format="csr")


def _factorization_machine(implicit: bool) -> Fit:
    def fit(train: nmar.Cells, test: nmar.Cells, seed: int) -> np.ndarray:
        import myfm

        rated, sizes = None, list(train.shape)
        if implicit:
            row, col = (np.concatenate(pair) for pair in zip(train.positions(), test.positions(), strict=True))
            rated = sparse.csr_matrix((np.ones(len(row)), (row, col)), shape=train.shape)
            count = np.maximum(np.asarray(rated.sum(axis=1)).ravel(), 1.0)
            rated = sparse.diags(1.0 / np.sqrt(count)) @ rated
            sizes.append(train.shape[1])
        model = myfm.MyFMRegressor(rank=RANK, random_seed=seed)
        model.fit(_features(train, rated), train.values, n_iter=200, group_shapes=sizes)
        return np.asarray(model.predict(_features(test, rated)))

    return fit


def _surprise(name: str) -> Fit:
    def fit(train: nmar.Cells, test: nmar.Cells, seed: int) -> np.ndarray:
        import pandas
        import surprise

        scale = float(train.values.min()), float(train.values.max())
        frame = pandas.DataFrame(dict(zip("uir", (*train.positions(), train.values), strict=True)))
        data = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=scale)).build_full_trainset()
        settings = {} if name == "BaselineOnly" else {"n_factors": RANK, "random_state": seed}
        model = getattr(surprise, name)(**settings).fit(data)
        return np.array([model.predict(u, i).est for u, i in zip(*test.positions(), strict=True)])

    return fit


def _lenskit(train: nmar.Cells, test: nmar.Cells, seed: int) -> np.ndarray:
    import pandas
    from lenskit.als import BiasedMFScorer
    from lenskit.data import ItemList, from_interactions_df
    from lenskit.training import TrainingOptions

    names = ("user_id", "item_id", "rating")
    frame = pandas.DataFrame(dict(zip(names, (*train.positions(), train.values), strict=True)))
    data, model = from_interactions_df(frame), BiasedMFScorer(features=RANK)
    model.train(data, TrainingOptions(rng=seed))
    out, (user, item) = np.full(len(test), train.values.mean()), test.positions()
    for one in np.unique(user):
        which = np.flatnonzero(user == one)
        scored = model(int(one), ItemList(item_ids=item[which]))
        found = scored.scores("numpy")
        out[which] = np.where(np.isnan(found), out[which], found)
    return out


FITS: dict[str, Fit] = {
    "surprise, BaselineOnly": _surprise("BaselineOnly"),
    "surprise, SVD": _surprise("SVD"),
    "surprise, SVDpp": _surprise("SVDpp"),
    "lenskit, BiasedMF": _lenskit,
    "myfm": _factorization_machine(False),
    "myfm, implicit": _factorization_machine(True),
}


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(FITS))
    args = parser.parse_args()
    for name in args.names:
        for title in args.only:
            found, began = [], time.perf_counter()
            try:
                for seed in args.seeds:
                    train, test = problem(name, seed)
                    off = FITS[title](train, test, seed) - test.values
                    found.append(float(np.sqrt(np.mean(off**2))))
            except ImportError as error:
                print(f"{title}: {error}", flush=True)
                continue
            each = ", ".join(f"{one:.4f}" for one in found)
            seconds = (time.perf_counter() - began) / len(found)
            print(f"| {name} | {title} | {np.mean(found):.4f} | {each} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
