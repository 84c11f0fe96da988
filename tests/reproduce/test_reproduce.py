"""The paper's tables: its numbers, the data that stand for its own, finished comparisons, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nmar
from benchmarks.reproduce import pages, run, sources
from benchmarks.reproduce.__main__ import main
from benchmarks.reproduce.paper import PRINTED, TABLES
from benchmarks.reproduce.run import Asked, Reproduction, cells_of
from nmar.data import write_frame

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

ASKED = Asked(factors=2, max_iter=3, cells=0, dtype="float64")  # loops that other tests have compiled already


def ratings(seed: int) -> nmar.Cells:
    cells, _ = nmar.simulate((40, 25), nmar.Factorization(2), nmar.Linear(0.3), density=0.5, seed=seed)
    return cells


def store(cells: nmar.Cells, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    row, col = cells.pairs()
    write_frame(file, {"row": row, "col": col, "value": cells.values})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a split of its own, ratings, and covariates of their columns."""
    folder = tmp_path_factory.mktemp("data")
    for name, part in zip(("train", "val", "test"), ratings(0).split(0.2, 0.05), strict=True):
        store(part, folder / "yelp_250k" / f"{name}.parquet")
    store(ratings(1), folder / "ml_1m" / "ratings.parquet")
    rng = np.random.default_rng(0)
    tags = {"movieId": np.arange(25), "funny": rng.random(25), "old": rng.random(25)}
    (folder / "tag_genome_partial").mkdir()
    write_frame(folder / "tag_genome_partial" / "genome_scores_wide.parquet", tags)
    year = np.where(np.arange(25) == 3, np.nan, 1990.0 + np.arange(25))
    write_frame(
        folder / "ml_1m" / "movies.parquet",
        {"movie_id": np.arange(25), "title": ["x"] * 25, "genre_a": rng.random(25) < 0.5, "year": year},
    )
    return folder


def cell(table: str, column: str, model: str) -> run.Cell:
    return next(one for one in cells_of(table) if (one.column, one.model) == (column, model))


# --- the paper ----------------------------------------------------------------------------------------------


def test_every_printed_pair_is_there_once() -> None:
    names = [(one.table, one.column, one.model, one.axis) for one in PRINTED]
    assert len(set(names)) == len(names) == 18 + 10 + 1
    found = {name: (one.alone, one.coupled) for name, one in zip(names, PRINTED, strict=True)}
    assert found["table2", "geuvadis", "GMM", "attributes"] == (-2.173, -2.083)
    assert found["table2", "yelp", "PMM", "attributes"] == (-1.793, -1.801)
    assert found["table3", "wordpress", "HPF", ""] == (-2.146, -1.922)
    assert ("table2", "geuvadis", "PMM", "samples") not in found, "the paper has no number there"


def test_every_printed_pair_has_a_comparison_with_a_name_of_its_own() -> None:
    made = [one for table in TABLES for one in cells_of(table)]
    assert {one.printed for one in made} - {None} == set(PRINTED)
    assert len({one.name for one in made}) == len(made)


def test_expected_linkages_of_the_figure_are_those_of_the_linkages() -> None:
    kinds = {"linear": nmar.Linear, "exponential": nmar.Exponential}
    curves = pages.expected_curves()
    assert len(curves) == 8
    for name, c, probability, expected in curves:
        if (name == "linear" and c < 0.5) or (name == "exponential" and c > 0.0):  # dispersions are positive there
            np.testing.assert_allclose(expected, kinds[name](c).expected(-np.log1p(-probability)), rtol=1e-9)


# --- data ---------------------------------------------------------------------------------------------------


def test_a_split_of_its_own_is_used(data: Path) -> None:
    found = sources.find("yelp", data, 0)
    train, valid, test = ratings(0).split(0.2, 0.05)
    assert [len(found.parts()[name]) for name in ("train", "valid_cells", "test_cells")] == [
        len(train), len(valid), len(test)
    ]  # fmt: skip
    assert found.available == len(found.cells) == len(ratings(0))


