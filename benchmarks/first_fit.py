"""How long a first fit takes: compiling everything (an empty cache), and with the cache filled.

    python -m benchmarks.first_fit [--repeats 5] [--covariance full] [--linkage free] [--dtype float64]

Each fit is a process of its own: import, 10 sweeps on a small simulated table (from one start), and out; the
imports, most of them scikit-learn's own, are timed apart. The cold ones begin with an
empty folder for compiled code; the warm ones find it filled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

FIT = """
import time
began = time.perf_counter()
import numpy as np
from nmar import CCPF, Cells, Factorization
start = time.perf_counter()
rng = np.random.default_rng(0)
shape, density = (300, 200), 0.1
at = np.flatnonzero(rng.random(shape[0] * shape[1]) < density)
cells = Cells.from_arrays(at // shape[1], at % shape[1], rng.normal(size=len(at)), shape)
data = Factorization(10, covariance={covariance!r})
model = CCPF(data, linkage={linkage!r}, dtype={dtype!r}, noise="constant", max_iter=10, tol=0.0)
model.fit(cells)
end = time.perf_counter()
print(start - began, end - start)
"""


def seconds(code: str, cache: str) -> tuple[float, float]:
    """Seconds of the imports and of the fit in a fresh process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    imports, fit = map(float, done.stdout.split()[-2:])
    return imports, fit


def main() -> None:
    """Fit cold and warm by turns and print medians with their spread."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--covariance", default="full")
    parser.add_argument("--linkage", default="free")
    parser.add_argument("--dtype", default="float64")
    arguments = parser.parse_args()
    code = FIT.format(**vars(arguments))
    found: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": []}
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as cache:
            found["cold"].append(seconds(code, cache))
            found["warm"].append(seconds(code, cache))
    for name, values in found.items():
        imports, fits = np.array(values).T
        spread = f"({fits.min():.2f}–{fits.max():.2f})"
        print(f"{name}: fit {np.median(fits):.2f} s {spread}, imports {np.median(imports):.2f} s")


if __name__ == "__main__":
    main()
