"""What the paper prints: Basbug and Engelhardt, Coupled Compound Poisson Factorization, tables 2 to 4 and figure 1.

Log likelihoods are per held-out observed cell. "alone" is the model fitted to the observed cells only (the paper's
"Nonzero"), "coupled" the same model in the paper's framework ("Full").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FIGURE1_P", "PRINTED", "TABLES", "Printed"]


@dataclass(frozen=True)
class Printed:
    """A pair of numbers of a table.

    Attributes
    ----------
    table : "table2", "table3" or "table4"
    column : the data set
    model : the paper's name of the data model
    axis : "samples" or "attributes", what a mixture clusters; "" otherwise
    alone, coupled : log likelihood without and with the model of the missingness
    rmse, r2 : of the two, where they are printed
    """

    table: str
    column: str
    model: str
    axis: str
    alone: float
    coupled: float
    rmse: tuple[float, float] | None = None
    r2: tuple[float, float] | None = None


_COLUMNS2 = ("movielens", "amazon", "netflix", "yelp", "geuvadis")
_TABLE2 = {
    ("GMM", "samples"): ((-2.082, -1.549, -1.427, -1.709, -2.139), (-2.121, -1.487, -1.419, -1.708, -2.012)),
    ("GMM", "attributes"): ((-2.064, -1.667, -1.491, -1.637, -2.173), (-2.102, -1.669, -1.480, -1.615, -2.083)),
    ("PMM", "samples"): ((-3.554, -1.793, -3.682, -1.912), (-3.713, -1.789, -3.315, -1.889)),
    ("PMM", "attributes"): ((-3.674, -1.886, -1.918, -1.793), (-3.655, -1.913, -2.001, -1.801)),
}
_COLUMNS3 = ("movielens", "amazon", "netflix", "yelp", "wordpress")
_TABLE3 = {
    ("PMF", ""): ((-2.089, -1.703, -1.421, -1.952, -3.379), (-2.009, -1.630, -1.383, -1.734, -3.046)),
    ("HPF", ""): ((-2.104, -1.868, -1.634, -1.881, -2.146), (-2.013, -1.835, -1.693, -1.878, -1.922)),
}

Pairs = Mapping[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]]


def _pairs(table: str, columns: tuple[str, ...], lines: Pairs) -> list[Printed]:
    return [
        Printed(table, column, model, axis, alone, coupled)
        for (model, axis), (left, right) in lines.items()
        for column, alone, coupled in zip(columns, left, right, strict=False)  # PMM has no number for geuvadis
    ]


PRINTED: tuple[Printed, ...] = (
    *_pairs("table2", _COLUMNS2, _TABLE2),
    *_pairs("table3", _COLUMNS3, _TABLE3),
    Printed("table4", "movielens", "Regression", "", -1.921, -1.907, (1.731, 1.694), (0.333, 0.360)),
)
TABLES = {
    "table2": "Mixtures: log likelihood per held-out observed cell (the paper's table 2)",
    "table3": "Factorizations: log likelihood per held-out observed cell (the paper's table 3)",
    "table4": "Regressions on covariates of the columns: log likelihood, RMSE and R² (the paper's table 4)",
    "figure1": "Spread of held-out residuals against P(observed), and E[φ] of the linkages (the paper's figure 1)",
}
FIGURE1_P = 6e-17  # the largest p of its double generalized linear models, on amazon, movielens and yelp
