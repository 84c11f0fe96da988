"""The command line, through ``main``: a round trip, every verb's help, and errors in one line."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nmar
from nmar.cli.main import VERBS, main
from nmar.cli.names import parse_data
from nmar.evaluate.gains import Judges
from nmar.evaluate.scoring import score
from nmar.report.single import model_page

COLUMNS = ["--row", "user", "--col", "item", "--value", "stars"]
SMALL = ["--data", "factorization:2", "--factors", "3", "--max-iter", "4", "--jobs", "1", "--quiet"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.csv and test.csv with text ids for rows and numbers for columns."""
    folder = tmp_path_factory.mktemp("cli")
    cells, _ = nmar.simulate((50, 30), nmar.Factorization(2), nmar.Linear(0.3), density=0.4, seed=0)
    train, _, test = cells.split(seed=0)
    for name, part in (("train", train), ("test", test)):
        lines = [f"u{i:03d},{j},{y}" for i, j, y in zip(*part.positions(), part.values, strict=True)]
        (folder / f"{name}.csv").write_text("user,item,stars\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(files: Path) -> str:
    path = str(files / "m.nmar")
    assert main(["fit", str(files / "train.csv"), "-o", path, *SMALL, *COLUMNS]) == 0
    return path


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def test_evaluate(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", model, str(files / "test.csv"), "--json", "--unknown", "prior", *COLUMNS]) == 0
    found = json.loads(capsys.readouterr().out)
    test = nmar.read(files / "test.csv", "user", "item", "stars")
    assert found["log_likelihood"] == pytest.approx(nmar.load(model).log_likelihood(test, unknown="prior"), rel=1e-9)
    assert main(["evaluate", model, str(files / "train.csv"), *COLUMNS]) == 0
    assert "nats per cell" in capsys.readouterr().out


def test_evaluate_judges_lists(files: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = (nmar.read(files / f"{name}.csv", "user", "item", "stars") for name in ("train", "test"))
    asked = [
        str(files / "test.csv"),
        "--lists",
        "5",
        "--by",
        "regression",
        "--seen",
        str(files / "train.csv"),
        *COLUMNS,
    ]
    assert main(["evaluate", model, *asked, "--at-least", "0", "--unknown", "prior", "--json"]) == 0
    found, fitted = json.loads(capsys.readouterr().out), nmar.load(model)
    rows = np.unique(test.pairs()[0])
    listed = fitted.recommend(rows, 5, by="regression", seen=train, unknown="prior")[0]
    chance = fitted.observed_probability(*test.pairs(), unknown="prior")
    judged = (listed, rows, test, 5, 0.0)
    assert found["ndcg"] == pytest.approx(nmar.metrics.ndcg(*judged), rel=1e-9)
    assert found["average_precision"] == pytest.approx(nmar.metrics.average_precision(*judged), rel=1e-9)
    assert found["recall_inverse"] == pytest.approx(nmar.metrics.recall(*judged, propensity=chance), rel=1e-9)
    nmar.CCPF(nmar.PatternOnly(), factors=2, max_iter=3).fit(train).save(tmp_path / "p.nmar", seen=True)
    assert main(["evaluate", str(tmp_path / "p.nmar"), *asked, "--unknown", "prior"]) == 0
    assert "NDCG" in (said := capsys.readouterr().out) and "log likelihood" not in said
    assert main(["evaluate", str(tmp_path / "p.nmar"), str(files / "test.csv"), *COLUMNS]) == 2
    assert "no values to score" in capsys.readouterr().err
    chosen = ["--rows", "u001", "--candidates", "3", "7", "--by", "observed", "--json"]
    assert main(["recommend", model, *chosen]) == 0
    assert {one["col"] for one in json.loads(capsys.readouterr().out)} == {3, 7}


def by_user(files: Path) -> Path:
    """The test cells with values that are off by user, so that errors go together within rows."""
    lines = read(files / "test.csv")
    off = {user: 3.0 * (k % 2) for k, user in enumerate(sorted({line["user"] for line in lines}))}
    path = files / "by_user.csv"
    body = [f"{one['user']},{one['item']},{float(one['stars']) + off[one['user']]}" for one in lines]
    path.write_text("\n".join(["user,item,stars", *body]) + "\n")
    return path


def test_evaluate_has_the_error_of_comparisons(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, common = by_user(files), ["--unknown", "prior", *COLUMNS]
    assert main(["evaluate", model, str(path), "--json", *common]) == 0
    found, test = json.loads(capsys.readouterr().out), nmar.read(path, "user", "item", "stars")
    each = nmar.load(model).log_density(test, unknown="prior")
    assert found["se"] > 1.3 * each.std(ddof=1) / np.sqrt(len(each))
    assert found["se"] == pytest.approx(Judges.of([test]).average([each]).se, rel=1e-9)
    assert "rows" in found["se_is"] and "columns" in found["se_is"]
    assert main(["evaluate", model, str(path), *common]) == 0
    assert found["se_is"] in capsys.readouterr().out


def test_the_report_has_the_error_of_evaluate(files: Path, model: str) -> None:
    test = nmar.read(by_user(files), "user", "item", "stars")
    fitted = nmar.load(model)
    page = model_page(fitted, test)
    se = Judges.of([test]).average([score(fitted.posterior_, test).predictive]).se
    assert f"± {se:.4f}" in page and "± is one standard error" in page


def test_predict(files: Path, model: str) -> None:
    (files / "pairs.csv").write_text("item,user\n3,u001\n5,u002\n")
    target = files / "out.csv"
    columns = ["--row", "user", "--col", "item"]
    assert main(["predict", model, str(files / "pairs.csv"), "-o", str(target), "--level", "0.9", *columns]) == 0
    lines = read(target)
    mean = nmar.load(model).predict_entries(["u001", "u002"], [3, 5])
    assert [float(line["mean"]) for line in lines] == pytest.approx(mean.tolist())
    assert [line["user"] for line in lines] == ["u001", "u002"]
    assert all(float(line["low"]) < float(line["mean"]) < float(line["high"]) for line in lines)


def test_predict_unknown_id(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "new.csv").write_text("row,col\nnobody,3\n")
    arguments = ["predict", model, str(files / "new.csv"), "-o", str(files / "new_out.csv")]
    assert main(arguments) == 2
    assert "nobody" in capsys.readouterr().err and not (files / "new_out.csv").exists()
    assert main([*arguments, "--unknown", "prior"]) == 0


def test_recommend(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    seen = str(files / "train.csv")
    assert main(["recommend", model, "--rows", "u001", "--n", "3", "--seen", seen, *COLUMNS]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    train = nmar.read(seen, "user", "item", "stars")
    known = set(train.col_ids[train.col_index[train.row_ids[train.row_index] == "u001"]].tolist())
    assert len(lines) == 3 and not known & {int(line[1]) for line in lines}
    scores = [float(line[2]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    assert main(["recommend", model, "--rows", "u001", "--n", "2", "--by", "observed"]) == 0
    assert "--seen" in capsys.readouterr().err


def test_report(files: Path, model: str) -> None:
    assert main(["report", model, "--test", str(files / "test.csv"), *COLUMNS]) == 0
    assert "<svg" in (files / "m.html").read_text(encoding="utf-8")


def test_compare(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, table = files / "report.html", files / "table.csv"
    arguments = ["--linkage", "linear", "--seeds", "1", "-o", str(page), "--csv", str(table), *SMALL, *COLUMNS]
    assert main(["compare", str(files / "train.csv"), *arguments]) == 0
    shown = capsys.readouterr()
    assert "linear (tail)" in shown.out and "Recommended: " in shown.out and str(page) in shown.err
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    linkages = ["ignorable", "taste", "taste", "two-stage", "linear", "linear"]
    assert [line["linkage"] for line in read(table)] == linkages
    assert [line["control"] for line in read(table)] == ["", "", "shuffled", "", "", "tail"]


@pytest.mark.slow
def test_compare_on_a_split_of_ones_own(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--test-file",
        str(files / "test.csv"),
        "--linkage",
        "linear",
        "--no-control",
        "--no-two-stage",
        "--no-taste",
    ]
    output = ["-o", str(files / "own.html")]
    assert main(["compare", str(files / "train.csv"), *arguments, *output, *SMALL, *COLUMNS]) == 0
    shown = capsys.readouterr().out
    assert "linear" in shown and "(tail)" not in shown and "taste" not in shown


def test_fit_of_controls_and_thinned_linkages(files: Path) -> None:
    train, path = str(files / "train.csv"), str(files / "control.nmar")
    arguments = ["--linkage", "free,s=8", "--control", "tail", "--starts", "auto", *SMALL, *COLUMNS]
    assert main(["fit", train, "-o", path, *arguments]) == 0
    known = nmar.load(path).posterior_
    assert known.law.control and known.state.shared.linkage.thinning == 8.0
    arguments = ["--mechanism", "taste", "--control", "shuffled", *SMALL, *COLUMNS]
    assert main(["fit", train, "-o", path, *arguments]) == 0
    model = nmar.load(path)
    assert model.control == "shuffled" and model.posterior_.law.taste is not None


def test_test(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rank", "2", "--factors", "3", "--max-iter", "4", "--jobs", "1", "--quiet"]
    assert main(["test", str(files / "train.csv"), "-o", str(files / "bins.csv"), *arguments, *COLUMNS]) == 0
    assert "F(1, " in capsys.readouterr().out and read(files / "bins.csv")
    both = ["--folds", "2", "--tested", "1", "--paired", "--json"]
    assert main(["test", str(files / "train.csv"), *both, *arguments, *COLUMNS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.0 <= found["paired_p_value"] <= 1.0 and {"statistic", "p_value", "paired_gain", "paired_se"} <= set(found)


def test_simulate_and_convert(tmp_path: Path) -> None:
    first = tmp_path / "sim.csv"
    arguments = [
        "--shape",
        "30",
        "20",
        "--density",
        "0.3",
        "--data",
        "factorization:2",
        "--linkage",
        "linear:0.2",
    ]
    assert main(["simulate", "-o", str(first), *arguments]) == 0
    previous = first
    for name in ("a.parquet", "b.npz", "c.tsv", "d.mtx", "e.csv"):
        assert main(["convert", str(previous), str(tmp_path / name)]) == 0
        previous = tmp_path / name
    one, other = nmar.read(first), nmar.read(previous)
    assert np.array_equal(np.sort(one.values), np.sort(other.values))


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    from nmar.kernels.numba.base import KernelCache

    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "kernel check  ok" in shown and "numba" in shown
    folder, count = re.search(r"kernel cache  (.*) \((\d+) compiled functions", shown).groups()  # type: ignore[union-attr]
    files = list(Path(folder).glob("*.nbi"))
    assert int(count) == sum(KernelCache.stamp[:16] in file.name for file in files) > 20


NAMES = ["factorization:3", "factorization:4:diagonal", "poisson-factorization:5", "mixture:3:rows"]
NAMES += [
    "mixture:4:cols",
    "poisson-mixture:2:rows",
    "effects:rows",
    "poisson-effects:both",
    "constant:gamma",
]
WRONG = ["cubic", "factorization:3:full:x", "mixture:3:up", "constant:beta", "effects:2:3"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_data_models_go_both_ways(name: str) -> None:
    assert parse_data(name).describe() == name


@pytest.mark.parametrize("name", ["cubic", "factorization:3:full:x", "mixture:3:up", "constant:beta", "effects:2:3"])
def test_wrong_names_of_data_models(name: str) -> None:
    with pytest.raises(ValueError, match=f"--data '{name}'"):
        parse_data(name)


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"nmar {verb}" in capsys.readouterr().out.split("example:")[1]


def test_no_verb_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "nmar compare movielens" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nmar {nmar.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "absent.csv", "-o", "x.nmar"], "absent.csv"),
        (["fit", "{train}", "-o", "x.nmar", "--row", "nobody"], "nobody"),
        (["fit", "{train}", "-o", "x.nmar", "--data", "cubic:3"], "cubic:3"),
        (["fit", "{train}", "-o", "x.nmar", "--data", "factorization:many"], "many"),
        (["fit", "{train}", "-o", "x.nmar", "--linkage", "wavy"], "wavy"),
        (["fit", "{train}", "-o", "x.nmar", "--linkage", "free:2"], "no parameter c"),
        (["fit", "{train}", "-o", "x.nmar", "--linkage", "linear:0.7"], "below 0.5"),
        (["fit", "{train}", "-o", "x.nmar", "--linkage", "free,t=2"], "write s=8"),
        (["fit", "{train}", "-o", "x.nmar", "--linkage", "free,s=many"], "s='many' is not a number"),
        (["fit", "{train}", "-o", "x.nmar", "--starts", "many"], "--starts: invalid int or auto value: 'many'"),
        (
            ["fit", "{train}", "-o", "x.nmar", "--control", "shuffled"],
            "--control 'shuffled' is the control of --mechanism 'taste'",
        ),
        (["compare", "{train}", "--test-file", "{train}"], "cells in common"),
        (["fit", "{train}", "-o", "x.nmar", "--factor", "3"], "--factor"),
        (["fit", "{train}", "-o", "x.nmar", "--factors", "0"], "--factors 0"),
        (["evaluate", "{train}", "{train}"], "not a complete"),
        (["compare", "{train}", "-o", "absent/report.html"], "absent"),
        (["convert", "{train}", "x.docx"], "x.docx"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_errors_are_one_line(
    files: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([a.format(train=files / "train.csv") for a in arguments]) == 2
    shown = capsys.readouterr()
    last = shown.err.strip().splitlines()[-1]
    assert message in last and "error:" in last and "Traceback" not in shown.err
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(FileNotFoundError):
        main(["fit", "absent.csv", "-o", "x.nmar", "--debug"])


def test_help_is_light() -> None:
    heavy = ["numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib", "rich"]
    found = f"print([m for m in {heavy} if m in sys.modules])"
    code = f"import sys; from nmar.cli.main import main; main(['--help']); {found}"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"


def test_lists_of_all_rows_with_names(files: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet

    (files / "films.csv").write_text("film,title,year\n3,Alien,1979\n5,Brazil,1985\n")
    seen = ["--seen", str(files / "train.csv"), *COLUMNS]
    names = ["--labels", str(files / "films.csv")]
    target = str(files / "lists.parquet")
    assert main(["recommend", model, "--n", "30", "-o", target, *names, *seen]) == 0
    table = pyarrow.parquet.read_table(target).to_pydict()
    assert list(table) == ["row", "rank", "col", "label", "score"]
    assert set(table["row"]) == set(nmar.load(model).posterior_.rows.ids.tolist())
    titles = {3: "Alien", 5: "Brazil"}
    assert [str(titles.get(col, col)) for col in table["col"]] == table["label"]
    assert main(["recommend", model, "--rows", "u001", *names]) == 0
    assert capsys.readouterr().out.startswith("row\tcol\tlabel\tscore\nu001\t")
    assert main(["recommend", model]) == 2
    assert "name a file with --output, or rows with --rows" in capsys.readouterr().err
