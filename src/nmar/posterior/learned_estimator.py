"""Fitted scikit-learn estimators inside model files: bytes in the format of skops, which holds no pickle.

What enters: an estimator, or the bytes of one. What leaves: bytes, or the estimator, provided that every type it is
made of is trusted: by skops and because it is Python and NumPy alone (``PLAIN``), or by the reader, by name.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.container import Parts

PLAIN = (
    "builtins.",
    "numpy.",
    "sklearn._loss.",
    "sklearn.base.",
    "sklearn.compose.",
    "sklearn.cross_decomposition.",
    "sklearn.decomposition.",
    "sklearn.dummy.",
    "sklearn.ensemble.",
    "sklearn.gaussian_process.",
    "sklearn.impute.",
    "sklearn.kernel_ridge.",
    "sklearn.linear_model.",
    "sklearn.neural_network.",
    "sklearn.pipeline.",
    "sklearn.preprocessing.",
    "sklearn.tree.",
)  # modules whose estimators predict by NumPy, which checks every array, or by trees, whose types skops does not trust


def is_estimator(record: Any) -> bool:
    """Whether something fits and predicts as scikit-learn's estimators do."""
    return all(hasattr(record, name) for name in ("get_params", "fit", "predict"))


def to_bytes(estimator: Any) -> Array:
    """The estimator as an array of bytes; one that could not be read back is refused by the name of its class."""
    skops = _skops()
    try:
        content = np.frombuffer(skops.dumps(estimator), np.uint8)
        from_bytes(content, untrusted_types(content))
    except Exception as error:  # skops names the type in its way, by errors of many kinds
        name = type(estimator).__name__
        raise TypeError(f"a model with a {name} cannot be saved without pickle: {error}") from error
    return content


def untrusted_types(content: Array) -> list[str]:
    """Types that an estimator's bytes need and that are not trusted: by skops, and because they are Python and NumPy.

    skops trusts all of scikit-learn that runs no code of a file. Compiled code of it reads past arrays that are
    shorter than others of the same estimator say (support vector machines, neighbours).
    """
    data = content.tobytes()
    found = set(_skops().get_untrusted_types(data=data))
    made = set(_types(Parts(io.BytesIO(data)).json("schema.json")))
    return sorted(found | {name for name in made if not name.startswith(PLAIN)})


def _types(node: Any) -> Iterator[str]:
    """Names of all types that skops' description of an estimator mentions."""
    if isinstance(node, dict):
        if "__module__" in node and "__class__" in node:
            yield f"{node['__module__']}.{node['__class__']}"
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _types(part)


def from_bytes(content: Array, trusted: Collection[str]) -> Any:
    """The estimator; types that are trusted neither by skops nor by ``trusted`` are refused, before any is made."""
    found = untrusted_types(content)
    refused = [name for name in found if name not in trusted]
    if refused:
        raise ValueError(
            f"the model holds an estimator made of types that are not trusted: {', '.join(refused)}; if you know who"
            f" made the file, pass trusted={found!r}"
        )
    return _skops().loads(content.tobytes(), trusted=found)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError("model files with a scikit-learn estimator need skops: pip install skops") from None
    return skops.io
