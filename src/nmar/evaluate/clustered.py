"""A regression over cells whose errors go together within rows and within columns.

Enters: one response and a few terms per cell, and the row and the column of each. Leaves: the coefficients,
their standard errors and a test of all of them. Neither rows nor columns need be alike in level or in scale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import f

from nmar.arrays import Array

LEAST_LINES = 5  # below this a variance between lines is hardly known


class Regression(NamedTuple):
    """Coefficients of the terms (the intercept left out) and the test that all of them are 0."""

    coefficient: Array
    error: Array  # standard errors
    statistic: float  # F
    df: int  # of the numerator: the number of terms
    df_error: int  # of the denominator: lines of the shorter side less the number of terms
    p_value: float


def clustered_regression(
    response: Array, terms: Array, rows: Array, cols: Array, weights: Array | None = None
) -> Regression:
    """Least squares of ``response`` on 1 and ``terms``, tested with two-way clustered variance.

    Parameters
    ----------
    response : ndarray of shape (n,)
        One number per cell, not all equal.
    terms : ndarray of shape (n, q)
        Regressors, centred or not.
    rows, cols : ndarray of shape (n,)
        Numbers of the row and of the column of each cell.
    weights : ndarray of shape (n,) or None, default=None
        Weights of the squares, all positive; None: 1.

    Returns
    -------
    Regression

    Notes
    -----
    V_R, V_C and V_0 are jackknife variances that leave out one row, one column and one cell at a time. The
    two-way variance of Cameron, Gelbach and Miller is V_R + V_C − V_0. It may fail to be positive, and it is
    below V_R or V_C where the other side happens to show no dependence, so the statistic is the smallest of
    the Wald statistics with V_R, with V_C and with V_R + V_C − V_0 (the last only if positive definite).
    With G lines on the shorter side, (G − q) / (q (G − 1)) times that is referred to F(q, G − q), as
    Hotelling's T² is; for q = 1 it is the square of a t on G − 1 degrees of freedom.
    """
    lines = min(len(np.unique(rows)), len(np.unique(cols)))
    if lines < LEAST_LINES:
        raise ValueError(f"the cells lie in {lines} rows or columns; a test needs {LEAST_LINES} of each at least")
    design = np.column_stack([np.ones(len(response)), terms])
    if weights is not None:
        design, response = design * np.sqrt(weights)[:, None], response * np.sqrt(weights)
    gram, moment = design.T @ design, design.T @ response
    if np.linalg.matrix_rank(gram) < len(gram) or np.ptp(response) == 0.0:
        raise ValueError("the response or a term is the same in all cells, so that no trend can be estimated")
    coefficient, q = np.linalg.solve(gram, moment)[1:], terms.shape[1]
    by_row, by_col = (_leave_lines_out(design, response, gram, moment, group) for group in (rows, cols))
    both = by_row + by_col - _leave_cells_out(design, response, gram, moment)
    variances = [v for v in (by_row, by_col, both) if np.linalg.eigvalsh(v)[0] > 0.0]
    if not variances:
        raise ValueError("the terms explain the response without error, so that there is nothing to test against")
    wald = min(float(coefficient @ np.linalg.solve(v, coefficient)) for v in variances)
    statistic = wald * (lines - q) / (q * (lines - 1))
    error = np.sqrt(np.max([np.diag(v) for v in variances], axis=0))
    return Regression(coefficient, error, statistic, q, lines - q, float(f.sf(statistic, q, lines - q)))


def _leave_lines_out(design: Array, response: Array, gram: Array, moment: Array, group: Array) -> Array:
    """Jackknife covariance of the coefficients of the terms, one row or column left out at a time."""
    line = np.unique(group, return_inverse=True)[1]
    own = np.stack([_sums(line, response * column) for column in design.T], axis=1)
    crossed = np.stack([[_sums(line, a * b) for b in design.T] for a in design.T]).transpose(2, 0, 1)
    # a pseudo-inverse: without one long line the other cells may all have one value of a term
    without = np.einsum("gij,gj->gi", np.linalg.pinv(gram - crossed, hermitian=True), moment - own)
    return _jackknife(without - np.linalg.solve(gram, moment))


def _leave_cells_out(design: Array, response: Array, gram: Array, moment: Array) -> Array:
    """The same with one cell left out at a time: the change is −(X'X)⁻¹ x e / (1 − h), with h the leverage."""
    influence = np.linalg.solve(gram, design.T).T
    residual = response - design @ np.linalg.solve(gram, moment)
    leverage = np.sum(influence * design, axis=1)
    return _jackknife(-influence * (residual / (1.0 - leverage))[:, None])


def _jackknife(change: Array) -> Array:
    """(G − 1)/G Σ_g d_g d_g' of the changes d when group g is left out, without the intercept."""
    size = len(change)
    return (size - 1) / size * (change.T @ change)[1:, 1:]


def _sums(line: Array, values: Array) -> Array:
    return np.bincount(line, weights=values)
