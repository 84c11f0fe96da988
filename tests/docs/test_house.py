"""The sizes that keep the house readable: modules, functions, parameters, repeated code, and who reads what.

Compiled kernels are exempt from sizes: a compiled loop takes its arrays one by one. Public functions may have more
parameters than eight (`nmar.compare` has the settings of a fit), because their callers name them.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from pathlib import Path

import pytest
from test_public_names import CALLABLES

SRC = Path(__file__).parents[2] / "src" / "nmar"
COMPILED = SRC / "kernels" / "numba"
FILES = sorted(SRC.rglob("*.py"))
TESTS = sorted(file for file in Path(__file__).parents[1].rglob("*.py"))
MODULE, FUNCTION, PARAMETERS, RUN = 400, 60, 8, 12  # lines of a module and of a function, parameters, equal lines
PUBLIC = {one.__qualname__ for one in CALLABLES.values()} | {"Dataset.__init__", "CCPF.__init__"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = ""):
    """(qualified name, function) of a module, those inside functions too."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.ClassDef | Function)
        if isinstance(node, Function):
            yield prefix + node.name, node
        yield from functions(node, f"{prefix}{node.name}." if named else prefix)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Numbers of the lines that docstrings take."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            found |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return found


def long_functions(tree: ast.AST) -> list[str]:
    """Functions with more lines than allowed, docstrings not counted."""
    said = docstring_lines(tree)
    sizes = {name: len(set(range(one.lineno, one.end_lineno + 1)) - said) for name, one in functions(tree)}
    return [f"{name}: {size} lines" for name, size in sizes.items() if size > FUNCTION]


def crowded_functions(tree: ast.AST) -> list[str]:
    """Functions with more parameters than allowed."""
    found = []
    for name, one in functions(tree):
        given = one.args
        names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        count = len([each for each in names if each not in ("self", "cls")]) + (given.vararg is not None)
        if count + (given.kwarg is not None) > PARAMETERS and name not in PUBLIC:
            found.append(f"{name}: {count} parameters")
    return found


def outside_reads(tree: ast.AST) -> list[str]:
    """Reads of ``_seen``, as an attribute or by its name as a text."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == "_seen":
            found.append(f"line {node.lineno}: '_seen' as a text")
        if isinstance(node, ast.Attribute) and node.attr == "_seen":
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def code_lines(file: Path) -> list[tuple[int, str]]:
    """Number and text of the lines of code: no docstrings, comments, blanks, imports or lone brackets."""
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    away = docstring_lines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            away |= set(range(node.lineno, node.end_lineno + 1))
    lines = ((number, line.split("  # ")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(n, line) for n, line in lines if n not in away and line.strip("()[]{},: ") and not line.startswith("#")]


def repeated_runs(files: list[Path], run: int = RUN) -> list[str]:
    """Places where as many lines of code stand that stand elsewhere too."""
    places = defaultdict(list)
    for file in files:
        lines = code_lines(file)
        for start in range(len(lines) - run + 1):
            text = "\n".join(line for _, line in lines[start : start + run])
            places[hashlib.sha256(text.encode()).digest()].append(f"{file.name}:{lines[start][0]}")
    return [" = ".join(found) for found in places.values() if len(found) > 1]


def broken(check, files) -> dict[str, list[str]]:
    """What a check finds in files, by file."""
    found = {str(file.relative_to(SRC)): check(ast.parse(file.read_text("utf-8"))) for file in files}
    return {file: each for file, each in found.items() if each}


INTERPRETED = [file for file in FILES if COMPILED not in file.parents]


def test_modules_are_short():
    sizes = {str(file.relative_to(SRC)): file.read_text("utf-8").count("\n") for file in INTERPRETED}
    assert not {file: size for file, size in sizes.items() if size > MODULE}


@pytest.mark.parametrize("check", [long_functions, crowded_functions])
def test_functions_are_short_and_take_little(check):
    assert not broken(check, INTERPRETED)


def test_no_run_of_code_stands_twice():
    assert not repeated_runs(FILES)


def test_the_cells_of_a_model_are_read_inside_the_estimator_only():
    outside = [file for file in FILES if SRC / "estimators" not in file.parents]
    assert not broken(outside_reads, outside)


def private_names() -> set[str]:
    """Names with an underscore that modules, classes and their functions have."""
    found = set()
    for tree in (ast.parse(file.read_text("utf-8")) for file in FILES):
        found |= {name.rpartition(".")[2] for name, _ in functions(tree)}
        for node in tree.body:
            found |= {one.id for one in getattr(node, "targets", ()) if isinstance(one, ast.Name)}
    return {name for name in found if name.startswith("_") and not name.endswith("_")}


def private_uses(tree: ast.AST, private: set[str]) -> list[str]:
    """Private names that a test imports, reads or replaces."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("nmar", "benchmarks")):
            found += [one.name for one in node.names if one.name.startswith("_")]
        elif isinstance(node, ast.Attribute) and node.attr in private:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.split(".")[-1] in private:
            found.append(repr(node.value))
    return found


def test_tests_use_public_names():
    private = private_names()
    found = {file.name: private_uses(ast.parse(file.read_text("utf-8")), private) for file in TESTS}
    assert not {name: uses for name, uses in found.items() if uses}


def clocks(tree: ast.AST) -> list[str]:
    """Calls that wait or read a clock: a test that does fails on a busy machine."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls]
    return [name for name in names if name in ("sleep", "perf_counter", "monotonic", "process_time", "time")]


def test_tests_neither_wait_nor_read_a_clock():
    found = {file.name: clocks(ast.parse(file.read_text("utf-8"))) for file in TESTS}
    assert not {name: calls for name, calls in found.items() if calls}


def test_faults_are_found(tmp_path):
    body = "\n".join(f"    a{k} = {k}" for k in range(FUNCTION + 1))
    tree = ast.parse(
        f"def long():\n    '''Text.'''\n{body}\n\nclass A:\n    def f(self, a, b, c, d, e, f, g, h, i): x._seen\n"
    )
    assert long_functions(tree) and crowded_functions(tree) and outside_reads(tree)
    assert private_uses(ast.parse("from nmar.fit import _f\nx._g()\nset(y, '_g')"), {"_g"}) == ["_f", "x._g", "'_g'"]
    assert clocks(ast.parse("time.sleep(1)\nbegan = perf_counter()")) == ["sleep", "perf_counter"]
    twice = tmp_path / "twice.py"
    twice.write_text(f"def one():\n{body}\n\n\ndef two():\n    '''Text.'''\n{body}\n")
    assert repeated_runs([twice])
