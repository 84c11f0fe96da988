"""Simulation-based calibration: where truths lie among draws of their posterior, over many simulated tables.

    python -m benchmarks.sbc exact --draws 500
    python -m benchmarks.sbc mean-field --draws 100

Each draw simulates a table, fits it with its own data model, and notes the rank of one true number of each kind among
99 draws of its posterior (Talts and others 2018). "exact": posteriors that are exact, whose ranks are uniform; p is of
a Kolmogorov-Smirnov test, Holm's correction over all lines. "mean-field": posteriors that are not, and their joint
draws by data augmentation (as ``impute`` makes them). Columns: share of the truths in the middle 50 % and 90 %, and the
root mean square of (truth − mean) / sd: 1 where standard deviations are right, above it where they are too small.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy import stats

import nmar
from nmar.fit.augment import joint_draws
from nmar.fit.executor import threads
from nmar.fit.options import Options
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.state import State
from nmar.models.views import tabulated
from nmar.posterior.joint import drawn
from nmar.posterior.posterior import Posterior
from nmar.prob.linkage import linkage

RANKS = 99  # draws of each posterior
Draws = Iterator[tuple[str, float, np.ndarray]]  # what, its true value, draws of its posterior


def plain(cells: nmar.Cells, data: nmar.Settings, link: str = "ignorable", **more: object) -> nmar.CCPF:
    """A fit whose noise is that of the simulation."""
    given = {"noise": "constant", "tail": False, "tol": 1e-7, "max_iter": 1000, "n_jobs": 1, "random_state": 0}
    return nmar.CCPF(data, link, **{**given, "pattern": nmar.Pattern(2), **more}).fit(cells)


def masked(values: np.ndarray, share: float, rng: np.random.Generator) -> nmar.Cells:
    """Some cells of a table, at random."""
    i, j = np.nonzero(rng.random(values.shape) < share)
    return nmar.Cells.from_arrays(i, j, values[i, j], values.shape)


def sampled(known: Posterior, rng: np.random.Generator) -> list[Posterior]:
    """Independent draws of a fitted posterior."""
    return [drawn(known, rng) for _ in range(RANKS)]


def means(known: Posterior, i: int, j: int) -> float:
    """E[μ] of a cell in the units of the values, of a Gaussian model."""
    return float(known.units.to_user(known._any_cells(np.array([i]), np.array([j])).mean[0, 0]))


# --- exact posteriors ---------------------------------------------------------------------------------------------


def constant_gaussian(rng: np.random.Generator) -> Draws:
    """One mean and one precision."""
    mean, sd = rng.normal(0.0, 10.0), np.exp(rng.normal())
    model = plain(masked(rng.normal(mean, sd, (40, 30)), 0.5, rng), nmar.Constant("gaussian"))
    draws = sampled(model.posterior_, rng)
    yield "mean", mean, np.array([means(one, 0, 0) for one in draws])
    scale = model.posterior_.units.scale
    yield "σ²", sd**2, np.array([scale**2 * one.state.shared.dispersion for one in draws])


def constant(family: str) -> Callable[[np.random.Generator], Draws]:
    """One mean of a family with one parameter."""

    def one(rng: np.random.Generator) -> Draws:
        truth, shape = float(np.exp(rng.normal(0.5, 0.7))), (40, 30)
        trials = None
        if family == "poisson":
            values = rng.poisson(truth, shape)
        else:
            trials, truth = 10, float(rng.uniform(0.1, 0.9))
            values, truth = rng.binomial(trials, truth, shape), trials * truth
        model = plain(masked(values.astype(float), 0.5, rng), nmar.Constant(family, trials=trials))
        at = np.zeros(1, np.int64)
        table = model.posterior_.table(1)
        found = [float(one.cells(at, at).moments(table)[0][0, 0]) for one in sampled(model.posterior_, rng)]
        yield "mean", truth, np.array(found)

    return one


def effects_known(rng: np.random.Generator) -> Draws:
    """Row effects where σ² and the variance of the effects are what they are: one half sweep is exact."""
    shape, prior, noise = (30, 12), 1.5, 0.8
    effects = rng.normal(0.0, np.sqrt(prior), shape[0])
    values = effects[:, None] + rng.normal(0.0, np.sqrt(noise), shape)
    cells, pattern = masked(values, 0.4, rng), Options.of(factors=2).pattern_law
    problem = begin(cells, nmar.Effects("rows").build(cells), linkage("ignorable"), pattern)
    units, shared = problem.state.shared.units, problem.state.shared
    size = shared.data.variance[0].shape
    known = replace(shared.data, variance=(np.full(size, prior / units.scale**2), shared.data.variance[1]))
    known = replace(known, mean=tuple(np.full(m.shape, -units.center / units.scale) for m in known.mean))
    state = State(problem.state.sides, replace(shared, data=known, dispersion=noise / units.scale**2))
    with threads(1) as executor:
        context = Context(problem.observed, problem.law, choose("numba"), executor)
        side, _, _ = half_sweep(0, tabulated(state, context), context)
    fitted = Posterior(problem.law, state.with_side(0, side), cells.rows, cells.cols)
    row = int(rng.integers(shape[0]))
    yield "row effect", effects[row], np.array([means(one, row, 0) for one in sampled(fitted, rng)])


EXACT = {
    "constant:gaussian": constant_gaussian,
    "constant:poisson": constant("poisson"),
    "constant:binomial": constant("binomial"),
    "effects:rows, variances known": effects_known,
}

# --- mean field ---------------------------------------------------------------------------------------------------


def both_ways(model: nmar.CCPF, cells: nmar.Cells, rng: np.random.Generator) -> dict[str, list[Posterior]]:
    """Draws of the mean-field posterior, and joint ones by data augmentation."""
    seed = np.random.SeedSequence(int(rng.integers(2**63)))
    joint = joint_draws(model.posterior_, cells, RANKS, 5, seed, n_jobs=1)
    return {"": sampled(model.posterior_, rng), ", joint draws": list(joint)}


def gaussian(data: nmar.Settings, link: str = "ignorable", density: float = 0.3) -> Callable[..., Draws]:
    """The mean of one cell and the mean of one row over all columns."""

    def one(rng: np.random.Generator) -> Draws:
        shape = (60, 40)
        cells, truth = nmar.simulate(shape, data, link, density, int(rng.integers(2**31)))
        model = plain(cells, data, link)
        i, j = int(rng.integers(shape[0])), int(rng.integers(shape[1]))
        for how, draws in both_ways(model, cells, rng).items():
            yield f"mean of a cell{how}", means(truth.posterior, i, j), np.array([means(d, i, j) for d in draws])
            yield f"mean of a row{how}", row_mean(truth.posterior, i), np.array([row_mean(d, i) for d in draws])

    return one


def row_mean(known: Posterior, i: int) -> float:
    """Mean of μ over all columns of a row."""
    j = np.arange(len(known.cols))
    return float(np.mean(known.units.to_user(known._any_cells(np.full(len(j), i), j).mean[:, 0])))


def poisson(rng: np.random.Generator) -> Draws:
    """The mean of a cell of Poisson factorization."""
    shape, data = (60, 40), nmar.Factorization(2, family="poisson")
    cells, truth = nmar.simulate(shape, data, "ignorable", 0.3, int(rng.integers(2**31)))
    model = plain(cells, data)
    i, j = np.array([rng.integers(shape[0])]), np.array([rng.integers(shape[1])])

    def mean(known: Posterior) -> float:
        return float(known._any_cells(i, j).mean[0, 0])

    for how, draws in both_ways(model, cells, rng).items():
        yield f"mean of a cell{how}", mean(truth.posterior), np.array([mean(one) for one in draws])


def noise(rng: np.random.Generator) -> Draws:
    """σ² over the noise level of a row, and of a column."""
    shape, data = (60, 40), nmar.Effects("rows")
    cells, truth = nmar.simulate(shape, data, "ignorable", 0.3, int(rng.integers(2**31)), noise="rows+cols")
    known = plain(cells, data, noise="rows+cols").posterior_
    for axis, name in enumerate(("row", "column")):
        line, draws = int(rng.integers(shape[axis])), sampled(known, rng)
        found = np.array([log_variance(one, axis, line) for one in draws])
        yield f"log variance of a {name}", log_variance(truth.posterior, axis, line), found


def log_variance(known: Posterior, axis: int, line: int) -> float:
    """Log variance of the cells of a line, averaged over the lines of the other axis."""
    mine, theirs = (known.state.sides[a].noise.mean for a in (axis, 1 - axis))
    return float(np.log(known.dispersion / mine[line]) - np.mean(np.log(theirs)))


def covariates(rng: np.random.Generator) -> Draws:
    """B: the effect of one covariate of the rows on their level."""
    shape, slope = (60, 40), rng.normal()
    x = rng.normal(size=shape[0])
    x = (x - x.mean()) / x.std()
    level = slope * x + rng.normal(size=shape[0])
    cells = masked(level[:, None] + rng.normal(size=shape), 0.3, rng)
    model = plain(cells, nmar.Effects("rows", rows=x[:, None]))
    found = model.covariate_effects_["rows"]
    mean, sd = float(np.ravel(found.mean)[0]), float(np.ravel(found.sd)[0])
    yield "B", slope, rng.normal(mean, sd, RANKS)


def gamma_of_pattern(rng: np.random.Generator) -> Draws:
    """Γ: the effect of a level of the rows on the rate of a column."""
    shape, levels = (80, 40), rng.integers(0, 2, 80)
    own = rng.gamma(1.0, 0.3, (2, shape[1]))
    u, v = rng.gamma(1.0, 0.3, (shape[0], 2)), rng.gamma(1.0, 1.0, (shape[1], 2))
    i, j = np.nonzero(rng.poisson(u @ v.T + own[levels]))
    cells = nmar.Cells.from_arrays(i, j, rng.normal(size=len(i)), shape)
    model = plain(cells, nmar.PatternOnly(), pattern=nmar.Pattern(2, rows=levels.astype(str)[:, None]))
    found, col = model.pattern_effects_["rows"], int(rng.integers(shape[1]))
    values, sd = found.mean, found.sd
    draws = [rng.gamma((m / s) ** 2, s**2 / m, RANKS) for m, s in zip(values[col], sd[col], strict=True)]
    yield "Γ", own[1, col], draws[1]
    yield "Γ, one level less another", own[1, col] - own[0, col], draws[1] - draws[0]


MEAN_FIELD = {
    "effects:rows": gaussian(nmar.Effects("rows")),
    "effects:both": gaussian(nmar.Effects("both")),
    "factorization:2": gaussian(nmar.Factorization(2)),
    "factorization:2, linear": gaussian(nmar.Factorization(2), "linear"),
    "poisson-factorization:2": poisson,
    "noise rows+cols": noise,
    "effects:rows+covariates": covariates,
    "pattern:rows": gamma_of_pattern,
}
SETS = {"exact": EXACT, "mean-field": MEAN_FIELD}


def calibrated(problem: Callable[[np.random.Generator], Draws], draws: int, seed: int) -> dict[str, np.ndarray]:
    """Rank (as a number from 0 to 1) and (truth − mean) / sd of each kind of number, a row for each table."""
    found: dict[str, list[tuple[float, float]]] = {}
    for stream in np.random.SeedSequence(seed).spawn(draws):
        rng = np.random.default_rng(stream)
        for name, truth, values in problem(rng):
            below = np.sum(values < truth) + rng.integers(np.sum(values == truth) + 1)
            rank = (below + rng.random()) / (len(values) + 1)
            found.setdefault(name, []).append((rank, (truth - values.mean()) / values.std(ddof=1)))
    return {name: np.array(pairs) for name, pairs in found.items()}


def holm(p: list[float]) -> list[float]:
    """p-values that allow for how many there are."""
    order = np.argsort(p)
    stepped = np.maximum.accumulate(np.array(p)[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out.tolist()


def table(chosen: dict[str, Callable[[np.random.Generator], Draws]], draws: int, seed: int) -> Iterator[str]:
    """Lines of the table."""
    lines = []
    for name, problem in chosen.items():
        lines += [(name, what, both) for what, both in calibrated(problem, draws, seed).items()]
        print(f"{name}: done", file=sys.stderr, flush=True)
    p = [float(stats.kstest(both[:, 0], "uniform").pvalue) for _, _, both in lines]
    yield "| model | number | tables | middle 50 % | middle 90 % | error / sd | p |\n" + 7 * "|---" + "|"
    for (name, what, both), corrected in zip(lines, holm(p), strict=True):
        away = np.abs(both[:, 0] - 0.5)
        shares = " | ".join(f"{100 * np.mean(away < half):.0f}" for half in (0.25, 0.45))
        ratio = np.sqrt(np.mean(both[:, 1] ** 2))
        yield f"| {name} | {what} | {len(both)} | {shares} | {ratio:.2f} | {corrected:.2g} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=SETS)
    parser.add_argument("--draws", type=int, default=500, help="simulated tables of each model (500)")
    parser.add_argument("--only", help="models whose name begins with this")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {name: one for name, one in SETS[args.which].items() if name.startswith(args.only or "")}
    for text in table(chosen, args.draws, args.seed):
        print(text, flush=True)


if __name__ == "__main__":
    main()
