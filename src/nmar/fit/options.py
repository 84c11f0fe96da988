"""The settings of a fit in one record, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.fit.loop.stop import StopRule
from nmar.fit.names import data_named, linkage_named
from nmar.fit.parameters import defaults
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch
from nmar.models.arguments import check_choice, check_count
from nmar.models.bilinear import Bilinear
from nmar.models.mechanism import ByValue
from nmar.models.missingness import SHAPE, Pattern
from nmar.models.noise import FREEDOM, Noise
from nmar.models.protocol import DataModel
from nmar.models.settings import Factorization, PatternOnly, Settings
from nmar.models.settings.leveled import NAME as LEVELS
from nmar.models.settings.leveled import LevelSettings
from nmar.posterior.store import register
from nmar.prob.families import Family, family
from nmar.prob.linkage import Free, Ignorable, Linkage, linkage
from nmar.prob.twostage import Quadratic

PRIORS = ("robust", "paper", "learned")
MECHANISMS = ("none", "taste", "value", "auto")
NOISES = ("constant", "rows", "cols", "rows+cols")
USUAL = defaults()
SOLVERS = ("batch", "minibatch", "entrywise")

for _solver in (Minibatch, Entrywise):  # a saved model names its solver
    register(_solver)


def is_leveled(data: Any) -> bool:
    """Whether the values of a data model are levels."""
    return getattr(data, "family", None) == LEVELS


def with_levels(data: Any, cells: Cells) -> Any:
    """A data model with the levels of these cells, where its values are levels that were left to be found."""
    if not is_leveled(data) or data.levels is not None:
        return data
    return replace(data, levels=tuple(data.level_settings().values(cells).tolist()))


def latent_family(data: Any) -> Family:
    """The family of the values; of levels, that of the values behind them."""
    return family("gaussian" if is_leveled(data) else getattr(data, "family", "gaussian"))


def coupling(data: Any) -> Linkage:
    """The linkage that a comparison couples values and counts by where none is named: a free table.

    Where there are no values, or trials that a table would make fractions of, it is the ignorable one.
    """
    alone = latent_family(data).whole_dispersion or isinstance(data, PatternOnly) or is_leveled(data)
    return Ignorable() if alone else Free()


def plain_linkage(data: Any) -> Linkage:
    """The linkage of a fit that names none (docs/experiments/noise.md).

    Gaussian values have noise by row and column and none; other families, which cannot, have a free table.
    """
    return Ignorable() if latent_family(data).location else coupling(data)


def usual_tol(data: Settings) -> float:
    """Default of ``tol``.

    Rankings by P(observed) still improve when the bound of the pattern hardly rises (docs/experiments/recommend.md).
    """
    return 3e-5 if isinstance(data, PatternOnly) else 1e-4


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a fit, checked and completed when they are made.

    They are those of :class:`nmar.CCPF` that concern the fit, described in ``fit/parameters.py``, and where it runs.
    """

    data: Settings = USUAL["data"]
    linkage: str | Linkage = USUAL["linkage"]
    factors: int | str = USUAL["factors"]
    solver: Any = USUAL["solver"]
    control: bool | str = USUAL["control"]
    max_iter: int = USUAL["max_iter"]
    tol: float = USUAL["tol"]
    backend: str = USUAL["backend"]
    n_jobs: int | None = USUAL["n_jobs"]
    random_state: Any = USUAL["random_state"]
    prior: str = USUAL["prior"]
    starts: int | str = USUAL["starts"]
    dtype: str = USUAL["dtype"]
    max_time: float | None = USUAL["max_time"]
    patience: int = USUAL["patience"]
    noise: str | None = USUAL["noise"]
    tail: bool | float | None = USUAL["tail"]
    mechanism: str | ByValue = USUAL["mechanism"]
    target: str = USUAL["target"]
    propensity: Any = USUAL["propensity"]
    bounds: Any = USUAL["bounds"]
    pattern: Pattern | None = USUAL["pattern"]
    memory: Any = None  # bytes that a fit of cells on disk may need
    executor: Any = None  # Where block tasks run. None: in threads of this process.

    def _complete(self) -> None:
        """Put what is left open, or named by a text, in place."""

        def become(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if isinstance(self.pattern, Pattern) and self.factors != self.pattern.factors:
            if self.factors != USUAL["factors"]:
                raise ValueError(
                    f"factors={self.factors!r} and pattern={self.pattern!r} are both given; write"
                    f" pattern=nmar.Pattern({self.factors!r}, …) alone"
                )
            become("factors", self.pattern.factors)
        if self.data is None:
            become("data", Factorization())
        if isinstance(self.data, str):
            become("data", data_named(self.data))
        if self.tol is None:
            become("tol", usual_tol(self.data))
        if self.linkage is None:
            become("linkage", plain_linkage(self.data))
        if isinstance(self.linkage, str) and self.linkage not in ("auto", "two-stage"):
            become("linkage", linkage_named(self.linkage))

    @property
    def stop(self) -> StopRule:
        """When the fit stops."""
        return StopRule(max_iter=self.max_iter, tol=self.tol, patience=self.patience, max_time=self.max_time)

    def __post_init__(self) -> None:
        self._complete()
        if self.pattern is not None and not isinstance(self.pattern, Pattern):
            raise ValueError(f"pattern={self.pattern!r}; use nmar.Pattern(factors, rows=…, cols=…)")
        if not isinstance(self.solver, Minibatch | Entrywise):
            check_choice("solver", self.solver, SOLVERS)
        self._check_prior()
        if self.factors != "auto":
            check_count("factors", self.factors, 1)
        check_count("max_iter", self.max_iter, 1)
        check_count("patience", self.patience, 1)
        if self.starts != "auto":
            check_count("starts", self.starts, 1)
        check_seed("random_state", self.random_state)
        check_choice("control", self.control, (False, True, "tail", "shuffled"))
        if self.control == "shuffled" and self.mechanism != "taste":
            raise ValueError("control='shuffled' is the control of mechanism='taste'; give that too, or control='tail'")
        self._check_numbers()
        check_choice("dtype", self.dtype, ("float64", "float32"))
        check_choice("target", self.target, ("observed", "all"))
        self._check_noise()
        self._check_mechanism()
        self._check_members()
        self._check_levels()
        if self.propensity is not None and self.target != "all":
            raise ValueError("propensity is for target='all'; predictions for observed cells need none")
        if not (isinstance(self.tol, int | float | np.number) and 0 <= self.tol < np.inf):
            raise ValueError(f"tol={self.tol!r}; give a number of at least 0, or None")
        limit = self.max_time
        if limit is not None and not (isinstance(limit, int | float | np.number) and limit >= 0):
            raise ValueError(f"max_time={limit!r}; give a number of seconds of at least 0, or None")
        if isinstance(self.data, type):
            name = self.data.__name__
            raise ValueError(f"data={name} is a class; call it: data={name}(…)")
        if not hasattr(self.data, "build"):
            raise ValueError(
                f"data={self.data!r} is not a data model; use nmar.Factorization(10) or another of nmar's models"
            )

    def _check_numbers(self) -> None:
        """Numbers that are left open need a fit that can choose them."""
        left = ["rank='auto'"] * self.open_rank + ["styles='auto'"] * self.open_styles
        left += ["factors='auto'"] * (self.factors == "auto")
        if left and self.method is not None:
            raise ValueError(
                f"{left[0]} cannot be chosen by a stochastic solver, which counts its passes; give a number, or use"
                " solver='batch'"
            )

    def _check_noise(self) -> None:
        """Noise and tail by themselves; :meth:`noise_law` looks at the model."""
        if self.noise is not None:
            check_choice("noise", self.noise, NOISES)
        if self.tail is None or isinstance(self.tail, bool | np.bool_):
            return
        if not (isinstance(self.tail, int | float | np.number) and 0 < self.tail < np.inf):
            raise ValueError(f"tail={self.tail!r}; give True, False, None or degrees of freedom above 0")

    def _check_mechanism(self) -> None:
        """A mechanism by itself; :meth:`check_by_value` looks at the model."""
        if self.by_value is None:
            check_choice("mechanism", self.mechanism, MECHANISMS)
        if self.mechanism == "none":
            return
        if self.mechanism == "auto":
            self._check_open()
            return
        if self.mechanism == "taste" and not (hasattr(self.data, "rows") and hasattr(self.data, "cols")):
            raise ValueError(f"mechanism='taste' needs a data model that takes covariates; {self.data!r} takes none")
        named = self.mechanism if isinstance(self.mechanism, str) else "value"
        if latent_family(self.data).name != "gaussian":
            raise ValueError(f"mechanism={named!r} is about the means of gaussian values; use family='gaussian'")
        if self.method is not None:
            raise ValueError(f"mechanism={named!r} needs solver='batch', not {self.solver!r}")
        if self.by_value is not None:
            self._check_alone()

    def _check_members(self) -> None:
        """Only a pattern that is fitted alone, from all cells, can be averaged over several fits."""
        if self.pattern is None or self.pattern.members == 1:
            return
        alone = isinstance(self.data, PatternOnly) or self.target == "all"
        given = f"members={self.pattern.members} of the pattern"
        if not alone or self.mechanism == "taste" or self.linkage == "two-stage":
            raise ValueError(f"{given} need a pattern that is fitted alone: use nmar.PatternOnly() or target='all'")
        if self.pattern.has_covariates:
            raise ValueError(f"{given} cannot be averaged where the pattern has covariates; use members=1")
        if self.method is not None or self.factors == "auto":
            raise ValueError(f"{given} need solver='batch' and a number of factors")

    def _check_open(self) -> None:
        """Settings under which mechanisms can be compared."""
        if self.method is not None:
            raise ValueError(f"mechanism='auto' needs solver='batch', not {self.solver!r}")
        if self.control:
            raise ValueError(f"control={self.control!r} is a control of one model; name the mechanism, not 'auto'")

    def _check_alone(self) -> None:
        """Settings that say otherwise why values are missing, or what values are."""
        if self.control:
            raise ValueError(f"control={self.control!r} has no counterpart in mechanism='value'; use control=False")
        if self.target == "all":
            raise ValueError(
                "target='all' weighs observed cells, which mechanism='value' does not need: it knows the missing ones."
                " Use target='observed', and ask predictions with given=None"
            )
        if self.tail:
            raise ValueError(f"tail={self.tail!r}: mechanism='value' has normal values; use tail=False")
        if is_leveled(self.data):
            raise ValueError("mechanism='value' needs values that are numbers; use family='gaussian', not 'levels'")

    def check_by_value(self, data: DataModel, link: Linkage) -> None:
        """Refuse the mechanism "value" where the model's lines cannot learn from missing cells."""
        if self.by_value is None:
            return
        if link.name != "ignorable":
            raise ValueError(f"mechanism='value' needs linkage='ignorable', not {link.name!r}")
        if not isinstance(data, Bilinear):
            raise ValueError(f"mechanism='value' needs nmar.Factorization or nmar.Effects, not {self.data!r}")
        if not data.additive:
            raise ValueError("mechanism='value' needs covariance='full', not 'diagonal'")
        if data.keeps_moments or any(data.known_lines(axis) is not None for axis in (0, 1)):
            raise ValueError(f"mechanism='value' needs nmar.Factorization or nmar.Effects, not {self.data!r}")

    @property
    def by_value(self) -> ByValue | None:
        """The mechanism "value" with what is given of it, or None where there is another or none."""
        return (
            self.mechanism if isinstance(self.mechanism, ByValue) else ByValue() if self.mechanism == "value" else None
        )

    def _check_levels(self) -> None:
        """What a fit of levels cannot have."""
        if not is_leveled(self.data):
            return
        link = self.link if self.linkage != "auto" else None
        if link is None or not isinstance(link, Ignorable):
            named = "auto" if link is None else link.name
            raise ValueError(f"linkage={named!r} links the spread of values; levels need linkage='ignorable' or None")
        if self.tail:
            raise ValueError(f"tail={self.tail!r}: levels have no tail beside their cut points; leave it out")
        if self.control is not False and self.control != "shuffled":
            raise ValueError(f"control={self.control!r} is the control of a linkage, which family='levels' has none of")
        if self.method is not None:
            raise ValueError(f"solver={self.solver!r} cannot learn cut points; family='levels' needs solver='batch'")
        if self.bounds is not None:
            raise ValueError(f"bounds={self.bounds!r} are for gaussian values; levels keep to their own scale")

    @property
    def levels(self) -> LevelSettings | None:
        """What a fit of levels begins with; None where values are numbers."""
        found = getattr(self.data, "level_settings", None)
        return None if found is None else found()

    def noise_law(self, data: DataModel, link: Linkage) -> Noise | None:
        """What is learned of the noise of this data model's values under this linkage; None: one dispersion for all."""
        reason = self._no_noise(data, link)
        if reason and (self.noise not in (None, "constant") or self.tail):
            asked = f"noise={self.noise!r}" if self.noise not in (None, "constant") else f"tail={self.tail!r}"
            raise ValueError(f"{asked}: {reason}; use noise='constant' and tail=False")
        if reason:
            return None
        where = "rows+cols" if self.noise is None else self.noise
        single = link.size == 1 and not self.tail_only
        if self.tail and not single:
            raise ValueError(f"tail={self.tail!r} needs linkage='ignorable', not {link.name!r}; use tail=False")
        usual = single and where != "constant" and self.by_value is None and not is_leveled(self.data)
        tail = usual if self.tail is None else self.tail
        if where == "constant" and not tail:
            return None
        given = not isinstance(tail, bool | np.bool_)
        freedom = float(tail) if given else FREEDOM if tail else 0.0
        return Noise(("rows" in where, "cols" in where), freedom=freedom, learns_freedom=bool(tail) and not given)

    def _no_noise(self, data: DataModel, link: Linkage) -> str | None:
        """Why values of this model cannot differ in noise, or None."""
        if not data.has_values:
            return "the model has no values"
        if not family(data.family).location:
            return f"the {data.family} family has no free dispersion by row and column, only the gaussian has"
        if link.mean is not None:
            return f"the linkage moves the mean (mean={link.mean!r}), which noise by row and column does not support"
        if data.keeps_moments:
            return f"{type(data).__name__} has a posterior of its own for the dispersion"
        if isinstance(self.method, Entrywise):
            return f"solver={self.solver!r} learns one dispersion for all cells"
        return None

    def _check_prior(self) -> None:
        """The prior of the pattern: one way to say it, and one that the solver can follow."""
        check_choice("prior", self.prior, PRIORS)
        if self.prior == "learned" and self.method is not None:
            raise ValueError("prior='learned' needs all lines of a sweep; use solver='batch' or prior='robust'")
        if self.pattern is not None and self.pattern.learns:
            raise ValueError("learns=True of the pattern is what a fit sets itself; write prior='learned'")
        if self.pattern is not None and self.prior == "paper" and self.pattern.shape != SHAPE:
            raise ValueError(
                f"shape={self.pattern.shape!r} of the pattern and prior='paper', which takes the shape from the"
                " density, contradict each other; leave one of them out"
            )

    def build(self, cells: Cells) -> DataModel:
        """The data model; the entrywise solver's compiled visits have a normal prior."""
        data = self.data.build(cells)
        normal = isinstance(self.method, Entrywise) and isinstance(data, Bilinear)
        return replace(data, student=False) if normal else data  # type: ignore[type-var]

    @property
    def open_rank(self) -> bool:
        """Whether the data model's rank is to be chosen."""
        return getattr(self.data, "rank", None) == "auto"

    @property
    def open_styles(self) -> bool:
        """Whether the number of styles is to be chosen."""
        return is_leveled(self.data) and getattr(self.data, "styles", 1) == "auto"

    def settled(self, *, rank: int | None = None, styles: int | None = None, **chosen: Any) -> Options:
        """The options with what was chosen for settings left open; ``rank`` and ``styles`` are the data model's."""
        known = {name: value for name, value in (("rank", rank), ("styles", styles)) if value is not None}
        if known:
            chosen["data"] = replace(cast(Any, self.data), **known)
        if self.pattern is not None and "factors" in chosen:
            chosen["pattern"] = replace(self.pattern, factors=chosen["factors"])
        return replace(self, **chosen)

    @property
    def method(self) -> Minibatch | Entrywise | None:
        """Settings of the stochastic solver, or None for coordinate ascent."""
        named = {"batch": None, "minibatch": Minibatch(), "entrywise": Entrywise()}
        return named[self.solver] if isinstance(self.solver, str) else self.solver

    @property
    def tail_only(self) -> bool:
        """Whether this is the tail-only control."""
        return self.control in (True, "tail")

    @property
    def link(self) -> Linkage:
        """The linkage itself; "two-stage" is the baseline without a latent count."""
        return Quadratic() if self.linkage == "two-stage" else linkage(self.linkage)

    @property
    def pattern_law(self) -> Pattern:
        """The law of the pattern, with the robust prior where it is not learned."""
        factors = 10 if self.factors == "auto" else int(self.factors)
        return replace(self.pattern or Pattern(), factors=factors, learns=self.prior == "learned")
