"""What a fit that is told nothing reaches: held-out log likelihood, RMSE and seconds.

    python -m benchmarks.defaults yelp_250k ml_1m ml_latest_small geuvadis cptac [--seeds 0 1 2] [--prior robust]

Rank 10, factors 10, the split of the floors (20 % test, 1 % validation, neither used in the fit), test cells counted as
missing. ``--linkage free`` fits the free linkage of the paper's counts instead, for its time and its RMSE.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.problems import PROBLEMS
from nmar import CCPF, Factorization


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--linkage", default=None)
    parser.add_argument("--prior", default="robust")
    parser.add_argument("--factors", default="10")
    arguments = parser.parse_args()
    factors = arguments.factors if arguments.factors == "auto" else int(arguments.factors)
    for name in arguments.names:
        found = []
        for seed in arguments.seeds:
            train, _, test = PROBLEMS[name](seed)
            if name == "ml_latest_small":  # as they were given, 0.5 to 5
                train, test = (part.with_values(part.values / 2.0) for part in (train, test))
            model = CCPF(Factorization(10), arguments.linkage, factors, random_state=seed, prior=arguments.prior)
            began = time.perf_counter()
            model.fit(train)
            seconds = time.perf_counter() - began
            each = model.log_likelihood(test, per_cell=True)
            rmse = np.sqrt(np.mean((model.predict_entries(*test.pairs()) - test.values) ** 2))
            found.append((each.mean(), rmse))
            print(
                f"{name:16s} seed {seed}  predictive {each.mean():.4f} ± {each.std() / np.sqrt(len(each)):.4f}"
                f"  rmse {rmse:.4f}"
                f"  {model.n_iter_} sweeps, {seconds:.1f} s ({model.seconds_trace_[-1]:.1f} s with choosing)",
                flush=True,
            )
        mean, rmse = np.mean(found, axis=0)
        print(f"{name:16s} mean    predictive {mean:.4f}  rmse {rmse:.4f}", flush=True)


if __name__ == "__main__":
    main()
