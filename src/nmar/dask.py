"""The library on a Dask cluster: ``nmar.dask.CCPF`` (docs/how-to/cluster.md)."""

from nmar.estimators.cluster import CCPF, dataset

__all__ = ["CCPF", "dataset"]
