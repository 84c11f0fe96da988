"""Models on disk without pickle: a zip of ``.npy`` arrays and one JSON header.

Records are written field by field under the name of their class; only classes in :func:`registry` can be read
back, so a model file can hold data but never code. What a file gives is compared with the schema (posterior/schema.py)
before anything is made of it. A scikit-learn estimator is bytes (posterior/learned_estimator.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from nmar.data.atomic import write_with
from nmar.data.axis import Axis
from nmar.data.container import FileError, Parts, blamed, write_parts
from nmar.posterior.learned_estimator import from_bytes, is_estimator, to_bytes
from nmar.posterior.schema import checked
from nmar.prob.families import FAMILIES, Family

FORMAT = "nmar-model"
VERSION = 3  # 2: gamma factors are alpha and beta; 3: no trust in the pattern, no tail beside a table

NODES = ("array", "axis", "dtype", "estimator", "record", "tuple")  # of the tree in a file
DTYPES = ("float32", "float64")  # of factors
DEEPEST = 60  # records inside each other

Record = TypeVar("Record", bound=type)

REGISTERED: dict[str, type] = {}


def register(record: Record) -> Record:
    """Let model files hold a dataclass of your own: part of a data model, a linkage, settings.

    A family of your own (a subclass of ``nmar.prob.families.Family``) is known by its name from then on, so that
    ``nmar.Constant("name")`` finds it.

    A file names a record by its class. To read it, register the class before :func:`nmar.load`, best where it is
    defined; the fields must be what files can hold: arrays, numbers, texts, tuples and other records.

    Parameters
    ----------
    record : type
        A dataclass whose name no other record has.

    Returns
    -------
    type
        The class itself, so that ``@nmar.register`` can stand above its definition.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import nmar
    >>> @nmar.register
    ... @dataclass(frozen=True)
    ... class Level:
    ...     height: float = 0.0
    """
    if not (isinstance(record, type) and dataclasses.is_dataclass(record)):
        raise TypeError(f"record={record!r} is not a dataclass; put @dataclass(frozen=True) above the class")
    name = record.__name__
    known = registry().get(name)
    # the same definition made anew, for instance in a notebook, takes the place of the old one
    if known is not None and (known.__module__, known.__qualname__) != (record.__module__, record.__qualname__):
        raise ValueError(f"record={name!r}: {known.__module__}.{known.__qualname__} has this name; rename the class")
    REGISTERED[name] = record
    if issubclass(record, Family):
        FAMILIES[record.name] = record()
    return record


def registry() -> dict[str, type]:
    """Classes that a model file may name."""
    from nmar.data import covariates as designs
    from nmar.data import levels
    from nmar.models import (
        bilinear,
        cluster_prior,
        coordinates,
        covariates,
        element,
        law,
        mechanism,
        missingness,
        mixture,
        noise,
        pattern_covariates,
        product,
        profiles,
        protocol,
        ratings,
        regressor,
        settings,
        state,
        taste,
        unmodelled,
    )
    from nmar.posterior import posterior
    from nmar.prob import factor, linkage, scale, statistics, support, twostage

    values = (bilinear, cluster_prior, coordinates, covariates, element, mixture, pattern_covariates, product, profiles)
    models = (
        *values,
        law,
        mechanism,
        missingness,
        noise,
        protocol,
        ratings,
        regressor,
        settings,
        state,
        taste,
        unmodelled,
    )
    modules = (*models, designs, levels, posterior, factor, linkage, scale, statistics, support, twostage)
    found = dict(REGISTERED)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                found[value.__name__] = value
    found.pop("Axis", None)  # which files hold in a form of its own
    return found


def encode(record: Any, arrays: dict[str, Any], classes: dict[str, type], path: str = "") -> Any:
    """JSON tree of a record; arrays are put aside under their path. What could not be read back is refused."""
    if isinstance(record, np.ndarray):
        arrays[path] = record
        return {"array": path}
    if isinstance(record, Axis):
        parts = record.to_arrays()
        return {"axis": {k: encode(np.asarray(v), arrays, classes, f"{path}.{k}") for k, v in parts.items()}}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        name = type(record).__name__
        if classes.get(name) is not type(record):
            raise TypeError(
                f"a model with a {name} of {type(record).__module__} cannot be saved, for it could not be read back;"
                f" call nmar.register({name}) first"
            )
        fields = {
            f.name: encode(getattr(record, f.name), arrays, classes, f"{path}.{f.name}".lstrip("."))
            for f in dataclasses.fields(record)
            if f.init and not f.metadata.get("derived")
        }
        return {"record": name, "fields": fields}
    if isinstance(record, tuple | list):
        return {"tuple": [encode(v, arrays, classes, f"{path}.{k}") for k, v in enumerate(record)]}
    if isinstance(record, type) and issubclass(record, np.generic):
        return {"dtype": np.dtype(record).name}
    if isinstance(record, np.generic):
        return record.item()
    if record is None or isinstance(record, bool | int | float | str):
        return record
    if is_estimator(record):
        arrays[path] = to_bytes(record)
        return {"estimator": path}
    raise TypeError(f"a model with a {type(record).__name__} cannot be saved without pickle")


def decode(tree: Any, arrays: dict[str, Any], classes: dict[str, type], trusted: Collection[str] = ()) -> Any:
    """Inverse of :func:`encode`; ``trusted`` names types that estimators may be made of."""
    return _Reader(arrays, classes, trusted).read(tree, "", 0)


@dataclass(frozen=True, eq=False)
class _Reader:
    """Makes records of a tree of JSON; errors name the place in it."""

    arrays: dict[str, Any]
    classes: dict[str, type]
    trusted: Collection[str]

    def read(self, tree: Any, path: str, depth: int) -> Any:
        """What one node stands for."""
        if depth > DEEPEST:
            raise FileError("", path, f"records inside each other more than {DEEPEST} deep")
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                raise FileError("", path, "a list where a record, a number or a text belongs")
            return tree
        with blamed("", path):
            kind, content = _node(tree)
            if kind == "record":
                return self._record(content, tree["fields"], path, depth)
            if kind == "tuple":
                return tuple(self.read(v, f"{path}[{k}]", depth + 1) for k, v in enumerate(content))
            if kind == "axis":
                return Axis.from_arrays({k: self.read(v, f"{path}.{k}", depth + 1) for k, v in content.items()})
            if kind == "dtype":
                if content not in DTYPES:
                    raise ValueError(f"dtype {content!r}; known are {', '.join(DTYPES)}")
                return np.dtype(content).type
            if content not in self.arrays:
                raise ValueError(f"there is no array {content!r}")
            found = self.arrays[content]
            return from_bytes(found, self.trusted) if kind == "estimator" else found

    def _record(self, name: Any, fields: Any, path: str, depth: int) -> Any:
        kind = self.classes.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ValueError(
                f"the file names a record {name!r} that is not known here; import the module that defines it, or call"
                " nmar.register with its class"
            )
        read = {k: self.read(v, f"{path}.{k}".lstrip("."), depth + 1) for k, v in fields.items()}
        return checked(kind, read, kind.__module__.startswith("nmar."))


def _node(tree: dict[str, Any]) -> tuple[str, Any]:
    """What kind of node a dictionary is, and its content."""
    found = [kind for kind in NODES if kind in tree]
    if len(found) != 1 or len(tree) != 1 + (found == ["record"]):
        raise ValueError(f"a node with {', '.join(map(repr, sorted(tree)))[:80]}; known are {', '.join(NODES)}")
    return found[0], tree[found[0]]


def save(path: str | os.PathLike[str], record: Any, kind: str = FORMAT) -> None:
    """Write a record, all of it or nothing; folders are made. The same record gives the same bytes."""
    target = Path(path)
    arrays: dict[str, Any] = {}
    tree = encode(record, arrays, registry())
    texts = {
        "header.json": json.dumps({"format": kind, "version": VERSION, "tree": tree}),
        "names.json": json.dumps(list(arrays)),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    write_with(target, lambda file: write_parts(file, texts, list(arrays.values())))


def load(path: str | os.PathLike[str], kind: str = FORMAT, trusted: Collection[str] = ()) -> Any:
    """Read a record written by :func:`save`; anything else is a :class:`FileError` with the reason."""
    where = str(path)
    if not os.path.exists(where):
        raise FileNotFoundError(f"path={where!r}: no such file")
    with open(where, "rb") as stream, blamed(where, ""):
        parts, header, names = _contents(stream, kind)
        _check_header(header, kind)
        if not isinstance(names, list) or len(set(names)) != len(names):
            raise ValueError("names.json is no list of different names")
        arrays = {}
        for k, name in enumerate(names):
            with blamed(where, str(name)):
                arrays[name] = parts.array(f"{k}.npy")
        return decode(header["tree"], arrays, registry(), trusted)


def kind_of(path: str | os.PathLike[str]) -> tuple[str, int]:
    """The format that a file names, and its version."""
    with open(path, "rb") as stream, blamed(str(path), ""):
        _, header, _ = _contents(stream, "nmar")
        return str(header["format"]), int(header["version"])


def _contents(stream: IO[bytes], kind: str) -> tuple[Parts, Any, Any]:
    """The parts of a file, its header and the names of its arrays."""
    try:
        parts = Parts(stream)
        return parts, parts.json("header.json"), parts.json("names.json")
    except Exception as error:
        raise ValueError(f"it is not a complete {kind} file: {str(error) or type(error).__name__}") from error


def _check_header(header: Any, kind: str) -> None:
    if not isinstance(header, dict) or header.get("format") != kind or "tree" not in header:
        found = header.get("format") if isinstance(header, dict) else header
        raise ValueError(f"it holds {str(found)[:40]!r}, not {kind!r}")
    version = header.get("version")
    if type(version) is not int:
        raise ValueError(f"its version is {version!r}")
    if version > VERSION:
        raise ValueError("it was written by a newer nmar; upgrade to read it")
    if version < VERSION:
        raise ValueError("it was written by an older nmar, whose models had other parts; fit it again")
