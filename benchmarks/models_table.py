"""Every data model × linkage on yelp_250k with the authors' split: log likelihood ± se, RMSE, seconds.

python -m benchmarks.models_table [--markdown docs/experiments/models.md]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import nmar
from benchmarks.problems import yelp_250k

MODELS = (
    nmar.Constant("gaussian"),
    nmar.Constant("poisson"),
    nmar.Effects("rows"),
    nmar.Effects("cols"),
    nmar.Effects("both"),
    nmar.Effects("rows", "poisson"),
    nmar.Effects("cols", "poisson"),
    nmar.Mixture(10, "rows", restarts=1),
    nmar.Mixture(10, "cols", restarts=1),
    nmar.Mixture(10, "rows", "poisson", restarts=1),
    nmar.Mixture(10, "cols", "poisson", restarts=1),
    nmar.Factorization(10),
    nmar.Factorization(10, covariance="diagonal"),
    nmar.Factorization(10, family="poisson"),
)
LINKAGES = (("ignorable", False), ("free", True), ("linear", False), ("exponential", False), ("free", False))


def main() -> None:
    """Fit all of them, printing as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    train, _, test = yelp_250k()
    rows, cols = test.pairs()
    lines = ["| data model | linkage | log likelihood | se | RMSE | seconds |", "|---|---|---|---|---|---|"]
    for data in MODELS:
        for linkage, control in LINKAGES:
            start = time.perf_counter()
            settings = {"noise": "constant", "starts": 2 if control else 1, "max_iter": arguments.max_iter}
            model = nmar.CCPF(data, linkage, control=control, random_state=0, **settings).fit(train)
            seconds = time.perf_counter() - start
            each = model.log_likelihood(test, per_cell=True)
            rmse = np.sqrt(np.mean((model.predict_entries(rows, cols) - test.values) ** 2))
            label = "control (free)" if control else linkage
            se = each.std() / np.sqrt(len(each))
            lines.append(f"| {data.describe()} | {label} | {each.mean():.4f} | {se:.4f} | {rmse:.4f} | {seconds:.1f} |")
            print(lines[-1], flush=True)
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
