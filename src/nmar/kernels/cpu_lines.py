"""Compiled: inner products and weighted sums of gathered lines, for cells that share a line of their own.

``theirs`` is the packed side that is gathered, ``indices`` names the line of each cell ``lo`` … ``hi``, and a section
is ``width`` columns from column ``first`` on. Widths are constants of the compiled code, so that a line's own numbers
and the sums stay in registers. While a cell is worked on, columns ``asked`` to ``until`` of the line ``TILE`` cells
later are asked for: without it a sweep over data larger than the cache waits for memory at each cell.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nmar.kernels.cpu_tile import TILE
from nmar.kernels.cpu_vector import LANES, Writer, whole
from nmar.kernels.spec import CACHE_LINE

REGISTERS = 24  # of 64 bytes that sums may occupy
SECOND_LEVEL = 2  # where lines that are asked for wait


def _starts(width):
    """First lanes of the vectors of a section."""
    return range(0, width, LANES)


def _own(w, place, line, first, width):
    """A line's own section, zero in the lanes it does not have."""
    vectors = []
    for start in _starts(width):
        vector = w.load(place, line, w.builder.add(first, whole(start)))
        if start + LANES > width:
            mask = [int(start + lane < width) for lane in range(LANES)]
            vector = w.builder.select(
                ir.Constant(ir.VectorType(ir.IntType(1), LANES), mask), vector, ir.Constant(w.vector, [0.0] * LANES)
            )
        vectors.append(vector)
    return vectors


def _ask(w, cell, end, asked, until):
    """Ask for some columns of the line of the cell a tile later."""
    if asked < until:
        columns = [whole(column) for column in range(asked, until, CACHE_LINE // w.size)]
        w.ask(w.later_line(1, cell, TILE, end), columns, SECOND_LEVEL)


def _cells(w, lo, hi):
    return cgutils.for_range_slice(w.builder, lo, hi, ir.Constant(hi.type, 1))


def _sum_of(w, terms):
    """Σ of vectors in two chains, then over lanes."""
    chains = [ir.Constant(w.vector, [0.0] * LANES)] * 2
    for place, term in enumerate(terms):
        chains[place % 2] = w.add(chains[place % 2], term)
    return w.total(w.add(*chains))


@intrinsic(prefer_literal=True)
def line_dots(typing_context, theirs, indices, lo, hi, mine, line, first, width, out, start, end, asked, until):
    """out[cell − start] = Σ_k mine[line, k] theirs[cell's line, k] over a section, as float64."""
    n = types.intp
    signature = types.void(theirs, indices, n, n, mine, n, n, width, out, n, n, asked, until)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, asked, until = (signature.args[place].literal_value for place in (7, 11, 12))
        _, _, lo, hi, _, line, first, _, _, start, end, _, _ = arguments
        own = _own(w, 4, line, first, size)
        with _cells(w, lo, hi) as (cell, _):
            _ask(w, cell, end, asked, until)
            other = w.line_of(1, cell)
            places = (builder.add(first, whole(k)) for k in _starts(size))
            terms = (w.multiply(a, w.load(0, other, place)) for a, place in zip(own, places, strict=True))
            builder.store(w.widen(_sum_of(w, terms)), w.scalar_at(8, builder.sub(cell, start)))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def line_spreads(typing_context, theirs, indices, lo, hi, mine, line, first, width, out, start):
    """out[cell − start] = Σ_k (m² + v) Var[b] + v b²: variance of an inner product of diagonal normal lines.

    The section holds means; as many variances follow it.
    """
    n = types.intp
    signature = types.void(theirs, indices, n, n, mine, n, n, width, out, n)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size = signature.args[7].literal_value
        _, _, lo, hi, _, line, first, _, _, start = arguments
        second = builder.add(first, whole(size))
        variance = _own(w, 4, line, second, size)
        square = [w.add(w.multiply(m, m), v) for m, v in zip(_own(w, 4, line, first, size), variance, strict=True)]

        def terms(other):
            for k, s, v in zip(_starts(size), square, variance, strict=True):
                b, noise = (w.load(0, other, builder.add(at, whole(k))) for at in (first, second))
                yield w.multiply(s, noise)
                yield w.multiply(v, w.multiply(b, b))

        with _cells(w, lo, hi) as (cell, _):
            found = _sum_of(w, terms(w.line_of(1, cell)))
            builder.store(w.widen(found), w.scalar_at(8, builder.sub(cell, start)))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def add_lines(typing_context, theirs, indices, lo, hi, first, width, weights, out, start, end, asked, until):
    """out[k] += Σ_cells weights[cell − start] theirs[cell's line, k] over a section; ``out`` is of whole vectors."""
    n = types.intp
    signature = types.void(theirs, indices, n, n, n, width, weights, out, n, n, asked, until)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, asked, until = (signature.args[place].literal_value for place in (5, 10, 11))
        at_once = REGISTERS * CACHE_LINE // (w.size * LANES)
        starts = list(_starts(size))
        for begin in range(0, len(starts), at_once):
            _add_section(w, starts[begin : begin + at_once], (asked, until) if begin == 0 else (0, 0))
        return context.get_dummy_value()

    return signature, generate


def _add_section(w, starts, asked):
    """Write one pass over the cells, for the vectors whose sums fit the registers."""
    builder = w.builder
    _, _, lo, hi, first, _, _, _, start, end, _, _ = w.given
    places = [builder.bitcast(w.scalar_at(7, whole(k)), w.vector.as_pointer()) for k in starts]
    sums = [cgutils.alloca_once(builder, w.vector) for _ in starts]
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(place, align=w.size), each)
    with _cells(w, lo, hi) as (cell, _):
        _ask(w, cell, end, *asked)
        other = w.line_of(1, cell)
        weight = w.spread(builder.load(w.scalar_at(6, builder.sub(cell, start))))
        for k, each in zip(starts, sums, strict=True):
            term = w.multiply(weight, w.load(0, other, builder.add(first, whole(k))))
            builder.store(w.add(builder.load(each), term), each)
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(each), place, align=w.size)
