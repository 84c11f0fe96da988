"""How well c and σ² come back from about 200,000 simulated cells, by cells per parameter of the data model.

python -m benchmarks.recovery
"""

from __future__ import annotations

import nmar

CASES = (
    ((500, 500), 0.8, 1),
    ((500, 500), 0.8, 2),
    ((500, 500), 0.8, 5),
    ((1000, 500), 0.4, 3),
    ((2000, 1000), 0.1, 3),
)


def main() -> None:
    """Fit the model the data were drawn from and print what it found."""
    for shape, density, rank in CASES:
        cells, _ = nmar.simulate(shape, nmar.Factorization(rank), nmar.Linear(0.3), density=density, seed=1)
        settings = {"noise": "constant", "starts": "auto", "factors": 5, "max_iter": 80, "tol": 1e-6, "random_state": 0}
        model = nmar.CCPF(nmar.Factorization(rank), "linear", **settings)
        model.fit(cells)
        per_parameter = cells.n_observed / (sum(shape) * (rank + 1))
        print(
            f"{shape[0]:5d} x {shape[1]:4d}  rank {rank}  {cells.n_observed} cells, {per_parameter:5.1f} per parameter:"
            f"  c {model.linkage_.c:.3f} (0.300)  sigma2 {model.dispersion_:.3f} (1.000)",
            flush=True,
        )


if __name__ == "__main__":
    main()
