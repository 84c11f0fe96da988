"""When to stop: enough sweeps, enough time, a bound that no longer rises, a validation score that no longer does."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmar.fit.loop.run import Trace


@dataclass(frozen=True)
class StopRule:
    """Reasons to stop, in the order they are looked at.

    Parameters
    ----------
    max_iter : sweeps at most
    tol : relative gain of the bound over one sweep below which the fit has converged; 0 never stops
    patience : sweeps the validation log likelihood may go without a new best (by ``valid_tol``), if there is one
    valid_tol : nats per cell that count as a new best
    max_time : seconds at most, or None
    chosen : sweeps that were found best on held-out cells, or None
    """

    max_iter: int = 200
    tol: float = 1e-4
    patience: int = 10
    valid_tol: float = 1e-5
    max_time: float | None = None
    chosen: int | None = None

    def after(self, sweeps: int) -> StopRule:
        """The rule of a fit whose number of sweeps is known: only ``max_iter`` and ``max_time`` can end it earlier."""
        return replace(self, tol=0.0, patience=self.max_iter, chosen=sweeps)

    def __call__(self, trace: Trace) -> str | None:
        """A reason to stop, or None."""
        if trace.valid and self._stale(trace.valid):
            return "validation"
        if self.tol > 0 and not trace.valid and self._converged(trace):
            return "converged"
        if trace.iterations >= self.max_iter:
            return "max_iter"
        if self.chosen is not None and trace.iterations >= self.chosen:
            return "chosen"
        if self.max_time is not None and trace.seconds[-1] >= self.max_time:
            return "max_time"
        return None

    def _converged(self, trace: Trace) -> bool:
        """Relative to the bound of what the model sees: how long a fit takes must not depend on the values' units."""
        bound = trace.bound
        return len(bound) > 2 and bound[-1] - bound[-2] <= self.tol * abs(bound[-1] - trace.unit_term)

    def _stale(self, valid: tuple[float, ...]) -> bool:
        if len(valid) <= self.patience:
            return False
        return max(valid[-self.patience :]) <= max(valid[: -self.patience]) + self.valid_tol
