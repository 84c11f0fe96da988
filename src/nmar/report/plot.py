"""Figures of a fitted model: ``nmar.plot.linkage(model)`` and others. Each returns a matplotlib ``Axes``.

Pass ``ax=`` to draw into a figure of your own. ``model`` is a fitted :class:`nmar.CCPF` or its
``posterior_``.
"""

from __future__ import annotations

from typing import Any

from nmar.data.accept import as_cells
from nmar.evaluate import curves
from nmar.evaluate.groups import GroupTest
from nmar.evaluate.missingness import MissingnessTest, missingness_test
from nmar.evaluate.sensitivity import Sensitivity
from nmar.posterior.mechanism import learned_mechanism
from nmar.report import figures

__all__ = [
    "activity",
    "calibration",
    "cut_points",
    "detection",
    "heteroscedasticity",
    "levels",
    "linkage",
    "sensitivity",
    "trace",
    "volcano",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def linkage(model: Any, ax: Any = None, by: str = "count") -> Any:
    """The fitted linkage: φ(n) against the latent count, or its mean against P(observed).

    Parameters
    ----------
    model : CCPF
        Fitted model.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.
    by : {"count", "probability"}, default="count"
        What the linkage is drawn against.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.plot.linkage(model, by="probability").get_xlabel()
    'P(observed)'
    """
    draw = {"count": figures.linkage, "probability": figures.expected_linkage}
    if by not in draw:
        raise ValueError(f"by={by!r}; use 'count' or 'probability'")
    return draw[by]([curves.linkage_curve(model)], ax)


def cut_points(model: Any, ax: Any = None) -> Any:
    """Cut points of a model with ``family="levels"``, a bar for each style.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> ratings = cells.with_values(1.0 + (cells.values > -1.0) + (cells.values > 1.0))
    >>> model = nmar.CCPF(nmar.Effects("rows", family="levels"), factors=2, max_iter=5, random_state=0).fit(ratings)
    >>> nmar.plot.cut_points(model).get_xlabel()
    'latent value, in units of the levels'
    """
    return figures.cut_points(curves.level_curves(model), ax)


def levels(model: Any, rows: Any, cols: Any, ax: Any = None) -> Any:
    """P(level) of a few entries as bars, of a model with ``family="levels"``.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    rows, cols : array-like
        Ids, one of each per entry.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> ratings = cells.with_values(1.0 + (cells.values > -1.0) + (cells.values > 1.0))
    >>> model = nmar.CCPF(nmar.Effects("rows", family="levels"), factors=2, max_iter=5, random_state=0).fit(ratings)
    >>> nmar.plot.levels(model, [0, 1], [2, 3]).get_ylabel()
    'P(level)'
    """
    names = [f"{row}, {col}" for row, col in zip(rows, cols, strict=True)]
    return figures.level_bars(model.levels_, model.predict_levels(rows, cols), names, ax)


def heteroscedasticity(result: Any, ax: Any = None, standardised: bool = False, **settings: Any) -> Any:
    """Residual variance against P(observed), the paper's figure 1a.

    Parameters
    ----------
    result : MissingnessTest, Cells or array-like
        Result of :func:`nmar.missingness_test`, or cells to run it on.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.
    standardised : bool, default=False
        Whether residuals are relative to each cell's predictive variance, so that 1 is expected everywhere.
    **settings : object
        Settings of :func:`nmar.missingness_test`, with cells.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> result = nmar.missingness_test(cells, factors=2, rank=2, bins=5, max_iter=5)
    >>> nmar.plot.heteroscedasticity(result).get_xlabel()
    'quantile of P(observed)'
    """
    found = result if isinstance(result, MissingnessTest) else missingness_test(as_cells(result), **settings)
    return figures.heteroscedasticity(found.bins, ax, standardised)


def calibration(model: Any, cells: Any, ax: Any = None, random_state: Any = 0) -> Any:
    """How often central prediction intervals hold the value, less what they promise; give held-out cells.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    cells : Cells or array-like
        Held-out cells.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.
    random_state : int, Generator or None, default=0
        Seed of the randomised probability integrals of counts.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.plot.calibration(model, cells).get_xlabel()
    'nominal level of the interval, %'
    """
    return figures.calibration([("model", curves.calibration(model, as_cells(cells), random_state))], ax)


def detection(model: Any, ax: Any = None) -> Any:
    """P(observed | value) of a model with ``mechanism="value"``, with a 90 % band.

    Parameters
    ----------
    model : CCPF
        Model fitted with ``mechanism="value"``.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), mechanism="value", max_iter=5, random_state=0).fit(cells)
    >>> nmar.plot.detection(model).get_ylabel()
    'P(observed | value)'
    """
    known = curves.posterior_of(model)
    return figures.detection(learned_mechanism(known), curves.value_range(known), ax)


def trace(model: Any, ax: Any = None) -> Any:
    """Validation log likelihood by sweep, or the bound where the fit had no validation cells.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.plot.trace(model).get_xlabel()
    'sweep'
    """
    return figures.trace([("model", *curves.trace_of(model))], ax)


def activity(model: Any, cells: Any = None, ax: Any = None) -> Any:
    """Expected counts of rows and columns by rank; with the training cells, their observed cells as dots.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    cells : Cells, array-like or None, default=None
        Training cells, whose numbers are drawn too.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.plot.activity(model, cells).get_xlabel()
    'rank'
    """
    return figures.activity(curves.activity(model, None if cells is None else as_cells(cells)), ax)


def sensitivity(result: Sensitivity, ax: Any = None) -> Any:
    """A statistic against the shift of the missing values, with its interval where it has one.

    Parameters
    ----------
    result : Sensitivity
        Result of :meth:`nmar.CCPF.sensitivity`.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> result = model.sensitivity([-1.0, 0.0, 1.0], lambda table: table.to_numpy().mean(), n=2)
    >>> nmar.plot.sensitivity(result).get_xlabel()
    'shift of the missing values, sd of the noise'
    """
    if not isinstance(result, Sensitivity):
        raise TypeError(f"result is a {type(result).__name__}; pass what model.sensitivity(…) returned")
    return figures.sensitivity(result, ax)


def volcano(result: GroupTest, ax: Any = None, rate: float = 0.05) -> Any:
    """−log10 p of each row against the difference of its groups; rows below the false discovery rate are marked.

    Parameters
    ----------
    result : GroupTest
        Result of :func:`nmar.group_test`.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on. None: new ones.
    rate : float, default=0.05
        False discovery rate.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> import nmar
    >>> table = np.random.default_rng(0).normal(size=(30, 8))
    >>> nmar.plot.volcano(nmar.group_test(table, list("aaaabbbb"))).get_ylabel()
    '−log10 p'
    """
    if not isinstance(result, GroupTest):
        raise TypeError(f"result is a {type(result).__name__}; pass what nmar.group_test(…) returned")
    return figures.volcano(result, ax, rate)
