"""Compiled: sums over the gathered cells of a line for a group of sixteen coordinates, held in vector registers.

A diagonal normal line is updated group by group; what a group needs of the line's cells is a 16 × 16 Gram matrix and
two vectors. They are accumulated in registers, which numba's arrays cannot be, so the two loops are written as LLVM
instructions on vectors of sixteen numbers. Lanes beyond a group's size hold what lies next in memory
and are ignored.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nmar.kernels.cpu_vector import LANES, Writer, whole
from nmar.kernels.spec import GROUP

AHEAD = 12  # cells between asking for a line and using it
HALF = GROUP // 2
assert GROUP == LANES  # a group is a vector


@intrinsic(prefer_literal=True)
def group_pass(
    typing_context, theirs, indices, lo, hi, before, first, apart, moves, linear, weight, mean, spread, out,
    far, move, rows,
):  # fmt: skip
    """One pass over a line's cells: follow the last group's step (``move``), then sum for ``rows`` coordinates more.

    A group's means begin at column ``before`` or ``first`` of ``theirs``, its variances ``apart`` columns on.

    Moving: E[μ] of each cell (``mean``) += Σ step b, and its variance (``spread``) += Σ E[a²] Var[b] + v b². Rows of
    ``moves`` are the steps, E[a²] = m² + v, and v of the group's coordinates, 0 in lanes it does not have.

    Adding: rows 0–15 of ``out``, as many as there are, become Σ ω b b', row 16 Σ (ωt − ωμ) b, and row 17 Σ ω Var[b].
    Of the matrix only the upper triangle is to be used: the second half of its rows has the second half of its
    columns only.

    With ``far`` lines are asked for ahead of their use: the cells of a long line do not stay in the cache.
    """
    n = types.intp
    signature = types.void(
        theirs, indices, n, n, n, n, n, moves, linear, weight, mean, spread, out, types.boolean, move, rows
    )  # fmt: skip

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        moving, rows = (signature.args[place].literal_value for place in (14, 15))
        at_once = GROUP * 4 // w.size  # rows whose accumulators fit the registers
        for begin in range(0, max(rows, 1), at_once):
            lanes = range(begin, min(begin + at_once, rows))
            _write_pass(w, lanes, moving and begin == 0, rows > 0 and begin == 0)
        return context.get_dummy_value()

    return signature, generate


def _write_pass(w, lanes, moves, vectors):
    """Write a loop that moves the cells, and sums some rows of the Gram matrix and the two vectors."""
    builder = w.builder
    _, _, lo, hi, before, first, apart = w.given[:7]
    places = [*lanes, GROUP, GROUP + 1] if vectors else [*lanes]
    kinds = [w.half if HALF <= place < GROUP else w.vector for place in places]
    sums = [cgutils.alloca_once(builder, kind) for kind in kinds]
    for each, kind in zip(sums, kinds, strict=True):
        builder.store(ir.Constant(kind, [0.0] * kind.count), each)
    steps = [w.load(7, whole(row), whole(0)) for row in range(3)] if moves else []
    far = cgutils.as_bool_bit(builder, w.given[13])
    with cgutils.for_range_slice(builder, lo, hi, ir.Constant(hi.type, 1)) as (cell, _):
        line = w.line_of(1, cell)
        if moves:
            _move_cell(w, cell, line, (before, builder.add(before, apart)), steps)
        if lanes:
            with builder.if_then(far):
                w.ask(w.later_line(1, cell, AHEAD, hi), (first, builder.add(first, apart)), 3)
            terms = _gram_terms(w, cell, line, first, lanes, vectors)
            for each, term in zip(sums, terms, strict=True):
                builder.store(w.add(builder.load(each), term), each)
    for place, each in zip(places, sums, strict=True):
        w.store(builder.load(each), 12, place)


def _move_cell(w, cell, line, columns, steps):
    """Both moments of a cell after the last group's step."""
    step, square, variance = steps
    b, v = (w.load(0, line, column) for column in columns)
    varied = w.add(w.multiply(square, v), w.multiply(variance, w.multiply(b, b)))
    for place, term in zip((10, 11), w.two_totals(w.multiply(step, b), varied), strict=True):
        pointer = w.scalar_at(place, cell)
        w.builder.store(w.builder.fadd(w.builder.load(pointer), term), pointer)


def _gram_terms(w, cell, line, first, lanes, vectors):
    """What a cell adds to rows of the Gram matrix, and to the two vectors."""
    builder = w.builder
    omega = builder.load(w.scalar_at(9, cell))
    spread, b = w.spread(omega), w.load(0, line, first)
    weighted = w.multiply(spread, b)
    last = w.upper(weighted)
    terms = []
    for lane, scalar in w.each(0, line, first, lanes):
        half = lane >= HALF
        terms.append(w.multiply(w.spread(scalar, HALF if half else GROUP), last if half else weighted))
    if vectors:
        explained = builder.fmul(omega, builder.load(w.scalar_at(10, cell)))
        away = builder.fsub(builder.load(w.scalar_at(8, cell)), explained)
        noise = w.load(0, line, builder.add(first, w.given[6]))
        terms += [w.multiply(w.spread(away), b), w.multiply(spread, noise)]
    return terms


@intrinsic
def group_solve(typing_context, system):
    """Solve a symmetric positive definite system of GROUP unknowns, its matrix in rows 0–15 and right side in row 16.

    Leaves the solution in row 16. Elimination without pivoting (LDL') on the upper triangle, which is all that is read,
    every row in registers: no branch, no loop. The second half of the rows has the second half of the columns only.
    """

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        rows = [w.load(0, whole(row), whole(0)) for row in range(GROUP + 1)]
        right, none = rows.pop(), ir.Constant(w.vector, [0.0] * GROUP)
        rows = [row if place < HALF else w.upper(row) for place, row in enumerate(rows)]
        lower, scaled = [none] * GROUP, none
        for k in range(GROUP):
            pivot = builder.extract_element(rows[k], _lane(rows[k], k))
            inverse = builder.fdiv(ir.Constant(w.number, 1.0), pivot)
            column = w.multiply(rows[k], w.spread(inverse, rows[k].type.count))  # of L, lanes beyond k
            known = builder.extract_element(right, _lane(right, k))
            scaled = builder.insert_element(scaled, w.multiply(known, inverse), _lane(scaled, k))
            for below in range(k + 1, GROUP):
                at = below - (GROUP - column.type.count)
                factor = builder.extract_element(column, _lane(column, below))
                lower[below] = builder.insert_element(lower[below], factor, _lane(lower[below], k))
                count = rows[below].type.count
                source = rows[k] if rows[k].type.count == count else w.upper(rows[k])
                rows[below] = w.subtract(rows[below], w.multiply(w.splat(column, at, count), source))
            right = w.subtract(right, w.multiply(w.spread(known), w.widened(column)))
        for k in reversed(range(1, GROUP)):  # x = L⁻ᵀ D⁻¹ L⁻¹ right
            scaled = w.subtract(scaled, w.multiply(w.splat(scaled, k), lower[k]))
        w.store(scaled, 0, GROUP)
        return context.get_dummy_value()

    return types.void(system), generate


def _lane(vector, place):
    """Where a column's number stands in a vector that holds all columns or the second half of them."""
    return ir.Constant(ir.IntType(32), place - (GROUP - vector.type.count))
