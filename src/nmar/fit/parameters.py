"""The settings of a fit, each described once: for the docstring of ``CCPF`` and for the options of the command line.

Nothing heavy is imported here, so that ``nmar --help`` is quick.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PARAMETERS", "Parameter", "defaults", "docstring"]


@dataclass(frozen=True)
class Parameter:
    """One setting."""

    name: str
    default: Any  # its default
    kind: str  # its type, as a docstring says it
    text: str  # Its meaning. The first sentence is the help of the option.
    option: str | None = None  # Name of the option, where it is not that of the setting. Empty: no option.
    read: Callable[[str], Any] = str  # makes the setting from the option's text
    choices: tuple[str, ...] | None = None  # texts that the option takes, where there are few
    usual: str | None = None  # its default in the words of the help, where the value does not say it

    @property
    def flag(self) -> str:
        """The option's name, or ""."""
        return f"--{self.name.replace('_', '-')}" if self.option is None else self.option

    @property
    def help(self) -> str:
        """One line for the command line, with the default."""
        brief = self.text.split(". ")[0].rstrip(".").replace("``", "")
        brief = brief[0].lower() + brief[1:]
        other = "" if self.option is None else f"; {self.name} in Python"
        return f"{brief} ({self.default if self.usual is None else self.usual}{other})"


