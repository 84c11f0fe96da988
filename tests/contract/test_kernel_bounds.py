"""The compiled kernels refuse arrays that do not fit together, instead of reading past one of them."""

from __future__ import annotations

import numpy as np
import pytest

import nmar
from nmar.fit.problem import begin
from nmar.kernels.numba import kernels as cpu
from nmar.kernels.spec import GammaTable, GammaUpdate, NormalPrior
from nmar.models.cell_law import cell_law
from nmar.models.missingness import Pattern
from nmar.models.views import view
from nmar.prob.linkage import linkage
from nmar.prob.twostage import Quadratic

KNOWN = Quadratic(edges=(-0.5, 0.5), places=(-1.0, 0.0, 1.0), learn=True)


def block(data, link):
    """All rows of a small problem as a kernel reads them: lines, both sides and the law."""
    cells, _ = nmar.simulate((12, 9), data, "ignorable", density=0.5, seed=0)
    case = begin(cells, data.build(cells), linkage(link), Pattern(2), seed=0)
    group = None if link != KNOWN else np.arange(len(cells), dtype=np.int32) % 3
    observed = case.observed if group is None else type(case.observed)(case.observed.cells, group=group)
    mine, theirs = (view(case.state.sides[axis], axis, case.law, case.state.shared, cpu) for axis in (0, 1))
    return observed.block(0, 0, 12), mine, theirs, cell_law(case.law, case.state.shared, observed.distinct)


def beyond(indices, what):
    """The indices with one of them replaced."""
    changed = indices.copy()
    changed[7] = what
    return changed


LINES = {
    "a column beyond the last": lambda x: x._replace(indices=beyond(x.indices, 9)),
    "a column before the first": lambda x: x._replace(indices=beyond(x.indices, -1)),
    "fewer values than cells": lambda x: x._replace(values=x.values[:-1]),
    "fewer offsets than cells": lambda x: x._replace(offset=np.zeros(3)),
    "more cells than columns": lambda x: x._replace(indptr=np.append(x.indptr[:-1], x.indptr[-1] + 5)),
    "lines that run backwards": lambda x: x._replace(indptr=np.concatenate([[0, 9, 4], x.indptr[3:]])),
    "lines that begin late": lambda x: x._replace(indptr=np.concatenate([[1], x.indptr[1:]])),
    "more lines than there are": lambda x: x._replace(indptr=np.append(x.indptr, x.indptr[-1])),
}
FULL, DIAGONAL = nmar.Effects("rows"), nmar.Factorization(2, covariance="diagonal")
bad_lines = pytest.mark.parametrize("change", LINES.values(), ids=LINES)


@bad_lines
@pytest.mark.parametrize("function", [cpu.expect, cpu.weigh], ids=["expect", "weigh"])
def test_lines_that_do_not_fit_are_refused(function, change):
    lines, mine, theirs, law = block(FULL, "linear")
    function(lines, mine, theirs, law)
    with pytest.raises(ValueError, match=r"indices|indptr|values|offset|lines"):
        function(change(lines), mine, theirs, law)


@bad_lines
def test_statistics_refuse_lines_that_do_not_fit(change):
    lines, mine, theirs, law = block(FULL, "linear")
    held = cpu.expect(lines, mine, theirs, law)
    cpu.statistics(lines, mine, theirs, law, held)
    with pytest.raises(ValueError, match=r"indices|indptr|values|offset|lines"):
        cpu.statistics(change(lines), mine, theirs, law, held)


def test_statistics_refuse_what_was_held_of_other_cells():
    (lines, mine, theirs, law), more = block(FULL, "linear"), block(FULL, "geometric")
    nothing = cpu.expect(lines, mine, theirs, law)._replace(probability=np.empty((0, 2, 128)))
    with pytest.raises(ValueError, match="probability"):
        cpu.statistics(lines, mine, theirs, law, nothing)
    held = cpu.expect(*more)
    with pytest.raises(ValueError, match="used"):
        cpu.statistics(*more, held._replace(used=held.used[:-1]))


