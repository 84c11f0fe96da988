"""What users write to choose a data model; each builds the model that runs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.covariates import Design, design
from nmar.models.bilinear import Bilinear, Coordinates
from nmar.models.element import Element, NormalElement
from nmar.models.mixture import ClusterModel
from nmar.models.product import Product, shape_by_moments
from nmar.models.protocol import DataModel
from nmar.models.regressor import Learner
from nmar.models.unmodelled import Unmodelled
from nmar.prob.families import FAMILIES, Family

Array = NDArray[Any]

FULL_COVARIATES = 40  # up to this many coordinates a full covariance matrix is kept for every line


class Settings(Protocol):
    """A choice of data model."""

    def build(self, cells: Cells | None) -> DataModel:
        """The model for these cells."""
        ...

    def describe(self) -> str:
        """A short name for tables."""
        ...


def check_choice(argument: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{argument}={value!r}; use one of {', '.join(map(repr, choices))}")


def check_count(argument: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:  # type: ignore[call-overload]
        raise ValueError(f"{argument}={value!r}; give a whole number of at least {least}")


def check_share(argument: str, value: object) -> None:
    """Raise unless ``value`` is a number from 0 to 1."""
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{argument}={value!r}; give a number from 0 to 1")


def check_lines(argument: str, given: int, axis: int, cells: Cells) -> None:
    """Raise unless there are as many lines of covariates as the matrix has rows or columns; names those without."""
    ids = (cells.row_ids, cells.col_ids)[axis]
    if given < len(ids):
        raise ValueError(f"{argument} has {given} lines, none for {listed(axis, ids[given:])}; {_remedy(argument)}")
    if given > len(ids):
        name = ("rows", "columns")[axis]
        raise ValueError(f"{argument} has {given} lines but the matrix has {len(ids)} {name}; give one line for each")


def listed(axis: int, ids: Any) -> str:
    """Some ids by name."""
    few = ", ".join(repr(key.item() if hasattr(key, "item") else key) for key in ids[:3])
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    return f"{('row', 'column')[axis]}{'s' if len(ids) > 1 else ''} {few}{more}"


def _remedy(argument: str) -> str:
    return f"give one for every id of the matrix: set_params(data=…) with longer {argument}, or leave those cells out"


def warn_of_rank(rank: int, cells: Cells | None) -> None:
    """Warn of a rank that no matrix of the shape has."""
    if cells is not None and rank > min(cells.shape):
        rows, cols = cells.shape
        warnings.warn(
            f"rank={rank} is above the smaller side of a {rows} × {cols} matrix; a rank of at most {min(rows, cols)}"
            " describes any matrix of that shape, in less time and memory",
            UserWarning,
            stacklevel=3,
        )


def with_intercepts(rank: int, cells: Cells | None) -> tuple[Coordinates, Coordinates]:
    """Coordinates (factors, own intercept, 1) of the longer axis and (factors, 1, own intercept) of the other.

    The longer axis comes first, so that a transposed matrix gives the transposed answer to the last bit.
    """
    factors, zeros = (True,) * rank, (0.0,) * rank
    longer = Coordinates((*factors, True, False), (*zeros, 0.0, 1.0), (*factors, True, False), rank)
    other = Coordinates((*factors, False, True), (*zeros, 1.0, 0.0), (*factors, False, True), rank + 1)
    rows_first = cells is None or cells.shape[0] >= cells.shape[1]
    return (longer, other) if rows_first else (other, longer)


def check_covariates(family: str, rows: Any, cols: Any) -> None:
    """Covariates move the means of normal lines."""
    if family != "gaussian" and not (rows is None and cols is None):
        raise ValueError(f"covariates are for family='gaussian'; rows and cols must be None with family={family!r}")


def with_designs(
    axes: tuple[Coordinates, Coordinates], cells: Cells | None, rows: Any, cols: Any
) -> tuple[Coordinates, Coordinates]:
    """The axes with covariates, where they are given."""
    first, second = (
        axis if known is None else replace(axis, design=known)
        for axis, known in zip(axes, designs(cells, rows, cols), strict=True)
    )
    return first, second


def designs(cells: Cells | None, rows: Any, cols: Any) -> tuple[Design | None, Design | None]:
    """Covariates of both axes as numbers, None where there are none."""
    if rows is None and cols is None:
        return None, None
    if cells is None:
        raise ValueError("a model with covariates cannot be simulated; simulate without them")
    of_rows = None if rows is None else design(rows, cells.rows, "rows")
    return of_rows, None if cols is None else design(cols, cells.cols, "cols")


@dataclass(frozen=True)
class Factorization:
    """Matrix factorization of the values.

    Parameters
    ----------
    rank : number of factors
    family : "gaussian" (normal lines, probabilistic matrix factorization) or "poisson" (gamma lines)
    covariance : "full" (one covariance matrix per line) or "diagonal" (the paper's); Gaussian only
    bias : row and column biases; Gaussian only
    rows, cols : covariates of the rows and of the columns, on which the prior means of their factors and biases depend;
        a frame with a line per id (in a pandas index, or in the one column that holds every id), or an array with a
        line per position. Ids without cells are predicted from theirs. Gaussian only

    Examples
    --------
    >>> Factorization(5).describe()
    'factorization:5'
    """

    rank: int = 10
    family: Literal["gaussian", "poisson"] = "gaussian"
    covariance: Literal["full", "diagonal"] = "full"
    bias: bool = True
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_count("rank", self.rank, 1)
        check_choice("family", self.family, ("gaussian", "poisson"))
        check_choice("covariance", self.covariance, ("full", "diagonal"))
        check_covariates(self.family, self.rows, self.cols)

    def build(self, cells: Cells | None) -> DataModel:
        """A Gaussian bilinear model or a Poisson product. Warns of a rank above the matrix's smaller side."""
        warn_of_rank(self.rank, cells)
        if self.family == "poisson":
            return self._poisson(cells)
        factors = (True,) * self.rank
        axis = Coordinates(factors, (0.0,) * self.rank, factors)
        axes = with_intercepts(self.rank, cells) if self.bias else (axis, axis)
        return Bilinear(with_designs(axes, cells, self.rows, self.cols), self.covariance, self.rank)

    def _poisson(self, cells: Cells | None) -> DataModel:
        """Hierarchical gamma lines whose priors are as wide as the line means differ beyond Poisson noise.

        With the sparse prior of implicit counts (shape 0.3) values of a few, all alike, come out far too spread.
        """
        if cells is None:
            return Product(self.rank)
        mean = max(cells.by(0).mean(), 1e-6)
        between = min(_effect_shape(cells, axis, mean) for axis in (0, 1))
        shape, level = max(between / self.rank, 0.1), np.sqrt(mean / self.rank)
        return Product(self.rank, shape, between, between * float(level) / shape)

    def describe(self) -> str:
        """Name and rank, and whether it has covariates."""
        name = "factorization" if self.family == "gaussian" else "poisson-factorization"
        known = "" if self.rows is None and self.cols is None else "+covariates"
        return f"{name}:{self.rank}" + (":diagonal" if self.covariance == "diagonal" else "") + known


SURE_SCALE = 1e6  # prior shape of a scale that is the same for all lines, for all practical purposes


def _effect_shape(cells: Cells, axis: int, mean: float) -> float:
    """Shape of the gamma prior of one axis's Poisson effects, by moments."""
    lines = cells.by(axis)
    return shape_by_moments(lines.line_sums(), np.diff(lines.indptr), mean)


@dataclass(frozen=True)
class Effects:
    """Row means, column means, or both: what the paper's appendix prints under the name of a mixture.

    The appendix's "GMM" and "PMM" have no assignment variable; each row (or column) has a mean of its own. For clusters
    use :class:`Mixture`.

    Parameters
    ----------
    axis : "rows", "cols" or "both"
    family : "gaussian" (additive) or "poisson" (multiplicative for "both")
    rows, cols : covariates, as in :class:`Factorization`

    Examples
    --------
    >>> Effects("both", family="poisson").describe()
    'poisson-effects:both'
    """

    axis: Literal["rows", "cols", "both"] = "rows"
    family: Literal["gaussian", "poisson"] = "gaussian"
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("axis", self.axis, ("rows", "cols", "both"))
        check_choice("family", self.family, ("gaussian", "poisson"))
        check_covariates(self.family, self.rows, self.cols)
        other = {"rows": self.cols, "cols": self.rows, "both": None}[self.axis]
        if other is not None:
            raise ValueError(f"axis={self.axis!r} has no effects of the other axis, so its covariates say nothing")

    def build(self, cells: Cells | None) -> DataModel:
        """A bilinear model of intercepts, or a Poisson product of rank 1."""
        if self.family == "poisson":
            return self._poisson(cells)
        own, other = Coordinates((True,), (0.0,), (True,), 0), Coordinates((False,), (1.0,), (False,))
        axes = (own, other) if self.axis == "rows" else (other, own)
        if self.axis == "both":
            axes = with_intercepts(0, cells)
        return Bilinear(with_designs(axes, cells, self.rows, self.cols))

    def _poisson(self, cells: Cells | None) -> DataModel:
        """Gamma effects around a common level: one weight says nothing about a scale of its own, so lines share it.

        The spread of the prior is the spread of the line means beyond Poisson noise, by moments.
        """
        known = (self.axis == "cols", self.axis == "rows")
        if cells is None:
            return Product(1, known=known)
        mean = max(cells.by(0).mean(), 1e-6)
        shapes = [_effect_shape(cells, axis, mean) for axis in (0, 1) if not known[axis]]
        shape, level = min(shapes), mean ** (1.0 / len(shapes))
        return Product(1, shape, SURE_SCALE, SURE_SCALE * level / shape, known)

    def describe(self) -> str:
        """Name and axis, and whether it has covariates."""
        known = "" if self.rows is None and self.cols is None else "+covariates"
        return f"{'' if self.family == 'gaussian' else 'poisson-'}effects:{self.axis}{known}"


@dataclass(frozen=True)
class Mixture:
    """Clusters of rows or of columns.

    Parameters
    ----------
    clusters : number of clusters
    axis : "rows" or "cols": what is clustered
    family : "gaussian" or "poisson"
    concentration : Dirichlet prior of each cluster weight
    restarts : random starts; the best bound goes on
    rows, cols : covariates, as in :class:`Factorization`. Those of the axis that is clustered move the prior
        probabilities of its clusters, those of the other axis the prior means of the clusters' profiles (Gaussian only)

    Examples
    --------
    >>> Mixture(3, "cols", cols=np.arange(8.0).reshape(4, 2)).describe()
    'mixture:3:cols+covariates'
    """

    clusters: int = 10
    axis: Literal["rows", "cols"] = "rows"
    family: Literal["gaussian", "poisson"] = "gaussian"
    concentration: float = 1.0
    restarts: int = 4
    rows: Any = field(default=None, compare=False, repr=False)
    cols: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_count("clusters", self.clusters, 1)
        check_count("restarts", self.restarts, 1)
        check_choice("axis", self.axis, ("rows", "cols"))
        check_choice("family", self.family, ("gaussian", "poisson"))
        if not self.concentration > 0:
            raise ValueError(f"concentration={self.concentration!r}; give a number above 0")
        other = "cols" if self.axis == "rows" else "rows"
        if self.family != "gaussian" and getattr(self, other) is not None:
            raise ValueError(
                f"{other} must be None with family={self.family!r}: profiles of the clusters have gamma priors there,"
                f" whose means cannot be linear in covariates; those of {self.axis}, which are clustered, can be given"
            )
        if self.clusters == 1 and getattr(self, self.axis) is not None:
            raise ValueError(f"clusters=1: covariates of {self.axis} move the odds of clusters, and there is only one")

    def build(self, cells: Cells | None) -> DataModel:
        """A cluster model."""
        axis, known = 0 if self.axis == "rows" else 1, designs(cells, self.rows, self.cols)
        return ClusterModel(self.clusters, axis, self.family, self.concentration, self.restarts, known)

    def describe(self) -> str:
        """Name, clusters and axis, and whether it has covariates."""
        known = "" if self.rows is None and self.cols is None else "+covariates"
        return f"{'' if self.family == 'gaussian' else 'poisson-'}mixture:{self.clusters}:{self.axis}{known}"


@dataclass(frozen=True)
class Constant:
    """One natural parameter for the whole matrix.

    Parameters
    ----------
    family : any of "gaussian", "gamma", "inverse_gaussian", "poisson", "binomial" and "negative_binomial"
    trials : number of trials of the binomial (its κ)
    prior : "normal-gamma" (the paper's) or "normal", for the Gaussian

    Notes
    -----
    With ``linkage="compound"`` this is hierarchical compound Poisson factorization; for the Gaussian that is
    ``Compound(mean="scale")``, under which y ~ N(nμ, nσ²).

    Examples
    --------
    >>> Constant("binomial", trials=10).describe()
    'constant:binomial'
    """

    family: str = "gaussian"
    trials: int | None = None
    prior: Literal["normal-gamma", "normal"] = "normal-gamma"

    def __post_init__(self) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("prior", self.prior, ("normal-gamma", "normal"))
        if self._law.whole_dispersion:
            check_count("trials", 0 if self.trials is None else self.trials, 1)

    @property
    def _law(self) -> Family:
        return FAMILIES[self.family]

    def build(self, cells: Cells | None) -> DataModel:
        """A conjugate element."""
        if self._law.location:
            return NormalElement(self.prior == "normal-gamma")
        return Element(self.family, self.trials if self._law.whole_dispersion else None)

    def describe(self) -> str:
        """Name and family."""
        return f"constant:{self.family}"


@dataclass(frozen=True, eq=False)
class Regression:
    """Linear regression with a coefficient vector per row on column covariates, or per column on row covariates.

    Parameters
    ----------
    covariates : (lines, covariates) array or frame
        One line per column of the matrix (per row, for ``axis="cols"``), in its order; a frame whose index holds the
        ids is put in order by them.
    axis : "rows" (default) or "cols": what has coefficients
    covariance : "full", "diagonal", or "auto": full up to 40 covariates
    names : names of the covariates; a frame brings its own

    Examples
    --------
    >>> Regression(np.arange(6.0).reshape(3, 2), names=("dose", "age")).covariate_names
    ('intercept', 'dose', 'age')
    """

    covariates: Any
    axis: Literal["rows", "cols"] = "rows"
    covariance: Literal["auto", "full", "diagonal"] = "auto"
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("axis", self.axis, ("rows", "cols"))
        check_choice("covariance", self.covariance, ("auto", "full", "diagonal"))

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """Names, the intercept first."""
        if self.names is not None:
            return ("intercept", *self.names)
        if hasattr(self.covariates, "columns"):
            return ("intercept", *(str(name) for name in self.covariates.columns))
        return ("intercept", *(f"x{k}" for k in range(np.shape(self.covariates)[1])))

    def build(self, cells: Cells | None) -> DataModel:
        """A bilinear model with one side known: an intercept and standardised covariates."""
        known = self._design(cells)
        size = known.shape[1]
        yes, no, zero = (True,) * size, (False,) * size, (0.0,) * size
        own, other = Coordinates(yes, zero, yes), Coordinates(no, zero, no, -1, known)
        small = "full" if size <= FULL_COVARIATES else "diagonal"
        covariance = small if self.covariance == "auto" else self.covariance
        return Bilinear((own, other) if self.axis == "rows" else (other, own), covariance)

    def portable(self, rows: Axis, cols: Axis) -> Regression:
        """The same as model files can hold it: an array in the order of the fitted lines, and the names."""
        ids = (cols if self.axis == "rows" else rows).ids
        return replace(self, covariates=self._ordered(ids), names=self.covariate_names[1:])

    def _ordered(self, ids: Array | None) -> Array:
        """The covariates as numbers, in the order of these ids where a frame has them in its index."""
        table = self.covariates
        if ids is not None and hasattr(table, "reindex"):
            absent = [key for key in ids if key not in table.index]
            if absent:
                side = 1 if self.axis == "rows" else 0
                raise ValueError(f"covariates has no line for {listed(side, absent)}; {_remedy('covariates')}")
            table = table.loc[list(ids)]
        return np.asarray(table, np.float64)

    def _design(self, cells: Cells | None) -> Array:
        side = 1 if self.axis == "rows" else 0
        x = self._ordered(None if cells is None else (cells.col_ids if side == 1 else cells.row_ids))
        if x.ndim != 2 or not np.all(np.isfinite(x)):
            raise ValueError("covariates must be a table of finite numbers; impute or drop the missing ones first")
        if cells is not None:
            check_lines("covariates", len(x), side, cells)
        spread = x.std(axis=0)
        scaled = (x - x.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return np.column_stack([np.ones(len(x)), scaled])

    def describe(self) -> str:
        """Name and number of covariates."""
        return f"regression:{len(self.covariate_names) - 1}"


@dataclass(frozen=True, eq=False)
class Regressor:
    """Any scikit-learn regressor that takes ``sample_weight``, on features of rows, of columns, or of both.

    Parameters
    ----------
    estimator : such as ``HistGradientBoostingRegressor()``; its targets are standardised, so that a penalty of its own
        means the same in any units
    row_features : (rows, features) array in the order of the matrix, or None
    col_features : (columns, features) array, or None
    family : "gaussian"; the only one

    Notes
    -----
    Models and checkpoints with an estimator are written by skops, without pickle (``pip install 'nmar[estimators]'``);
    see ``trusted`` of :func:`nmar.load`.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> Regressor(Ridge(), col_features=np.arange(4.0)[:, None]).describe()
    'regressor:Ridge'
    """

    estimator: Any
    row_features: Any = None
    col_features: Any = None
    family: str = "gaussian"

    def __post_init__(self) -> None:
        if not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")):
            raise ValueError(f"estimator={self.estimator!r} has no fit and predict; give a scikit-learn regressor")
        if self.row_features is None and self.col_features is None:
            raise ValueError("row_features and col_features are both None; give at least one of them")

    def build(self, cells: Cells | None) -> DataModel:
        """A learner on the features."""
        given = [None if f is None else np.asarray(f) for f in (self.row_features, self.col_features)]
        for axis, features in enumerate(given):
            if cells is not None and features is not None:
                check_lines(("row_features", "col_features")[axis], len(features), axis, cells)
        return Learner(self.estimator, given[0], given[1])

    def fitted_to_few(self, cells: Cells) -> Any:
        """The estimator as a fit of these cells makes it, from some of them: to see what it is made of."""
        some = cells.select(np.arange(cells.n_observed) < 1000)
        return self.build(cells).init(some, 0, np.random.default_rng(0)).globals.estimator

    def portable(self, rows: Axis, cols: Axis) -> Regressor:
        """The same as model files can hold it: features as arrays."""
        given = [None if f is None else np.asarray(f) for f in (self.row_features, self.col_features)]
        return replace(self, row_features=given[0], col_features=given[1])

    def describe(self) -> str:
        """Name of the estimator."""
        return f"regressor:{type(self.estimator).__name__}"


@dataclass(frozen=True)
class PatternOnly:
    """No model of the values: hierarchical Poisson factorization of which cells are observed.

    Fits with ``linkage="ignorable"`` only. ``observed_probability`` and ``recommend(by="observed")`` work as ever;
    whatever asks about values is refused.

    Examples
    --------
    >>> PatternOnly().describe()
    'pattern only'
    """

    def build(self, cells: Cells | None) -> DataModel:
        """A model without values."""
        return Unmodelled()

    def describe(self) -> str:
        """Its name."""
        return "pattern only"
