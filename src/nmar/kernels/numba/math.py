"""Compiled elementary functions that LLVM can vectorise: exp, expm1 and log of float64; exp and log of float32; sums.

Written as straight-line arithmetic (range reduction and a polynomial), so that a loop over a tile of cells becomes
vector instructions on any CPU; calls into the C library would be made one by one. Errors are a few ulp.
"""

from __future__ import annotations

import math

import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload

from nmar.kernels.numba.base import exact, fast

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # 32 bits of ln 2, so that n * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
LOWEST, HIGHEST = -708.0, 709.0
TWO = math.sqrt(2.0)
LN2 = math.log(2.0)
MULTIPLIED = 512  # mantissas, each below 2: their product is far from overflow


def _reinterpreting(given, wanted):
    """An intrinsic that reads the bits of a number of one type as another of the same size."""

    @intrinsic
    def reinterpret(typing_context, x):
        def generate(context, builder, signature, arguments):
            return builder.bitcast(arguments[0], context.get_value_type(wanted))

        return wanted(given), generate

    return reinterpret


bits_of = _reinterpreting(types.float64, types.int64)
from_bits = _reinterpreting(types.int64, types.float64)
_bits_single, _single_from_bits = (
    _reinterpreting(types.float32, types.int32),
    _reinterpreting(types.int32, types.float32),
)


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
    return (1.0 + _exp_reduced(r)) * from_bits((types.int64(types.int32(n)) + 1023) << 52)


@exact
def expm1(x):
    """e^x − 1 for x ≤ 0, exact to a few ulp for tiny x too."""
    x = max(x, LOWEST)
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    scale = from_bits((types.int64(types.int32(n)) + 1023) << 52)
    return scale * _exp_reduced(r) + (scale - 1.0)


@exact
def log(x):
    """Natural logarithm of a positive normal number."""
    bits = bits_of(x)
    exponent = (bits >> 52) - 1023
    m = from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)  # in [1, 2)
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


def _single(*numbers):
    return tuple(np.float32(number) for number in numbers)


ONE, HALF, TWO_SINGLE, ROOT = _single(1.0, 0.5, 2.0, TWO)
LOG2_E_SINGLE, LN2_HIGH_SINGLE, LN2_LOW_SINGLE = _single(LOG2_E, 0.693359375, -2.12194440e-4)  # 9 bits, the rest
LOWEST_SINGLE, HIGHEST_SINGLE = _single(-87.0, 88.0)
EXP_TERMS = _single(1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2)
LOG_TERMS = _single(2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3)


@exact
def exp_single(x):
    """e^x of a float32; below −87 a number near the smallest normal one, above 88 near the largest."""
    x = min(max(x, LOWEST_SINGLE), HIGHEST_SINGLE)
    n = np.float32(math.floor(x * LOG2_E_SINGLE + HALF))
    r = (x - n * LN2_HIGH_SINGLE) - n * LN2_LOW_SINGLE
    p = EXP_TERMS[0]
    p = p * r + EXP_TERMS[1]
    p = p * r + EXP_TERMS[2]
    p = p * r + EXP_TERMS[3]
    p = p * r + EXP_TERMS[4]
    p = p * r + EXP_TERMS[5]
    return (ONE + (r + r * r * p)) * _single_from_bits(types.int32((types.int32(n) + 127) << 23))


@exact
def log_single(x):
    """Natural logarithm of a positive normal float32."""
    bits = _bits_single(x)
    m = _single_from_bits(types.int32((bits & 0x007FFFFF) | 0x3F800000))  # in [1, 2)
    big = m > ROOT
    m = HALF * m if big else m
    e = np.float32((bits >> 23) - 127) + (ONE if big else np.float32(0.0))
    f = m - ONE
    s = f / (TWO_SINGLE + f)
    z = s * s
    p = LOG_TERMS[0]
    p = p * z + LOG_TERMS[1]
    p = p * z + LOG_TERMS[2]
    p = p * z + LOG_TERMS[3]
    p = p * z + LOG_TERMS[4]
    return e * LN2_HIGH_SINGLE + (e * LN2_LOW_SINGLE + (TWO_SINGLE * s + s * z * p))


def storage_exp(x):
    """e^x in the type of x."""


def storage_log(x):
    """log x in the type of x."""


@overload(storage_exp, jit_options={"forceinline": True, "fastmath": {"contract"}})
def _storage_exp(x):
    return (lambda x: exp_single(x)) if x == types.float32 else (lambda x: exp(x))


@overload(storage_log, jit_options={"forceinline": True, "fastmath": {"contract"}})
def _storage_log(x):
    return (lambda x: log_single(x)) if x == types.float32 else (lambda x: log(x))


@fast
def sum_of(values):
    """Σ values."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@fast
def sum_of_logs(values):
    """Σ log of positive normal numbers: their exponents are added and their mantissas multiplied."""
    total = 0.0
    for start in range(0, values.shape[0], MULTIPLIED):
        part = values[start : start + MULTIPLIED]
        exponents, product = 0, 1.0
        for k in range(part.shape[0]):
            bits = bits_of(part[k])
            exponents += bits >> 52
            product *= from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
        total += log(product) + LN2 * (exponents - 1023 * part.shape[0])
    return total
