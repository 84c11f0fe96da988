"""Settings of the command line from a TOML file: what is written there stands before the options that are typed.

The file has a table for each verb, with its options by name::

    [fit]
    row = "user"
    data = "factorization:20"
    max-iter = 100
    quiet = true
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def with_config(argv: Sequence[str], verbs: dict[str, argparse.ArgumentParser]) -> list[str]:
    """The arguments with those of ``--config FILE`` put in, unless the option is typed as well."""
    given = list(argv)
    path = _path(given)
    verb = next((one for one in given if not one.startswith("-")), None)
    if path is None or verb not in verbs:
        return given
    table = _read(path).get(verb, {})
    if not isinstance(table, dict):
        raise ValueError(f"--config {path!r}: {verb} is no table; write [{verb}] above its options")
    known = {flag.lstrip("-"): one for one in verbs[verb]._actions for flag in one.option_strings}
    place = given.index(verb) + 1
    added: list[str] = []
    for name, value in table.items():
        action = known.get(name.replace("_", "-"))
        if action is None or name in ("config", "help"):
            names = ", ".join(sorted(name for name in known if len(name) > 1))
            raise ValueError(f"--config {path!r}: [{verb}] {name} is no option of nmar {verb}; it has {names}")
        if not any(word.partition("=")[0] in action.option_strings for word in given):
            added += _words(action, value, f"--config {path!r}: [{verb}] {name}")
    return [*given[:place], *added, *given[place:]]


def _path(given: list[str]) -> str | None:
    for place, word in enumerate(given):
        if word.startswith("--config="):
            return word.partition("=")[2]
        if word == "--config" and place + 1 < len(given):
            return given[place + 1]
    return None


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"--config {path!r} does not exist; check the spelling") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"--config {path!r} is not TOML: {error}") from None


def _words(action: argparse.Action, value: Any, what: str) -> list[str]:
    """A setting as it would be typed."""
    flag = action.option_strings[-1]
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise ValueError(f"{what} = {value!r}: this is a switch; write true or false")
        return [flag] if value else []
    if isinstance(value, bool | dict):
        raise ValueError(f"{what} = {value!r}: write a text, a number or a list of them")
    if not isinstance(value, list):
        return [f"{flag}={value}"]
    if isinstance(action, argparse._AppendAction):
        return [f"{flag}={one}" for one in value]
    return [flag, *(str(one) for one in value)]
