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
    "taste": Kind(
        "choices describe values",
        "What rows and columns choose tells about their values",
        'mechanism "taste"',
        "The pattern of what is observed is fitted first; its factors then describe the rows and columns, as covariates"
        " do, and the means of the values depend on them.",
        "What a row or a column chooses tells something about its values.",
    ),
    "value": Kind(
        "values decide",
        "Values decide whether they are seen",
        'mechanism "value"',
        "Every cell has a value, and the rate at which it is seen rises or falls with it. The fit learns from missing"
        " cells too.",
        "A value is missing because of what it is.",
    ),
    "shuffled": Kind(
        "choices of others",
        "Choices of other rows and columns, at random",
        "shuffled control",
        "The same model, but every row and column has the choices of another one, drawn at random, so that they tell"
        " nothing about it.",
        "Choices that mean nothing do as well, so that those of a row or a column tell nothing about its values.",
    ),
    "two-stage": Kind(
        "noise by chance of being observed",
        "Noise by the chance of being observed",
        "two-stage baseline",
        "The pattern is fitted alone until its bound settles; then a model of the values, whose log variance is a"
        " quadratic in log E[Λ]. Gaussian models only.",
        "The spread depends on P(observed), which is evidence that what is missing is linked to it; but a latent count"
        " is not needed.",
    ),
    "tail": Kind(
        "heavier tails everywhere",
        "Heavier tails everywhere, whatever is missing",
        "tail-only control",
        "The same family and linkage as the coupled model, but one rate of counts for all cells, so that it knows"
        " nothing of which are missing: a heavier tail, in all cells alike.",
        "Outliers are more common than the ignorable model allows, whatever is missing.",
    ),
    "ignorable": Kind(
        "missingness ignored",
        "Missingness ignored",
        "ignorable model",
        "The values by themselves, as if cells were missing at random: what most methods do.",
        "The missingness is not worth a model here.",
    ),
}

MODELLED = ("coupled", "taste")  # kinds of models in which what is missing tells about the values

# what ± is where a mean over the cells of one table is printed
ERROR = "± is one standard error; it allows for errors that go together within rows and within columns"

METHODS = (
    (
        "Held-out cells are hidden",
        "Test and validation cells are neither observed nor missing to the fitted pattern, so no model"
        " takes them for missing.",
    ),
    (
        "The gain that counts",
        "Gaussian models have noise by row and column, so that unequal noise is no gain of any of them (not where"
        " noise='constant', or the linkage moves the mean). The ignorable model has a heavy tail as well."
        " Modelling the missingness helps where a model of it (coupled, or choices that describe values) beats the best"
        " of its controls: missingness ignored, noise by chance of being observed, heavier tails everywhere and, for"
        " choices, those of other rows and columns. Where it does not, a control is recommended, if it beats the"
        " ignorable model, or else the ignorable model.",
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
        "Each test is at 5 %, shared among the models of the missingness that were tried, with fewer degrees of freedom"
        " where the error rests on few seeds that disagree.",
    ),
    (
        "s",
        "Events for each recorded one (thinned counts). 1 is the paper's model, and s is shown where it is another.",
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
