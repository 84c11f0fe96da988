"""Does a coupled fit gain if its pattern is finished first? Judged on training cells set aside, never on test cells.

    python -m benchmarks.starts yelp_250k [--thinning 16 64] [--seed 0] [--ways anew apart held]

Rank 10, 10 factors. A tenth of the training cells is set aside; these and the validation cells judge, and test cells
are hidden from the pattern. Prints the best mean log likelihood over sweeps (scored every 8) of

    two-stage   the pattern fitted apart for 100 sweeps, then values with variance a quadratic in log E Λ
    anew        the thinned model from where fits begin
    pattern     from the pattern fitted by itself, values from where fits begin
    released    as that, but the pattern held for 30 sweeps before it goes on
    held        as that, but the pattern held for good: values do not move it
    apart       from pattern and values fitted apart
    blind       the blind control, from where fits begin; ``blind apart``: from pattern and values fitted apart

with paired gains over the two-stage baseline (cell-wise standard errors), then the same models with each cell's rate
E[Λ | observed] in place of E Λ, and the gains over two-stage by the number of training cells in the row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from benchmarks.problems import PROBLEMS
from nmar import Factorization, Free
from nmar.fit.executor import threads
from nmar.fit.loop.callbacks import Control
from nmar.fit.loop.run import Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.options import Options
from nmar.fit.search.choose import score
from nmar.fit.search.starts import Job, first_problem, hidden_cells, starting_states
from nmar.fit.solvers.twostage import on_pattern
from nmar.kernels.choose import choose
from nmar.models.context import Observed
from nmar.models.law import Law
from nmar.models.state import Side, State
from nmar.posterior import mixing
from nmar.posterior.posterior import Posterior

WAYS = ("anew", "pattern", "released", "held", "apart", "blind", "blind apart")
FIRST, STEP, PATIENCE, MOST = 10, 8, 24, 200
APART, HELD = 100, 30
DEGREES = ((0, 0), (1, 2), (3, 5), (6, 15), (16, 10**9))


class HeldPattern(Law):
    """The law of a coupled model whose pattern stays where it is, whatever the values say."""

    @property
    def separate(self) -> bool:
        """Counts follow the pattern's rates."""
        return self.control


@dataclass(frozen=True)
class Found:
    """The best state of a way by the cells set aside."""

    law: Law
    state: State
    scores: np.ndarray
    sweeps: int


class Bench:
    """Training cells less a tenth, and the cells that judge."""

    def __init__(self, name: str, seed: int, executor) -> None:
        train, valid, test = PROBLEMS[name](seed)
        inner, _, aside = train.split(test=0.1, valid=0.0, seed=0)
        self.options = Options.of(data=Factorization(10), linkage="ignorable", random_state=seed)
        hidden = hidden_cells(inner, aside, valid, test)
        self.job = Job(self.options, inner, None, hidden, choose("auto"), executor, None, Control())
        self.judges = [cells.align(inner.rows, inner.cols, unknown="drop") for cells in (aside, valid)]
        problem = first_problem(self.job)
        self.apart = self.swept(problem.law, problem.observed, problem.state, APART)

    def swept(self, law: Law, observed: Observed, state: State, sweeps: int) -> State:
        """So many sweeps on."""
        return run(Progress(state), self.job.context(law, observed), StopRule(max_iter=sweeps, tol=0.0)).state

    def scores(self, law: Law, state: State) -> np.ndarray:
        """Log likelihood of every judging cell."""
        known = Posterior(law, state, self.job.cells.rows, self.job.cells.cols)
        return np.concatenate([score(known, cells) for cells in self.judges])

    def follow(self, law: Law, observed: Observed, state: State, done: int = 0) -> Found:
        """Sweep until the score has not risen for some sweeps; the best state."""
        best = Found(law, state, np.full(1, -np.inf), done)
        while done < MOST and done - best.sweeps < PATIENCE:
            state, done = self.swept(law, observed, state, STEP), done + STEP
            scores = self.scores(law, state)
            if scores.mean() > best.scores.mean():
                best = Found(law, state.bare().copy(), scores, done)
        return best

    def two_stage(self) -> Found:
        """The baseline: the pattern fitted apart, values from where fits begin."""
        problem = first_problem(self.job)
        pattern = Posterior(problem.law, self.apart, self.job.cells.rows, self.job.cells.cols)
        state, observed = on_pattern(problem.state, problem.observed, pattern)
        return self.follow(replace(problem.law, pattern_fixed=True), observed, state)

    def thinned(self, way: str, thinning: float) -> Found:
        """A thinned table with a tail, from the better of its starts after FIRST sweeps."""
        trust = 0.0 if way.startswith("blind") else 1.0
        job = replace(self.job, options=replace(self.options, linkage=Free(thinning=thinning, tail=2), trust=trust))
        problem = first_problem(job)
        law, observed = problem.law, problem.observed
        fixed = way in ("released", "held")
        first = held(law) if fixed else law
        begun = []
        for state in starting_states(job, problem):
            if way not in ("anew", "blind"):
                state = self.onto_apart(state, values=way.endswith("apart"))
            state = self.swept(first, observed, state, FIRST)
            begun.append((float(self.scores(first, state).mean()), state))
        state = max(begun, key=lambda pair: pair[0])[1]
        if way == "released":
            state = self.swept(first, observed, state, HELD - FIRST)
            return self.follow(law, observed, state, HELD)
        return self.follow(first, observed, state, FIRST)

    def onto_apart(self, state: State, values: bool) -> State:
        """The state with the pattern that was fitted apart, and with the values too."""
        sides = tuple(
            Side(done.pattern, done.data if values else own.data)
            for own, done in zip(state.sides, self.apart.sides, strict=True)
        )
        shared = self.apart.shared
        learned = {"data": shared.data, "dispersion": shared.dispersion} if values else {}
        return State(sides, replace(state.shared, **learned))


