"""What the compiled kernels share: how they are compiled, a prefetch, and inner products of gathered lines."""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

FAST = {"reassoc", "contract", "nsz", "arcp"}  # infinities and NaN keep their meaning

compiled = nb.njit(cache=True, nogil=True, error_model="numpy")
fast = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
vectorised = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
exact = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
inlined = nb.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST, forceinline=True)


@intrinsic
def prefetch(typing_context, array, line, column):
    """Ask for the cache line that holds ``array[line, column]`` ahead of its use (to the second cache level)."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        stride = builder.extract_value(view.strides, 0)
        size = ir.Constant(stride.type, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        offset = builder.add(builder.mul(arguments[1], stride), builder.mul(arguments[2], size))
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(view.data, byte), [offset])
        shape = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        builder.call(function, [place, ir.Constant(word, 0), ir.Constant(word, 2), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@inlined
def column(start, c):
    """start + c as an unsigned index: it cannot be negative, so loops over it have no branch and vectorise."""
    return np.uint64(start) + np.uint64(c)


@inlined
def dot(a, i, b, j, start, stop):
    """Σ_k a[i, k] b[j, k] for start ≤ k < stop."""
    total = a.dtype.type(0.0)
    for c in range(stop - start):
        k = column(start, c)
        total += a[i, k] * b[j, k]
    return total


@inlined
def diagonal_variance(a, i, b, j, mean, spread, size):
    """Var[⟨a_i, b_j⟩] for independent coordinates, means from column ``mean`` on and variances from ``spread``."""
    total = a.dtype.type(0.0)
    for c in range(size):
        at, of = column(mean, c), column(spread, c)
        m, n = a[i, at], b[j, at]
        total += m * m * b[j, of] + a[i, of] * (n * n + b[j, of])
    return total
