"""Coat: trained on self-selected ratings, tested on ratings of uniformly random items.

    python -m benchmarks.coat

Three seeds each; mean and standard deviation of RMSE and predictive log likelihood over seeds. The 4,274 test
ratings are of pairs that are not in the training part; RMSE of all 4,640 beside it.
"""

from __future__ import annotations

import numpy as np

import nmar
from benchmarks.problems import coat

ROWS = (
    ("factorization, ignorable", nmar.Factorization(10), "ignorable", {}),
    ("factorization, free", nmar.Factorization(10), "free", {}),
    ("factorization, shift", nmar.Factorization(10), nmar.Ignorable(mean="shift"), {}),
    ("factorization, free + shift", nmar.Factorization(10), nmar.Free(mean="shift"), {}),
    ("the same, tol 1e-6", nmar.Factorization(10), nmar.Free(mean="shift"), {"tol": 1e-6}),
    ("the same, control", nmar.Factorization(10), nmar.Free(mean="shift"), {"control": True}),
    ("narrow steps, tau = 0.1 sd", nmar.Factorization(10), nmar.Free(mean="shift", shift_width=0.13), {"tol": 1e-6}),
    ("effects, free + shift", nmar.Effects("both"), nmar.Free(mean="shift"), {"tol": 1e-6}),
    ("K = 3, free + shift", nmar.Factorization(10), nmar.Free(mean="shift"), {"tol": 1e-6, "factors": 3}),
    ("K = 20, free + shift", nmar.Factorization(10), nmar.Free(mean="shift"), {"tol": 1e-6, "factors": 20}),
)


def main() -> None:
    """Fit and print."""
    (train, test), whole = coat(), coat(whole=True)[1]
    for name, data, linkage, settings in ROWS:
        found = []
        for seed in range(3):
            common = {"noise": "constant", "starts": "auto", "random_state": seed}
            model = nmar.CCPF(data, linkage, **common, **settings).fit(train)
            error, on_all = (model.predict_entries(*part.pairs()) - part.values for part in (test, whole))
            rmse = [np.sqrt(np.mean(each**2)) for each in (error, on_all)]
            found.append((*rmse, model.log_likelihood(test), error.mean()))
        mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
        print(
            f"{name:30s} rmse {mean[0]:.4f} ± {spread[0]:.4f}, of all 4,640 {mean[1]:.4f} ± {spread[1]:.4f}"
            f"  log likelihood {mean[2]:.4f} ± {spread[2]:.4f}  bias {mean[3]:+.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
