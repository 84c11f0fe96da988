"""The scikit-learn face of the library: parameters in, fitted attributes out, no mathematics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from nmar.estimators.hooks import CallbackSupport
from nmar.estimators.imputing import Imputing
from nmar.estimators.learned import Learned
from nmar.estimators.learning import Learning
from nmar.estimators.predicting import Predicting
from nmar.estimators.ranking import Ranking
from nmar.estimators.stored import restore
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch
from nmar.models.mechanism import ByValue
from nmar.models.missingness import Pattern
from nmar.models.settings import Settings
from nmar.posterior.store import load as load_record
from nmar.prob.linkage import Linkage
from nmar.prob.support import Bounds


class CCPF(CallbackSupport, Learning, Learned, Predicting, Imputing, Ranking):
    """Coupled compound Poisson factorization: a model of the values and of which of them are observed.

    Unstored entries of a sparse matrix are *missing* here, not zero; a stored 0 is an observed 0.

    Parameters
    ----------
    data : data model, str or None, default=None
        Model of the values. None is ``Factorization(10)``. A text names it as on the command line, "factorization:10".
    linkage : str, linkage or None, default=None
        How the dispersion of a value depends on the latent count of its cell. None is "ignorable" for Gaussian values,
        because noise by row and column with a heavy tail predicts better than every linkage, and a free table for
        counts and other families, which have no such noise. "auto" chooses a linkage by validation. "linear:0.3" fixes
        c.
    factors : int or "auto", default=10
        Number of components of the missingness pattern (the paper's K). "auto" chooses it by held-out likelihood.
    solver : {"batch", "minibatch", "entrywise"}, Minibatch or Entrywise, default="batch"
        Algorithm of the fit. Coordinate ascent over all cells; mini-batches of rows, also from a stream; or the paper's
        algorithm 1, cell by cell. :class:`nmar.Minibatch` and :class:`nmar.Entrywise` have settings.
    control : bool or {"tail", "shuffled"}, default=False
        Whether to fit a control instead of the model. "tail" (or True) is the same scale mixture with one rate for all
        cells, so that values do not depend on what is missing. "shuffled" is ``mechanism="taste"`` with the choices of
        other rows and columns, assigned at random.
    max_iter : int, default=200
        Largest number of sweeps.
    tol : float or None, default=None
        Relative gain of the bound at which the fit stops. The fit has converged when a sweep raises the bound by less
        than ``tol`` of itself; 0 never stops. None is 0.0001, and 0.00003 with :class:`nmar.PatternOnly`, whose
        rankings improve a little longer.
    backend : {"auto", "numba", "reference"}, default="auto"
        Implementation of the loops. "auto" and "numba" are compiled; "reference" is slow NumPy code that defines the
        results of the others.
    n_jobs : int or None, default=None
        Number of threads. It never changes the result. None is all processors.
    random_state : int, Generator or None, default=None
        Seed of everything random. None draws a new one at each fit.
    verbose : int, default=0
        How much is shown. 0 is silent, 1 shows progress on a terminal and logs the end, 2 logs every sweep.
    prior : {"robust", "paper", "learned"}, default="robust"
        Prior shape of the pattern's weights. "robust" is 0.3, "paper" the much smaller one that the paper takes from
        the density, and "learned" estimates one for rows and one for columns.
    starts : int or "auto", default=1
        Number of starts of the linkage that are tried by short runs, where it has several modes. There are two to four;
        1 takes the first without a short run, "auto" tries all. No run is longer than ``max_iter``, and all count in
        ``max_time`` and in the seconds of the trace.
    dtype : {"float64", "float32"}, default="float64"
        Storage of the factors. Sums are float64 in both cases.
    max_time : float or None, default=None
        Largest number of seconds, checked after each sweep.
    patience : int, default=10
        Number of sweeps without a better validation score after which a fit with ``valid`` stops.
    noise : {"rows+cols", "rows", "cols", "constant"} or None, default=None
        Whether rows and columns have noise levels of their own. Values scatter more in some rows and columns than in
        others; the levels are learned, and where they do not differ they stay equal. None is "rows+cols" for Gaussian
        values with a linkage that does not move the mean and a solver other than the entrywise one, and "constant"
        otherwise.
    tail : bool, float or None, default=None
        Whether values have a Student tail instead of a normal one. A number gives its degrees of freedom, True learns
        them. A tail needs ``linkage="ignorable"``. None is True where a tail is possible and ``noise`` is not
        "constant".
    mechanism : {"none", "taste", "value", "auto"} or ByValue, default="none"
        Why values are missing. "none" is because of their rows and columns. With "taste" a pattern is fitted first, and
        its weights, which describe what rows and columns choose, are covariates of the values' factors and biases
        (Gaussian factorization, effects and mixtures). With "value" the value itself decides whether it is observed,
        and the fit learns from missing cells too (Gaussian factorization and effects). "auto" chooses by held-out
        cells, observed and missing ones (``choices_``); "value" only where it gains more than two standard errors.
    target : {"observed", "all"}, default="observed"
        Which cells predictions are about. "observed" is values given that they are observed. "all" is values of all
        cells, whether anybody chose to observe them or not; training cells are then weighted by the inverse of their
        P(observed), from a pattern that is fitted first.
    propensity : callable, array or None, default=None
        P(observed) from another source, with ``target="all"``. A function of row and column ids, a matrix, or one
        number for each training cell in row-major order. None takes it from the pattern.
    bounds : "auto", (low, high), (low, high, step) or None, default=None
        Range of the values, to which predictions, intervals and draws are confined. With a step they are rounded to the
        levels. "auto" takes range and levels of ratings from the training values. None means no bounds. Densities and
        the fit remain those of a continuous value.
    warm_start : bool, default=False
        Whether ``fit`` starts from the present model, where there is one. Cells, ``max_iter`` and ``tol`` may change;
        data model, linkage and factors stay.
    pattern : Pattern or None, default=None
        Model of P(observed). ``nmar.Pattern(10, rows=users, cols=films)`` has covariates of rows, of columns and their
        products beside its factors; ``factors=K`` is short for ``nmar.Pattern(K)``.

    Attributes
    ----------
    posterior_ : Posterior
        Everything that was learned.
    linkage_ : Linkage
        Fitted linkage, with ``table(n)`` and, where it has one, ``c``.
    dispersion_ : float
        σ² (Gaussian) or κ.
    bound_trace_, valid_trace_, seconds_trace_ : ndarray
        Bound, validation score and seconds, one entry per sweep.
    n_iter_ : int
        Number of sweeps.
    stop_reason_ : str
        Why the fit ended: "converged" (``tol``), "validation" (``patience``), "max_iter", "max_time", "callback" or
        "interrupted" (Ctrl-C).
    choices_ : tuple of Choice
        Values that were tried for a setting that is "auto", best first, with the distance to the best and its standard
        error.
    training_cells_ : Cells or None
        Cells that the model was fitted to. None where it does not hold them (loaded without them, or from a stream).
    hidden_cells_ : tuple of Cells
        Cells that were neither observed nor missing in the fit.
    mechanism_ : LearnedMechanism
        Why values are missing: ``kind``, ``taste`` and ``value`` (slopes for a spread of the observed
        values) with ``taste_sd`` and ``value_sd``, and ``curve(y)``, P(observed | y) with a band.
    row_noise_, col_noise_ : NoiseLevels
        How far the values of each row and column scatter: ``ids``, ``level``, ``sd``, ``noisiest(n)``.
    effective_cells_ : float or None
        With ``target="all"``, the number of cells of equal weight that hold as much information as the weighted ones.
    row_factors_, col_factors_ : Factors
        Factors of the values with standard deviations: ``mean``, ``sd``, ``frame()``, and ``top(n)``, the rows or
        columns that stand out in each.
    row_pattern_, col_pattern_ : Factors
        Factors of the missingness pattern.
    levels_, styles_ : ndarray, LevelStyles
        Levels in order, and their cut points by style with the style of each line (``family="levels"``).
    labels_, responsibilities_ : ndarray
        Clusters, and the probability of each (``Mixture``).
    coefficients_ : Coefficients
        Coefficients with standard deviations by covariate name (``Regression``).
    covariate_effects_ : Coefficients
        Effects of covariates with standard deviations by name (``Factorization(rows=…, cols=…)``).
    pattern_effects_ : Coefficients
        Effects of covariates on the rate of being observed, by name (``Pattern(rows=…, cols=…)``).

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), density=0.2, seed=0)
    >>> train, valid, test = cells.split(seed=0)
    >>> model = nmar.CCPF(data=nmar.Factorization(2), factors=3, max_iter=10, random_state=0).fit(train)
    >>> round(model.predict_entries([0, 1], [2, 3]).shape[0])
    2
    """

    def __init__(
        self,
        data: Settings | str | None = None,
        linkage: str | Linkage | None = None,
        factors: int | Literal["auto"] = 10,
        solver: Literal["batch", "minibatch", "entrywise"] | Minibatch | Entrywise = "batch",
        control: bool | Literal["tail", "shuffled"] = False,
        max_iter: int = 200,
        tol: float | None = None,
        backend: Literal["auto", "numba", "reference"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        prior: Literal["robust", "paper", "learned"] = "robust",
        starts: int | Literal["auto"] = 1,
        dtype: Literal["float64", "float32"] = "float64",
        max_time: float | None = None,
        patience: int = 10,
        noise: Literal["rows+cols", "rows", "cols", "constant"] | None = None,
        tail: bool | float | None = None,
        mechanism: Literal["none", "taste", "value", "auto"] | ByValue = "none",
        target: Literal["observed", "all"] = "observed",
        propensity: Any = None,
        bounds: Bounds = None,
        warm_start: bool = False,
        pattern: Pattern | None = None,
    ) -> None:
        self.data = data
        self.linkage = linkage
        self.factors = factors
        self.solver = solver
        self.control = control
        self.max_iter = max_iter
        self.tol = tol
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.prior = prior
        self.starts = starts
        self.dtype = dtype
        self.max_time = max_time
        self.patience = patience
        self.noise = noise
        self.tail = tail
        self.mechanism = mechanism
        self.target = target
        self.propensity = propensity
        self.bounds = bounds
        self.warm_start = warm_start
        self.pattern = pattern


def load(path: str | os.PathLike[str], trusted: Sequence[str] = ()) -> CCPF:
    """Read a model written by :meth:`CCPF.save`.

    Parameters
    ----------
    path : str or path-like
        File of the model.
    trusted : sequence of str, default=()
        Names of types, such as ``["sklearn.tree._tree.Tree"]``, that a scikit-learn estimator in the file
        (:class:`nmar.Regressor`) may be made of, beside those that skops trusts. A file that needs others is
        refused with their names. List them if you trust the source of the file.

    Returns
    -------
    CCPF
        The fitted model. It holds its training cells if they were saved (``save(seen=True)``).

    Examples
    --------
    >>> import os, tempfile
    >>> import nmar
    >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> path = os.path.join(tempfile.mkdtemp(), "m.nmar")
    >>> model.save(path)
    >>> nmar.load(path).n_iter_ == model.n_iter_
    True
    """
    if isinstance(trusted, str):
        raise ValueError(f"trusted={trusted!r}; give a list of names, [{trusted!r}]")
    return restore(CCPF, load_record(path, trusted=trusted), path)
