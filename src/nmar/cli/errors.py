"""Errors of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import argparse
import re

from nmar.fit.parameters import PARAMETERS

SAID = {
    "header=False": "--no-header",
    "text_ids=True": "--text-ids",
    "wide=True": "--wide",
    "exclude_seen=True": "leaving out seen columns",
    "save the model with save(path, seen=True)": "fit it with --keep-seen",
    "warm_start=True": "--resume from a --checkpoint",
    "(fold_in)": "in Python (fold_in)",
    "(Cells.align with unknown='drop'), or extend the axis": "of the table",
    "with cells=(rows, cols)": "in Python (cells=)",
}


def in_options(text: str, parser: argparse.ArgumentParser | None) -> str:
    """The text of an error with ``--row 'x'`` for ``row='x'``, where the verb has such an option."""
    flags = {name: one.flag for name, one in PARAMETERS.items() if one.flag}
    if parser is not None:
        flags |= {one.dest: one.option_strings[-1] for one in parser._actions if one.option_strings}
        own = {one.dest for one in parser._actions}
        flags = {name: flag for name, flag in flags.items() if name in own}
    for python, said in SAID.items():
        text = re.sub(rf"(?<![\w.]){re.escape(python)}(?![\w.=])", said, text)
    text = re.sub(r"(?<![\w.])path=(?=')", "", text)

    def named(match: re.Match[str]) -> str:
        flag = flags.get(match[1])
        return match[0] if flag is None else f"{flag}{' ' if match[2] else ''}"

    return re.sub(r"(?<![\w.\-])(?<!\w\()([a-z_]+)=(?=(['\"\w\-.…\[(])?)", named, text)