def held(law: Law) -> HeldPattern:
    """The law with its pattern held."""
    return HeldPattern(**{name: getattr(law, name) for name in law.__dataclass_fields__} | {"pattern_fixed": True})


def observed_rates(posterior: Posterior, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """E[Λ | observed], Λ taken as a gamma of the posterior's mean m and variance v.

    m (1 − e^{−(a+1)x}) / (1 − e^{−ax}) with a = m²/v and x = log(1 + v/m): a cell is observed with probability
    1 − e^−Λ, so one that is known to be observed has a larger rate, the more so the less is known of its lines.
    """
    u, v = (side.pattern.weights.take(at) for side, at in zip(posterior.state.sides, (i, j), strict=True))
    first, second = u.mean, v.mean
    vary, spread = first / u.beta, second / v.beta
    mean = np.maximum(np.sum(first * second, axis=1), 1e-300)
    ratio = np.maximum(np.sum(first**2 * spread + vary * (second**2 + spread), axis=1) / mean, 1e-12)
    a, x = mean / ratio, np.log1p(ratio)
    return mean * np.expm1(-(a + 1.0) * x) / np.expm1(-a * x)


@contextmanager
def conditional_rates() -> Iterator[None]:
    """Predictions read E[Λ | observed] meanwhile."""
    usual = mixing._rates
    mixing._rates = observed_rates
    try:
        yield
    finally:
        mixing._rates = usual


def gain(a: np.ndarray, b: np.ndarray) -> str:
    """Mean paired difference with its cell-wise standard error."""
    return f"{np.mean(a - b):+.4f} ± {np.std(a - b, ddof=1) / np.sqrt(len(a)):.4f}" if len(a) > 1 else "–"


def report(bench: Bench, thinnings: list[float], ways: list[str]) -> None:
    """Fit every way and print."""
    base = bench.two_stage()
    with conditional_rates():
        fair = bench.scores(base.law, base.state)
    print(f"two-stage {base.scores.mean():.4f} at {base.sweeps}; E[Λ | observed] {fair.mean():.4f}", flush=True)
    degree = np.diff(bench.job.cells.by(0).indptr)[np.concatenate([part.pairs()[0] for part in bench.judges])]
    parts = [(degree >= low) & (degree <= high) for low, high in DEGREES]
    for way, thinning in product(ways, thinnings):
        found = bench.thinned(way, thinning)
        with conditional_rates():
            other = bench.scores(found.law, found.state)
        by_row = "; ".join(gain(other[part], fair[part]) for part in parts)
        print(
            f"{way:11s} s={thinning:<4g} {found.scores.mean():.4f} at {found.sweeps},"
            f" over two-stage {gain(found.scores, base.scores)}; E[Λ | observed] {other.mean():.4f}"
            f" ({gain(other, found.scores)}), over two-stage {gain(other, fair)}; by cells of the row: {by_row}",
            flush=True,
        )


def main() -> None:
    """Read what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(PROBLEMS))
    parser.add_argument("--thinning", type=float, nargs="+", default=[16.0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with threads(None) as executor:
        report(Bench(arguments.name, arguments.seed, executor), arguments.thinning, arguments.ways)


if __name__ == "__main__":
    main()
