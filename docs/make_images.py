"""Make the picture of the README: ``python docs/make_images.py``; needs the extras demo and report."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

import nmar
from nmar.data import movielens
from nmar.report import curves, figures

FOLDER = Path(__file__).parent / "images"


def main() -> None:
    """Residual variance against P(observed) on MovieLens-small, and the fitted free linkage beside it."""
    cells = movielens()
    train, valid, test = cells.split(test=0.2, valid=0.01, seed=0)
    model = nmar.CCPF(linkage="free", random_state=0).fit(train, valid=valid, hidden=test)
    result = nmar.missingness_test(cells, random_state=0, bins=60)
    FOLDER.mkdir(exist_ok=True)
    with rc_context({**figures.STYLE, "figure.facecolor": "white"}):
        page = Figure(figsize=(9.2, 3.4), layout="constrained")
        left, right = page.subplots(1, 2)
    figures.heteroscedasticity(result.bins, left)
    left.set_title("MovieLens-small: spread against P(observed)", loc="left", fontsize=11)
    figures.expected_linkage([curves.linkage_curve(model)], right)
    right.set_title("The fitted linkage (free)", loc="left", fontsize=11)
    page.savefig(FOLDER / "movielens.png", dpi=110)


if __name__ == "__main__":
    main()
