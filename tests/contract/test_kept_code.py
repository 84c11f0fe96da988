"""Compiled code on disk: it must not outlive any of the sources it was made from."""

import importlib
import pkgutil

from numba.core import caching
from numba.core.dispatcher import Dispatcher

from nmar.kernels import numba as kernels
from nmar.kernels.numba import base as cpu_base
from nmar.kernels.numba.base import KernelCache, entry
from nmar.kernels.numba.loops import expect_loop


def all_compiled():
    modules = [
        importlib.import_module(each.name) for each in pkgutil.iter_modules(kernels.__path__, "nmar.kernels.numba.")
    ]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return [*found, expect_loop(None, 0)]


def test_every_kernel_is_kept_under_the_stamp_of_all_sources(monkeypatch):
    dispatchers = all_compiled()
    assert len(dispatchers) > 50
    assert all(isinstance(each._cache, KernelCache) for each in dispatchers)
    before = {each._cache._cache_file._index_path for each in dispatchers}
    monkeypatch.setattr(KernelCache, "stamp", "of other sources")
    after = {KernelCache(each.py_func)._cache_file._index_path for each in dispatchers}
    assert len(before) == len(after) > 50 and not before & after


def test_the_stamp_reads_all_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_base, "files", lambda package: tmp_path)
    seen = set()
    for name, text in (("a.py", "TILE = 1"), ("b.py", "print(TILE)"), ("a.py", "TILE = 2"), ("b.txt", "no source")):
        (tmp_path / name).write_text(text)
        seen.add(cpu_base.stamp_of_sources())
    assert len(seen) == 3


def test_without_a_place_to_write_kernels_are_compiled_and_not_kept(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(caching.config, "CACHE_LOCATOR_CLASSES", "")

    @entry
    def double(x):
        return 2 * x

    assert not isinstance(double._cache, KernelCache)
    assert double(3) == 6


def test_two_processes_that_compile_at_once_never_get_each_others_code(monkeypatch):
    """Both have read the index before either has written to it, and the first is late with its code."""
    caches = [KernelCache(test_the_stamp_reads_all_sources)._cache_file for _ in range(2)]
    caches[0].flush()
    late = []
    for each in caches:
        monkeypatch.setattr(each, "_load_index", dict)
    with monkeypatch.context() as first:
        first.setattr(caches[0], "_save_data", lambda *given: late.append(given))
        caches[0].save("one signature", "its code")
    caches[1].save("another", "another's code")
    caches[0]._save_data(*late[0])
    found = KernelCache(test_the_stamp_reads_all_sources)._cache_file
    assert found.load("another") == "another's code"
    assert found.load("one signature") in (None, "its code")
    found.flush()
