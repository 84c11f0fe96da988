"""Is a model of the missingness better than every control? A test of one comparison, paired by held-out cell.

Enters: a comparison. Leaves: the gain of its best model of the missingness (coupled, or taste) over the best control,
with standard errors that take cells, rows and columns as independent in turn, and a p-value from the largest of what
they say together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.stats import t as student

from nmar.evaluate.gains import Errors

if TYPE_CHECKING:
    from nmar.evaluate.comparison import Comparison

__all__ = ["PairedTest", "paired_test"]

LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """A model of the missingness against the best of its controls on the same held-out cells.

    Attributes
    ----------
    gain : mean log likelihood of the model less that of the control, nats per held-out cell
    se : its standard error over cells, rows, columns and fits together; never below one of ``errors``
    errors : standard errors if cells, rows or columns were independent (``cells``, ``rows``, ``cols``)
    df : degrees of freedom of ``se``
    p_value : one-sided, of a gain this large where the model is no better than the control; times the number of models
        of the missingness, of which the best was taken
    model, control : names of the two; the control is the best of ignorable, tail-only, two-stage and, of taste, its
        shuffled control
    n_test : held-out cells, over all splits
    splits : splits and starts
    """

    gain: float
    se: float
    errors: Errors
    df: float
    p_value: float
    model: str
    control: str
    n_test: int
    splits: int

    def sentence(self) -> str:
        """The result in plain words."""
        if self.p_value < LEVEL:
            return f"Held-out values are more probable under {self.model} than under {self.control}."
        return f"No evidence that {self.model} is better than {self.control}."

    def text(self) -> str:
        """The result for a terminal."""
        each = ", ".join(f"{name} {se:.4f}" for name, se in self.errors._asdict().items())
        return "\n".join(
            [
                f"Missingness modelled or not: {self.n_test:,} held-out cells in {self.splits} split(s)",
                "",
                f"  {self.model} − {self.control}: {self.gain:+.4f} ± {self.se:.4f} nats per cell",
                f"  standard error with independent {each}; all of them and fits {self.se:.4f}",
                f"  p = {self.p_value:.3g} (one-sided)",
                "",
                self.sentence(),
            ]
        )

    def __str__(self) -> str:
        return self.text()


def paired_test(result: Comparison, data: str | None = None) -> PairedTest:
    """Test the best model of the missingness (of the first data model, unless named) against the best of its controls.

    Notes
    -----
    The best control is chosen on the cells that judge, which favours the control. The best of several models of the
    missingness is chosen there too, which favours that model: p is multiplied by their number (Bonferroni). Errors over
    rows and columns have at most one degree of freedom less than the shorter side has lines.
    """
    name = next(iter(result.entries)).data if data is None else data
    models = result.modelled(name)
    if not models:
        raise ValueError(f"{name!r} has no model of the missingness to be compared with a control; fit one (linkages=)")
    control = result.best_control(models[0])
    gain = result.difference(models[0], control)
    assert gain.errors is not None
    lines = min(min(part.shape) for part in result.test_cells)
    df = min(gain.df, float(lines - 1))
    p_value = min(1.0, len(models) * float(student.sf(gain.z, df)))
    return PairedTest(
        gain.mean,
        gain.se,
        gain.errors,
        df,
        p_value,
        result.plain(models[0]),
        result.plain(control),
        sum(len(part) for part in result.test_cells),
        len(result.test_cells),
    )
