"""Is a coupled model better than every control? A test of one comparison, paired by held-out cell.

Enters: a comparison. Leaves: the gain of its best coupled model over its best control, with standard errors that take
cells, rows and columns as independent in turn, and a p-value from the largest of what they say together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.stats import t as student

from nmar.report.gains import Errors

if TYPE_CHECKING:
    from nmar.report.comparison import Comparison

__all__ = ["PairedTest", "paired_test"]

LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """Coupled model against the best of its controls on the same held-out cells.

    Attributes
    ----------
    gain : mean log likelihood of the coupled model less that of the control, nats per held-out cell
    se : its standard error over cells, rows, columns and fits together; never below one of ``errors``
    errors : standard errors if cells, rows or columns were independent (``cells``, ``rows``, ``cols``)
    df : degrees of freedom of ``se``
    p_value : one-sided, of a gain this large where the coupled model is no better; times the number of coupled
        linkages, of which the best was taken
    coupled, control : names of the two models; the control is the best of tail-only, two-stage and blind
    blinded : whether the coupled model chose to trust the pattern not at all, in every fit: it is the blind control
    n_test : held-out cells, over all splits
    splits : splits and starts
    """

    gain: float
    se: float
    errors: Errors
    df: float
    p_value: float
    coupled: str
    control: str
    blinded: bool
    n_test: int
    splits: int

    def sentence(self) -> str:
        """The result in plain words."""
        if self.blinded:
            return "The coupled model chose to ignore what is missing, so that it is the blind control: no evidence."
        if self.p_value < LEVEL:
            return f"Held-out values are more probable under the coupled model than under {self.control}."
        return f"No evidence that the coupled model is better than {self.control}."

    def text(self) -> str:
        """The result for a terminal."""
        each = ", ".join(f"{name} {se:.4f}" for name, se in self.errors._asdict().items())
        return "\n".join(
            [
                f"Coupled model against its best control, {self.n_test:,} held-out cells in {self.splits} split(s)",
                "",
                f"  {self.coupled} − {self.control}: {self.gain:+.4f} ± {self.se:.4f} nats per cell",
                f"  standard error with independent {each}; all of them and fits {self.se:.4f}",
                f"  p = {self.p_value:.3g} (one-sided)",
                "",
                self.sentence(),
            ]
        )

    def __str__(self) -> str:
        return self.text()


def paired_test(result: Comparison, data: str | None = None) -> PairedTest:
    """Test the best coupled model of a data model (the first unless named) against the best of its controls.

    Notes
    -----
    The best control is chosen on the cells that judge, which favours the control. The best of several coupled linkages
    is chosen there too, which favours the coupled model: p is multiplied by their number (Bonferroni). Errors over rows
    and columns have at most one degree of freedom less than the shorter side has lines.
    """
    name = next(iter(result.entries)).data if data is None else data
    coupled = result.ranked([key for key in result.entries if key.data == name and key.kind == "coupled"])
    control = result.best_control(name)
    if not coupled or control is None:
        raise ValueError(f"{name!r} has no coupled model with a control to be compared with; fit them (control=True)")
    gain = result.difference(coupled[0], control)
    assert gain.errors is not None
    lines = min(min(part.shape) for part in result.test_cells)
    df = min(gain.df, float(lines - 1))
    p_value = min(1.0, len(coupled) * float(student.sf(gain.z, df)))
    return PairedTest(
        gain.mean,
        gain.se,
        gain.errors,
        df,
        p_value,
        result.name(coupled[0]),
        result.plain(control),
        result.blinded(coupled[0]),
        sum(len(part) for part in result.test_cells),
        len(result.test_cells),
    )