@pytest.mark.parametrize("change", [lambda g: g[:-1], lambda g: g[:0], lambda g: beyond(g, 3), lambda g: beyond(g, -1)])
def test_known_bins_are_those_of_the_law(change):
    lines, mine, theirs, law = block(FULL, KNOWN)
    held = cpu.expect(lines, mine, theirs, law)
    cpu.statistics(lines, mine, theirs, law, held)
    wrong = lines._replace(group=change(lines.group))
    with pytest.raises(ValueError, match="group"):
        cpu.expect(wrong, mine, theirs, law)
    with pytest.raises(ValueError, match="group"):
        cpu.statistics(wrong, mine, theirs, law, held)


def test_distinct_values_are_those_of_the_law():
    lines, mine, theirs, law = block(nmar.Constant("negative_binomial"), "ignorable")
    with pytest.raises(ValueError, match="group"):
        cpu.expect(lines._replace(group=beyond(lines.group, len(law.by_value))), mine, theirs, law)


def test_tables_and_sides_fit_each_other():
    lines, mine, theirs, law = block(FULL, "linear")
    wrong = [law._replace(quadratic=law.quadratic[:1]), law._replace(slopes=law.slopes[:1])]
    wrong.append(law._replace(slopes=law.slopes[:, :1]))
    for each in wrong:
        with pytest.raises(ValueError, match="law"):
            cpu.expect(lines, mine, theirs, each)
    lines, mine, theirs, law = block(FULL, "geometric")
    with pytest.raises(ValueError, match="log_factorial"):
        cpu.expect(lines, mine, theirs, law._replace(log_factorial=law.log_factorial[:9]))
    for side in (theirs._replace(packed=theirs.packed[:, :16]), theirs._replace(log_weights=theirs.log_weights[:3])):
        with pytest.raises(ValueError, match="side"):
            cpu.expect(lines, mine, side, law)


def test_descend_and_its_prior():
    lines, mine, theirs, law = block(DIAGONAL, "linear")
    d = mine.sizes[1]
    good = NormalPrior(np.zeros((1, d)), np.ones(d), np.ones(d, bool))
    cpu.descend(lines, mine, theirs, law, good, 2)
    with pytest.raises(ValueError, match="prior"):
        cpu.descend(lines, mine, theirs, law, good._replace(precision=np.ones(d - 1)), 2)
    with pytest.raises(ValueError, match="indices"):
        cpu.descend(LINES["a column beyond the last"](lines), mine, theirs, law, good, 2)


def test_solve_normal_and_gamma_factors():
    prior = NormalPrior(np.zeros((1, 3)), np.ones(3), np.ones(3, bool))
    cpu.solve_normal(np.zeros((4, 3)), np.zeros((4, 6)), np.zeros(3), prior)
    for linear, quadratic, constant in [((4, 3), (4, 5), 3), ((4, 3), (3, 6), 3), ((4, 3), (4, 6), 2)]:
        with pytest.raises(ValueError, match="solve_normal"):
            cpu.solve_normal(np.zeros(linear), np.zeros(quadratic), np.zeros(constant), prior)
    with pytest.raises(ValueError, match="rate"):
        cpu.tabulate(np.ones((4, 2)), np.ones((3, 2)))
    ones, table = np.ones((4, 2)), cpu.tabulate(np.ones((4, 2)), np.ones((4, 2)))
    update = GammaUpdate(ones, np.ones((1, 2)), np.ones(4), 0.3)
    cpu.update_gamma(update, ones.copy(), ones.copy(), table)
    short = GammaTable(table.log_mean[:2], table.geometric, table.totals)
    wrong = [(update._replace(exposure=np.ones((3, 2))), table), (update._replace(activity=np.ones(3)), table)]
    for given, place in [*wrong, (update, short)]:
        with pytest.raises(ValueError, match="update_gamma"):
            cpu.update_gamma(given, ones.copy(), ones.copy(), place)


def test_add_lines():
    lines, _, theirs, _ = block(FULL, "linear")
    cpu.add_lines(lines, theirs.packed, 3)
    for change in ("a column beyond the last", "more cells than columns"):
        with pytest.raises(ValueError, match=r"indices|indptr"):
            cpu.add_lines(LINES[change](lines), theirs.packed, 3)
    with pytest.raises(ValueError, match="whole vectors"):
        cpu.add_lines(lines, theirs.packed[:, :5], 3)
