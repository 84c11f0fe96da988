"""Seconds and peak memory of building cells of Netflix's shape; a pass by columns with and without a second copy.

    python -m benchmarks.cells [--cells 100000000] [--wide] [--fraction] [--seed 0]

Three processes, one after the other, each with its own peak memory: one simulates triplets into a temporary folder
(480,189 x 17,770, gamma-distributed popularity, distinct cells in random order), one builds `Cells` from them, one
passes over the cells by columns. Triplets are int32, int32, float32; ``--wide`` makes them int64, int64, float64 with
the same values, and ``--fraction`` adds 0.1 to these, which float32 cannot hold.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHAPE = (480_189, 17_770)
STARS, SHARES = np.arange(1.0, 6.0), (0.046, 0.101, 0.287, 0.336, 0.230)
BLOCK = 2_000_000  # cells simulated at a time: their keys are sorted in cache
SLOTS = 1 << 20  # popularity is drawn through a table of this many slots, which fits in cache
NAMES = ("row", "col", "value")


def main() -> None:
    """Simulate, build and pass, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100_000_000)
    parser.add_argument("--wide", action="store_true", help="int64 positions and float64 values")
    parser.add_argument("--fraction", action="store_true", help="values that need float64 (implies --wide)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not 0 < arguments.cells <= SHAPE[0] * SHAPE[1] // 20:
        parser.error("--cells must be above 0 and at most a twentieth of the matrix")
    if arguments.step:
        STEPS[arguments.step](arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        again = [sys.executable, "-m", "benchmarks.cells", *sys.argv[1:], "--folder", folder]
        for step in STEPS:  # the peak of a process counts that of the one it was forked from, so this one stays small
            subprocess.run([*again, "--step", step], check=True)


# --- simulation -----------------------------------------------------------------------------------------------------


def simulate(arguments: argparse.Namespace) -> None:
    """Save distinct triplets in random order as three .npy files."""
    start, rng = time.perf_counter(), np.random.default_rng(arguments.seed)
    keys = draw_keys(arguments.cells, rng)
    rng.shuffle(keys)
    types = ("i8", "i8", "f8") if arguments.wide or arguments.fraction else ("i4", "i4", "f4")
    row, col, value = (
        np.lib.format.open_memmap(arguments.folder / f"{name}.npy", "w+", dtype, keys.shape)
        for name, dtype in zip(NAMES, types, strict=True)
    )
    for first in range(0, len(keys), BLOCK):
        part = slice(first, first + BLOCK)
        row[part], col[part] = np.divmod(keys[part], SHAPE[1])
        value[part] = draw_stars(len(keys[part]), rng) + (0.1 if arguments.fraction else 0.0)
    print(f"{len(keys)} cells of {SHAPE[0]} x {SHAPE[1]} simulated in {time.perf_counter() - start:.1f} s")


def draw_keys(count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` distinct cell numbers (row · columns + column), a block of rows after the other."""
    activity = rng.gamma(0.5, size=SHAPE[0]) + 1e-3
    columns = slots_of(rng.gamma(0.4, size=SHAPE[1]) + 1e-3)
    due = np.round(np.cumsum(activity) / activity.sum() * count).astype(np.int64)  # cells up to and with a row
    keys = np.empty(count, dtype=np.int64)
    ends = np.searchsorted(due, np.append(np.arange(BLOCK, count, BLOCK), count))
    done, first = 0, 0
    for end in ends:
        last = int(end) + 1
        rows = first + slots_of(activity[first:last])
        keys[done : due[end]] = draw_block(rows, columns, int(due[end]) - done, rng)
        done, first = int(due[end]), last
    return keys


def slots_of(weights: np.ndarray) -> np.ndarray:
    """Positions, each about as often as its weight says and at least once: a uniform draw from it is a weighted one."""
    return np.repeat(np.arange(len(weights)), np.maximum(1, np.round(weights / weights.sum() * SLOTS)).astype(np.int64))


def draw_block(rows: np.ndarray, columns: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` distinct cell numbers, rows and columns drawn from their slots."""
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < count:
        draws = int(1.5 * (count - len(keys))) + 1000
        fresh = rows[rng.integers(len(rows), size=draws)] * SHAPE[1] + columns[rng.integers(len(columns), size=draws)]
        keys = np.sort(np.concatenate([keys, fresh]))
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return np.delete(keys, rng.choice(len(keys), len(keys) - count, replace=False))


def draw_stars(count: int, rng: np.random.Generator) -> np.ndarray:
    """Ratings from 1 to 5."""
    return STARS[np.searchsorted(np.cumsum(SHARES)[:-1], rng.random(count, dtype=np.float32))]


# --- building -------------------------------------------------------------------------------------------------------


def build(arguments: argparse.Namespace) -> None:
    """Time both orientations, with the triplets in memory before."""
    from nmar.data import Cells

    row, col, value = (np.load(arguments.folder / f"{name}.npy") for name in NAMES)
    given = (row.nbytes + col.nbytes + value.nbytes) / 1e9
    print(f"input: {row.dtype}, {col.dtype}, {value.dtype}, {given:.2f} GB; resident before {peak():.2f} GB")
    start = time.perf_counter()
    cells = Cells.from_arrays(row, col, value, SHAPE)
    first = time.perf_counter() - start
    print(f"from_arrays {first:.2f} s; peak resident memory {peak():.2f} GB")
    cells.by(1)
    both = time.perf_counter() - start
    print(f"second orientation {both - first:.2f} s; together {both:.2f} s; peak resident memory {peak():.2f} GB")
    lines = [cells.by(axis) for axis in (0, 1)]
    kept = sum(each.indptr.nbytes + each.indices.nbytes + each.values.nbytes for each in lines)
    print(f"kept: {kept / len(cells):.1f} bytes per cell, values {lines[0].values.dtype}, "
          f"positions {lines[0].indices.dtype}")  # fmt: skip


def peak() -> float:
    """Peak resident memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


# --- a second copy of the values, or a permutation ------------------------------------------------------------------


def traverse(arguments: argparse.Namespace) -> None:
    """Time a pass by columns over values of its own and over row-major values through a permutation."""
    import numba

    from nmar.data import Cells

    row, col, value = (np.load(arguments.folder / f"{name}.npy") for name in NAMES)
    cells = Cells.from_arrays(row, col, value, SHAPE)
    del row, col, value
    rows, cols = cells.by(0), cells.by(1)
    order = cells.order(1).astype(np.int32 if len(cells) < 2**31 else np.int64)

    @numba.njit(fastmath=True)
    def copied(indptr, indices, values, weights):
        sums = np.zeros(len(indptr) - 1)
        for line in range(len(sums)):
            for p in range(indptr[line], indptr[line + 1]):
                sums[line] += values[p] * weights[indices[p]]
        return sums

    @numba.njit(fastmath=True)
    def permuted(indptr, indices, values, order, weights):
        sums = np.zeros(len(indptr) - 1)
        for line in range(len(sums)):
            for p in range(indptr[line], indptr[line + 1]):
                sums[line] += values[order[p]] * weights[indices[p]]
        return sums

    weights = np.random.default_rng(0).random(SHAPE[0])
    one = (cols.indptr, cols.indices, cols.values, weights)
    two = (cols.indptr, cols.indices, rows.values, order, weights)
    np.testing.assert_allclose(copied(*one), permuted(*two))  # compiles both
    for name, loop, given in (("second copy", copied, one), (f"{order.dtype} permutation", permuted, two)):
        seconds = best_of_three(loop, given)
        size = cols.values.itemsize if loop is copied else order.itemsize
        print(
            f"pass by columns, {name}: {seconds:.3f} s, {seconds / len(cells) * 1e9:.2f} ns and {size} bytes per cell"
        )


def best_of_three(loop, given: tuple) -> float:
    """Seconds of the fastest of three calls."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        loop(*given)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


STEPS = {"simulate": simulate, "build": build, "traverse": traverse}

if __name__ == "__main__":
    main()
