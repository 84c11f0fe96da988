"""When to stop: enough sweeps, enough time, a bound that no longer rises, a validation score that no longer does."""

from __future__ import annotations

from dataclasses import dataclass

from nmar.fit.loop.run import Trace


@dataclass(frozen=True)
class StopRule:
    """Reasons to stop, in the order they are looked at."""

    max_iter: int = 200  # largest number of sweeps
    tol: float = 1e-4  # relative gain of the bound over one sweep below which the fit has converged; 0 never stops
    # number of sweeps without a new best validation log likelihood (by ``valid_tol``) after which the fit stops
    patience: int = 10
    valid_tol: float = 1e-5  # nats per cell that count as a new best
    max_time: float | None = None  # Largest number of seconds. None: no limit.

    def __call__(self, trace: Trace) -> str | None:
        """A reason to stop, or None."""
        if trace.valid and self._stale(trace.valid):
            return "validation"
        if self.tol > 0 and not trace.valid and self._converged(trace):
            return "converged"
        if trace.iterations >= self.max_iter:
            return "max_iter"
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
