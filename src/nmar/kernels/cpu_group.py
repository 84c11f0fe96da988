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

from nmar.kernels.cpu_vector import LANES, Writer
from nmar.kernels.spec import GROUP

AHEAD = 12  # cells between asking for a line and using it
assert GROUP == LANES  # a group is a vector


def _pass_over_cells(w, lanes, vectors_too):
    """Write the loop that sums some rows of the Gram matrix, and with the first of them the two vectors."""
    builder = w.builder
    _, _, lo, hi, first, second = w.given[:6]
    zero = ir.Constant(w.vector, [0.0] * GROUP)
    places = [*lanes, GROUP, GROUP + 1] if vectors_too else [*lanes]
    sums = [cgutils.alloca_once_value(builder, zero) for _ in places]
    for each in sums:
        builder.store(zero, each)
    with cgutils.for_range_slice(builder, lo, hi, ir.Constant(hi.type, 1)) as (cell, _):
        line = w.line_of(1, cell)
        if vectors_too:
            w.ask(w.later_line(1, cell, AHEAD, hi), (first, second), 3)
        b = w.load(0, line, first)
        omega = builder.load(w.scalar_at(7, cell))
        spread = w.spread(w.narrow(omega))
        weighted = w.multiply(spread, b)
        terms = [w.multiply(each, weighted) for each in w.each(0, line, first, lanes)]
        if vectors_too:
            explained = builder.fmul(omega, builder.load(w.scalar_at(8, cell)))
            away = builder.fsub(builder.load(w.scalar_at(6, cell)), explained)
            terms += [w.multiply(w.spread(w.narrow(away)), b), w.multiply(spread, w.load(0, line, second))]
        for each, term in zip(sums, terms, strict=True):
            builder.store(w.add(builder.load(each), term), each)
    for place, each in zip(places, sums, strict=True):
        w.store(builder.load(each), 9, place)


@intrinsic
def group_sums(typing_context, theirs, indices, lo, hi, first, second, linear, weight, mean, out):
    """Rows 0–15 of ``out``: Σ ω b b'; row 16: Σ (ωt − ωμ) b; row 17: Σ ω Var[b], over the cells of a line.

    ``first`` and ``second`` are the columns of ``theirs`` at which the group's means and variances begin.
    """
    whole = types.intp
    arrays = (theirs, indices), (linear, weight, mean, out)
    signature = types.void(*arrays[0], whole, whole, whole, whole, *arrays[1])

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        at_once = GROUP * 4 // w.size  # rows whose accumulators fit the registers
        for begin in range(0, GROUP, at_once):
            _pass_over_cells(w, range(begin, begin + at_once), begin == 0)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def group_move(typing_context, theirs, indices, lo, hi, first, second, moves, mean, spread):
    """Move each cell's E[μ] by Σ step b and add Σ m² Var[b] + v E[b²] of the group to its variance.

    Rows of ``moves``: the steps, E[a²] = m² + v, and v of the group's coordinates; 0 in lanes it does not have.
    """
    whole = types.intp
    signature = types.void(theirs, indices, whole, whole, whole, whole, moves, mean, spread)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        _, _, lo, hi, first, second = arguments[:6]
        zero = ir.Constant(ir.IntType(64), 0)
        step, square, variance = (w.load(6, ir.Constant(ir.IntType(64), row), zero) for row in range(3))
        with cgutils.for_range_slice(builder, lo, hi, ir.Constant(hi.type, 1)) as (cell, _):
            line = w.line_of(1, cell)
            b, v = w.load(0, line, first), w.load(0, line, second)
            moved = w.total(w.multiply(step, b))
            varied = w.total(w.add(w.multiply(square, v), w.multiply(variance, w.multiply(b, b))))
            for place, term in ((7, moved), (8, varied)):
                pointer = w.scalar_at(place, cell)
                builder.store(builder.fadd(builder.load(pointer), w.widen(term)), pointer)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def group_solve(typing_context, system):
    """Solve a symmetric positive definite system of GROUP unknowns, its matrix in rows 0–15 and right side in row 16.

    Leaves the solution in row 16. Elimination without pivoting (LDL'), all rows in registers: no branch, no loop.
    """

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        whole, none = ir.IntType(64), ir.Constant(w.vector, [0.0] * GROUP)
        rows = [w.load(0, ir.Constant(whole, row), ir.Constant(whole, 0)) for row in range(GROUP + 1)]
        lower, inverse, right = [none] * GROUP, none, rows.pop()
        for k in range(GROUP):
            at, column = ir.Constant(ir.IntType(32), k), none
            one = builder.fdiv(ir.Constant(w.number, 1.0), builder.extract_element(rows[k], at))
            inverse = builder.insert_element(inverse, one, at)
            for below in range(k + 1, GROUP):
                factor = w.multiply(builder.extract_element(rows[below], at), one)
                lower[below] = builder.insert_element(lower[below], factor, at)
                column = builder.insert_element(column, factor, ir.Constant(ir.IntType(32), below))
                rows[below] = w.subtract(rows[below], w.multiply(w.spread(factor), rows[k]))
            right = w.subtract(right, w.multiply(w.splat(right, k), column))
        right = w.multiply(right, inverse)
        for k in reversed(range(1, GROUP)):  # x = L⁻ᵀ D⁻¹ L⁻¹ right
            right = w.subtract(right, w.multiply(w.splat(right, k), lower[k]))
        w.store(right, 0, GROUP)
        return context.get_dummy_value()

    return types.void(system), generate
