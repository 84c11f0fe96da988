"""The way from ``CCPF.fit`` to the compiled loop is short enough to be read in one screen (docs/architecture.md)."""

import traceback

import nmar
from nmar.kernels.numba import kernels

MOST = 14  # frames, the compiled loop among them


def test_few_frames_lie_between_fit_and_the_compiled_loop(monkeypatch):
    cells, _ = nmar.simulate((60, 40), nmar.Factorization(2), density=0.3, seed=0)
    loop, stacks = kernels.expect_loop, []

    def expect_loop(*given):
        stacks.append([frame.name for frame in traceback.extract_stack()])
        return loop(*given)

    monkeypatch.setattr(kernels, "expect_loop", expect_loop)
    nmar.CCPF(nmar.Factorization(2), "free", factors=2, max_iter=2, n_jobs=1, random_state=0).fit(cells)
    names = stacks[-1]
    way = names[names.index("fit") :]
    assert len(way) <= MOST, way
    assert way[:5] == ["fit", "train", "finish", "run", "sweep_batch"]
