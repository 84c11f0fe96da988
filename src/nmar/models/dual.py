"""Regression lines on many known covariates: the dual form, whose systems have the size of a line's cells.

Enters: the weights and targets of a block's cells and the prior of its lines. Leaves: their means and variances
(theory.md, Data models). Everything is done on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from nmar.arrays import Array
from nmar.kernels.spec import Kernels, NormalLines, NormalPrior
from nmar.models.protocol import Block
from nmar.prob.arrays import on_host
from nmar.prob.pieces import pieces

TABLE = 512  # known lines up to which all their inner products are made at once
TOGETHER = 1 << 20  # numbers in the systems, or in the covariates, of lines that are solved together


def solve_dual(
    kernels: Kernels, block: Block, cellwise: Array | None, prior: NormalPrior, known: int, dtype: Any
) -> NormalLines:
    """Diagonal lines on known covariates, their means exact.

    With S = diag(√ω) and prior variance ρ, mean = η + ρX'S (I + SXρX'S)⁻¹ S(t − Xη), one system of the size of the
    line's cells; variance = 1/(1/ρ + Σ ω x²). All coordinates are free.

    Parameters
    ----------
    kernels : Kernels
        Kernels of the backend.
    block : Block
        Lines and cells; its other side holds the covariates.
    cellwise : ndarray of shape (2, m) or None
        ωt and ω of each cell.
    prior : NormalPrior
        Prior of the lines, all of one scale.
    known : int
        Number of all lines with covariates. The choice of method depends on it, so that a line has the same numbers
        whatever block it is in.
    dtype : object
        Dtype of the result.
    """
    assert cellwise is not None
    indptr, indices, cellwise = on_host(block.lines.indptr), on_host(block.lines.indices), on_host(cellwise)
    used, place = (np.arange(known), indices) if known <= TABLE else np.unique(indices, return_inverse=True)
    x = on_host(kernels.gather_first(block.theirs, used))
    n, precision, weight = len(indptr) - 1, prior.precision, np.asarray(cellwise[1], np.float64)
    mean = np.broadcast_to(on_host(prior.mean), (n, len(precision))).astype(np.float64)
    root = np.sqrt(weight)
    target = np.divide(cellwise[0], root, out=np.zeros_like(root), where=root > 0.0)
    target -= root * _fitted(x, mean, len(prior.mean) == 1, indptr, place)
    dual = np.zeros(len(root))
    products = (x / precision) @ x.T if known <= TABLE else None
    for cells in _of_one_size(indptr, x.shape[1] if products is None else 1):
        at, s = place[cells], root[cells]
        if products is None:
            lines = x[at]
            gram = np.matmul(lines / precision, lines.transpose(0, 2, 1))
        else:
            gram = products[at[:, :, None], at[:, None, :]]
        gram *= s[:, :, None] * s[:, None, :]
        gram += np.eye(gram.shape[1])
        dual[cells] = s * np.linalg.solve(gram, target[cells][:, :, None])[:, :, 0]
    shape = n, len(x)
    mean += (csr_matrix((dual, place, indptr), shape) @ x) / precision
    variance = 1.0 / (precision + csr_matrix((weight, place, indptr), shape) @ x**2)
    found = mean.astype(dtype), variance.astype(dtype), np.log(variance).sum(axis=1)
    return NormalLines(*(kernels.place(part) for part in found))


def _fitted(x: Array, mean: Array, shared: bool, indptr: Array, place: Array) -> Array:
    """η'x of each cell; η may be one for all lines."""
    if shared:
        return np.sum(x * mean[0], axis=1)[place]
    line = np.repeat(np.arange(len(mean)), np.diff(indptr))
    return np.concatenate(
        [np.einsum("md,md->m", mean[line[part]], x[place[part]]) for part in pieces(len(line), TOGETHER // x.shape[1])]
    )


def _of_one_size(indptr: Array, width: int) -> Iterator[Array]:
    """Positions of the cells of lines with equally many, (lines, cells), some lines at a time; none is empty."""
    counts = np.diff(indptr)
    for size in np.unique(counts[counts > 0]).tolist():
        lines = np.flatnonzero(counts == size)
        for part in pieces(len(lines), max(1, TOGETHER // (size * max(size, width)))):
            yield indptr[lines[part], None] + np.arange(size)
