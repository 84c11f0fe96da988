"""Compiled: inner products and weighted sums of gathered lines, for cells that share a line of their own.

``theirs`` is the packed side that is gathered, ``indices`` names the line of each cell ``lo`` … ``hi``, and a section
is ``width`` columns from column ``first`` on, with zeros up to whole vectors. Widths are constants of the compiled
code, so that a line's own numbers and the sums stay in registers. Arrays by cell begin with cell ``start``.

While a cell is worked on, the line of the cell ``later`` cells on is asked for, if there is one before cell ``end``:
``columns`` of its columns from ``column`` on. Without it a sweep over data larger than the cache waits for memory at
each cell.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nmar.kernels.cpu_vector import LANES, Writer, whole
from nmar.kernels.spec import CACHE_LINE

REGISTERS = 24  # of 64 bytes that sums may occupy
SECOND_LEVEL = 2  # where lines that are asked for wait


def _starts(width):
    """First lanes of the vectors of a section."""
    return range(0, width, LANES)


def _own(w, place, line, first, width):
    """A line's own section."""
    return [w.load(place, line, w.builder.add(first, whole(start))) for start in _starts(width)]


def _firsts(count):
    """Where :meth:`Writer.totals` leaves the sums of so many vectors."""
    return list(range(0, LANES, LANES // count))


def _ask(w, cell, later, end, column, columns):
    """Ask for some columns of the line of the cell ``later`` cells on."""
    if columns:
        builder = w.builder
        there = builder.add(cell, later)
        with builder.if_then(builder.icmp_signed("<", there, end)):
            places = [builder.add(column, whole(each)) for each in range(0, columns, CACHE_LINE // w.size)]
            w.ask(w.line_of(1, there), places, SECOND_LEVEL)


def _cells(w, lo, hi):
    return cgutils.for_range_slice(w.builder, lo, hi, ir.Constant(hi.type, 1))


def _by_groups(w, lo, hi, size, write):
    """``write`` the work on cells for ``size`` of them at a time, then for each that is left.

    Together they share the loads of a line's own numbers, and their sums over lanes are added up side by side.
    """
    builder = w.builder
    left = builder.sub(hi, builder.and_(builder.sub(hi, lo), whole(size - 1)))
    with cgutils.for_range_slice(builder, lo, left, ir.Constant(hi.type, size)) as (cell, _):
        write([builder.add(cell, whole(each)) for each in range(size)])
    with _cells(w, left, hi) as (cell, _):
        write([cell])


class _Chains:
    """Sums of vectors, each in two chains."""

    def __init__(self, w, count):
        self.w = w
        self.sums = [[ir.Constant(w.vector, [0.0] * LANES)] * 2 for _ in range(count)]

    def add(self, which, turn, term):
        chains = self.sums[which]
        chains[turn % 2] = self.w.add(chains[turn % 2], term)

    def totals(self):
        return self.w.totals([self.w.add(*chains) for chains in self.sums])


@intrinsic(prefer_literal=True)
def line_dots(
    typing_context, theirs, indices, lo, hi, mine, line, first, width, out, start, later, end, column, columns
):
    """out[cell − start] = Σ_k mine[line, k] theirs[cell's line, k] over a section."""
    n = types.intp
    signature = types.void(theirs, indices, n, n, mine, n, n, width, out, n, n, n, n, columns)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, columns = (signature.args[place].literal_value for place in (7, 13))
        _, _, lo, hi, _, line, first, _, _, start, later, end, column, _ = arguments
        own = _own(w, 4, line, first, size)

        def write(cells):
            others, sums = [w.line_of(1, cell) for cell in cells], _Chains(w, len(cells))
            for cell in cells:
                _ask(w, cell, later, end, column, columns)
            for turn, (k, mine) in enumerate(zip(_starts(size), own, strict=True)):
                place = builder.add(first, whole(k))
                for each, other in enumerate(others):
                    sums.add(each, turn, w.multiply(mine, w.load(0, other, place)))
            w.keep(sums.totals(), _firsts(len(cells)), 8, builder.sub(cells[0], start))

        _by_groups(w, lo, hi, 4, write)
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def line_moments(
    typing_context, theirs, indices, lo, hi, mine, line, first, second, width, means, spreads, start,
    later, end, column, columns,
):  # fmt: skip
    """Mean Σ_k m b and variance Σ_k (m² + v) Var[b] + v b² of the inner product of diagonal normal lines.

    The section from ``first`` on holds means, that from ``second`` on variances.
    """
    n = types.intp
    signature = types.void(theirs, indices, n, n, mine, n, n, n, width, means, spreads, n, n, n, n, columns)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, columns = (signature.args[place].literal_value for place in (8, 15))
        _, _, lo, hi, _, line, first, second, _, _, _, start, later, end, column, _ = arguments
        mean, variance = _own(w, 4, line, first, size), _own(w, 4, line, second, size)
        square = [w.add(w.multiply(m, m), v) for m, v in zip(mean, variance, strict=True)]

        with _cells(w, lo, hi) as (cell, _):
            _ask(w, cell, later, end, column, columns)
            other, sums = w.line_of(1, cell), _Chains(w, 2)
            for turn, (k, m, v, s) in enumerate(zip(_starts(size), mean, variance, square, strict=True)):
                b, noise = (w.load(0, other, builder.add(at, whole(k))) for at in (first, second))
                sums.add(0, turn, w.multiply(m, b))
                sums.add(1, 0, w.multiply(s, noise))
                sums.add(1, 1, w.multiply(v, w.multiply(b, b)))
            found = sums.totals()
            for place, lane in zip((9, 10), _firsts(2), strict=True):
                w.keep(found, [lane], place, builder.sub(cell, start))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def add_lines(typing_context, theirs, indices, lo, hi, first, width, weights, out, start, later, end, column, columns):
    """out[k] += Σ_cells weights[cell − start] theirs[cell's line, k] over a section; ``out`` is of whole vectors."""
    n = types.intp
    signature = types.void(theirs, indices, n, n, n, width, weights, out, n, n, n, n, columns)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, columns = (signature.args[place].literal_value for place in (5, 12))
        _, _, _, _, first, _, _, _, start, *ask, _ = arguments

        def terms(cell, other, k):
            weight = w.spread(builder.load(w.scalar_at(6, builder.sub(cell, start))))
            return [w.multiply(weight, w.load(0, other, builder.add(first, whole(k))))]

        _add(w, size, (7,), terms, (*ask, columns))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def add_moments(
    typing_context, theirs, indices, lo, hi, first, second, width, away, weights, linear, square, noise, start,
    later, end, column, columns,
):  # fmt: skip
    """linear[k] += Σ away b, square[k] += Σ weight b², noise[k] += Σ weight Var[b] of diagonal normal lines.

    The section from ``first`` on holds means, that from ``second`` on variances.
    """
    n = types.intp
    ask = (n, n, n, columns)
    signature = types.void(theirs, indices, n, n, n, n, width, away, weights, linear, square, noise, n, *ask)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, columns = (signature.args[place].literal_value for place in (6, 16))
        first, second, start, *ask = (arguments[place] for place in (4, 5, 12, 13, 14, 15))

        def terms(cell, other, k):
            at = builder.sub(cell, start)
            away, weight = (w.spread(builder.load(w.scalar_at(place, at))) for place in (7, 8))
            b, v = (w.load(0, other, builder.add(column, whole(k))) for column in (first, second))
            return [w.multiply(away, b), w.multiply(w.multiply(weight, b), b), w.multiply(weight, v)]

        _add(w, size, (9, 10, 11), terms, (*ask, columns))
        return context.get_dummy_value()

    return signature, generate


def _add(w, size, outs, terms, ask):
    """Write passes over the cells that add ``terms`` to ``outs``, as many vectors at once as the registers hold."""
    at_once = REGISTERS * CACHE_LINE // (w.size * LANES * len(outs))
    starts = list(_starts(size))
    for begin in range(0, len(starts), at_once):
        _add_section(w, starts[begin : begin + at_once], outs, terms, ask if begin == 0 else None)


def _add_section(w, starts, outs, terms, ask):
    """Write one pass over the cells, for the vectors whose sums fit the registers."""
    builder = w.builder
    _, _, lo, hi = w.given[:4]
    places = [builder.bitcast(w.scalar_at(out, whole(k)), w.vector.as_pointer()) for k in starts for out in outs]
    sums = [cgutils.alloca_once(builder, w.vector) for _ in places]
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(place, align=w.size), each)
    with _cells(w, lo, hi) as (cell, _):
        if ask is not None:
            _ask(w, cell, *ask)
        other = w.line_of(1, cell)
        added = [term for k in starts for term in terms(cell, other, k)]
        for each, term in zip(sums, added, strict=True):
            builder.store(w.add(builder.load(each), term), each)
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(each), place, align=w.size)
