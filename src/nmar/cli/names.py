"""Data models and linkages as the options of a command line name them; nothing heavy is imported at the top."""

from __future__ import annotations

from typing import Any

from nmar.fit.names import DATA_NAMES, data_named, linkage_named

DATA_HELP = f"data model: {DATA_NAMES}"
LINKAGE_HELP = "linkage: NAME, NAME:C to fix its parameter, NAME,s=8 for thinned counts"


def parse_data(text: str) -> Any:
    """A data model from the text of ``--data``."""
    return data_named(text, "--data")


def parse_linkage(text: str) -> Any:
    """A linkage from the text of ``--linkage``."""
    return linkage_named(text, "--linkage")
