"""Makes the oracle (tests/oracle/enumeration.py, problems.py) importable from every folder, and compiles little.

Loops that are compiled for the widths of their lines take seconds each, and tests use many widths. The loop for all
widths gives the same numbers (tests/contract/test_widths.py), so the tests run on it.
"""

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of scikit-learn's trees wait for each other where cores are few
os.environ.setdefault("NMAR_FIXED_WIDTHS", "0")  # before nmar is imported, and for the processes that tests start
SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
SAMPLE = hashlib.sha256(b"".join(file.read_bytes() for file in SOURCES)).hexdigest()[:8]  # of these sources, always
os.environ.setdefault("NMAR_TEST_SAMPLE", SAMPLE)  # before xdist starts its processes
for _folder in ("oracle", "contract"):
    sys.path.insert(0, str(Path(__file__).parent / _folder))


def pytest_report_header():
    """How to run the same cases of wide tables again."""
    return f"wide tables: NMAR_TEST_SAMPLE={os.environ['NMAR_TEST_SAMPLE']}"


@pytest.fixture(scope="session")
def linked():
    """Cells whose spread falls with the latent count."""
    import nmar

    cells, _ = nmar.simulate((120, 80), nmar.Factorization(2), nmar.Geometric(-0.8), density=0.35, seed=1)
    return cells


@pytest.fixture(scope="session")
def comparison(linked):
    """A comparison of all kinds of fits."""
    import nmar

    settings = {"factors": 3, "max_iter": 25, "seeds": 1, "n_jobs": 1, "name": "sim <1>"}
    return nmar.compare(linked, nmar.Factorization(2), ["linear", "free"], **settings)


@pytest.fixture
def ctrl_c_is_heard():
    """SIGINT raises KeyboardInterrupt: a shell that runs the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
