"""Compiled: inner products and weighted sums of gathered lines, for cells that share a line of their own.

``theirs`` is the packed side that is gathered, ``indices`` names the line of each cell ``lo`` … ``hi``, and a section
is ``width`` columns, in whole vectors, from column ``first`` on. Where widths are constants of the compiled code, a
line's own numbers stay in registers and nothing is a loop but the cells; where they are numbers given to it, vectors
are a loop too, which adds up in the same order. Arrays by cell begin with cell ``start``.

While a cell is worked on, the line of the cell ``later`` cells on is asked for, if there is one before cell ``end``:
``columns`` of its columns from ``column`` on. Without it a sweep over data larger than the cache waits for memory at
each cell.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nmar.kernels.layout import CACHE_LINE
from nmar.kernels.numba.vector import LANES, Writer, whole

REGISTERS = 24  # of 64 bytes that sums may occupy
PAIRS = (2, 1)  # vectors that go to the two chains of a sum
SECOND_LEVEL = 2  # where lines that are asked for wait


def _extent(signature, arguments, place):
    """A width: an ``int`` where it is a constant of the compiled code, else the value it is given at run time."""
    kind = signature.args[place]
    return kind.literal_value if isinstance(kind, types.IntegerLiteral) else arguments[place]


def _by_vectors(w, size, together, write):
    """``write`` the work on the vectors of a section, whose first lanes it is given, ``together[0]`` at a time.

    What is left of a width that is no constant is done ``together[1]`` at a time, and so on down to 1.
    """
    if isinstance(size, int):
        starts = range(0, size, LANES)
        for begin in range(0, len(starts), together[0]):
            write(starts[begin : begin + together[0]])
        return
    begin = whole(0)
    for several in together:
        span = whole(several * LANES)
        end = w.builder.sub(size, w.builder.urem(w.builder.sub(size, begin), span))
        with cgutils.for_range_slice(w.builder, begin, end, span) as (k, _):
            write([w.plus(k, each * LANES) for each in range(several)])
        begin = end


class _Own:
    """A line's own section: in registers where its width is a constant, read once more for each cell where not."""

    def __init__(self, w, place, line, first, size):
        self.read = lambda k: w.load(place, line, w.plus(first, k))
        self.kept = {k: self.read(k) for k in range(0, size, LANES)} if isinstance(size, int) else {}

    def __call__(self, k):
        return self.kept[k] if self.kept else self.read(k)


