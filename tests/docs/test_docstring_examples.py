"""Every example in a docstring runs and shows what it says."""

import doctest
import importlib
import pkgutil
import warnings

import pytest

import nmar

OPTIONAL = ("anndata", "torch")  # large, and in none of the extras that the tests install
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules():
    """Names of all modules of the library but the one that runs when it is executed."""
    names = (m.name for m in pkgutil.walk_packages(nmar.__path__, "nmar."))
    return ["nmar", *(name for name in names if not name.endswith("__main__"))]


def examples(name):
    """The examples of a module, docstring by docstring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    return [test for test in found if test.examples]


TESTS = [test for name in modules() for test in examples(name)]


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_an_example_shows_what_it_says(test):
    for library in OPTIONAL:
        if any(f"import {library}" in example.source for example in test.examples):
            pytest.importorskip(library)
    output = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    failed = runner.run(test, out=output.append).failed
    assert not failed, "".join(output)


def test_examples_are_found():
    assert {"nmar.estimators.ccpf.CCPF", "nmar.prob.units.Units"} <= {test.name for test in TESTS}
