"""Held-out log likelihood of every linkage, the control and the baseline on real data, beside the floors.

    python -m benchmarks.floors yelp_250k ml_1m geuvadis cptac [--linkages free linear] [--hidden]

Rank 10, factors 10, seed 0, 40 sweeps, held-out cells counted as missing unless --hidden: the setting of the
floors. One line per fit: predictive and plug-in log likelihood, RMSE, seconds, and the fitted table.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.problems import PROBLEMS
from nmar import CCPF, Factorization

#           predictive floors: ignorable, free;   control rows (plug-in): linear, free
FLOORS = {
    "yelp_250k": (-1.5149, -1.514, None, None),
    "ml_1m": (-1.2465, -1.244, None, None),
    "ml_latest_small": (-1.9877, -1.9837, None, None),
    "geuvadis": (-1.2655, -1.085, -1.157, -1.154),
    "cptac": (-0.6176, -0.448, -0.528, -0.504),
}


def floor(name: str, linkage: str, control: bool) -> str:
    """The floor that goes with a row, as text."""
    ignorable, free, control_linear, control_free = FLOORS[name]
    if control:
        value = {"linear": control_linear, "free": control_free}.get(linkage)
        return "" if value is None else f"plug-in floor {value}"
    value = {"ignorable": ignorable, "free": free}.get(linkage)
    return "" if value is None else f"predictive floor {value}"


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(PROBLEMS))
    parser.add_argument("--linkages", nargs="+", default=["ignorable", "two-stage", "linear", "free"])
    parser.add_argument("--no-control", action="store_true")
    parser.add_argument("--hidden", action="store_true", help="take held-out cells out of the exposure sums")
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--tol", type=float, default=0.0)
    arguments = parser.parse_args()
    for name in arguments.names:
        train, valid, test = PROBLEMS[name]()
        hidden = valid.concat(test, duplicates="last") if arguments.hidden else None
        for linkage in arguments.linkages:
            kinds = [False] if arguments.no_control or linkage in ("ignorable", "two-stage") else [False, True]
            for control in kinds:
                model = CCPF(
                    data=Factorization(10),
                    linkage=linkage,
                    control=control,
                    factors=10,
                    noise="constant",
                    starts="auto",
                    max_iter=arguments.max_iter,
                    tol=arguments.tol,
                    random_state=0,
                )
                start = time.perf_counter()
                model.fit(train, hidden=hidden)
                seconds = time.perf_counter() - start
                predictive = model.log_likelihood(test, per_cell=True)
                plugin = model.log_likelihood(test, plugin=True)
                rows, cols = test.pairs()
                rmse = np.sqrt(np.mean((model.predict_entries(rows, cols) - test.values) ** 2))
                se = predictive.std() / np.sqrt(len(predictive))
                rate = model.posterior_.state.shared.rate
                label = linkage + ("+control" if control else "")
                print(
                    f"{name:16s} {label:18s} predictive {predictive.mean():.4f} ± {se:.4f}  plug-in {plugin:.4f}"
                    f"  rmse {rmse:.4f}  {seconds:6.1f} s  {floor(name, linkage, control)}"
                    + (f"  rate {rate:.3f}" if rate is not None else ""),
                    flush=True,
                )
                table = np.round(model.linkage_.table(8), 3)
                print("    phi", table, "sigma2", round(model.dispersion_, 4), flush=True)


if __name__ == "__main__":
    main()
