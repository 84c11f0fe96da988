"""Options from TOML, errors in the words of the command line, completion, JSON, and the newer verbs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.cli.errors import in_options
from nmar.cli.main import VERBS, main, parsers
from nmar.data import write_frame

COLUMNS = ["--row", "user", "--col", "item", "--value", "stars"]
SMALL = ["--data", "factorization:2", "--linkage", "linear", "--factors", "3", "--max-iter", "3", "--quiet"]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words") / "train.csv"
    cells, _ = nmar.simulate((40, 20), nmar.Factorization(2), density=0.4, seed=0)
    lines = [f"u{i},{j},{y}" for i, j, y in zip(*cells.pairs(), cells.values, strict=True)]
    path.write_text("user,item,stars\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(train: Path) -> str:
    path = str(train.parent / "m.nmar")
    assert main(["fit", str(train), "-o", path, "--keep-seen", *SMALL, *COLUMNS]) == 0
    return path


def test_options_from_a_file(train: Path, model: str, tmp_path: Path, capsys) -> None:
    config = tmp_path / "nmar.toml"
    config.write_text(
        '[fit]\ndata = "factorization:2"\nlinkage = "linear"\nfactors = 2\nmax-iter = 3\nquiet = true\nrow = "user"\n'
        'col = "item"\nvalue = "stars"\n[compare]\nlinkage = ["linear", "free"]\n'
    )
    path = str(tmp_path / "m.nmar")
    assert main(["fit", str(train), "-o", path, "--config", str(config), "--factors", "3"]) == 0
    np.testing.assert_array_equal(nmar.load(path).bound_trace_, nmar.load(model).bound_trace_)
    for text, message in (
        ("[fit]\nrang = 3\n", "[fit] rang is no option of nmar fit; it has"),
        ("[fit]\nquiet = 1\n", "[fit] quiet = 1: this is a switch; write true or false"),
        ("[fit]\nfactors = {a = 1}\n", "write a text, a number or a list of them"),
        ("[fit\n", "is not TOML"),
        ("fit = 3\n", "fit is no table; write [fit] above its options"),
        ("[[fit]]\nrank = 3\n", "fit is no table"),
        ("[fit]\nrank = " + "[" * 5000, "is not TOML"),
    ):
        config.write_text(text)
        assert main(["fit", str(train), "-o", path, f"--config={config}"]) == 2
        assert message in capsys.readouterr().err
    assert main(["fit", str(train), "-o", path, "--config", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "python", "said"),
    [
        ("fit", "path='a.csv' has columns ['x']; name row=, col=", "'a.csv' has columns ['x']; name --row, --col"),
        ("fit", "row='usr' is not a column of path='a.csv'", "--row 'usr' is not a column of 'a.csv'"),
        ("fit", "factors=0; give at least 1", "--factors 0; give at least 1"),
        ("fit", "n_jobs=-3 and random_state='x'", "--jobs -3 and --seed 'x'"),
        ("fit", "pass duplicates='last', 'mean' or 'sum'", "pass --duplicates 'last', 'mean' or 'sum'"),
        ("fit", "pass header=False, or name the columns", "pass --no-header, or name the columns"),
        ("fit", "check the delimiter (delimiter=';', say)", "check the delimiter (--delimiter ';', say)"),
        ("predict", "remove them, or pass unknown='prior'", "remove them, or pass --unknown 'prior'"),
        ("fit", "after max_iter=3 sweeps; raise it, or go on with warm_start=True",
         "after --max-iter 3 sweeps; raise it, or go on with --resume from a --checkpoint"),
        ("recommend", "remove them, or fold in their cells (fold_in)",
         "remove them, or fold in their cells in Python (fold_in)"),
        ("fit", "bounds=(5.0, 1.0); give (low, high)", "--bounds (5.0, 1.0); give (low, high)"),
        ("transform", "leave their cells out (Cells.align with unknown='drop'), or extend the axis",
         "leave their cells out of the table"),
        ("predict", "factors=3 is not said here", "factors=3 is not said here"),
    ],
)  # fmt: skip
def test_errors_name_the_option(verb: str, python: str, said: str) -> None:
    assert in_options(python, parsers()[1][verb]) == said


def test_an_error_of_the_library_names_the_option(train: Path, tmp_path: Path, capsys) -> None:
    assert main(["fit", str(train), "-o", str(tmp_path / "m"), "--row", "usr"]) == 2
    assert "error: --row 'usr' is not a column of" in capsys.readouterr().err
    assert main(["fit", str(train), "-o", str(tmp_path / "m"), "--factors", "0", *COLUMNS]) == 2
    assert "error: --factors 0" in capsys.readouterr().err


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_a_warning_of_the_library_names_the_option(train: Path, tmp_path: Path, capsys) -> None:
    assert main(["fit", str(train), "-o", str(tmp_path / "m"), *SMALL, *COLUMNS]) == 0
    assert "after --max-iter 3 sweeps; raise it" in capsys.readouterr().err


def test_split(train: Path, tmp_path: Path, capsys) -> None:
    parts = [str(tmp_path / "train.csv"), str(tmp_path / "test.parquet")]
    columns = ("user", "item", "stars")

    def cells_of(table: nmar.Cells) -> set[tuple]:
        return set(zip(*table.pairs(), table.values, strict=True))

    assert main(["split", str(train), *parts, "--test", "0.25", *COLUMNS]) == 0
    whole, (learn, judge) = nmar.read(train, *columns), (nmar.read(path, *columns) for path in parts)
    assert cells_of(learn) | cells_of(judge) == cells_of(whole) and len(learn) + len(judge) == len(whole)
    assert len(judge) == round(0.25 * len(whole))
    assert main(["split", str(train), *parts, "--by", "rows", *COLUMNS]) == 0
    learn, judge = (nmar.read(path, *columns) for path in parts)
    assert not set(learn.row_ids) & set(judge.row_ids)
    assert main(["split", str(train), *parts, "--time", "stars", *COLUMNS]) == 0
    learn, judge = (nmar.read(path, *columns) for path in parts)
    assert learn.values.max() <= judge.values.min()
    capsys.readouterr()
    assert main(["split", str(train), *parts, "--test", "1.5", *COLUMNS]) == 2
    assert "--test 1.5 is not a fraction" in capsys.readouterr().err
    assert main(["split", str(train), str(tmp_path / "a.mtx"), parts[1], *COLUMNS]) == 2
    assert "TRAIN" in capsys.readouterr().err


def test_transform(train: Path, model: str, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("user,item,stars\nx,3,1.0\nx,4,0.5\ny,1,2.0\n")
    assert main(["transform", model, str(new), "-o", str(tmp_path / "f.csv"), *COLUMNS]) == 0
    lines = [line.split(",") for line in (tmp_path / "f.csv").read_text().splitlines()]
    assert lines[0] == ["user", "factor_1", "factor_2"] and [line[0] for line in lines[1:]] == ["x", "y"]
    exact = nmar.load(model).transform(nmar.read(new, "user", "item", "stars"))
    np.testing.assert_array_equal(np.array([line[1:] for line in lines[1:]], float), exact)


def test_impute(train: Path, model: str, tmp_path: Path, capsys) -> None:
    path = tmp_path / "draws.csv"
    assert main(["impute", model, "-n", "3", "--seed", "1", "-o", str(path)]) == 0
    lines = [line.split(",") for line in path.read_text().splitlines()]
    assert lines[0] == ["row", "col", "draw_1", "draw_2", "draw_3"]
    assert "taken to be like an observed one" in capsys.readouterr().err
    exact = nmar.load(model).impute(3, 1)
    np.testing.assert_array_equal(np.array([line[2:] for line in lines[1:]], float), exact.values)
    assert len(lines) - 1 == 40 * 20 - nmar.read(train, "user", "item", "stars").n_observed
    assert main(["impute", model, "-n", "300000", "-o", str(path)]) == 2
    assert (
        "ask for fewer with -n, take the rows in blocks with --rows and one seed, or name the cells in Python (cells=)"
        in capsys.readouterr().err
    )
    assert main(["impute", model, "-n", "3", "--seed", "1", "--rows", "u3", "u1", "-o", str(path)]) == 0
    block = nmar.load(model).impute(3, 1, rows=["u3", "u1"])
    found = [line.split(",") for line in path.read_text().splitlines()[1:]]
    assert {line[0] for line in found} == {"u1", "u3"}
    np.testing.assert_array_equal(np.array([line[2:] for line in found], float), block.values)
    bare = str(tmp_path / "bare.nmar")
    assert main(["fit", str(train), "-o", bare, *SMALL, *COLUMNS]) == 0
    assert main(["impute", bare, "-o", str(path)]) == 2
    assert "--keep-seen" in capsys.readouterr().err


def test_checkpoints_of_the_command_line(train: Path, model: str, tmp_path: Path, capsys) -> None:
    path, folder = str(tmp_path / "m.nmar"), str(tmp_path / "run")
    short = [*SMALL[:-3], "--max-iter", "2", "--quiet", "--checkpoint", folder, "--every", "1"]
    assert main(["fit", str(train), "-o", path, *short, *COLUMNS]) == 0
    assert list(Path(folder).iterdir())
    assert main(["fit", str(train), "-o", path, *short, "--resume", *COLUMNS]) == 0
    assert main(["fit", str(train), "-o", path, *SMALL, "--resume", *COLUMNS]) == 2
    assert "--resume needs --checkpoint" in capsys.readouterr().err


def test_json(train: Path, model: str, tmp_path: Path, capsys) -> None:
    capsys.readouterr()
    assert main(["fit", str(train), "-o", str(tmp_path / "m"), "--json", *SMALL, *COLUMNS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sweeps"] == 3 and found["stop_reason"] == "max_iter" and found["linkage"] == "linear"
    assert main(["recommend", model, "--rows", "u1", "u2", "--n", "2", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)
    assert [one["row"] for one in lists] == ["u1", "u1", "u2", "u2"]
    ids, scores = nmar.load(model).recommend(["u1", "u2"], n=2)
    assert [one["col"] for one in lists] == ids.ravel().tolist()
    assert [one["score"] for one in lists] == scores.ravel().tolist()
    settings = ["--rank", "2", "--factors", "2", "--max-iter", "3", "--quiet", "--json"]
    assert main(["test", str(train), *settings, *COLUMNS]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["p_value"] <= 1


def test_a_model_with_its_cells_leaves_them_out(model: str, capsys) -> None:
    assert main(["recommend", model, "--rows", "u1", "--n", "20"]) == 0
    shown = capsys.readouterr()
    assert "--seen" not in shown.err
    seen = nmar.load(model).training_cells_
    mine = set(seen.col_ids[seen.col_index[seen.row_ids[seen.row_index] == "u1"]].tolist())
    assert not mine & {int(line.split("\t")[1]) for line in shown.out.splitlines()[1:]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys, tmp_path: Path) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS) and ("--unknown" in script or "-l unknown" in script)
    if shell == "bash" and shutil.which("bash"):
        ask = '\nCOMP_WORDS=(nmar {}); COMP_CWORD={}; _shtab_nmar; echo "${{COMPREPLY[@]}}"\n'
        asked = ask.format("re", 1) + ask.format("fit --solver m", 3) + ask.format("predict --lev", 2)
        found = subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True, check=True).stdout
        assert found.splitlines() == ["recommend report", "minibatch", "--level"]


def test_a_fit_says_what_it_chose_and_ratings_stay_in_their_range(tmp_path: Path, capsys) -> None:
    cells, _ = nmar.simulate((50, 30), nmar.Factorization(2), density=0.4, seed=0)
    stars = cells.map_values(lambda values: np.clip(np.round(3.0 + values), 1, 5))
    write_frame(
        tmp_path / "stars.csv", dict(zip(("user", "item", "rating"), (*stars.pairs(), stars.values), strict=True))
    )
    asked = ["fit", str(tmp_path / "stars.csv"), "--data", "factorization:2", "--max-iter", "4", "--quiet"]
    for bounds, told in (([], True), (["--bounds", "none"], False)):
        path = str(tmp_path / f"{told}.nmar")
        assert main([*asked, "-o", path, *bounds]) == 0
        said = capsys.readouterr().err
        assert "chosen: linkage ignorable (none was named); noise by row and column" in said
        assert ("predictions within 1 … 5 in steps of 1 (values are ratings)" in said) is told
        assert re.search(r"values scatter by 0\.\d+ around their means in a row and column of average noise", said)
        model = nmar.load(path)
        low, high = model.interval(*stars.pairs(), level=0.99)
        assert bool(low.min() >= 1.0 and high.max() <= 5.0) is told
        assert model.random_state == 0


def test_modules_show_what_is_theirs() -> None:
    for module in (nmar.plot, nmar.metrics, nmar.datasets):
        assert dir(module) == sorted(module.__all__)
