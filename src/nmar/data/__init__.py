"""The outside world becomes `Cells`: files, frames and arrays enter; positions, values and ids leave."""

from nmar.data.axis import Axis
from nmar.data.cells import Cells, Compressed
from nmar.data.datasets import load, movielens
from nmar.data.read import read
from nmar.data.split import EntryKFold, leave_one_out, split, split_arrays
from nmar.data.write import write_frame

__all__ = [
    "Axis",
    "Cells",
    "Compressed",
    "EntryKFold",
    "leave_one_out",
    "load",
    "movielens",
    "read",
    "split",
    "split_arrays",
    "write_frame",
]
