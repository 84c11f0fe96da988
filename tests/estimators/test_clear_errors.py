"""Errors of fits and questions name the argument, its value and the remedy."""

from __future__ import annotations

import numpy as np
import pytest

import nmar

COMMON = {"linkage": "linear", "factors": 3, "max_iter": 2, "starts": 1, "random_state": 0, "n_jobs": 1}
SMALL = {"factors": 3, "max_iter": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((60, 40), nmar.Factorization(2), density=0.25, seed=0)[0]


@pytest.fixture(scope="module")
def model(cells):
    return nmar.CCPF(nmar.Factorization(2), **COMMON).fit(cells)


def fit(cells, **given):
    train, valid, _ = cells.split(test=0.1, valid=0.1, seed=0)
    return nmar.CCPF(**{"data": nmar.Factorization(2), **COMMON, **given}).fit(train, valid=valid)


@pytest.mark.parametrize("patience", [0, -1, 1.5, "long"])
def test_patience(cells, patience):
    with pytest.raises(ValueError, match=f"patience={patience!r}; give a whole number of at least 1"):
        fit(cells, patience=patience)


@pytest.mark.parametrize("max_time", [-1.0, float("nan"), "long"])
def test_max_time(cells, max_time):
    with pytest.raises(ValueError, match=f"max_time={max_time!r}; give a number of seconds of at least 0, or None"):
        fit(cells, max_time=max_time)


@pytest.mark.parametrize("n", [-1, 1.5])
def test_number_of_draws(model, n):
    with pytest.raises(ValueError, match=f"n={n!r}; give a whole number of at least 0"):
        model.sample([0], [1], n=n)


SEEDED = {
    "random_state": lambda cells, seed: fit(cells, random_state=seed),
    "random_state of missingness_test": lambda cells, seed: nmar.missingness_test(cells, seed, rank=2, **SMALL),
    "random_state of EntryKFold": lambda cells, seed: next(nmar.EntryKFold(2, random_state=seed).split(cells)),
    "seed of compare": lambda cells, seed: nmar.compare(cells, "factorization:2", ["linear"], seed=seed, **SMALL),
    "seed of simulate": lambda cells, seed: nmar.simulate((20, 10), nmar.Factorization(2), density=0.5, seed=seed),
    "seed of split": lambda cells, seed: cells.split(seed=seed),
}


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_seeds(cells, name, seed):
    argument = name.split(" ")[0]
    with pytest.raises(ValueError, match=f"{argument}={seed!r}; give a whole number of at least 0"):
        SEEDED[name](cells, seed)


def test_seed_of_draws(model):
    with pytest.raises(ValueError, match="seed=-1; give a whole number of at least 0"):
        model.sample([0], [1], seed=-1)


def test_seeds_of_all_kinds_do(cells):
    for seed in (None, 3, np.int64(3), [1, 2], np.random.default_rng(0), np.random.RandomState(0)):
        assert fit(cells, random_state=seed).n_iter_ == 2


def test_an_unknown_id_is_looked_up_on_a_named_axis(model):
    ask = model.predict_entries
    with pytest.raises(ValueError, match=r"^rows: 1 unknown on this axis: 999; .*unknown='prior'"):
        ask([1, 999], [2, 2])
    with pytest.raises(ValueError, match=r"^cols: 1 unknown on this axis: 998; .*unknown='prior'"):
        ask([1, 1], [2, 998])
    with pytest.raises(ValueError, match=r"^cols: 1 unknown"):
        model.score(nmar.Cells.from_arrays([0, 1], [1, 998], [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"^rows: 1 unknown on this axis: 999; .*fold_in"):
        model.recommend([999])


@pytest.mark.parametrize("ask", ["transform", "fold_in"])
def test_an_unknown_column_of_new_rows(model, ask):
    new = nmar.Cells.from_frame({"u": ["x"], "i": ["new"], "y": [1.0]}, row="u", col="i", value="y")
    with pytest.raises(ValueError, match=r"cols: 1 unknown.*'new'; leave their cells out \(Cells\.align") as told:
        getattr(model, ask)(new)
    assert "pass unknown=" not in str(told.value)


def test_an_outlier_whose_square_single_precision_cannot_hold_is_named(cells):
    values = cells.values.copy()
    values[5] = 1e6
    given = {**COMMON, "linkage": "free", "noise": "constant", "dtype": "float32", "max_iter": 20, "starts": 2}
    with pytest.raises(FloatingPointError, match=r"outliers .* dtype='float64'"):
        nmar.CCPF(nmar.Factorization(2), **given).fit(cells.with_values(values))


def test_a_pattern_alone_has_a_linkage_by_default_and_no_other(cells):
    given = {key: value for key, value in COMMON.items() if key != "linkage"}
    assert nmar.CCPF(nmar.PatternOnly(), **given).fit(cells).linkage_.name == "ignorable"
    for name in ("free", "auto"):
        with pytest.raises(ValueError, match=f"PatternOnly has no values to link; .*'ignorable', not '{name}'"):
            nmar.CCPF(nmar.PatternOnly(), name, **given).fit(cells)


def test_three_cells_are_too_few_to_compare_on():
    three = nmar.Cells.from_arrays([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0], (3, 3))
    with pytest.raises(ValueError, match=r"test=0.2 of 3 cells: too few"):
        nmar.compare(three, "factorization:2", ["linear"], **SMALL)


@pytest.mark.parametrize("linkage", [nmar.Free, nmar.Linear, nmar.Compound, nmar.Ignorable])
def test_a_learned_shift_of_two_levels(cells, linkage):
    model = fit(cells, linkage=linkage(mean="shift", levels=2), max_iter=4)
    assert np.all(np.diff(model.bound_trace_) > 0)
    assert len(model.linkage_.shift) == 2 and model.linkage_.shift[0] == 0.0 != model.linkage_.shift[1]


PATTERNS = {
    "shape=0.0 of the pattern; give a number above 0": lambda: nmar.Pattern(3, shape=0.0),
    "activity_rate=-1.0 of the pattern": lambda: nmar.Pattern(3, activity_rate=-1.0),
    "activity_shape=nan of the pattern": lambda: nmar.Pattern(3, activity_shape=float("nan")),
    "write prior='learned'": lambda: nmar.Pattern(3, learns=True),
}


@pytest.mark.parametrize("told", PATTERNS)
def test_priors_of_a_pattern(cells, told):
    with pytest.raises(ValueError, match=told):
        fit(cells, factors=10, pattern=PATTERNS[told]())


def test_a_prior_shape_that_would_be_replaced(cells):
    with pytest.raises(ValueError, match=r"shape=0\.7 of the pattern and prior='paper'"):
        fit(cells, factors=10, pattern=nmar.Pattern(3, shape=0.7), prior="paper")


def test_a_solver_that_does_not_exist_beside_a_thinned_linkage(cells):
    with pytest.raises(ValueError, match="solver='newton'; use one of"):
        fit(cells, solver="newton", linkage=None, starts=1)


PLACES = {
    r"memory='1GB' is for a Dataset": lambda cells: {"X": cells, "memory": "1GB"},
    r"scratch='here' is for executor='dask'": lambda cells: {"X": cells, "scratch": "here"},
}


@pytest.mark.parametrize("told", PLACES)
def test_where_a_fit_of_cells_in_memory_runs(cells, told):
    with pytest.raises(ValueError, match=told):
        nmar.CCPF(nmar.Factorization(2), **COMMON).fit(**PLACES[told](cells))


@pytest.mark.parametrize("given", [{"memory": "1GB"}, {"executor": "dask"}])
def test_streams_and_warm_fits_run_here(cells, given, tmp_path):
    told = "leave (memory='1GB'|executor, client and scratch) out"
    with pytest.raises(ValueError, match=f"a stream of batches .* {told}"):
        nmar.CCPF(nmar.Factorization(2), **COMMON, solver="minibatch").fit(iter([cells]), **given)
    dataset = nmar.Dataset.from_cells(cells, tmp_path / "cells")
    going_on = nmar.CCPF(nmar.Factorization(2), **COMMON, warm_start=True).fit(cells)
    with pytest.raises(ValueError, match=f"warm_start=True .* {told}"):
        going_on.fit(dataset, **given)


@pytest.mark.parametrize("name", ["valid", "hidden"])
def test_held_out_cells_on_disk(cells, name, tmp_path):
    dataset = nmar.Dataset.from_cells(cells, tmp_path / "cells")
    with pytest.raises(ValueError, match=rf"{name} is a Dataset, .* give {name}\.to_cells\(\)"):
        nmar.CCPF(nmar.Factorization(2), **COMMON).fit(cells, **{name: dataset})


def test_cells_named_twice_are_not_imputed_twice(model):
    with pytest.raises(ValueError, match="cells names a cell twice"):
        model.impute(2, cells=([1, 1], [2, 2]))
    with pytest.raises(ValueError, match="rows names a row twice"):
        model.impute(2, rows=[1, 1])


def test_replicates_of_a_check(cells, model):
    with pytest.raises(ValueError, match="replicates=0; give a whole number of at least 50"):
        nmar.check(model, cells, replicates=0)


def test_weights_that_are_all_zero(cells, model):
    nothing = cells.with_weights(np.zeros(len(cells)))
    with pytest.raises(ValueError, match="weights of the cells are all 0"):
        fit(nothing)
    with pytest.raises(ValueError, match="weights of the cells are all 0"):
        model.log_likelihood(nothing)


def test_validation_values_that_the_family_cannot_have():
    cells = nmar.simulate((30, 20), nmar.Constant("poisson"), density=0.4, seed=0)[0]
    train, valid, _ = cells.split(test=0.1, valid=0.1, seed=0)
    for linkage in ("exponential", "auto"):
        model = nmar.CCPF(nmar.Factorization(2, "poisson"), **{**COMMON, "linkage": linkage})
        with pytest.raises(ValueError, match=r"^valid: values contains -?\d.*, but the poisson family takes counts"):
            model.fit(train, valid=valid.with_values(valid.values - 100.0))


@pytest.mark.parametrize("name", ["valid", "hidden"])
def test_held_out_cells_that_are_training_cells(cells, name, tmp_path):
    told = f"{name} and the training cells have 1 of 1 cells in common; .* take them out of {name}"
    for given in (cells, nmar.Dataset.from_cells(cells, tmp_path / "cells")):
        with pytest.raises(ValueError, match=told):
            nmar.CCPF(nmar.Factorization(2), **COMMON).fit(given, **{name: cells[[7]]})


def test_hidden_cells_that_are_learned_from_later_are_hidden_no_more(cells):
    train, hidden, test = cells.split(test=0.2, valid=0.1, seed=0)
    model = nmar.CCPF(nmar.Factorization(2), **COMMON).fit(train, hidden=hidden)
    model.partial_fit(hidden, sweeps=2)
    assert model.linkage_sensitivity([0.0, 0.2], test).frame().shape[0] == 2


def test_a_comparison_of_complete_tables():
    whole = np.random.default_rng(0).normal(size=(20, 10))
    with pytest.raises(ValueError, match=r"no cell is missing, so that P\(observed\) is 1 throughout"):
        nmar.compare(whole, "factorization:2", ["linear"], **SMALL)


SETTINGS = {
    "data=.*Factorization.* is a class; call it: data=Factorization": {"data": nmar.Factorization},
    "tol='x'; give a number of at least 0, or None": {"tol": "x"},
    "verbose='x'; give a whole number of at least 0": {"verbose": "x"},
    "n_jobs='x'; give a positive number of threads, -1 for all, or None": {"n_jobs": "x"},
    r"n_jobs=1\.5; give a positive number of threads, -1 for all, or None": {"n_jobs": 1.5},
}


@pytest.mark.parametrize("told", SETTINGS)
def test_settings_of_a_wrong_kind(cells, told):
    with pytest.raises(ValueError, match=told):
        fit(cells, **SETTINGS[told])


def test_sweeps_of_a_partial_fit(cells):
    model = nmar.CCPF(nmar.Factorization(2), **COMMON).fit(cells)
    with pytest.raises(ValueError, match="sweeps=0; give a whole number of at least 1"):
        model.partial_fit(cells, sweeps=0)


CALLS = {
    "trials=None; give a whole number of at least 1": lambda: nmar.Constant("binomial"),
    r"dispersion=-1; give a number above 0": lambda: nmar.simulate((20, 10), dispersion=-1),
    r"dispersion='x'; give a number above 0": lambda: nmar.simulate((20, 10), dispersion="x"),
    r"shape=5; give two whole numbers, rows and columns, of at least 2 each": lambda: nmar.simulate(5),
    r"shape=\(5, 1\); give two whole numbers": lambda: nmar.simulate((5, 1)),
    r"shape=\(5, 4, 3\); give two whole numbers": lambda: nmar.simulate((5, 4, 3)),
    r"shape=\(5.5, 4\); give two whole numbers": lambda: nmar.simulate((5.5, 4)),
}


@pytest.mark.parametrize("told", CALLS)
def test_arguments_of_models_and_simulations(told):
    with pytest.raises(ValueError, match=told):
        CALLS[told]()


@pytest.mark.parametrize("rows", [60, 5])
def test_a_table_without_a_cell_has_no_score(model, rows):
    with pytest.raises(ValueError, match="no observed cell to score"):
        model.score(np.full((rows, 40), np.nan))


def test_a_batch_without_a_cell_is_fitted():
    cells = nmar.Cells.from_arrays([0, 0, 29], [0, 1, 2], [1.0, 2.0, 3.0], shape=(30, 20))
    model = nmar.CCPF(nmar.Factorization(2), solver=nmar.Minibatch(batch_size=2), **COMMON).fit(cells)
    assert np.isfinite(model.predict_entries([0, 5], [0, 5])).all()


@pytest.mark.parametrize("linkage", ["ignorable", "free"])
def test_counts_that_are_all_zero_are_fitted(cells, linkage):
    zeros = cells.map_values(np.zeros_like)
    for data in (nmar.Constant("poisson"), nmar.Effects("rows", family="poisson")):
        model = nmar.CCPF(data, **{**COMMON, "linkage": linkage}).fit(zeros)
        low, high = model.interval([0], [1])
        assert low == high == 0.0 and not np.signbit([low, high]).any()
