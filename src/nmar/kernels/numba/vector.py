"""Compiled: a small language for vector instructions, for loops whose sums must stay in registers.

Numba's arrays live in memory, and LLVM may not keep a sum in registers that could be the memory of another array. The
few loops that everything waits for are therefore written as LLVM instructions on vectors of LANES numbers.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from nmar.kernels.layout import VECTOR as LANES

WRITTEN = ("nsz",)  # sums and products are neither fused nor put in another order: unrolled or not, same bits
WHOLE = ir.IntType(64)


def whole(value):
    """An integer constant."""
    return ir.Constant(WHOLE, value)


def _halves(width):
    """Lanes of the lower and of the upper half of a share."""
    return range(width // 2), range(width // 2, width)


class Writer:
    """Writes the vector instructions of one intrinsic; arguments are named by their place."""

    def __init__(self, context, builder, signature, arguments):
        self.builder = builder
        self.given = arguments
        self.views = {
            place: context.make_array(kind)(context, builder, value)
            for place, (kind, value) in enumerate(zip(signature.args, arguments, strict=True))
            if isinstance(kind, types.Array)
        }
        self.number = context.get_data_type(signature.args[0].dtype)
        self.vector = ir.VectorType(self.number, LANES)
        self.size = context.get_abi_sizeof(self.number)

    def plus(self, column, more):
        """A column further on by an ``int`` or by a value of the compiled code."""
        return self.builder.add(column, whole(more) if isinstance(more, int) else more)

    def multiply(self, a, b):
        return self.builder.fmul(a, b, flags=WRITTEN)

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=WRITTEN)

    def fuse(self, a, b, total):
        """ab + total, in one instruction where the processor has it."""
        shape = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fmuladd.v{LANES}{self.number.intrinsic_name}"
        function = cgutils.get_or_insert_function(self.builder.module, shape, name)
        return self.builder.call(function, [a, b, total])

    def spread(self, scalar):
        """A scalar in all lanes."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        return self._pick(first, empty, [0] * LANES)

    def totals(self, vectors):
        """Sums of the lanes of 1, 2 or 4 vectors, added up side by side: each is in the first lane of its share."""
        width = LANES
        while len(vectors) > 1:
            starts = range(0, 2 * LANES, width)
            low, high = ([start + at for start in starts for at in half] for half in _halves(width))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.add(self._pick(a, b, low), self._pick(a, b, high)) for a, b in pairs]
            width //= 2
        (sums,) = vectors
        while width > 1:
            width //= 2
            sums = self.add(sums, self._pick(sums, sums, [lane ^ width for lane in range(LANES)]))
        return sums

    def _pick(self, a, b, lanes):
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes)))

    def scalar_at(self, place, index):
        """Pointer to ``argument[index]`` of a one-dimensional argument."""
        return self.builder.gep(self.views[place].data, [index])

    def vector_at(self, place, row, column):
        """Pointer to a vector in a two-dimensional argument from ``[row, column]`` on."""
        view, builder = self.views[place], self.builder
        stride = builder.extract_value(view.strides, 0)
        offset = builder.add(builder.mul(row, stride), builder.mul(column, ir.Constant(column.type, self.size)))
        start = builder.gep(builder.bitcast(view.data, ir.IntType(8).as_pointer()), [offset])
        return builder.bitcast(start, self.vector.as_pointer())

    def load(self, place, row, column):
        return self.builder.load(self.vector_at(place, row, column), align=self.size)

    def keep(self, vector, lanes, place, index):
        """``argument[index:] = vector[lanes]``, widened where the argument is of float64."""
        kept, pointer = self._pick(vector, vector, lanes), self.scalar_at(place, index)
        kind = ir.VectorType(pointer.type.pointee, len(lanes))
        if kind != kept.type:
            kept = self.builder.fpext(kept, kind)
        self.builder.store(kept, self.builder.bitcast(pointer, kind.as_pointer()), align=self.size)

    def ask(self, line, columns, level):
        """Ask for columns of a line of the first argument ahead of their use; level 3 is the nearest cache."""
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(self.builder.module, shape, "llvm.prefetch.p0i8")
        for column in columns:
            where = self.builder.bitcast(self.vector_at(0, line, column), byte)
            self.builder.call(function, [where, *(ir.Constant(word, given) for given in (0, level, 1))])

    def line_of(self, place, cell):
        """The other side's line of a cell."""
        index = self.builder.load(self.scalar_at(place, cell))
        return self.builder.sext(index, ir.IntType(64)) if index.type.width < 64 else index
