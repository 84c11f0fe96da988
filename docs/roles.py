"""For the site: Sphinx's roles in docstrings, such as :meth:`fold_in`, become plain code in Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|attr|mod|data):`~?([^`]+)`")


class Roles(griffe.Extension):
    """Changes the docstrings that mkdocstrings reads, not those of the library."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for every object that was found."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
