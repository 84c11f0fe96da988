"""Regression on more covariates than cells: the dual form against the plain one, and lines that do not mix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from nmar.kernels import reference
from nmar.kernels.spec import Lines, NormalPrior
from nmar.models import dual
from nmar.models.protocol import Block

NONE, KNOWN = np.empty(0), 9


@pytest.fixture(params=[KNOWN, KNOWN - 1])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner products of all known lines at once, and of each line's own."""
    monkeypatch.setattr(dual, "TABLE", request.param)


class First(NamedTuple):
    """What the solve reads of the covariates' side."""

    first: np.ndarray


def problem(own: bool, lines: int = 6, known: int = KNOWN, size: int = 12) -> tuple[Block, np.ndarray, NormalPrior]:
    """A few cells in each line, none in the second; prior means for all lines or one for each."""
    rng = np.random.default_rng(3)
    counts = np.array([3, 0, 4, 3, 1, 5])[:lines]
    indices = np.concatenate([rng.permutation(known)[:n] for n in counts])
    cells = Lines(np.append(0, np.cumsum(counts)), indices, rng.normal(size=counts.sum()), NONE, NONE)
    weight = rng.gamma(2.0, 0.5, len(indices))
    prior = NormalPrior(rng.normal(size=(lines if own else 1, size)), rng.gamma(3.0, 1.0, size), np.ones(size, bool))
    block = Block(cells, First(NONE), First(rng.normal(size=(known, size))), None)  # type: ignore[arg-type]
    return block, np.stack([weight * cells.values, weight]), prior


def solved(block: Block, cellwise: np.ndarray, prior: NormalPrior) -> Any:
    return dual.solve_dual(reference, block, cellwise, prior, KNOWN, np.float64)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.usefixtures("table")
def test_dual_is_the_primal(own: bool) -> None:
    """(diag 1/ρ + X'ΩX) mean = η/ρ + X'Ωt, solved directly."""
    block, cellwise, prior = problem(own)
    found = solved(block, cellwise, prior)
    for i in range(len(block.lines.indptr) - 1):
        cells = slice(block.lines.indptr[i], block.lines.indptr[i + 1])
        x, (target, weight) = block.theirs.first[block.lines.indices[cells]], cellwise[:, cells]
        precision, eta = np.diag(prior.precision), prior.mean[i if own else 0]
        mean = np.linalg.solve(precision + (x.T * weight) @ x, precision @ eta + x.T @ target)
        variance = 1.0 / (prior.precision + weight @ x**2)
        np.testing.assert_allclose(found.mean[i], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.variance[i], variance, rtol=1e-12)
        np.testing.assert_allclose(found.log_det[i], np.log(variance).sum(), rtol=1e-12)


@pytest.mark.usefixtures("table")
def test_a_line_does_not_depend_on_its_block() -> None:
    """Fold-in promises the same bits whatever else is folded in."""
    block, cellwise, prior = problem(False)
    whole = solved(block, cellwise, prior)
    cells = slice(block.lines.indptr[2], block.lines.indptr[3])
    alone = Lines(np.array([0, 4]), block.lines.indices[cells], block.lines.values[cells], NONE, NONE)
    found = solved(block._replace(lines=alone), cellwise[:, cells], prior)
    np.testing.assert_array_equal(found.mean[0], whole.mean[2])
    np.testing.assert_array_equal(found.variance[0], whole.variance[2])
