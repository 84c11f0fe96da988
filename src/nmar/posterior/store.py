"""Models on disk without pickle: a zip of ``.npy`` arrays and one JSON header.

Records are written field by field under the name of their class; only classes in :func:`registry` can be read
back, so a model file can hold data but never code. A scikit-learn estimator is bytes (posterior/learned_estimator.py).
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmar.data.atomic import write_with
from nmar.data.axis import Axis
from nmar.posterior.learned_estimator import from_bytes, is_estimator, to_bytes
from nmar.prob.families import FAMILIES, Family

FORMAT = "nmar-model"
VERSION = 3  # 2: gamma factors are alpha and beta; 3: no trust in the pattern, no tail beside a table


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
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "axis" in tree:
        return Axis.from_arrays({k: decode(v, arrays, classes) for k, v in tree["axis"].items()})
    if "estimator" in tree:
        return from_bytes(arrays[tree["estimator"]], trusted)
    if "tuple" in tree:
        return tuple(decode(v, arrays, classes, trusted) for v in tree["tuple"])
    if "dtype" in tree:
        return np.dtype(tree["dtype"]).type
    if tree["record"] not in classes:
        raise ValueError(
            f"the file names a record {tree['record']!r} that is not known here; import the module that defines it, or"
            " call nmar.register with its class"
        )
    fields = {k: decode(v, arrays, classes, trusted) for k, v in tree["fields"].items()}
    return classes[tree["record"]](**fields)


def save(path: str | os.PathLike[str], record: Any, kind: str = FORMAT) -> None:
    """Write a record, all of it or nothing; folders that are not there are made."""
    target = Path(path)
    arrays: dict[str, Any] = {}
    tree = encode(record, arrays, registry())
    header = json.dumps({"format": kind, "version": VERSION, "tree": tree})

    def write(file: Path) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("header.json", header)
            for k, array in enumerate(arrays.values()):
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                archive.writestr(f"{k}.npy", buffer.getvalue())
            archive.writestr("names.json", json.dumps(list(arrays)))

    target.parent.mkdir(parents=True, exist_ok=True)
    write_with(target, write)


def load(path: str | os.PathLike[str], kind: str = FORMAT, trusted: Collection[str] = ()) -> Any:
    """Read a record written by :func:`save`; anything else is refused with the reason."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("header.json"))
            names = json.loads(archive.read("names.json"))
            stored = [np.load(io.BytesIO(archive.read(f"{k}.npy")), allow_pickle=False) for k in range(len(names))]
    except FileNotFoundError:
        raise FileNotFoundError(f"path={str(path)!r}: no such file") from None
    except (zipfile.BadZipFile, KeyError, ValueError, json.JSONDecodeError, EOFError) as error:
        raise ValueError(f"path={str(path)!r} is not a complete {kind} file: {error}") from error
    if header.get("format") != kind:
        raise ValueError(f"path={str(path)!r} holds {header.get('format')!r}, not {kind!r}")
    if header.get("version", 0) > VERSION:
        raise ValueError(f"path={str(path)!r} was written by a newer nmar; upgrade to read it")
    if header.get("version", 0) < VERSION:
        raise ValueError(f"path={str(path)!r} was written by an older nmar, whose models had other parts; fit it again")
    return decode(header["tree"], dict(zip(names, stored, strict=True)), registry(), trusted)
