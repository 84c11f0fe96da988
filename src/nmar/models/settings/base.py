"""What every choice of a data model can do."""

from __future__ import annotations

from typing import Protocol

from nmar.data.cells import Cells
from nmar.models.protocol import DataModel


class Settings(Protocol):
    """A choice of data model."""

    def build(self, cells: Cells | None) -> DataModel:
        """The model for these cells."""
        ...

    def describe(self) -> str:
        """A short name for tables."""
        ...
