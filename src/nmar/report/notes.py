"""What a reader of a report should know, in plain words."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One way to explain the values: in plain words first, then as tables and theory call it."""

    plain: str  # for tables
    full: str  # for headings
    technical: str
    what: str
    wins: str  # what it means if it wins


KINDS = {
    "coupled": Kind(
        "missingness modelled",
        "Missingness modelled",
        "coupled model",
        "How far a value may stray depends on how its cell came to be observed: a latent count links the two.",
        "Which cells are missing tells something about the values.",
    ),
    "blind": Kind(
        "noise by row and column",
        "Noise by row and column, not because of what is missing",
        "blind control",
        "The same model, starts and sweeps, but every row and column seems observed equally often, so that the values"
        " alone shape its factors.",
        "Rows and columns differ in noise, but not because of what is missing.",
    ),
    "two-stage": Kind(
        "noise by chance of being observed",
        "Noise by the chance of being observed",
        "two-stage baseline",
        "The pattern is fitted alone until its bound settles; then a Gaussian whose log variance is a quadratic in"
        " log E[Λ]. Gaussian models only.",
        "The spread depends on P(observed), which is evidence that what is missing is linked to it; but a latent count"
        " is not needed.",
    ),
    "tail": Kind(
        "heavier tails everywhere",
        "Heavier tails everywhere, whatever is missing",
        "tail-only control",
        "Outliers are more common than the ignorable model allows, in all cells alike: the same family and linkage, but"
        " one rate of counts for all cells, so that it knows nothing of which are missing.",
        "Values have a heavier tail than the ignorable model allows, whatever is missing.",
    ),
    "ignorable": Kind(
        "missingness ignored",
        "Missingness ignored",
        "ignorable model",
        "The values by themselves, as if cells were missing at random: what most methods do.",
        "Neither the missingness nor unequal noise is worth a model here.",
    ),
}

# what ± is where a mean over the cells of one table is printed
ERROR = "± is one standard error; it allows for errors that go together within rows and within columns"

METHODS = (
    (
        "Held-out cells are hidden",
        "Test and validation cells are neither observed nor missing to the fitted pattern, so no model is"
        " told that they are missing when in truth they were kept back.",
    ),
    (
        "The gain that counts",
        "A coupled model can beat the ignorable one without any tie between values and missingness: by a heavier tail,"
        " or because its counts describe rows and columns of unequal noise. Modelling the missingness helps where a"
        " coupled model beats the best of the three controls (noise by row and column, noise by chance of being"
        " observed, heavier tails everywhere). Where it does not, the best control is recommended: it is a good"
        " heteroscedastic model in its own right.",
    ),
    (
        "Log likelihood",
        "Predictive, in nats per held-out observed cell, with the uncertainty of the data model integrated"
        " out; the plug-in column uses its posterior mean instead. One nat more means values e times as"
        " probable.",
    ),
    (
        "Standard errors",
        "Differences are paired cell by cell. ± is one standard error and has two parts, whose variances are added."
        " Cells: dependence within rows and within columns is allowed for where it makes the error larger"
        " (V_row + V_col − V_cell), and a cell that is tested in several splits counts once. Fits: each seed has a new"
        " split and a new start, and the spread of the seeds' means beyond what their different cells explain is"
        " divided by the number of seeds. So ± is at least the largest of the cell-wise error, the clustered one, and"
        " the seeds' spread over √seeds. With one seed the second part is unknown and left out.",
    ),
    (
        "The verdict",
        "Each test is at 5 %, shared among the linkages that were tried, with fewer degrees of freedom where the error"
        " rests on few seeds that disagree.",
    ),
    (
        "s and ω",
        "s: events for each recorded one (thinned counts); 1 is the paper's model. ω: how far the pattern is believed,"
        " from 0, which is the blind control, to 1. Both are shown where they are not 1.",
    ),
    (
        "P(observed)",
        "1 − exp(−Λ), with Λ the product of a row's and a column's non-negative factors. φ(n) multiplies the"
        " dispersion of a cell whose latent count is n; φ = 1 throughout would mean that the missingness can"
        " be ignored.",
    ),
)

# which population a model's predictions are about
POPULATIONS = {
    "observed": "Predictions are of values given that they are observed, the population that training cells come from.",
    "all": (
        "Predictions are of the values of all cells, whether anybody chose to observe them or not; training cells stood"
        " for all of them by the inverse of P(observed)."
    ),
}

ZIGZAG = (
    "The zigzag of the linear linkage is meant: its φ is 1 at odd counts and 1 − 2c at even ones, and only so is its"
    " mean a straight line in P(observed)."
)