def test_fewer_cells_are_whole_rows_and_keep_split_and_covariates(data: Path) -> None:
    whole, some = sources.find("yelp", data, 0), sources.find("yelp", data, 200)
    assert 150 < len(some.cells) <= 200 < some.available
    counts = dict(zip(whole.cells.row_ids.tolist(), np.diff(whole.cells.by(0).indptr).tolist(), strict=True))
    for row, count in zip(some.cells.row_ids.tolist(), np.diff(some.cells.by(0).indptr).tolist(), strict=True):
        assert counts[row] == count
    assert some.train is not None and some.valid is not None and some.test is not None
    assert len(some.train) + len(some.valid) + len(some.test) == len(some.cells)
    everything, part = (sources.find("movielens", data, most, purpose="regression") for most in (0, 60))
    assert part.covariates is not None and everything.covariates is not None
    places = np.searchsorted(everything.cells.col_ids, part.cells.col_ids)
    np.testing.assert_array_equal(part.covariates, everything.covariates[places])


def test_a_missing_year_is_the_mean_year(data: Path) -> None:
    x = sources.find("movielens", data, 0, purpose="genres").covariates
    assert x is not None and x.shape[1] == 2
    assert x[3, 1] == pytest.approx(np.mean([1990 + k for k in range(25) if k != 3]))


def test_original_files_come_first(data: Path, tmp_path: Path) -> None:
    store(ratings(1), tmp_path / "ml_1m" / "ratings.parquet")
    (tmp_path / "netflix").mkdir()
    (tmp_path / "netflix" / "mv_0000001.txt").write_text("1:\n7,3,2005-09-06\n8,5,2005-09-06\n")
    found = sources.find("netflix", tmp_path, 0)
    assert (found.name, found.relation, len(found.cells)) == ("netflix", "the same data", 2)
    assert sources.find("netflix", data, 0).name == "ml_1m"


# --- comparisons --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, list[dict]]:
    maker = Reproduction(data, tmp_path_factory.mktemp("out"), ASKED, n_jobs=1)
    return maker, maker.record(cell("table3", "yelp", "PMF"))


def test_all_fits_with_the_papers_numbers_beside_two_of_them(made: tuple[Reproduction, list[dict]]) -> None:
    _, rows = made
    kinds = ["ignorable", "two-stage", "coupled", "tail", "coupled", "tail"]
    assert [one["kind"] for one in rows] == kinds
    assert [one["paper"] for one in rows] == [-1.952, None, -1.734, None, None, None]
    assert [one["c"] is None for one in rows] == [True, True, False, False, True, True]
    assert [one["linkage"] for one in rows] == ["ignorable", "two-stage", "linear", "linear", "free", "free"]
    assert all(np.isfinite(one[name]) for one in rows for name in ("log_likelihood", "plugin", "se", "rmse", "r2"))
    test = ratings(0).split(0.2, 0.05)[2]
    for one in rows:
        assert one["r2"] == pytest.approx(1 - one["rmse"] ** 2 / np.var(test.values), rel=1e-12)