def _firsts(count):
    """Where :meth:`Writer.totals` leaves the sums of so many vectors."""
    return list(range(0, LANES, LANES // count))


def _ask(w, cell, later, end, column, columns):
    """Ask for some columns of the line of the cell ``later`` cells on."""
    if columns == 0:
        return
    builder, step = w.builder, CACHE_LINE // w.size
    there = builder.add(cell, later)
    with builder.if_then(builder.icmp_signed("<", there, end)):
        line = w.line_of(1, there)
        if isinstance(columns, int):
            w.ask(line, [w.plus(column, each) for each in range(0, columns, step)], SECOND_LEVEL)
        else:
            with cgutils.for_range_slice(builder, whole(0), columns, whole(step)) as (each, _):
                w.ask(line, [w.plus(column, each)], SECOND_LEVEL)


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
        self.sums = [[cgutils.alloca_once(w.builder, w.vector) for _ in range(2)] for _ in range(count)]
        for chains in self.sums:
            for chain in chains:
                w.builder.store(ir.Constant(w.vector, [0.0] * LANES), chain)

    def add(self, which, turn, a, b):
        """Add the product of two vectors."""
        chain = self.sums[which][turn % 2]
        self.w.builder.store(self.w.fuse(a, b, self.w.builder.load(chain)), chain)

    def totals(self):
        return self.w.totals([self.w.add(*map(self.w.builder.load, chains)) for chains in self.sums])


@intrinsic(prefer_literal=True)
def line_dots(
    typing_context, theirs, indices, lo, hi, mine, line, first, width, out, start, later, end, column, columns
):
    """out[cell − start] = Σ_k mine[line, k] theirs[cell's line, k] over a section."""
    n = types.intp
    signature = types.void(theirs, indices, n, n, mine, n, n, width, out, n, n, n, n, columns)

    def generate(context, builder, signature, arguments):
        w = Writer(context, builder, signature, arguments)
        size, columns = (_extent(signature, arguments, place) for place in (7, 13))
        _, _, lo, hi, _, line, first, _, _, start, later, end, column, _ = arguments
        own = _Own(w, 4, line, first, size)

        def write(cells):
            others, sums = [w.line_of(1, cell) for cell in cells], _Chains(w, len(cells))
            for cell in cells:
                _ask(w, cell, later, end, column, columns)

            def products(starts):
                for turn, k in enumerate(starts):
                    mine, place = own(k), w.plus(first, k)
                    for each, other in enumerate(others):
                        sums.add(each, turn, mine, w.load(0, other, place))

            _by_vectors(w, size, PAIRS, products)
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
        size, columns = (_extent(signature, arguments, place) for place in (8, 15))
        _, _, lo, hi, _, line, first, second, _, _, _, start, later, end, column, _ = arguments
        mean, variance = _Own(w, 4, line, first, size), _Own(w, 4, line, second, size)
        square = {k: w.fuse(mean(k), mean(k), variance(k)) for k in mean.kept}

        with _cells(w, lo, hi) as (cell, _):
            _ask(w, cell, later, end, column, columns)
            other, sums = w.line_of(1, cell), _Chains(w, 2)

            def products(starts):
                for turn, k in enumerate(starts):
                    m, v = mean(k), variance(k)
                    b, noise = (w.load(0, other, w.plus(at, k)) for at in (first, second))
                    sums.add(0, turn, m, b)
                    sums.add(1, 0, square.get(k) or w.fuse(m, m, v), noise)
                    sums.add(1, 1, v, w.multiply(b, b))

            _by_vectors(w, size, PAIRS, products)
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
        size, columns = (_extent(signature, arguments, place) for place in (5, 12))
        _, _, _, _, first, _, _, _, start, *ask, _ = arguments

        def terms(cell, other, k):
            weight = w.spread(builder.load(w.scalar_at(6, builder.sub(cell, start))))
            return [(weight, w.load(0, other, w.plus(first, k)))]

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
        size, columns = (_extent(signature, arguments, place) for place in (6, 16))
        first, second, start, *ask = (arguments[place] for place in (4, 5, 12, 13, 14, 15))

        def terms(cell, other, k):
            at = builder.sub(cell, start)
            away, weight = (w.spread(builder.load(w.scalar_at(place, at))) for place in (7, 8))
            b, v = (w.load(0, other, w.plus(column, k)) for column in (first, second))
            return [(away, b), (w.multiply(weight, b), b), (weight, v)]

        _add(w, size, (9, 10, 11), terms, (*ask, columns))
        return context.get_dummy_value()

    return signature, generate


def _add(w, size, outs, terms, ask):
    """Write passes that add the products ``terms`` to ``outs``, of as many vectors at once as the registers hold."""
    at_once = REGISTERS * CACHE_LINE // (w.size * LANES * len(outs))
    together = (at_once, 4, 1) if at_once > 4 else (at_once, 1)
    _by_vectors(w, size, together, lambda starts: _add_section(w, starts, outs, terms, ask))


def _add_section(w, starts, outs, terms, ask):
    """Write one pass over the cells, for the vectors whose sums fit the registers. The first pass asks for lines."""
    builder = w.builder
    _, _, lo, hi = w.given[:4]
    later, end, column, columns = ask
    if not isinstance(starts[0], int):
        end = builder.select(builder.icmp_signed("==", starts[0], whole(0)), end, whole(0))
    elif starts[0] > 0:
        columns = 0
    places = [
        builder.bitcast(w.scalar_at(out, w.plus(whole(0), k)), w.vector.as_pointer()) for k in starts for out in outs
    ]
    sums = [cgutils.alloca_once(builder, w.vector) for _ in places]
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(place, align=w.size), each)
    with _cells(w, lo, hi) as (cell, _):
        _ask(w, cell, later, end, column, columns)
        other = w.line_of(1, cell)
        added = [term for k in starts for term in terms(cell, other, k)]
        for each, (a, b) in zip(sums, added, strict=True):
            builder.store(w.fuse(a, b, builder.load(each)), each)
    for place, each in zip(places, sums, strict=True):
        builder.store(builder.load(each), place, align=w.size)
