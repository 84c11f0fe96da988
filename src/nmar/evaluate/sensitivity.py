"""How conclusions move with what data cannot tell: a shift of missing values, how values decide, the linkage's bend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.outside import as_frame
from nmar.evaluate.gains import Judges
from nmar.evaluate.imputed import Imputations, Statistic
from nmar.evaluate.notes import ERROR
from nmar.evaluate.pooling import pool
from nmar.posterior.places import Unknown
from nmar.prob.linkage import Curve, Free, Linkage

if TYPE_CHECKING:
    import pandas

__all__ = ["BendSensitivity", "Sensitivity", "Unit", "delta_adjusted"]

Unit = Literal["sd", "value"]
UNITS = {  # what is changed, and in which units
    "sd": ("shift of the missing values", "sd of the noise"),
    "value": ("shift of the missing values", "units of the values"),
    "slope": ("slope Γ of P(observed | value)", "for each spread of the observed values"),
}
FIXED_SLOPE = (
    "Values are drawn given that they are missing, with the slope of the log rate of being seen fixed: 0 takes missing"
    " values to be like observed ones; the data speak for one slope only under the assumed form of the curve."
)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A statistic as missing values are changed; by :meth:`nmar.CCPF.sensitivity` and ``mechanism_sensitivity``.

    Attributes
    ----------
    delta : ndarray
        The shifts, in ``unit``, or the slopes.
    unit : {"sd", "value", "slope"}
        Standard deviations of a value's noise, or units of the values. "slope": ``delta`` is the slope of P(observed).
    step : float
        Length of one unit of ``delta`` in units of the values.
    estimate : ndarray of shape (shifts,) or (shifts, statistics)
        Estimates, pooled over completed tables.
    low, high : ndarray or None
        Intervals, where the statistic has variances, else None.
    level : float
        Level of the intervals.
    assumes : str
        Assumptions at a shift of 0, or of the fits, in words.
    """

    delta: Array
    unit: str
    step: float
    estimate: Array
    low: Array | None
    high: Array | None
    level: float
    assumes: str

    def frame(self) -> pandas.DataFrame:
        """One line for each shift (and statistic)."""
        flat = self.estimate.reshape(len(self.delta), -1)
        names = ["estimate"] if flat.shape[1] == 1 else [f"estimate {k}" for k in range(flat.shape[1])]
        columns = {"delta": self.delta, "shift": self.delta * self.step}
        if self.unit == "slope":
            columns = {"slope": self.delta}
        columns |= {name: flat[:, k] for k, name in enumerate(names)}
        for end, values in (("low", self.low), ("high", self.high)):
            if values is not None:
                part = values.reshape(len(self.delta), -1)
                columns |= {name.replace("estimate", end): part[:, k] for k, name in enumerate(names)}
        return as_frame(columns, "frame()")

    def tipping_point(self, value: float = 0.0) -> float | None:
        """The shift (or slope) of least size at which an end of the interval (or else the estimate) passes ``value``.

        There ``value`` enters the interval or leaves it. None: no end passes it, and it lies inside or outside at all
        shifts that were tried (:meth:`text`). Linear between the shifts; for one statistic.
        """
        first = self.estimate if self.low is None else self.low
        last = self.estimate if self.high is None else self.high
        if self.estimate.ndim > 1:
            raise ValueError("tipping_point is for one statistic; return a number, not an array")
        order = np.argsort(self.delta)
        x, found = self.delta[order], []
        for line in (first[order] - value, last[order] - value):
            for k in np.flatnonzero(np.diff(np.sign(line)) != 0):
                found.append(x[k] + (x[k + 1] - x[k]) * line[k] / (line[k] - line[k + 1]))
        return None if not found else float(min(found, key=abs))

    def text(self) -> str:
        """The result in words."""
        what, unit = UNITS[self.unit]
        size = "" if self.unit == "slope" else f" (1 is {self.step:.3g})"
        lines = [f"{what[0].upper()}{what[1:]}, {unit}{size}:"]
        flat = self.estimate.reshape(len(self.delta), -1)
        for k, delta in enumerate(self.delta):
            shown = ", ".join(f"{q:.4g}" for q in flat[k])
            ends = ""
            if self.low is not None and self.high is not None and flat.shape[1] == 1:
                ends = f"   ({np.ravel(self.low)[k]:.4g} to {np.ravel(self.high)[k]:.4g})"
            lines.append(f"  {delta:+.3g}: {shown}{ends}")
        return "\n".join([*lines, self.assumes])

    def __str__(self) -> str:
        return self.text()


def delta_adjusted(
    completed: Imputations, delta: Any, statistic: Statistic, unit: Unit, df: float | None, level: float
) -> Sensitivity:
    """The statistic at each shift of the imputed values."""
    shifts = np.atleast_1d(np.asarray(delta, np.float64))
    if shifts.ndim != 1 or not len(shifts) or not np.all(np.isfinite(shifts)):
        raise ValueError(f"delta={delta!r}; give one or more finite shifts")
    step = completed.noise if unit == "sd" else 1.0
    tables = (completed.shifted(float(shift) * step) for shift in shifts)
    return Sensitivity(shifts, unit, step, *_pooled(tables, statistic, df, level), level, completed.assumes)


