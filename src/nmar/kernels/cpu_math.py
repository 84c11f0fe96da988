"""Compiled elementary functions that LLVM can vectorise: exp, expm1 and log of float64.

Written as straight-line arithmetic (range reduction and a polynomial), so that a loop over a tile of cells becomes
vector instructions on any CPU; calls into the C library would be made one by one. Errors are a few ulp.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from nmar.kernels.cpu_base import exact

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # 32 bits of ln 2, so that n * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
LOWEST, HIGHEST = -708.0, 709.0
TWO = math.sqrt(2.0)


@intrinsic
def _bits(typing_context, x):
    """The bits of a float64 as int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _from_bits(typing_context, x):
    """A float64 from its bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@exact
def _exp_reduced(r):
    """exp on [−ln2/2, ln2/2]: the Taylor polynomial of degree 13, error below 1e-17."""
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    return r + r * r * p  # exp(r) − 1, without the cancellation


@exact
def exp(x):
    """e^x; below −708 the smallest normal number, above 709 the largest power representable."""
    x = min(max(x, LOWEST), HIGHEST)
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    return (1.0 + _exp_reduced(r)) * _from_bits((types.int64(types.int32(n)) + 1023) << 52)


@exact
def expm1(x):
    """e^x − 1 for x ≤ 0, exact to a few ulp for tiny x too."""
    x = max(x, LOWEST)
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    scale = _from_bits((types.int64(types.int32(n)) + 1023) << 52)
    return scale * _exp_reduced(r) + (scale - 1.0)


@exact
def log(x):
    """Natural logarithm of a positive normal number."""
    bits = _bits(x)
    exponent = (bits >> 52) - 1023
    m = _from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)  # in [1, 2)
    big = m > TWO
    m = 0.5 * m if big else m
    e = float(types.int32(exponent)) + (1.0 if big else 0.0)
    f = m - 1.0
    s = f / (2.0 + f)  # log m = 2 atanh s, |s| < 0.172
    z = s * s
    p = 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return e * LN2_HIGH + (e * LN2_LOW + (2.0 * s + 2.0 * s * z * p))
