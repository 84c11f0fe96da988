"""Figures of a fitted model: ``nmar.plot.linkage(model)`` and others. Each returns a matplotlib ``Axes``.

Pass ``ax=`` to draw into a figure of your own. ``model`` is a fitted :class:`nmar.CCPF` or its
``posterior_``.
"""

from __future__ import annotations

from typing import Any

from nmar.report import curves, figures
from nmar.report.missingness import MissingnessTest, missingness_test
from nmar.report.scoring import as_cells

__all__ = ["activity", "calibration", "heteroscedasticity", "linkage", "trace"]


def linkage(model: Any, ax: Any = None, by: str = "count") -> Any:
    """The fitted linkage: φ(n) against the latent count, or its mean against P(observed).

    Parameters
    ----------
    model : fitted model
    ax : matplotlib Axes, optional
    by : {"count", "probability"}

    Returns
    -------
    matplotlib Axes
    """
    draw = {"count": figures.linkage, "probability": figures.expected_linkage}
    if by not in draw:
        raise ValueError(f"by={by!r}; use 'count' or 'probability'")
    return draw[by]([curves.linkage_curve(model)], ax)


def heteroscedasticity(result: Any, ax: Any = None, **settings: Any) -> Any:
    """Residual variance against P(observed), the paper's figure 1a.

    Parameters
    ----------
    result : what :func:`nmar.missingness_test` returned, or cells to run it on
    ax : matplotlib Axes, optional
    **settings : passed to :func:`nmar.missingness_test` with cells
    """
    found = result if isinstance(result, MissingnessTest) else missingness_test(as_cells(result), **settings)
    return figures.heteroscedasticity(found.bins, ax)


def calibration(model: Any, cells: Any, ax: Any = None, random_state: Any = 0) -> Any:
    """How often central prediction intervals hold the value, less what they promise; give held-out cells.

    Parameters
    ----------
    model : fitted model
    cells : held-out cells
    ax : matplotlib Axes, optional
    random_state : seed of the randomised probability integrals of counts
    """
    return figures.calibration([("model", curves.calibration(model, as_cells(cells), random_state))], ax)


def trace(model: Any, ax: Any = None) -> Any:
    """Validation log likelihood by sweep, or the bound where the fit had no validation cells."""
    return figures.trace([("model", *curves.trace_of(model))], ax)


def activity(model: Any, cells: Any = None, ax: Any = None) -> Any:
    """Expected counts of rows and columns by rank; with the training cells, their observed cells as dots."""
    return figures.activity(curves.activity(model, None if cells is None else as_cells(cells)), ax)
