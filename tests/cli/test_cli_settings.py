"""``nmar fit`` and the docstring of CCPF agree with its signature on names and defaults."""

from __future__ import annotations

import argparse
import inspect
import re

import pytest

import nmar
from nmar.cli import fit

DEFAULTS = {name: one.default for name, one in inspect.signature(nmar.CCPF).parameters.items()}
OPTIONS = {"jobs": "n_jobs", "seed": "random_state"}  # options whose name is not that of the setting
MEANT = {"data": "factorization:10", "linkage": None, "control": None}  # texts that stand for the same
OF_THE_COMMAND = {"help", "data_file", "output", "valid", "hidden", "quiet", "row", "col", "value", "duplicates"}
OF_THE_COMMAND |= {"delimiter", "no_header"}


def actions() -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    fit.arguments(parser)
    return {one.dest: one for one in parser._actions if one.dest not in OF_THE_COMMAND}


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_the_docstring_says_every_default(name):
    text = inspect.getdoc(nmar.CCPF).split("Attributes\n")[0]
    entry = re.search(rf"^(?:\w+, )*{name}(?:, \w+)* : (.*(?:\n    .*)*)", text, re.MULTILINE)
    assert entry is not None
    assert "Factorization(10)" in entry[1] if name == "data" else f"default {DEFAULTS[name]!r}" in entry[1]


@pytest.mark.parametrize("dest", list(actions()))
def test_an_option_is_a_setting_with_its_default(dest):
    option, name = actions()[dest], OPTIONS.get(dest, dest)
    assert name in DEFAULTS
    if dest in OPTIONS:
        assert f"{name} in Python" in option.help
    if dest == "seed":  # files are written to be made again
        assert option.default == 0 and "(0" in option.help
        return
    assert option.default == MEANT.get(dest, DEFAULTS[name])
    if option.default is not None:
        assert re.search(rf"\({option.default}[;)]", option.help)
    else:
        assert "default" in option.help


def test_the_number_of_factors_may_be_left_open():
    parser = argparse.ArgumentParser()
    fit.arguments(parser)
    read = [parser.parse_args(["x.csv", "-o", "m", "--factors", text]).factors for text in ("auto", "7")]
    assert read == ["auto", 7]
