"""scikit-learn's callback API, where the installed version has it; nothing where it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from nmar.fit.loop.callbacks import Callback, Record

Method = TypeVar("Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn's own are untyped, and would make everything they touch so

    class CallbackSupport:
        """scikit-learn's callbacks."""

    def with_callbacks(method: Method) -> Method:
        """The method, with callbacks."""
        return method

    SUPPORTED = True
else:
    try:
        from sklearn.callback import CallbackSupportMixin as CallbackSupport
        from sklearn.callback import with_callbacks

        SUPPORTED = True
    except ImportError:  # scikit-learn before 1.9
        SUPPORTED = False

        class CallbackSupport:
            """No callbacks of scikit-learn."""

        def with_callbacks(method):
            """The method as it is."""
            return method


def sweep_hooks(estimator: Any, sweeps: int) -> list[Callback]:
    """Callbacks set with ``estimator.set_callbacks`` as one of ours: each sweep is a task of the fit.

    A callback that asks to stop stops the fit.
    """
    if not SUPPORTED or not getattr(estimator, "_skl_callbacks", None):
        return []
    context = estimator._init_callback_context(max_subtasks=sweeps)
    context.call_on_fit_task_begin(estimator=estimator)

    def told(record: Record) -> bool:
        if record.phase == "search":  # not among the sweeps that were announced
            return False
        facts = {"bound": record.bound, "validation": record.validation, "seconds": record.seconds}
        task = context.subcontext(task_name="sweep")
        task.call_on_fit_task_begin(estimator=estimator, metadata=facts)
        stop = bool(task.call_on_fit_task_end(estimator=estimator, metadata=facts))
        if stop or record.iteration >= sweeps:
            context.call_on_fit_task_end(estimator=estimator)
        return stop

    return [told]
