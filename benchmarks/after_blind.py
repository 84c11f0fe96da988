"""What can the missingness still say about the spread, once rows and columns may differ in noise?

    python -m benchmarks.after_blind cptac geuvadis ml_latest_small yelp_250k [--seeds 0 1 2] [--rows 0]
    python -m benchmarks.after_blind cptac geuvadis --null

The blind control (thinning 16, a tail of two levels) is fitted to the training cells. Each held-out cell has a normal
score z under it, which is standard normal if the control is right. The log variance of z is then regressed on what the
pattern says of the cell: the log odds of being observed of its row and of its column, with squares and their product,
and the log rate of a fitted pattern with its square. The regression learns from one half of the rows and is judged on
the other, in turn, and what it adds to the log density is a ceiling for what this kind of coupling could gain. Prints
the gain over a regression with a level alone. The regression sees test cells: it says what there is to be found, and is
no model of its own.

``--null``: rows without gaps, each under the mask of another row, columns in another order. Nothing is linked, but
lines still differ in how many cells they have, so that what is gained is the control's own error about short lines.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

import nmar
from benchmarks.problems import PROBLEMS
from benchmarks.verdict import some_rows, whole
from nmar import Cells
from nmar.report.gains import Gain, Judges
from nmar.report.scoring import probability_integral

Array = np.ndarray
LINK = nmar.Free(thinning=16, tail=2)


def unlinked(cells: Cells, rng: np.random.Generator) -> Cells:
    """Rows without gaps under masks of other rows, columns in another order."""
    dense = np.full(cells.shape, np.nan)
    dense[cells.positions()] = cells.values
    seen = ~np.isnan(dense)
    full = dense[seen.all(axis=1)]
    masks = seen[rng.permutation(len(seen))[: len(full)]][:, rng.permutation(seen.shape[1])]
    full[~masks] = np.nan
    return Cells.from_dense(full[masks.any(axis=1)])


def parts(name: str, rows: int, seed: int, null: bool) -> tuple[Cells, Cells, Cells]:
    """Training, validation and test cells."""
    if name == "yelp_250k":
        return PROBLEMS[name]()
    cells = some_rows(whole(name), rows)
    cells = unlinked(cells, np.random.default_rng(seed)) if null else cells
    return cells.split(test=0.2, valid=0.01, seed=seed)


def log_odds(train: Cells, test: Cells, axis: int) -> Array:
    """Log odds of being observed of each test cell's row or column, among the cells that are not held out."""
    seen = np.diff(train.by(axis).indptr)
    held = np.bincount(test.positions()[axis], minlength=len(seen))
    return (np.log(seen + 0.5) - np.log(train.shape[1 - axis] - held - seen + 0.5))[test.positions()[axis]]


def terms(train: Cells, test: Cells, seed: int) -> dict[str, list[Array]]:
    """Regressors of the log variance by name, standardised."""
    pattern = nmar.CCPF(nmar.PatternOnly(), random_state=seed).fit(train, hidden=test)
    log_rate = np.log(pattern.posterior_.rates(*test.positions()))
    row, col, rate = ((x - x.mean()) / x.std() for x in (log_odds(train, test, 0), log_odds(train, test, 1), log_rate))
    margins = [row, row**2, col, col**2, row * col]
    return {"rate": [rate, rate**2], "row": margins[:2], "column": margins[2:4], "all": [*margins, rate, rate**2]}


def added(z: Array, columns: list[Array], half: Array) -> Array:
    """What a regression of the log variance adds to the log density of each score, learned on the other half."""
    design, out = np.column_stack([np.ones(len(z)), *columns]), np.empty(len(z))
    for fit in (half, ~half):
        x, square = design[fit], z[fit] ** 2

        def loss(b: Array, x: Array = x, square: Array = square) -> tuple[float, Array]:
            ratio = square * np.exp(-x @ b)
            return 0.5 * float(np.mean(x @ b + ratio)), 0.5 * x.T @ (1.0 - ratio) / len(x)

        log_variance = design[~fit] @ minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS").x
        out[~fit] = 0.5 * z[~fit] ** 2 * (1.0 - np.exp(-log_variance)) - 0.5 * log_variance
    return out


def gains(name: str, rows: int, seed: int, null: bool) -> tuple[float, dict[str, Gain]]:
    """The control's log likelihood, and what each set of regressors adds to it."""
    train, valid, test = parts(name, rows, seed, null)
    model = nmar.CCPF(nmar.Factorization(10), LINK, trust=0.0, random_state=seed)
    model.fit(train, valid=valid, hidden=test)
    z = norm.ppf(np.clip(probability_integral(model.posterior_, test), 1e-9, 1.0 - 1e-9))
    half = np.random.default_rng(seed).random(test.shape[0])[test.positions()[0]] < 0.5
    level, judges = added(z, [], half), Judges.of([test])
    found = {key: judges.average([added(z, x, half) - level]) for key, x in terms(train, test, seed).items()}
    return model.log_likelihood(test, unknown="prior"), found


def main() -> None:
    """A line for each data set and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=0, help="rows at random, 0 for all")
    parser.add_argument("--null", action="store_true", help="rows without gaps under masks of other rows")
    asked = parser.parse_args()
    print("| data | seed | blind | log rate adds | row | column | all |\n|---|---|---|---|---|---|---|")
    for name in asked.names:
        for seed in asked.seeds:
            base, found = gains(name, asked.rows, seed, asked.null)
            told = " | ".join(f"{one.mean:+.5f} ± {one.se:.5f}" for one in found.values())
            print(f"| {name}{', no link' if asked.null else ''} | {seed} | {base:.4f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
