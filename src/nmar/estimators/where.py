"""Where a fit runs: in threads of this process, or on a Dask cluster."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, Literal

from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.data.storage import Storage
from nmar.fit.cluster import default_client, on_cluster, on_one_machine
from nmar.models.arguments import check_choice


@dataclass(frozen=True)
class Where:
    """A place to run."""

    executor: Literal["dask"] | None = None  # threads of this process (None), or a Dask cluster
    client: Any = None  # client of the cluster; None: that of this process
    # folder that this process can write to and all workers can read; None: beside the dataset's files
    scratch: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.scratch is not None and not self.remote:
            raise ValueError(f"scratch={os.fspath(self.scratch)!r} is for executor='dask'; this process needs none")

    @property
    def remote(self) -> bool:
        """Whether that is a cluster."""
        check_choice("executor", self.executor, (None, "dask"))
        return self.executor == "dask" or self.client is not None

    def check_here(self, what: str, memory: Any) -> None:
        """Refuse a cluster, and a limit of memory, for fits that only threads of this process make."""
        if self.remote or memory is not None:
            told = "executor, client and scratch" if self.remote else f"memory={memory!r}"
            raise ValueError(f"{what} runs in this process, with what memory it needs; leave {told} out")

    @contextmanager
    def prepared(self, cells: Cells) -> Iterator[tuple[Where, Cells]]:
        """This place and the cells as it can read them.

        A cluster reads files, and cells in memory are written to the scratch folder. Where there is none, and all
        workers are on this machine, a temporary folder serves for as long as this lasts.
        """
        if not self.remote or not cells.in_memory or self.scratch is not None:
            yield self, self._stored(cells)
            return
        client = default_client() if self.client is None else self.client
        if not on_one_machine(client):
            raise ValueError(
                "a cluster of several machines reads cells from files: pass nmar.Dataset, or scratch='folder' that all"
                " workers can read, and the cells are written there"
            )
        with TemporaryDirectory(prefix="nmar-") as folder:
            here = replace(self, client=client, scratch=folder)
            yield here, here._stored(cells)

    def _stored(self, cells: Cells) -> Cells:
        """Cells in memory as files in the scratch folder, for a cluster."""
        if not self.remote or not cells.in_memory:
            return cells
        assert self.scratch is not None
        return Dataset.from_cells(cells, os.path.join(os.fspath(self.scratch), f"cells-{secrets.token_hex(4)}"))

    @contextmanager
    def running(self, cells: Cells, n_jobs: int | None) -> Iterator[Any]:
        """The executor on a cluster, or None for threads."""
        if not self.remote:
            yield None
            return
        client = default_client() if self.client is None else self.client
        with on_cluster(client, self._folder(cells), n_jobs) as executor:
            yield executor

    def _folder(self, cells: Cells) -> Storage:
        if self.scratch is not None:
            return Storage(os.fspath(self.scratch))
        assert isinstance(cells, Dataset)
        return Storage(cells.storage.path("_spool"), cells.storage.options)
