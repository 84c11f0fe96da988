"""How far should a coupled model believe the pattern? Trusts on cells set aside from training, test cells hidden.

    python -m benchmarks.trust cptac --rows 1000 [--seeds 0 1 2] [--tails 2 1] [--trusts 0 0.1 0.2 0.3 0.6] [--null]

Rank 10, 10 factors, thinning 16. The cells are split as nmar.compare does it (20 % test, 1 % validation); a tenth of
the training cells and the validation cells judge. Each trust is swept as the search of ``trust="auto"`` does it, but
every one of them until its score no longer rises, where the search goes on with the best after 30 sweeps alone. Prints
both scores and the paired gain over trust 0, the blind control, with its cell-wise standard error. ``--null``: rows
without gaps under masks of other rows, so that nothing is linked (benchmarks.after_blind).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

import nmar
from benchmarks.after_blind import unlinked
from benchmarks.verdict import some_rows, whole
from nmar import Cells
from nmar.fit.executor import Serial
from nmar.fit.loop.callbacks import Control
from nmar.fit.options import Options
from nmar.fit.search.choose import _Search
from nmar.fit.search.starts import Job, hidden_cells
from nmar.kernels.choose import choose


def judged(cells: Cells, trusts: list[float], tail: int, seed: int) -> None:
    """Scores of all trusts on one split."""
    train, valid, test = cells.split(test=0.2, valid=0.01, seed=seed)
    link = nmar.Free(thinning=16, tail=tail)
    options = Options.of(data=nmar.Factorization(10), linkage=link, factors=10, trust="auto", random_state=seed)
    away = hidden_cells(train, valid, test)
    search = _Search(Job(options, train, valid, away, choose("auto"), Serial(), None, Control()))
    blind = None
    for trust in trusts:
        began = time.process_time()
        trial = search._try(trust, replace(options, trust=trust))
        early, trial = trial.score, search.exhausted(trial)
        blind = trial.scores if blind is None else blind
        gain = trial.scores - blind
        print(
            f"seed {seed}, tail {tail}, trust {trust:g}: {early:.4f} after 30 sweeps, best {trial.score:.4f} after"
            f" {trial.best_at}, over the first {gain.mean():+.4f} ± {gain.std() / np.sqrt(len(gain)):.4f}"
            f" ({time.process_time() - began:.0f} s)",
            flush=True,
        )


def main() -> None:
    """All splits and tails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tails", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--trusts", type=float, nargs="+", default=[0.0, 0.1, 0.2, 0.3, 0.6])
    parser.add_argument("--null", action="store_true", help="rows without gaps under masks of other rows")
    asked = parser.parse_args()
    table = some_rows(whole(asked.name), asked.rows)
    for seed in asked.seeds:
        cells = unlinked(table, np.random.default_rng(seed)) if asked.null else table
        print(f"{asked.name}: {cells.shape[0]} × {cells.shape[1]}, {len(cells)} cells, density {cells.density:.3f}")
        for tail in asked.tails:
            judged(cells, asked.trusts, tail, seed)


if __name__ == "__main__":
    main()