def test_a_finished_comparison_is_not_made_again(
    made: tuple[Reproduction, list[dict]], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, rows = made
    monkeypatch.setattr(run, "compare", lambda **settings: pytest.fail("fitted again"))
    assert maker.record(cell("table3", "yelp", "PMF")) == rows


def test_other_settings_other_files_and_failures_are_made_again(
    made: tuple[Reproduction, list[dict]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maker, _ = made
    one = cell("table3", "yelp", "PMF")
    kept = json.loads((maker.output / "cells" / f"{one.name}.json").read_text())
    asked: list[int] = []

    def fails(**settings: object) -> None:
        asked.append(int(str(settings["max_iter"])))
        raise RuntimeError("no memory | left")

    monkeypatch.setattr(run, "compare", fails)
    other = replace(maker, output=tmp_path)
    file = tmp_path / "cells" / "table3-yelp-PMF.json"
    file.parent.mkdir()
    texts = (
        json.dumps({**kept, "asked": {**kept["asked"], "max_iter": 4}}),
        json.dumps({**kept, "format": 0}),
        json.dumps({name: value for name, value in kept.items() if name not in ("format", "read")}),
        *(json.dumps({name: value for name, value in kept.items() if name != left_out}) for left_out in kept),
        *(json.dumps({**kept, "rows": rows}) for rows in ([], {}, [1], None)),
        "[]",
        "{}",
        "7",
        '{"asked":',
    )
    for text in texts:
        file.write_text(text)
        found = other.record(one)
        assert found == [
            {"table": "table3", "column": "yelp", "model": "PMF", "axis": "", "error": "RuntimeError: no memory | left"}
        ]
        assert file.read_text() == text, "an error does not take the place of what was finished"
    file.unlink()
    assert other.record(one) == found == other.record(one), "an error is tried again"
    assert asked == [3] * (len(texts) + 2)
    assert "no memory \\| left" in pages.markdown("table3", [found], ASKED), "a bar would end the cell of the table"


def test_other_data_are_fitted_again(
    made: tuple[Reproduction, list[dict]], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, _ = made
    for name, part in zip(("train", "val", "test"), ratings(0).split(0.2, 0.05), strict=True):
        store(
            part if name != "test" else part.map_values(lambda y: y + 1.0), tmp_path / "yelp_250k" / f"{name}.parquet"
        )
    monkeypatch.setattr(run, "compare", lambda **settings: 1 / 0)
    (again,) = replace(maker, data=tmp_path).record(cell("table3", "yelp", "PMF"))
    assert "ZeroDivisionError" in again["error"], "the values of another folder are others"
    (tmp_path / "yelp").mkdir()
    (tmp_path / "yelp" / "review.json").write_text(
        json.dumps({"user_id": "u", "business_id": "b", "stars": 4, "date": "2018-07-07"})
    )
    again, before = (sources.find("yelp", folder, 0) for folder in (tmp_path, data))
    assert again.name == "yelp" and again.fingerprint != before.fingerprint, "the original files came beside the others"


def test_a_fingerprint_is_of_what_is_fitted(data: Path) -> None:
    split, plain = sources.find("yelp", data, 0), sources.find("movielens", data, 0, purpose="regression")
    assert split.train is not None and split.test is not None and plain.covariates is not None
    others = [
        replace(split, cells=split.cells.map_values(lambda y: y + 1e-9)),
        replace(split, train=split.test, test=split.train),
        replace(split, train=None, valid=None, test=None),
        replace(split, cells=split.cells.select(np.arange(len(split.cells)) > 0)),
        plain,
        replace(plain, covariates=plain.covariates + 1e-9),
        replace(plain, covariates=plain.covariates.reshape(-1, 1)),
        sources.find("yelp", data, 200),
    ]
    assert len({one.fingerprint for one in (split, *others)}) == len(others) + 1
    assert sources.find("yelp", data, 0).fingerprint == split.fingerprint
    assert replace(split, relation="said otherwise").fingerprint == split.fingerprint


# --- numbers that are none ----------------------------------------------------------------------------------


def test_values_that_do_not_vary_have_no_r2(tmp_path: Path) -> None:
    for name, part in zip(("train", "val", "test"), ratings(0).split(0.2, 0.05), strict=True):
        same = part.map_values(np.ones_like) if name == "test" else part
        store(same, tmp_path / "yelp_250k" / f"{name}.parquet")
    rows = Reproduction(tmp_path, tmp_path / "out", ASKED, n_jobs=1).record(cell("table3", "yelp", "PMF"))
    assert [one.get("r2", one.get("error")) for one in rows] == [None] * 6
    for printed, shown in ((None, "–"), (0.36, "– (paper 0.360)")):
        rows[0]["paper_r2"] = printed
        assert f"| {shown} |" in pages.markdown("table3", [rows], ASKED)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"name": "linear", "gain_se": np.nan}, "ValueError: linear: gain_se is nan, no finite number"),
        ({"name": "x", "bins": [{"quantile": 0.5}, {"quantile": -np.inf}]}, "ValueError: x: quantile is -inf"),
        ({"gain": {1.0}}, "TypeError: Object of type set is not JSON serializable"),
    ],
)
def test_what_is_no_number_is_an_error_of_its_line(
    row: dict, error: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reproduction, "fitted", lambda *given: [row])
    groups = list(Reproduction(data, tmp_path, ASKED).records("table4"))
    assert [len(rows) for rows in groups] == [1, 1]
    assert all(rows[0]["error"].startswith(error) for rows in groups), groups
    assert not list(tmp_path.rglob("*.json"))


