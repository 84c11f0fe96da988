"""Run the Python of a page, and hold what it prints to what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?%?")
LAST_DIGITS = 2  # processors round sums differently


def run(name):
    """All Python blocks of a page, one after the other, in one namespace.

    A block of text below one of Python is what that one prints.
    """
    names: dict = {"__name__": "page"}
    for code, wanted in BLOCK.findall((DOCS / name).read_text("utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec", dont_inherit=True), names)
        if wanted:
            assert alike(printed.getvalue(), wanted), f"the page says\n{wanted}\nand the code\n{printed.getvalue()}"
    return names


def alike(printed, wanted):
    """The same words, and numbers that differ by no more than two in the last digit that is shown."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", wanted):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(wanted), strict=True)
    return all(abs(value(one) - value(other)) <= (LAST_DIGITS + 0.01) * unit(other) for one, other in pairs)


def value(number):
    """What a number says, per cent or not."""
    return float(number.rstrip("%"))


def unit(number):
    """One in the last digit of a decimal number; whole numbers count and have to be the same, per cents but for one."""
    if number.endswith("%"):
        return 0.5
    _, point, decimals = number.partition(".")
    return 10.0 ** -len(decimals) if point else 0.0
