"""One table of settings: signature and docstring of CCPF, compare, the test and the command line agree with it."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import fields

import pytest

import nmar
from nmar.cli import compare, fit, test
from nmar.fit.options import Options
from nmar.fit.parameters import PARAMETERS, defaults, docstring

VERBS = {"fit": fit, "compare": compare, "test": test}


def actions(verb) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    return {one.dest: one for one in parser._actions}


def signature(function):
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def test_the_estimator_has_the_settings_of_the_table():
    assert signature(nmar.CCPF) == defaults()
    assert list(signature(nmar.CCPF)) == list(PARAMETERS)
    assert inspect.getdoc(nmar.CCPF).count(inspect.cleandoc(docstring())) == 1


@pytest.mark.parametrize("function", [nmar.compare, nmar.missingness_test])
def test_shared_settings_have_the_same_defaults(function):
    own = {"control", "data", "random_state"}  # which mean something else there
    shared = {name: value for name, value in signature(function).items() if name in PARAMETERS and name not in own}
    assert len(shared) > 4
    assert shared == {name: defaults()[name] for name in shared}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_options_are_settings(verb):
    found = actions(verb)
    for name in verb.SETTINGS:
        one = PARAMETERS[name]
        assert found[name].default is None  # not given: the setting keeps its default
        assert found[name].option_strings == [one.flag] and found[name].help == one.help
        assert str(one.default) in one.help or one.usual in one.help


def test_every_setting_is_an_option_of_fit():
    # --quiet; a function or an array; tables; a fitted model
    in_python = {"verbose", "propensity", "pattern", "warm_start"}
    assert sorted([*fit.SETTINGS, "data", "linkage", *in_python]) == sorted(PARAMETERS)


def test_the_number_of_factors_and_of_starts_may_be_left_open():
    parser = argparse.ArgumentParser()
    fit.arguments(parser)
    given = ["x.csv", "-o", "m", "--factors", "auto", "--starts", "2"]
    read = parser.parse_args(given)
    assert (read.factors, read.starts) == ("auto", 2)
    read = parser.parse_args([*given[:3], "--factors", "7", "--starts", "auto"])
    assert (read.factors, read.starts) == (7, "auto")


def test_a_setting_that_is_none_is_refused_by_name():
    with pytest.raises(TypeError, match="'sweeps'"):
        Options(sweeps=3)


def test_options_are_the_settings_with_their_defaults():
    """They have no other way to be made, so that two ways cannot differ."""
    where, handled_by_the_estimator = {"memory", "executor"}, {"verbose", "warm_start"}
    found = {field.name: field.default for field in fields(Options) if field.name not in where}
    assert found == {name: value for name, value in defaults().items() if name not in handled_by_the_estimator}
    model = nmar.CCPF()
    assert Options() == Options(**{name: getattr(model, name) for name in found})
