"""Cells from a query: duckdb reads files and databases, and its answer has a line for each cell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nmar.data.build import Duplicates, check_duplicates_policy
from nmar.data.cells import Cells
from nmar.data.tables import Wanted, arrow_columns

DATABASES = (".duckdb", ".ddb", ".db")


def read_sql(
    query: str,
    path: str | os.PathLike[str] | None = None,
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
    weight: str | None = None,
) -> Cells:
    """Read observed cells with a query, by duckdb.

    Parameters
    ----------
    query : str
        SQL that selects one line per cell. It may name files itself (``FROM 'ratings.parquet'``).
    path : path-like, optional
        A duckdb database (.duckdb, .ddb, .db), opened for reading, or a csv, tsv or parquet file, which the query
        calls ``data``.
    row, col, value : str, optional
        Columns of the answer, as in :func:`nmar.read`.
    duplicates : {"error", "last", "mean", "sum"}, default="error"
        What to do with a cell that occurs more than once.
    weight : str, optional
        Column that says how often each cell counts.

    Returns
    -------
    Cells
        The observed cells.

    Examples
    --------
    >>> import nmar
    >>> query = "SELECT * FROM (VALUES ('ann', 1, 4.0), ('bob', 2, 5.0)) AS t(user_id, item, stars) WHERE stars > 4"
    >>> nmar.read_sql(query).row_ids.tolist()
    ['bob']
    """
    check_duplicates_policy(duplicates)
    table = _answer(query, None if path is None else Path(path))
    names = Wanted(row, col, value, weight).names(table.column_names, "the answer of the query")
    if table.num_rows == 0:
        raise ValueError("the query answers without a line (empty input); at least one observed cell is needed")
    row, col, value = names[:3]
    return Cells.from_frame(arrow_columns(table, names), row, col, value, duplicates, weight=weight)


def _answer(query: str, file: Path | None) -> Any:
    """The answer as an arrow table."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("queries need duckdb and pyarrow: pip install duckdb pyarrow") from None
    if file is not None and not file.is_file():
        raise FileNotFoundError(f"path={str(file)!r} does not exist or is not a file; check the spelling")
    database = file is not None and file.suffix.lower() in DATABASES
    with duckdb.connect(str(file) if database else ":memory:", read_only=database) as connection:
        try:
            if file is not None and not database:
                name = str(file).replace("'", "''")
                connection.execute(f"CREATE VIEW data AS SELECT * FROM '{name}'")
            found = connection.sql(query)
            if found is not None:
                return found.to_arrow_table()
        except duckdb.Error as error:
            raise ValueError(f"the query failed: {error}") from None
    raise ValueError(f"query={query!r} selects nothing; write SELECT … FROM …")
