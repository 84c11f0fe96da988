"""The ordered probit of myfm on one split, for ``benchmarks/levels.py``.

    PYTHON ordered_probit.py CELLS.npz LAW.npz

Needs numpy, scipy and myfm alone, so that the interpreter can be another than nmar's. Rows and columns are one-hot
columns, each a group with hyperparameters of its own, as in myfm's own examples; the rest is its defaults. P(level) is
averaged over the samples that are kept.
"""

from __future__ import annotations

import sys

import myfm
import numpy as np
import scipy.sparse as sparse

RANK = 10
SWEEPS, KEPT = 200, 150


def one_hot(i: np.ndarray, j: np.ndarray, shape: np.ndarray) -> sparse.csr_matrix:
    """Cells as lines with a 1 for the row and a 1 for the column."""
    place = np.stack([i, shape[0] + j.astype(np.int64)], axis=1).ravel()
    ends = 2 * np.arange(len(i) + 1)
    return sparse.csr_matrix((np.ones(len(place)), place, ends), shape=(len(i), int(shape.sum())))


def main(cells: str, law: str) -> None:
    """Fit and write P(level) of the test cells."""
    given = np.load(cells)
    model = myfm.MyFMOrderedProbit(RANK, random_seed=int(given["seed"]))
    used, place = np.unique(given["level"], return_inverse=True)  # myfm takes no level that nobody uses
    train = one_hot(given["i"], given["j"], given["shape"])
    groups = given["shape"].tolist()
    model.fit(train, place, n_iter=SWEEPS, n_kept_samples=KEPT, group_shapes=groups)
    chance = np.zeros((len(given["a"]), int(given["levels"])))
    chance[:, used] = model.predict_proba(one_hot(given["a"], given["b"], given["shape"]))
    np.savez(law, chance=chance)


if __name__ == "__main__":
    main(*sys.argv[1:])
