"""Public names have static types: a strict type checker finds wrong arguments of a user's script, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nmar

RIGHT = """
import nmar

cells, truth = nmar.simulate(shape=(20, 10), data=nmar.Factorization(2), seed=0)
model = nmar.CCPF(nmar.Factorization(2), nmar.Free(thinning=8), solver=nmar.Minibatch(), target="all").fit(cells)
ids, scores = model.recommend([0, 1], n=3, by="value")
mean = model.predict_entries([0], [1], unknown="prior")
result = nmar.compare(cells, "factorization:2", ["linear"])
text: str = result.text()
p: float = nmar.missingness_test(cells).p_value
"""
WRONG = {
    'model.recommend([0], by="vlaue")': "arg-type",
    "nmar.CCPF(linkage=3)": "arg-type",
    'nmar.CCPF(target="everything")': "arg-type",
    "nmar.CCPF(rang=2)": "call-arg",
    "nmar.Factorisation(2)": "attr-defined",
}


def checked(tmp_path, code):
    file = tmp_path / "script.py"
    file.write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout


@pytest.mark.slow
def test_a_strict_check_finds_what_is_wrong_and_no_more(tmp_path):
    pytest.importorskip("mypy")
    lines = [*RIGHT.strip().splitlines(), *WRONG]
    found = checked(tmp_path, "\n".join(lines) + "\n")
    errors = {int(line.split(":")[1]): line for line in found.splitlines() if ": error:" in line}
    assert sorted(errors) == list(range(len(lines) - len(WRONG) + 1, len(lines) + 1)), found
    for place, (code, kind) in zip(sorted(errors), WRONG.items(), strict=True):
        assert f"[{kind}]" in errors[place], code


@pytest.mark.slow
def test_no_public_name_is_any(tmp_path):
    pytest.importorskip("mypy")
    names = [name for name in nmar.__all__ if name != "__version__"]
    found = checked(tmp_path, "import nmar\n" + "\n".join(f"reveal_type(nmar.{name})" for name in names))
    shown = [line for line in found.splitlines() if "Revealed type" in line]
    assert len(shown) == len(names), found
    assert not [line for line in shown if 'is "Any"' in line]
