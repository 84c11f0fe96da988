"""Every public callable says what it takes, and shows how it is called."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import nmar

METHODS = (nmar.CCPF, nmar.Cells)  # the classes whose methods users call
INHERITED = "sklearn"  # methods that are documented there


def callables():
    """(name, callable): public names, those of public modules, and public methods of the classes above."""
    for name in nmar.__all__:
        owner = getattr(nmar, name)
        if isinstance(owner, ModuleType):
            yield from (
                (f"{name}.{one}", getattr(owner, one)) for one in owner.__all__ if callable(getattr(owner, one))
            )
        elif callable(owner):
            yield name, owner
    for owner in METHODS:
        for name, method in inspect.getmembers(owner, inspect.isroutine):
            if not name.startswith("_") and not method.__module__.startswith(INHERITED):
                yield f"{owner.__name__}.{name}", method


def takes(owner):
    """Names of the parameters."""
    found = inspect.signature(owner).parameters
    return [name for name in found if name not in ("self", "cls")]


CALLABLES = dict(callables())


def test_callables_are_found():
    assert {"CCPF", "compare", "plot.trace", "datasets.load", "CCPF.fit", "CCPF.impute", "Cells.split"} <= set(
        CALLABLES
    )


@pytest.mark.parametrize("name", CALLABLES)
def test_parameters_are_described(name):
    text = inspect.getdoc(CALLABLES[name]) or ""
    wanted = takes(CALLABLES[name])
    if wanted:
        section = text.partition("Parameters\n----------\n")[2]
        lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
        said = {word.strip("* ") for line in lines for word in line.partition(" : ")[0].split(",")}
        assert not [one for one in wanted if one not in said], f"{name} does not say what these are"


@pytest.mark.parametrize("name", CALLABLES)
def test_an_example_is_shown(name):
    assert ">>> " in (inspect.getdoc(CALLABLES[name]) or "")