def at_slopes(
    slopes: Any, completed: Callable[[float], Imputations], statistic: Statistic, df: float | None, level: float
) -> Sensitivity:
    """The statistic at each slope of P(observed | value); ``completed`` fits with one and imputes."""
    values = np.atleast_1d(np.asarray(slopes, np.float64))
    if values.ndim != 1 or not len(values) or not np.all(np.isfinite(values)):
        raise ValueError(f"slope={slopes!r}; give one or more finite slopes")
    found = _pooled((completed(float(slope)) for slope in values), statistic, df, level)
    return Sensitivity(values, "slope", 1.0, *found, level, FIXED_SLOPE)


def _pooled(
    completed: Iterable[Imputations], statistic: Statistic, df: float | None, level: float
) -> tuple[Array, Array | None, Array | None]:
    """Estimates, and ends of intervals where the statistic has variances."""
    estimates, lows, highs = [], [], []
    for tables in completed:
        found = [statistic(table) for table in tables.tables()]
        if not isinstance(found[0], tuple):
            estimates.append(np.mean([np.asarray(q, np.float64) for q in found], axis=0))
            continue
        pooled = pool([q for q, _ in found], [u for _, u in found], df, level)
        estimates.append(pooled.estimate)
        lows.append(pooled.low)
        highs.append(pooled.high)
    low, high = (np.array(ends) if ends else None for ends in (lows, highs))
    return np.array(estimates), low, high


@dataclass(frozen=True, eq=False)
class BendSensitivity:
    """Held-out likelihood and predictions as the linkage bends; made by :meth:`nmar.CCPF.linkage_sensitivity`.

    Attributes
    ----------
    bend : ndarray
        Values of c, for a linkage that has one; for a free table φ, the power t of φ^t (0: ignorable, 1: as fitted).
    name : {"c", "bend"}
        Name of the bend.
    log_likelihood : ndarray
        Mean log density of the held-out cells.
    gain, gain_se : ndarray
        Gain over the first bend, and its standard error over cells, rows and columns.
    rmse : ndarray
        Root mean squared error of the held-out cells.
    mean, sd : ndarray
        Predictions of the held-out cells, averaged: E[y] and the root mean square standard deviation.
    """

    bend: Array
    name: str
    log_likelihood: Array
    gain: Array
    gain_se: Array
    rmse: Array
    mean: Array
    sd: Array

    def frame(self) -> pandas.DataFrame:
        """One line for each bend."""
        names = ("log_likelihood", "gain", "gain_se", "rmse", "mean", "sd")
        return as_frame({self.name: self.bend} | {name: getattr(self, name) for name in names}, "frame()")

    def text(self) -> str:
        """The result in words."""
        best = int(np.argmax(self.log_likelihood))
        lines = [f"{self.name:>8}  log likelihood      gain ± se         RMSE     mean       sd"]
        for k in range(len(self.bend)):
            lines.append(
                f"{self.bend[k]:8.3g}  {self.log_likelihood[k]:14.4f}  {self.gain[k]:+.4f} ± {self.gain_se[k]:.4f}"
                f"  {self.rmse[k]:8.4f} {self.mean[k]:8.4g} {self.sd[k]:8.4g}"
            )
        moved = np.ptp(self.mean)
        says = (
            f"Best on held-out cells: {self.name} = {self.bend[best]:.3g}. Their mean prediction moves by {moved:.3g}."
        )
        return "\n".join([*lines, f"{ERROR}.", says])

    def __str__(self) -> str:
        return self.text()


def bent(link: Linkage, bend: float) -> Linkage:
    """The linkage with c, or with the power of its table, fixed."""
    if isinstance(link, Curve):
        return replace(link, c=bend, learn=False)
    if isinstance(link, Free):
        return replace(link, values=tuple(float(v) for v in link.spread**bend), learn=False)
    raise ValueError(f"the {link.name} linkage has no parameter to move; fit 'linear', 'geometric' or 'free'")


def at_bends(
    link: Linkage, bends: Array, held_out: Cells, fitted: Callable[[Linkage], Any], unknown: Unknown
) -> BendSensitivity:
    """Scores and predictions of held-out cells at each bend of the linkage; ``fitted`` makes a model of one."""
    found, means, sds = [], [], []
    for value in bends:
        model = fitted(bent(link, float(value)))
        found.append(model.log_density(held_out, unknown=unknown))
        mean, sd = model.predict_entries(*held_out.pairs(), return_std=True, unknown=unknown)
        means.append(mean)
        sds.append(sd)
    scores, center = np.array(found), np.array(means)
    gains, judges = scores - scores[0], Judges.of([held_out])
    return BendSensitivity(
        bends,
        "c" if isinstance(link, Curve) else "bend",
        scores.mean(axis=1),
        gains.mean(axis=1),
        np.array([judges.error(one) for one in gains]),
        np.sqrt(np.mean((center - held_out.values) ** 2, axis=1)),
        center.mean(axis=1),
        np.sqrt(np.mean(np.array(sds) ** 2, axis=1)),
    )
