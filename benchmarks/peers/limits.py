"""What the machine allows: gathering lines at a problem's own indices, and float32 multiply-adds.

A sweep of any of these models has to read, for every cell, the line of its column (by rows) and the line of its row (by
columns). :func:`gather_sweep` does this and nothing else, with the best of several prefetch distances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sparse
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

AHEAD = (4, 8, 16)  # cells between a prefetch and its use
LANES, CHAIN = 1024, 16  # numbers of a thread, which stay in the first cache, and multiply-adds on each in a row
LINE = 16  # float32 of a cache line


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


@nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _gather(indices, table, start, stop, ahead, total):
    """total[k] += Σ table[indices[p], k] for start ≤ p < stop."""
    factors = table.shape[1]
    for p in range(start, stop):
        if p + ahead < stop:
            soon = np.intp(indices[p + ahead])
            for k in range(0, factors, LINE):
                prefetch(table, soon, np.intp(k))
        line = table[indices[p]]
        for k in range(factors):
            total[k] += line[k]


@nb.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _multiply_add(numbers, rounds, factor, term):
    """Chains of multiply-adds on independent numbers."""
    for _ in range(rounds):
        for p in range(len(numbers)):
            value = numbers[p]
            for _ in range(CHAIN):
                value = value * factor + term
            numbers[p] = value


def measure(values: sparse.csr_matrix, factors: int, threads: int, repeats: int = 3) -> dict[str, Any]:
    """Gather seconds and bandwidth in both orientations, and the multiply-add rate; the best of ``repeats`` each."""
    n_rows, n_cols = values.shape
    with ThreadPoolExecutor(threads) as pool:
        by_rows = _gather_seconds(values.indices, n_cols, factors, pool, threads, repeats)
        by_cols = _gather_seconds(values.tocsc().indices, n_rows, factors, pool, threads, repeats)
        rate = _multiply_adds_per_second(pool, threads, repeats)
    gathered = values.nnz * factors * 4 / 1e9
    return {
        "gather_seconds": by_rows + by_cols,
        "gather_by_rows_gb_s": gathered / by_rows,
        "gather_by_cols_gb_s": gathered / by_cols,
        "multiply_adds_per_second": rate,
    }


def _gather_seconds(
    indices: np.ndarray, n: int, factors: int, pool: ThreadPoolExecutor, threads: int, repeats: int
) -> float:
    """Of one orientation; the threads have equal numbers of cells."""
    table = np.ones((n, factors), np.float32)
    ends = np.linspace(0, len(indices), threads + 1).astype(np.int64)
    totals = np.zeros((threads, factors + LINE), np.float32)  # no cache line in common

    def part(thread: int, ahead: int, cells: int | None = None) -> None:
        stop = ends[thread + 1] if cells is None else cells
        _gather(indices, table, ends[thread], stop, ahead, totals[thread, :factors])

    part(0, AHEAD[0], cells=1)  # compiles
    return min(
        _best(lambda ahead=ahead: list(pool.map(lambda t: part(t, ahead), range(threads))), repeats) for ahead in AHEAD
    )


def _multiply_adds_per_second(pool: ThreadPoolExecutor, threads: int, repeats: int, rounds: int = 200_000) -> float:
    """Over all threads."""
    numbers = np.ones((threads, LANES), np.float32)

    def part(thread: int, rounds: int = rounds) -> None:
        _multiply_add(numbers[thread], rounds, np.float32(0.5), np.float32(0.5))

    part(0, rounds=1)  # compiles
    return threads * rounds * LANES * CHAIN / _best(lambda: list(pool.map(part, range(threads))), repeats)


def _best(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)
