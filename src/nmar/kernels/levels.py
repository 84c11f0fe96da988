"""Levels read as normal values: the definition that every backend must equal (theory.md, Levels)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.kernels.spec import LevelCells, LevelReading
from nmar.prob.truncated import Truncated, truncated

Array = NDArray[Any]
LEAST = 0.05  # information of a cell: one that tells next to nothing would ask for too long a step
SLIGHT = 1e-6  # times the probability of the most probable style, below which a line does not have a style


def read_levels(cells: LevelCells) -> LevelReading:
    """Normal values that stand for the levels of a block's cells; see spec.py."""
    sd = np.sqrt(cells.noise)
    found = [_between(cells, cuts, sd) for cuts in cells.cuts]
    spread = np.stack([each.variance for each in found], axis=1)
    log_mass = np.stack([each.log_mass for each in found], axis=1)
    log_mass = log_mass - (0.5 * cells.variance / cells.noise)[:, None] * (1.0 - spread)
    weight = cells.weight.astype(np.float64) if cells.weight.size else np.ones(len(sd))
    line = np.repeat(np.arange(len(cells.indptr) - 1), np.diff(cells.indptr))
    styles = cells.mine
    if cells.log_share.size:
        logs = np.stack([np.bincount(line, weight * each, len(styles)) for each in log_mass.T], axis=1)
        styles = _probabilities(logs + cells.log_share)
    log_z = float(np.sum(weight[:, None] * _of_cells(cells, cells.mine, line) * log_mass))
    q = _of_cells(cells, styles, line)
    away = np.stack([each.mean for each in found], axis=1)
    shift, information = np.sum(q * away, axis=1), np.sum(q * (1.0 - spread), axis=1)
    seen = np.maximum(information, LEAST)
    square = cells.noise * np.sum(q * (spread + away**2), axis=1) + information**2 * cells.variance
    sums = np.zeros((len(cells.cuts), cells.cuts.shape[1] - 1, 4))
    for style, each in enumerate(found) if cells.sums else ():
        parts = (np.ones(len(sd)), each.at_low / sd, each.at_high / sd, 1.0 / cells.noise)
        np.add.at(sums[style], cells.level, (weight * q[:, style])[:, None] * np.stack(parts, axis=1))
    return LevelReading(cells.mean + sd * shift / seen, seen, square, log_z, styles, sums)


def _probabilities(logs: Array) -> Array:
    """Probabilities of the styles of each line; those below ``SLIGHT`` are 0."""
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    found[found < SLIGHT] = 0.0
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _between(cells: LevelCells, cuts: Array, sd: Array) -> Truncated:
    """The law of (y* − μ)/σ of each cell under one style."""
    return truncated((cuts[cells.level] - cells.mean) / sd, (cuts[cells.level + 1] - cells.mean) / sd)


def _of_cells(cells: LevelCells, mine: Array, line: Array) -> Array:
    """Probabilities of the styles of each cell (m, G)."""
    if mine.size:
        return mine[line].astype(np.float64)
    if cells.theirs.size:
        return cells.theirs[cells.indices].astype(np.float64)
    return np.ones((len(line), 1))
