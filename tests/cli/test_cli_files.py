"""Standard input and output, queries, and outputs that are looked at before the work."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.cli.main import main

COLUMNS = ["--row", "user", "--col", "item", "--value", "stars"]
SMALL = [
    "--data",
    "factorization:2",
    "--linkage",
    "linear",
    "--factors",
    "3",
    "--max-iter",
    "3",
    "--jobs",
    "1",
    "--quiet",
]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an index."""
    path = tmp_path_factory.mktemp("files") / "train.csv"
    cells, _ = nmar.simulate((40, 20), nmar.Factorization(2), density=0.4, seed=0)
    lines = [f"{k},u{i},{j},{y}" for k, (i, j, y) in enumerate(zip(*cells.pairs(), cells.values, strict=True))]
    path.write_text("line,user,item,stars\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def model(train: Path) -> str:
    path = str(train.parent / "m.nmar")
    assert main(["fit", str(train), "-o", path, *SMALL, *COLUMNS]) == 0
    return path


class Standard:
    """Standard input that holds these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_standard_input_and_output(train: Path, model: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", Standard(train.read_bytes()))
    again = str(train.parent / "again.nmar")
    assert main(["fit", "-", "-o", again, *SMALL, *COLUMNS]) == 0
    np.testing.assert_array_equal(nmar.load(again).bound_trace_, nmar.load(model).bound_trace_)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", Standard(b"user,item\nu1,2\n"))
    assert main(["predict", model, "-", "-o", "-"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head == "user,item,mean,std,observed_probability"
    mean, std = nmar.load(model).predict_entries(["u1"], [2], return_std=True)
    assert [float(number) for number in line.split(",")[2:4]] == [mean[0], std[0]]


def test_parquet_from_standard_input(train: Path, tmp_path: Path, monkeypatch) -> None:
    parquet = tmp_path / "a.parquet"
    assert main(["convert", str(train), str(parquet), *COLUMNS]) == 0
    monkeypatch.setattr(sys, "stdin", Standard(parquet.read_bytes()))
    assert main(["convert", "-", str(tmp_path / "b.csv"), *COLUMNS]) == 0
    assert nmar.read(tmp_path / "b.csv").n_observed == nmar.read(parquet).n_observed


def test_columns_of_the_command_line_are_not_guessed(train: Path, model: str, tmp_path: Path, capsys) -> None:
    other = tmp_path / "other.csv"
    other.write_text(train.read_text().replace("user,item,stars", "who,what,much"))
    assert main(["convert", str(other), str(tmp_path / "a.csv")]) == 2
    assert "['line', 'who', 'what', 'much']" in capsys.readouterr().err
    assert main(["predict", model, str(other), "-o", str(tmp_path / "a.csv")]) == 2
    assert "name two of them with --row and --col" in capsys.readouterr().err


def test_usual_names_need_no_options(train: Path, model: str, tmp_path: Path, capsys) -> None:
    assert main(["convert", str(train), str(tmp_path / "a.csv")]) == 0
    assert nmar.read(tmp_path / "a.csv").row_ids[0] == nmar.read(train, "user", "item", "stars").row_ids[0]
    assert main(["predict", model, str(train), "-o", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "b.csv").read_text().startswith("user,item,mean,std,")


def test_wide_files(train: Path, tmp_path: Path, capsys) -> None:
    pandas = pytest.importorskip("pandas")
    cells = nmar.read(train)
    long = cells.to_frame("who", "what", "much")
    wide, path = tmp_path / "wide.csv", str(tmp_path / "m.nmar")
    long.pivot(index="who", columns="what", values="much").to_csv(wide)
    short = ["--data", "effects", "--factors", "2", "--max-iter", "2", "--quiet"]
    assert main(["fit", str(wide), "--wide", "--index", "who", "-o", path, *short]) == 0
    model = nmar.load(path)
    assert model.posterior_.rows.name == "who" and model.posterior_.rows.ids.tolist() == cells.row_ids.tolist()
    assert main(["evaluate", path, str(wide), "--wide", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == len(cells)
    assert main(["fit", str(wide), "--index", "who", "-o", path, *short]) == 2
    assert "--index 'who' is the column of row ids in a wide table; pass --wide" in capsys.readouterr().err
    assert main(["convert", "movielens", str(tmp_path / "a.csv"), "--wide"]) == 2
    assert "--wide: 'movielens' is a data set by name" in capsys.readouterr().err
    assert pandas.read_csv(wide).shape == (cells.shape[0], cells.shape[1] + 1)


def test_queries(train: Path, tmp_path: Path, capsys) -> None:
    duckdb = pytest.importorskip("duckdb")
    everything = nmar.read(train, "user", "item", "stars")
    query = "SELECT user, item, stars FROM data WHERE item < 10"
    assert main(["convert", str(train), str(tmp_path / "a.csv"), "--sql", query]) == 0
    found = nmar.read(tmp_path / "a.csv", "row", "col", "value")
    assert found.n_observed == int((everything.col_ids[everything.col_index] < 10).sum())
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.execute(f"CREATE TABLE ratings AS SELECT * FROM '{train}'")
    cells = nmar.read_sql("FROM ratings", tmp_path / "a.duckdb", row="user", col="item", value="stars")
    np.testing.assert_array_equal(cells.values, everything.values)
    other = "SELECT line, user AS who, item AS what, stars AS much FROM ratings"
    with pytest.raises(ValueError, match=r"the answer of the query has columns \['line', 'who'.*name them with row="):
        nmar.read_sql(other, tmp_path / "a.duckdb")
    with pytest.raises(ValueError, match="without a line"):
        nmar.read_sql("SELECT user, item, stars FROM ratings WHERE item < 0", tmp_path / "a.duckdb")
    assert main(["convert", str(train), str(tmp_path / "b.csv"), "--sql", "SELECT nothing FROM data"]) == 2
    assert "the query failed" in capsys.readouterr().err


def locked(tmp_path: Path) -> str:
    """A place that nobody can write: a file where a folder is meant."""
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "out")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "{train}", "-o", "{out}.nmar"],
        ["compare", "{train}", "-o", "{out}.html"],
        ["compare", "{train}", "--csv", "{out}.csv"],
        ["test", "{train}", "-o", "{out}.csv"],
        ["evaluate", "{model}", "{train}", "-o", "{out}.csv"],
        ["predict", "{model}", "{train}", "-o", "{out}.csv"],
        ["recommend", "{model}", "--rows", "u1", "-o", "{out}.csv"],
        ["report", "{model}", "-o", "{out}.html"],
        ["convert", "{train}", "{out}.csv"],
        ["simulate", "-o", "{out}.csv"],
        ["predict", "{model}", "{train}", "-o", "{folder}/a.xlsx"],
        ["fit", "{train}", "-o", "{folder}"],
        ["fit", "{train}", "-o", "{folder}/new/m.nmar"],
        ["fit", "{train}", "-o", "-"],
    ],
)
def test_outputs_are_checked_before_the_work(arguments, train: Path, model: str, tmp_path: Path, monkeypatch, capsys):
    def never(*_args, **_settings):
        raise AssertionError("the work was begun")

    for module, name in (("data.read", "read"), ("estimators.ccpf", "load"), ("fit.simulate", "simulate")):
        monkeypatch.setattr(importlib.import_module(f"nmar.{module}"), name, never)
    names = {"train": train, "model": model, "out": locked(tmp_path), "folder": tmp_path}
    monkeypatch.chdir(tmp_path)
    assert main([one.format(**names) for one in arguments]) == 2
    shown = capsys.readouterr().err
    assert "error: " in shown and "the work" not in shown
    assert {"--output", "--csv", "OUT"} & set(shown.split())


def test_json_writes_no_report(train: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["--data", "effects", "--linkage", "linear", "--no-taste", "--no-two-stage", "--no-control", "--factors"]
    short = [*quick, "2", "--seeds", "1", "--max-iter", "2", "--quiet"]
    assert main(["compare", str(train), "--json", *short]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] and not list(tmp_path.glob("*.html"))
    assert main(["compare", str(train), "--json", "-o", "r.html", *short]) == 0
    assert [path.name for path in tmp_path.glob("*.html")] == ["r.html"]


@pytest.mark.parametrize("kept", [[], ["--keep-seen"]])
def test_training_cells_are_told(kept, train: Path, tmp_path: Path, capsys) -> None:
    path, other = str(tmp_path / "m.nmar"), tmp_path / "other.csv"
    lines = train.read_text().splitlines()
    short = ["--data", "effects", "--factors", "2", "--max-iter", "2", "--quiet"]
    assert main(["fit", str(train), "-o", path, *kept, *short]) == 0
    capsys.readouterr()
    assert main(["evaluate", path, str(train), "--json"]) == 0
    shown = capsys.readouterr()
    assert "324 of these 324 cells are training cells" in shown.err
    assert json.loads(shown.out)["training_cells"] == 324
    other.write_text("\n".join(lines[:30]) + "\n")
    assert main(["evaluate", path, str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.get("training_cells") == (29 if kept else None)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_permission(train: Path, tmp_path: Path, capsys) -> None:
    tmp_path.chmod(0o500)
    assert main(["fit", str(train), "-o", str(tmp_path / "m.nmar")]) == 2
    assert "cannot be written" in capsys.readouterr().err


NAMED = "movielens"


@pytest.fixture
def unread(monkeypatch) -> None:
    """Data sets by name that must not be read."""
    from nmar.data import datasets

    monkeypatch.setattr(datasets, "load", lambda name: pytest.fail("options were ignored"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["test", NAMED],
        ["compare", NAMED],
        ["compare", NAMED, "--test-file", NAMED],
        ["fit", NAMED, "-o", "{out}.nmar"],
        ["fit", NAMED, "-o", "{out}.nmar", "--valid", NAMED],
        ["evaluate", "{model}", NAMED],
        ["transform", "{model}", NAMED, "-o", "{out}.csv"],
        ["report", "{model}", "--test", NAMED],
        ["recommend", "{model}", "--rows", "u1", "--seen", NAMED],
    ],
)
@pytest.mark.parametrize(
    "options",
    [["--row", "x"], ["--col", "x"], ["--value", "x"], ["--weight", "w"], ["--duplicates", "sum"], ["--layer", "x"],
     ["--delimiter", ";"], ["--no-header"], ["--text-ids"], ["--sql", "FROM data"]],
    ids=lambda options: options[0],
)  # fmt: skip
def test_options_of_files_are_refused_for_data_sets(
    arguments, options, model: str, tmp_path: Path, unread, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*(one.format(model=model, out=tmp_path / "out") for one in arguments), *options]) == 2
    shown = capsys.readouterr().err
    given = options[0] if len(options) == 1 else f"{options[0]} {options[1]!r}"
    assert f"error: {given}: 'movielens' is a data set by name" in shown, shown
    assert "'./movielens'" in shown


def test_all_options_that_would_be_ignored_are_named(unread, tmp_path: Path, capsys) -> None:
    given = ["--sql", "FROM data", "--weight", "w", "--row", "nonsense", "--duplicates", "sum"]
    assert main(["test", NAMED, *given]) == 2
    assert "--row 'nonsense', --weight 'w', --duplicates 'sum', --sql 'FROM data': " in capsys.readouterr().err
    parts = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    assert main(["split", NAMED, *parts, "--time", "timestamp"]) == 2
    assert "error: --time 'timestamp': 'movielens'" in capsys.readouterr().err
    for verb, outputs in (("convert", parts[:1]), ("split", parts)):
        assert main([verb, NAMED, *outputs, "--row", "user", "--delimiter", ";"]) == 2
        assert "error: --delimiter ';': 'movielens'" in capsys.readouterr().err, "--row names a column of the output"


def test_options_of_files_are_for_the_files_beside_a_data_set(train: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    from nmar.data import datasets

    head, *lines = train.read_text().splitlines()
    parts = (tmp_path / "learn.csv", tmp_path / "judge.csv")
    for path, part in zip(parts, ([one for one in lines if one not in lines[::10]], lines[::10]), strict=True):
        path.write_text("\n".join([head, *part]) + "\n")
    learn, judge = parts
    monkeypatch.setattr(datasets, "load", lambda name: nmar.read(learn, "user", "item", "stars"))
    path = str(tmp_path / "m.nmar")
    assert main(["fit", NAMED, "-o", path, "--hidden", str(judge), *SMALL, *COLUMNS]) == 0
    assert main(["fit", NAMED, "-o", path, "--hidden", str(judge), *COLUMNS, "--sql", "FROM data"]) == 2
    assert "--sql 'FROM data': 'movielens' is a data set by name" in capsys.readouterr().err, (
        "no query is of the others"
    )
    assert main(["convert", NAMED, str(tmp_path / "c.csv"), *COLUMNS]) == 0
    assert (tmp_path / "c.csv").read_text().startswith("user,item,stars\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test", "{train}", "--json", "-o", "-"], "--json and --output -"),
        (["evaluate", "{model}", "{train}", "--json", "-o", "-"], "--json and --output -"),
        (["recommend", "{model}", "--rows", "u1", "--json", "-o", "-"], "--json and --output -"),
        (["compare", "{train}", "--json", "-o", "-"], "--json and --output -"),
        (["compare", "{train}", "--json", "--csv", "-"], "--json and --csv -"),
        (["compare", "{train}", "-o", "-", "--csv", "-"], "--output - and --csv -"),
    ],
)
def test_two_results_do_not_share_standard_output(arguments, message, train: Path, model: str, capsys) -> None:
    capsys.readouterr()
    assert main([*(one.format(train=train, model=model) for one in arguments), *COLUMNS]) == 2
    shown = capsys.readouterr()
    assert f"error: {message} write to standard output; name a file for one of them" in shown.err and not shown.out


def test_ids_as_they_are_written(tmp_path: Path, capsys) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("user,item,stars\n007,1,1.5\n7,1,2.5\n")
    assert main(["convert", str(path), str(out), *COLUMNS]) == 2
    assert "'007' and '7' of column 'user' are one number; pass --text-ids to keep" in capsys.readouterr().err
    assert not out.exists()
    assert main(["convert", str(path), str(out), "--text-ids", *COLUMNS]) == 0
    assert out.read_text() == path.read_text()
    assert main(["convert", str(path), str(out), "--text-ids", "--sql", "FROM data"]) == 2
    assert "--text-ids: of a query" in capsys.readouterr().err


def test_weights_are_written(tmp_path: Path, capsys) -> None:
    path, weight = tmp_path / "a.csv", ["--weight", "times"]
    path.write_text("user,item,stars,times\na,1,1.5,2.0\na,2,3.5,4.0\nb,1,2.5,1.0\nb,2,5.0,3.0\n")
    assert main(["convert", str(path), str(tmp_path / "b.csv"), *COLUMNS, *weight]) == 0
    assert (tmp_path / "b.csv").read_text() == path.read_text()
    assert main(["convert", str(path), str(tmp_path / "b.npz"), *COLUMNS, *weight]) == 0
    assert nmar.read(tmp_path / "b.npz", weight="weight").weights.tolist() == [2.0, 4.0, 1.0, 3.0]
    assert main(["convert", str(path), str(tmp_path / "b.mtx"), *COLUMNS, *weight]) == 2
    assert "mtx has no place for weights" in capsys.readouterr().err
    parts = [str(tmp_path / name) for name in ("train.csv", "test.csv")]
    assert main(["split", str(path), *parts, "--test", "0.5", *COLUMNS, *weight]) == 0
    lines = [line for part in parts for line in Path(part).read_text().splitlines()[1:]]
    assert sorted(lines) == sorted(path.read_text().splitlines()[1:])
