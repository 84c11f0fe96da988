"""One coupled sweep at the shape of the Netflix data: 480,189 × 17,770, 100 million cells, factors and rank 160.

    python -m benchmarks.netflix [--cells 100000000] [--factors 160] [--sweeps 2] [--jobs 2]

Simulated cells, diagonal covariance, linear linkage, float32 storage. Prints the seconds of each sweep and the peak
resident memory of the process, data included.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from benchmarks.problems import simulated
from nmar import CCPF, Cells, Factorization

SHAPE = (480_189, 17_770)


def main() -> None:
    """Simulate, fit a few sweeps, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100_000_000)
    parser.add_argument("--factors", type=int, default=160)
    parser.add_argument("--sweeps", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=None)
    arguments = parser.parse_args()
    start = time.perf_counter()
    cells = Cells.from_arrays(*simulated(*SHAPE, arguments.cells, seed=0), SHAPE)
    print(f"{cells.n_observed} cells simulated and sorted in {time.perf_counter() - start:.0f} s", flush=True)
    model = CCPF(
        Factorization(arguments.factors, covariance="diagonal"),
        linkage="linear",
        factors=arguments.factors,
        max_iter=arguments.sweeps,
        tol=0.0,
        noise="constant",
        dtype="float32",
        random_state=0,
        n_jobs=arguments.jobs,
    )
    start = time.perf_counter()
    model.fit(cells, callbacks=[lambda record: print(f"sweep {record.iteration}: {record.seconds:.1f} s", flush=True)])
    seconds = np.diff(model.seconds_trace_, prepend=0.0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"sweeps {np.round(seconds, 1).tolist()} s, fit {time.perf_counter() - start:.0f} s, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
