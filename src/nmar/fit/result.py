"""What a fit leaves: a posterior, how it came about, and what was tried on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nmar.fit.loop.run import INTERRUPTED, Trace
from nmar.posterior.posterior import Posterior

__all__ = ["Choice", "Fitted", "Interrupted", "preliminary", "uninterrupted"]


@dataclass(frozen=True)
class Choice:
    """One value of a setting that was tried.

    Attributes
    ----------
    setting : str
        Name of the setting.
    value : object
        The value that was tried.
    score : float
        Mean held-out log likelihood.
    behind : float
        How far it is behind the chosen value.
    se : float
        Standard error of ``behind``, paired by cell.
    """

    setting: str
    value: Any
    score: float
    behind: float
    se: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior and how it came about."""

    posterior: Posterior
    trace: Trace
    reason: str
    choices: tuple[Choice, ...] = ()
    effective_cells: float | None = None  # of cells that count by inverse probability

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it; the posterior is that of the last finished sweep."""
        return self.reason == INTERRUPTED


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit that has finished a sweep: ``fitted`` is the fit up to the last one."""

    def __init__(self, fitted: Fitted) -> None:
        super().__init__(f"the fit was interrupted after {fitted.trace.iterations} sweeps")
        self.fitted = fitted


def uninterrupted(fitted: Fitted) -> Fitted:
    """The fit; one that was interrupted is raised, so that no caller mistakes it for a finished one."""
    if fitted.interrupted:
        raise Interrupted(fitted)
    return fitted


@contextmanager
def preliminary() -> Iterator[None]:
    """A fit that only prepares another one: interrupted, it leaves nothing to keep."""
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
