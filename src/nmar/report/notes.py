"""What a reader of a report should know, in plain words."""

from __future__ import annotations

METHODS = (
    (
        "Held-out cells are hidden",
        "Test and validation cells are neither observed nor missing to the fitted pattern, so no model is"
        " told that they are missing when in truth they were kept back.",
    ),
    (
        "The control",
        "A coupled Gaussian is also a mixture of scales, so it has a heavier tail than the ignorable model."
        " The control has the same family, the same linkage and the same mixture, but its counts share one"
        " learned rate for all cells and know nothing of which cells are missing. What modelling the"
        " missingness is worth is coupled − control.",
    ),
    (
        "Two-stage",
        "The pattern is fitted alone, then a Gaussian whose log variance is a quadratic in log E[Λ]:"
        " heteroscedastic, but without a latent count. Gaussian models only.",
    ),
    (
        "Log likelihood",
        "Predictive, in nats per held-out observed cell, with the uncertainty of the data model integrated"
        " out; the plug-in column uses its posterior mean instead. One nat more means values e times as"
        " probable.",
    ),
    (
        "Standard errors",
        "Differences are paired cell by cell; ± is one standard error over cells, which are taken as"
        " independent given the fits. With several seeds a cell that is tested twice counts once. The"
        " verdict asks for 5 %, shared among the linkages that were tried.",
    ),
    (
        "P(observed)",
        "1 − exp(−Λ), with Λ the product of a row's and a column's non-negative factors. φ(n) multiplies the"
        " dispersion of a cell whose latent count is n; φ = 1 throughout would mean that the missingness can"
        " be ignored.",
    ),
)
