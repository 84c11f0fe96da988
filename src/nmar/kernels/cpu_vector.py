"""Compiled: a small language for vector instructions, for loops whose sums must stay in registers.

Numba's arrays live in memory, and LLVM may not keep a sum in registers that could be the memory of another array. The
few loops that everything waits for are therefore written as LLVM instructions on vectors of LANES numbers. Vectors are
read whole: lanes beyond a line's own columns hold what lies next in memory, and whoever reads them must not use them.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from nmar.kernels.spec import VECTOR as LANES

FUSED = ("contract", "reassoc", "nsz")
WHOLE = ir.IntType(64)


def whole(value):
    """An integer constant."""
    return ir.Constant(WHOLE, value)


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

    def multiply(self, a, b):
        return self.builder.fmul(a, b, flags=FUSED)

    def add(self, a, b):
        return self.builder.fadd(a, b, flags=FUSED)

    def spread(self, scalar):
        """A scalar in all lanes."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        return self._pick(first, empty, [0] * LANES)

    def total(self, vector):
        """Sum of the lanes."""
        name = f"llvm.vector.reduce.fadd.v{LANES}f{8 * self.size}"
        shape = ir.FunctionType(self.number, [self.number, self.vector])
        function = cgutils.get_or_insert_function(self.builder.module, shape, name)
        return self.builder.call(function, [ir.Constant(self.number, -0.0), vector], fastmath=FUSED)

    def two_totals(self, a, b):
        """Sums of the lanes of two vectors, added up side by side."""
        half = LANES // 2
        low, high = [*range(half), *range(LANES, LANES + half)], [*range(half, LANES), *range(LANES + half, 2 * LANES)]
        both = self.add(self._pick(a, b, low), self._pick(a, b, high))
        while half > 1:
            half //= 2
            both = self.add(both, self._pick(both, both, [lane ^ half for lane in range(LANES)]))
        return [self.builder.extract_element(both, ir.Constant(ir.IntType(32), at)) for at in (0, LANES // 2)]

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

    def keep(self, scalar, place, index):
        """``argument[index] = scalar``, widened where the argument is of float64."""
        pointer = self.scalar_at(place, index)
        if pointer.type.pointee != scalar.type:
            scalar = self.builder.fpext(scalar, pointer.type.pointee)
        self.builder.store(scalar, pointer)

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
