"""Draws for ArviZ: what they hold, that they are joint, and that ArviZ reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nmar

az = pytest.importorskip("arviz")

GROUPS = ("posterior", "posterior_predictive", "log_likelihood", "observed_data")

MODELS = {
    "factorization": nmar.Factorization(2),
    "mixture": nmar.Mixture(2),
    "effects": nmar.Effects("rows"),
    "counts": nmar.Factorization(2, family="poisson"),
    "regression": nmar.Regression(np.random.default_rng(0).normal(size=(12, 3))),
    "constant": nmar.Constant(),
}


def fitted(data: Any = MODELS["factorization"], linkage: Any = "linear", **more: Any) -> tuple[Any, Any, Any]:
    """A model, the cells it was fitted to, and held-out ones; ids are words."""
    cells, _ = nmar.simulate((30, 12), data, density=0.6, seed=0)
    i, j = cells.positions()
    names = {"row": [f"r{k}" for k in i], "col": [f"c{k}" for k in j]}
    train, _, test = nmar.Cells.from_frame({**names, "value": cells.values}, "row", "col", "value").split(seed=0)
    return nmar.CCPF(data, linkage, factors=2, max_iter=5, random_state=0, **more).fit(train, hidden=test), train, test


@pytest.mark.parametrize("name", MODELS)
def test_groups_and_ids(name: str) -> None:
    model, _, test = fitted(MODELS[name])
    tree = nmar.to_arviz(model, test, draws=3, seed=1)
    assert all(np.isfinite(one.values).all() for group in GROUPS for one in tree[group].data_vars.values())
    assert tree["posterior"].sizes["row"] == 30 and tree["posterior"].sizes["draw"] == 3
    cell = tree["observed_data"]["value"][4]
    known = dict(zip(zip(*test.pairs(), strict=True), test.values, strict=True))
    assert float(cell) == known[str(cell.cell_row.values), str(cell.cell_col.values)]


def test_scores_are_those_of_each_draw() -> None:
    """log p(y | draw) from the draw's own factors: a normal around biases and ⟨a, b⟩ where the model is ignorable."""
    data = nmar.Factorization(2, bias=False)
    model, _, test = fitted(data, "ignorable", noise="constant")
    tree = nmar.to_arviz(model, test, draws=4, seed=0)
    post, seen = tree["posterior"], tree["observed_data"]["value"]
    a = post["row_factors"].sel(row=seen.cell_row, chain=0).values
    b = post["col_factors"].sel(col=seen.cell_col, chain=0).values
    mean = np.sum(a * b, axis=-1) + model.posterior_.units.center
    variance = post["dispersion"].values[0][:, None]
    expected = -0.5 * (np.log(2 * np.pi * variance) + (seen.values - mean) ** 2 / variance)
    np.testing.assert_allclose(tree["log_likelihood"]["value"].values[0], expected, rtol=1e-6)


def test_the_same_seed_and_the_posterior_mean() -> None:
    model, train, _ = fitted(linkage="ignorable")
    one, two = (nmar.to_arviz(model, draws=400, seed=3, sweeps=0) for _ in range(2))
    np.testing.assert_array_equal(one["posterior"]["row_pattern"], two["posterior"]["row_pattern"])
    weights = model.posterior_.state.sides[0].pattern.weights
    assert one["posterior"]["row_pattern"].std("draw").values.min() > 0.0
    drawn = one["posterior"]["row_pattern"].mean(("chain", "draw")).values
    sd = np.sqrt(weights.variance / 400)
    assert np.abs((drawn - weights.mean) / sd).max() < 5.0
    assert one["observed_data"].sizes["cell"] == len(train)


def test_bad_input_is_named(tmp_path: Any) -> None:
    model, _, test = fitted()
    with pytest.raises(ValueError, match="draws=0"):
        nmar.to_arviz(model, test, draws=0)
    model.save(tmp_path / "m.nmar")
    with pytest.raises(ValueError, match="cells="):
        nmar.to_arviz(nmar.load(tmp_path / "m.nmar"))


def test_arviz_reads_them() -> None:
    model, _, test = fitted()
    tree = nmar.to_arviz(model, test, draws=50, seed=0)
    assert {"mean", "sd"} <= set(az.summary(tree, var_names=["dispersion"]).columns)


def test_chains_are_independent_and_the_first_is_that_of_one() -> None:
    model, _, test = fitted()
    one = nmar.to_arviz(model, test, draws=3, seed=1)
    two = nmar.to_arviz(model, test, draws=3, seed=1, chains=2)
    assert two["posterior"].sizes["chain"] == 2
    first, second = two["posterior"]["row_factors"].values
    np.testing.assert_array_equal(first, one["posterior"]["row_factors"].values[0])
    assert not np.isclose(first, second).any()
    with pytest.raises(ValueError, match="chains=0"):
        nmar.to_arviz(model, test, chains=0)
