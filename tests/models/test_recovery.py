"""Known parameters come back from simulated data, and the control finds no gain where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import nmar

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md


def test_linkage_and_variance_come_back_from_200_000_cells():
    """c within 0.03 and σ² within 3 %, at 67 cells per parameter of the data model.

    Mean field shrinks c towards 0 as cells per parameter fall (docs/experiments/recovery.md).
    """
    cells, truth = nmar.simulate((500, 500), nmar.Factorization(2), nmar.Linear(0.3), density=0.8, seed=0)
    assert cells.n_observed == pytest.approx(200_000, rel=0.02)
    model = nmar.CCPF(nmar.Factorization(2), "linear", factors=5, max_iter=40, tol=1e-6, random_state=0).fit(cells)
    assert model.linkage_.c == pytest.approx(0.3, abs=0.03)
    assert model.dispersion_ == pytest.approx(truth.dispersion, rel=0.03)


def test_no_gain_over_the_control_where_missingness_is_ignorable():
    cells, _ = nmar.simulate((300, 200), nmar.Factorization(2), nmar.Ignorable(), density=0.3, seed=0)
    train, _, test = cells.split(seed=0)
    scores = []
    for control in (False, True):
        model = nmar.CCPF(nmar.Factorization(2), "linear", factors=3, control=control, max_iter=40, random_state=0)
        scores.append(model.fit(train, hidden=test).log_likelihood(test, per_cell=True))
    gap = scores[0] - scores[1]
    assert gap.mean() < 3.0 * gap.std(ddof=1) / np.sqrt(len(gap)) + 1e-4


def test_a_linked_matrix_gains_over_its_control():
    cells, _ = nmar.simulate((200, 150), nmar.Factorization(2), nmar.Geometric(-1.0), density=0.4, seed=0)
    train, _, test = cells.split(seed=0)
    scores = []
    for control in (False, True):
        model = nmar.CCPF(nmar.Factorization(2), "geometric", factors=5, control=control, max_iter=20, random_state=0)
        scores.append(model.fit(train, hidden=test).log_likelihood(test, per_cell=True))
    gap = scores[0] - scores[1]
    assert gap.mean() > 3.0 * gap.std(ddof=1) / np.sqrt(len(gap))
