"""A sample of the mutants of benchmarks/fuzz.py: damaged and crafted files of every kind that the library reads."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("h5py")
if sys.platform != "linux":
    pytest.skip("children have limits that Linux knows", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_mutants_are_refused_or_answered(seed):
    from benchmarks.fuzz import campaign

    counted, failures = campaign(800, seed)
    assert failures == []
    assert sum(counted.values()) == 800
    for kind in ("model", "checkpoint", "dataset", "csv", "parquet", "mtx", "npz", "h5ad"):
        assert counted[f"{kind}: answered"] and counted[f"{kind}: refused"] + (kind == "checkpoint"), kind
