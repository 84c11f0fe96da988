"""Fold-in of held-out rows: speed, and likelihood beside a full refit.

    python -m benchmarks.foldin [--rows 1000] [--max-iter 40]

MovieLens-1M, rank 10: the model is fitted without the chosen rows; half of each row's cells are folded in and the
other half is predicted; the refit saw the same halves.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.problems import ml_1m
from nmar import CCPF, Factorization
from nmar.fit.foldin import fold_in


def main() -> None:
    """Fit, fold in, refit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--max-iter", type=int, default=40)
    arguments = parser.parse_args()
    train, _, _ = ml_1m()
    rng = np.random.default_rng(0)
    new = np.sort(rng.choice(train.shape[0], arguments.rows, replace=False))
    known = train.take_rows(np.setdiff1d(np.arange(train.shape[0]), new))
    rows = train.take_rows(new)
    half = rng.random(len(rows)) < 0.5
    seen, held = rows.select(half), rows.select(~half)
    settings = {"data": Factorization(10), "max_iter": arguments.max_iter, "tol": 0.0, "starts": 1, "random_state": 0}
    model = CCPF(**settings).fit(known)
    fold_in(model.posterior_, seen)  # compiled code is loaded
    times = []
    for _ in range(5):
        began = time.perf_counter()
        folded = fold_in(model.posterior_, seen)
        times.append(time.perf_counter() - began)
    there = model.fold_in(seen)
    there.posterior_ = folded
    score = there.log_likelihood(held)
    alone = fold_in(model.posterior_, seen.take_rows(np.arange(3)))
    apart = np.abs(alone.state.sides[0].data.mean - folded.state.sides[0].data.mean[:3]).max()
    print(
        f"fold-in  {score:.4f} on {len(held)} cells; {arguments.rows / min(times):.0f} rows/s (best of 5)", flush=True
    )
    print(f"largest difference of three rows folded in alone: {apart:.1e}")
    full = CCPF(**settings).fit(known.concat(seen)).log_likelihood(held)
    print(f"refit    {full:.4f}   difference {score - full:+.4f}")


if __name__ == "__main__":
    main()
