"""Compiled: a small language for vector instructions, for loops whose sums must stay in registers.

Numba's arrays live in memory, and LLVM may not keep a sum in registers that could be the memory of another array. The
few loops that everything waits for are therefore written as LLVM instructions on vectors of LANES numbers. Vectors are
read whole: lanes beyond a line's own columns hold what lies next in memory, and whoever reads them must not use them.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

LANES = 16
FUSED = ("contract", "reassoc", "nsz")
WHOLE = ir.IntType(64)


def whole(value):
    """An integer constant."""
    return ir.Constant(WHOLE, value)


class Writer:
    """Writes the vector instructions of one intrinsic; arguments are named by their place."""

    def __init__(self, context, builder, signature, arguments):
        self.builder = builder
        self.kinds = signature.args
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

    def subtract(self, a, b):
        return self.builder.fsub(a, b, flags=FUSED)

    def splat(self, vector, lane):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [lane] * LANES)
        return self.builder.shuffle_vector(vector, ir.Constant(self.vector, ir.Undefined), mask)

    def spread(self, scalar):
        """A scalar in all lanes."""
        first = self.builder.insert_element(
            ir.Constant(self.vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
        )
        return self.splat(first, 0)

    def total(self, vector):
        """Sum of the lanes."""
        name = f"llvm.vector.reduce.fadd.v{LANES}f{8 * self.size}"
        shape = ir.FunctionType(self.number, [self.number, self.vector])
        function = cgutils.get_or_insert_function(self.builder.module, shape, name)
        return self.builder.call(function, [ir.Constant(self.number, -0.0), vector], fastmath=FUSED)

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

    def each(self, place, row, column, lanes):
        """Some of a vector's numbers one by one, each in all lanes: from memory, where spreading costs nothing."""
        start = self.builder.bitcast(self.vector_at(place, row, column), self.number.as_pointer())
        for lane in lanes:
            yield self.spread(self.builder.load(self.builder.gep(start, [ir.Constant(ir.IntType(64), lane)])))

    def load(self, place, row, column):
        return self.builder.load(self.vector_at(place, row, column), align=self.size)

    def store(self, vector, place, row):
        zero = ir.Constant(ir.IntType(64), 0)
        pointer = self.vector_at(place, ir.Constant(ir.IntType(64), row), zero)
        self.builder.store(vector, pointer, align=self.size)

    def narrow(self, scalar):
        """A float64 as the storage type."""
        return scalar if self.size == 8 else self.builder.fptrunc(scalar, self.number)

    def widen(self, scalar):
        return scalar if self.size == 8 else self.builder.fpext(scalar, ir.DoubleType())

    def later_line(self, place, cell, ahead, hi):
        """The other side's line of a cell ``ahead`` of this one, or of this one where the cells end before."""
        builder = self.builder
        later = builder.add(cell, ir.Constant(cell.type, ahead))
        return self.line_of(place, builder.select(builder.icmp_signed("<", later, hi), later, cell))

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