def test_no_line_is_left_out(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "compare", lambda **settings: 1 / 0)
    groups = list(Reproduction(data, tmp_path, ASKED).records("table2"))
    text = pages.markdown("table2", groups, ASKED)
    for one in cells_of("table2"):
        assert f"| {one.column} | {one.model} {one.axis} |" in text
    assert "no data for amazon" in text
    with pytest.raises(ValueError, match="table='table9'"):
        list(Reproduction(data, tmp_path, ASKED).records("table9"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"factors": 0}, "factors=0; give a whole number of at least 1"),
        ({"max_iter": 0}, "max_iter=0; give"),
        ({"seeds": 0}, "seeds=0; give"),
        ({"cells": -1}, "cells=-1; give a whole number of at least 0"),
        ({"seed": -1}, "seed=-1; give"),
        ({"dtype": "float16"}, "dtype='float16'; use one of 'float32', 'float64'"),
    ],
)
def test_settings_are_looked_at_once(setting: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Asked(**setting)


def test_a_figure_does_not_ask_for_what_it_ignores(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "tested", lambda result: {"p_value": 0.5})
    made = Reproduction(data, tmp_path, ASKED, n_jobs=1)
    one = cell("figure1", "yelp", "PMF")
    monkeypatch.setattr(Reproduction, "test_of", lambda *given: None)
    rows = made.record(one)
    monkeypatch.setattr(Reproduction, "test_of", lambda *given: pytest.fail("fitted again"))
    asked = replace(ASKED, seeds=3, dtype="float32", bias=False)
    assert replace(made, asked=asked).record(one) == rows
    monkeypatch.setattr(Reproduction, "test_of", lambda *given: 1 / 0)
    assert "ZeroDivisionError" in replace(made, asked=replace(asked, seed=1)).record(one)[0]["error"]


def test_pages_say_what_applies_to_them() -> None:
    asked = Asked(factors=40, seeds=3, cells=0, bias=False)
    table, figure = (pages.markdown(name, [], asked) for name in ("table3", "figure1"))
    assert "K = 40, at most 30 sweeps, 3 split(s) and start(s), every cell. Factorizations have no biases." in table
    assert "split(s)" not in figure and "biases" not in figure
    wanted = "the pattern with K = 40, the values with a rank of 10, at most 30 sweeps, 3 of 5 folds of the cells"
    assert wanted in figure
    assert "rank of 4," in pages.markdown("figure1", [], replace(asked, factors=4))
    assert "keeps its level" not in pages.ABOUT_TESTS and "7.2 %" in pages.ABOUT_TESTS


def test_mixtures_cluster_the_axis_and_the_family_that_the_paper_names(data: Path) -> None:
    problem = sources.find("yelp", data, 0)
    names = [one.data(ASKED, problem).describe() for one in cells_of("table2") if one.column == "yelp"]
    assert names == ["mixture:2:rows", "mixture:2:cols", "poisson-mixture:2:rows", "poisson-mixture:2:cols"]
    assert cell("table3", "yelp", "PMF").data(ASKED, problem) == nmar.Factorization(
        2, covariance="diagonal", student=False
    )
    bare = nmar.Factorization(2, covariance="diagonal", bias=False, student=False)
    assert cell("table3", "yelp", "PMF").data(replace(ASKED, bias=False), problem) == bare


# --- what is written ----------------------------------------------------------------------------------------


def test_command(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as parquet

    pytest.importorskip("matplotlib")
    common = ["--data", str(data), "-o", str(tmp_path), "--factors", "2", "--max-iter", "3", "--cells", "300"]
    common += ["--dtype", "float64"]
    assert main(["table4", *common, "--jobs", "1"]) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "table4.md").read_text() == text.rstrip("\n") + "\n"
    assert "| movielens | tag_genome_partial | Regression on 2 covariates | -1.921 | -1.907 | +0.014 |" in text
    assert "(paper 1.731)" in text and "(paper 0.360)" in text
    table = parquet.read_table(tmp_path / "table4.parquet").to_pylist()
    assert len(table) == 12 and {one["data"] for one in table} == {"tag_genome_partial", "ml_1m"}
    assert all(one["cells"] <= 300 < one["available"] for one in table)
    assert (tmp_path / "table4.png").stat().st_size > 5000
    assert main(["figure1", *common, "--jobs", "1"]) == 0
    text = capsys.readouterr().out
    assert "| yelp | yelp_250k |" in text and "≤ 6e-17" in text and "no data for amazon" in text
    assert (tmp_path / "figure1.png").stat().st_size > 5000
    assert main(["table4", "--data", str(tmp_path / "nowhere")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    for wrong in (["--seeds", "0"], ["--factors", "0"], ["--max-iter", "0"]):
        for what in TABLES:
            assert main([what, *common, *wrong]) == 2
            assert f"error: {wrong[0][2:].replace('-', '_')}=0" in capsys.readouterr().err


def test_a_run_without_a_fit_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "data").mkdir()
    assert main(["all", "--data", str(tmp_path / "data"), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "no data for amazon" in shown.out and "nothing was fitted" in shown.err
    assert {file.name for file in (tmp_path / "out").glob("*.md")} == {f"{name}.md" for name in TABLES}
