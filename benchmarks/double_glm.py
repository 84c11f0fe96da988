"""How often the double generalized linear model rejects where nothing is linked: as the paper tests it, and clustered.

    python -m benchmarks.double_glm

Draws without a fitted model: 3,000 cells of 400 rows and 100 columns, residuals with noise exp(spread (a_i + b_j)), and
a score of being observed that has rows and columns of its own, unrelated to the noise.
"""

from __future__ import annotations

import numpy as np

from nmar.evaluate.dispersion import double_glm

SHAPE, CELLS, DRAWS = (400, 100), 3000, 400


def drawn(rng: np.random.Generator, spread: float) -> tuple[np.ndarray, ...]:
    """Residuals, ranks of the score, rows and columns."""
    row, col = np.divmod(rng.choice(SHAPE[0] * SHAPE[1], CELLS, replace=False), SHAPE[1])
    score = rng.normal(size=SHAPE[0])[row] + rng.normal(size=SHAPE[1])[col] + rng.normal(size=CELLS)
    log_sd = spread * (rng.normal(size=SHAPE[0])[row] + rng.normal(size=SHAPE[1])[col])
    return np.exp(log_sd) * rng.normal(size=CELLS), score.argsort().argsort() / CELLS - 0.5, row, col


def main() -> None:
    """Print the shares of draws with p < 0.05."""
    for spread in (0.0, 0.5):
        rng = np.random.default_rng(3)
        found = [double_glm(*drawn(rng, spread)).log_variance for _ in range(DRAWS)]
        naive, clustered = (np.mean([getattr(one, name) < 0.05 for one in found]) for name in ("naive_p", "p_value"))
        print(f"spread {spread}: independent cells {naive:.1%}, clustered {clustered:.1%}", flush=True)


if __name__ == "__main__":
    main()
