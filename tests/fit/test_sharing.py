"""Arrays that processes of one machine share: found again as they are, never mistaken, never left behind."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from nmar.data.storage import Storage
from nmar.fit import sharing
from nmar.fit.sharing import NotShared, SharedArrays, attach, detach
from nmar.fit.spool import Spool, load

pytestmark = pytest.mark.skipif(not SharedArrays.possible(), reason="this system has no memory to share by descriptor")


@pytest.fixture
def shared():
    made = SharedArrays()
    yield made
    made.close()
    detach(made.token)


def filled(shared, shape=(300, 40)):
    array = shared.empty(shape, np.float64)
    array[...] = np.random.default_rng(0).normal(size=shape)
    return array


def total(reference):
    return float(np.sum(attach(reference)))


def test_another_process_reads_an_array_and_what_is_written_to_it_later(shared):
    array = filled(shared)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(total, shared.reference(array)).result() == float(np.sum(array))
        array *= -1.0
        assert pool.submit(total, shared.reference(array)).result() == float(np.sum(array))


@pytest.mark.parametrize("part", [np.s_[:], np.s_[100:], np.s_[::2], np.s_[50:250, 3:], np.s_[::-1]])
def test_parts_of_an_array_are_found_too(part, shared):
    array = filled(shared, (300, 80))
    found = attach(shared.reference(array[part]))
    np.testing.assert_array_equal(found, array[part])
    assert found.strides == array[part].strides and found.flags.writeable
    assert array.ctypes.data % 64 == 0


def test_other_arrays_and_small_ones_are_not_referred_to(shared):
    array = filled(shared)
    assert shared.reference(array.copy()) is None
    assert shared.reference(array[:3]) is None
    assert shared.reference("text") is None
    assert shared.reference(filled(SharedArrays())) is None


def test_the_memory_of_another_machine_is_refused(shared):
    reference = shared.reference(filled(shared))
    for wrong in (
        replace(reference, token=b"0" * 16),  # a process of the same number elsewhere
        replace(reference, size=reference.size + 1),
        replace(reference, process=2**22 + 1),
        replace(reference, descriptor=10**6),
    ):
        with pytest.raises(NotShared, match=rf"process {wrong.process}"):
            attach(wrong)


def test_what_is_closed_cannot_be_mapped_any_more_and_stays_readable_here():
    shared = SharedArrays()
    array = filled(shared)
    reference = shared.reference(array)
    before = float(np.sum(array))
    shared.close()
    with pytest.raises(NotShared):
        attach(reference)
    assert float(np.sum(array)) == before and shared.reference(array) is None


def test_detached_arrays_are_forgotten(shared):
    attach(shared.reference(filled(shared)))
    assert [key for key in sharing.attached if key[2] == shared.token]
    detach(shared.token)
    assert not [key for key in sharing.attached if key[2] == shared.token]


def test_a_record_names_shared_arrays_and_holds_others(shared, tmp_path):
    spool, array, own = Spool(Storage(str(tmp_path))), filled(shared), np.arange(20_000.0)
    record = {"shared": (array, array[10:]), "own": own}
    name = spool.put(record, shared.reference)
    assert own.nbytes < os.path.getsize(tmp_path / name) < own.nbytes + 4096
    found = load(spool.storage, name)
    np.testing.assert_array_equal(found["shared"][0], array)
    np.testing.assert_array_equal(found["shared"][1], array[10:])
    np.testing.assert_array_equal(found["own"], own)
    array[0, 0] = 7.0
    assert found["shared"][0][0, 0] == 7.0
    spool.close()
