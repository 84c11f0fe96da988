"""What a reader of a report should know, in plain words."""

from __future__ import annotations

CONTROLS = (  # kind, what it is, what it means if it is as good as the coupled model or better
    (
        "tail",
        "Tail-only control",
        "The same family and linkage, but all cells share one rate of counts: a mixture of scales that knows nothing"
        " of which cells are missing.",
        "Values have a heavier tail than the ignorable model allows, whatever is missing.",
    ),
    (
        "two-stage",
        "Two-stage baseline",
        "The pattern is fitted alone until its bound settles; then a Gaussian whose log variance is a quadratic in"
        " log E[Λ]. Gaussian models only.",
        "The spread depends on P(observed), which is evidence that what is missing is linked to it; but a latent count"
        " is not needed.",
    ),
    (
        "blind",
        "Blind control",
        "The same model, starts and sweeps, but every row and column seems observed equally often; the values alone"
        " shape its factors.",
        "Rows and columns differ in noise, but not because of what is missing.",
    ),
)

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
        " coupled model beats the best of the three controls. Where it does not, the best control is recommended: it"
        " is a good heteroscedastic model in its own right.",
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