def _number_or_auto(number: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        return text if text == "auto" else number(text)

    read.__name__ = f"{number.__name__} or auto"  # argparse names it where a text is refused
    return read


def _bounds(text: str) -> Any:
    if text in ("auto", "none"):
        return text
    return tuple(float(part) for part in text.split(","))


_bounds.__name__ = "auto, none or low,high[,step],"  # argparse names it where a text is refused


def _tail(text: str) -> Any:
    return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else float(text)


_tail.__name__ = "true, false or a number,"  # argparse names it where a text is refused


PARAMETERS: dict[str, Parameter] = {
    one.name: one
    for one in (
        Parameter(
            "data",
            None,
            "data model, str or None, default=None",
            "Model of the values. None is ``Factorization(10)``. A text names it as on the command line, "
            '"factorization:10".',
            usual="factorization:10",
        ),
        Parameter(
            "linkage",
            None,
            "str, linkage or None, default=None",
            'How the dispersion of a value depends on the latent count of its cell. None is "ignorable" for Gaussian '
            "values, because noise by row and column with a heavy tail predicts better than every linkage, and a free "
            'table for counts and other families, which have no such noise. "auto" chooses a linkage by validation. '
            '"linear:0.3" fixes c.',
            usual="ignorable for Gaussian values",
        ),
        Parameter(
            "factors",
            10,
            'int or "auto", default=10',
            'Number of components of the missingness pattern (the paper\'s K). "auto" chooses it by held-out '
            "likelihood.",
            read=_number_or_auto(int),
        ),
        Parameter(
            "solver",
            "batch",
            '{"batch", "minibatch", "entrywise"}, Minibatch or Entrywise, default="batch"',
            "Algorithm of the fit. Coordinate ascent over all cells; mini-batches of rows, also from a stream; or the "
            "paper's algorithm 1, cell by cell. :class:`nmar.Minibatch` and :class:`nmar.Entrywise` have settings.",
            choices=("batch", "minibatch", "entrywise"),
        ),
        Parameter(
            "control",
            False,
            'bool or {"tail", "shuffled"}, default=False',
            'Whether to fit a control instead of the model. "tail" (or True) is the same scale mixture with one rate '
            'for all cells, so that values do not depend on what is missing. "shuffled" is ``mechanism="taste"`` with '
            "the choices of other rows and columns, assigned at random.",
            choices=("tail", "shuffled"),
            usual="none",
        ),
        Parameter("max_iter", 200, "int, default=200", "Largest number of sweeps.", read=int),
        Parameter(
            "tol",
            None,
            "float or None, default=None",
            "Relative gain of the bound at which the fit stops. The fit has converged when a sweep raises the bound by "
            "less than ``tol`` of itself; 0 never stops. None is 0.0001, and 0.00003 with :class:`nmar.PatternOnly`, "
            "whose rankings improve a little longer.",
            read=float,
            usual="0.0001; 0.00003 where only what is observed is modelled",
        ),
        Parameter(
            "backend",
            "auto",
            '{"auto", "numba", "reference"}, default="auto"',
            'Implementation of the loops. "auto" and "numba" are compiled; "reference" is slow NumPy code that defines '
            "the results of the others.",
            choices=("auto", "numba", "reference"),
        ),
        Parameter(
            "n_jobs",
            None,
            "int or None, default=None",
            "Number of threads. It never changes the result. None is all processors.",
            "--jobs",
            int,
            usual="all processors",
        ),
        Parameter(
            "random_state",
            None,
            "int, Generator or None, default=None",
            "Seed of everything random. None draws a new one at each fit.",
            "--seed",
            int,
            usual="0",
        ),
        Parameter(
            "verbose",
            0,
            "int, default=0",
            "How much is shown. 0 is silent, 1 shows progress on a terminal and logs the end, 2 logs every sweep.",
            "",
            int,
        ),
        Parameter(
            "prior",
            "robust",
            '{"robust", "paper", "learned"}, default="robust"',
            'Prior shape of the pattern\'s weights. "robust" is 0.3, "paper" the much smaller one that the paper takes '
            'from the density, and "learned" estimates one for rows and one for columns.',
            choices=("robust", "paper", "learned"),
        ),
        Parameter(
            "starts",
            1,
            'int or "auto", default=1',
            "Number of starts of the linkage that are tried by short runs, where it has several modes. There are two "
            'to four; 1 takes the first without a short run, "auto" tries all. No run is longer than ``max_iter``, and '
            "all count in ``max_time`` and in the seconds of the trace.",
            read=_number_or_auto(int),
        ),
        Parameter(
            "dtype",
            "float64",
            '{"float64", "float32"}, default="float64"',
            "Storage of the factors. Sums are float64 in both cases.",
            choices=("float64", "float32"),
        ),
        Parameter(
            "max_time",
            None,
            "float or None, default=None",
            "Largest number of seconds, checked after each sweep.",
            read=float,
            usual="no limit",
        ),
        Parameter(
            "patience",
            10,
            "int, default=10",
            "Number of sweeps without a better validation score after which a fit with ``valid`` stops.",
            read=int,
        ),
        Parameter(
            "noise",
            None,
            '{"rows+cols", "rows", "cols", "constant"} or None, default=None',
            "Whether rows and columns have noise levels of their own. Values scatter more in some rows and columns "
            'than in others; the levels are learned, and where they do not differ they stay equal. None is "rows+cols" '
            "for Gaussian values with a linkage that does not move the mean and a solver other than the entrywise one, "
            'and "constant" otherwise.',
            choices=("rows+cols", "rows", "cols", "constant"),
            usual="rows+cols for Gaussian values",
        ),
        Parameter(
            "tail",
            None,
            "bool, float or None, default=None",
            "Whether values have a Student tail instead of a normal one. A number gives its degrees of freedom, True "
            'learns them. A tail needs ``linkage="ignorable"``. None is True where a tail is possible and ``noise`` is '
            'not "constant".',
            read=_tail,
            usual="true where there is noise by row or column and no linkage",
        ),
        Parameter(
            "mechanism",
            "none",
            '{"none", "taste", "value", "auto"} or ByValue, default="none"',
            'Why values are missing. "none" is because of their rows and columns. With "taste" a pattern is fitted '
            "first, and its weights, which describe what rows and columns choose, are covariates of the values' "
            'factors and biases (Gaussian factorization, effects and mixtures). With "value" the value itself decides '
            "whether it is observed, and the fit learns from missing cells too (Gaussian factorization and effects). "
            '"auto" chooses by held-out cells, observed and missing ones (``choices_``); "value" only where it gains '
            "more than two standard errors.",
            choices=("none", "taste", "value", "auto"),
        ),
        Parameter(
            "target",
            "observed",
            '{"observed", "all"}, default="observed"',
            'Which cells predictions are about. "observed" is values given that they are observed. "all" is values of '
            "all cells, whether anybody chose to observe them or not; training cells are then weighted by the inverse "
            "of their P(observed), from a pattern that is fitted first.",
            choices=("observed", "all"),
        ),
        Parameter(
            "propensity",
            None,
            "callable, array or None, default=None",
            'P(observed) from another source, with ``target="all"``. A function of row and column ids, a matrix, or '
            "one number for each training cell in row-major order. None takes it from the pattern.",
            "",
        ),
        Parameter(
            "bounds",
            None,
            '"auto", (low, high), (low, high, step) or None, default=None',
            "Range of the values, to which predictions, intervals and draws are confined. With a step they are rounded "
            'to the levels. "auto" takes range and levels of ratings from the training values. None means no bounds. '
            "Densities and the fit remain those of a continuous value.",
            read=_bounds,
            usual="auto on the command line",
        ),
        Parameter(
            "warm_start",
            False,
            "bool, default=False",
            "Whether ``fit`` starts from the present model, where there is one. Cells, ``max_iter`` and ``tol`` may "
            "change; data model, linkage and factors stay.",
            "",
        ),
        Parameter(
            "pattern",
            None,
            "Pattern or None, default=None",
            "Model of P(observed). ``nmar.Pattern(10, rows=users, cols=films)`` has covariates of rows, of columns and "
            "their products beside its factors; ``factors=K`` is short for ``nmar.Pattern(K)``.",
            "",
        ),
    )
}


def defaults() -> dict[str, Any]:
    """The default of every setting."""
    return {name: one.default for name, one in PARAMETERS.items()}


def docstring(indent: str = "    ", width: int = 120) -> str:
    """The settings as the Parameters section of a docstring."""
    lines = []
    for one in PARAMETERS.values():
        lines.append(f"{indent}{one.name} : {one.kind}")
        inner = indent + "    "
        lines += textwrap.wrap(one.text, width, initial_indent=inner, subsequent_indent=inner, break_long_words=False)
    return "\n".join(lines)
