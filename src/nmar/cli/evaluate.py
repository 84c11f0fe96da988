"""``nmar evaluate``: how a model does on cells it has not seen."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from nmar.cli.common import model_arguments, note, out, read_known, read_model, used_by
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_table

if TYPE_CHECKING:
    from nmar.data.cells import Cells
    from nmar.estimators.ccpf import CCPF

HELP = "score a model on held-out cells"
EXAMPLE = """\
  nmar evaluate m.nmar test.csv --row user --col item --value stars
  nmar evaluate m.nmar test.csv --lists 10 --by regression
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    model_arguments(parser)
    parser.add_argument("data_file", metavar="DATA", help="cells to judge on")
    parser.add_argument(
        "--unknown",
        choices=("error", "prior"),
        default="error",
        help="ids not seen in training: refuse, or use the prior",
    )
    target = "the cells are observed ones, or a sample of all cells; default: what the model was fitted for"
    parser.add_argument("--target", choices=("observed", "all"), help=target)
    group = parser.add_argument_group("lists of columns (nmar recommend), judged by the held-out cells of their rows")
    group.add_argument("--lists", type=int, metavar="K", help="judge lists of K columns too; seen columns are left out")
    by = "what lists are ranked by (observed), as in nmar recommend"
    group.add_argument("--by", choices=("value", "observed", "expected", "regression"), default="observed", help=by)
    group.add_argument("--at-least", type=float, metavar="VALUE", help="smallest value of a relevant cell (all are)")
    group.add_argument("--seen", metavar="FILE", help="observed cells of the rows (those kept by fit --keep-seen)")
    parser.add_argument("-o", "--output", metavar="FILE", help="log density of each cell (csv, tsv, parquet)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, score, print."""
    from nmar.estimators.stored import training_cells

    check_output(args.output, table=True)
    check_streams(args.json, {"--output": args.output})
    model = read_model(args)
    known = model.posterior_
    used = used_by(args.data_file, args.seen)
    cells = read_known(args.data_file, args, known.rows, known.cols, args.sql, used)
    found: dict[str, Any] = {"cells": len(cells)}
    if known.law.data.has_values:
        found |= _densities(model, cells, args)
    elif args.lists is None or args.output:
        raise ValueError("the model has no values to score; --lists K judges its lists, and no --output")
    if args.lists is not None:
        found |= _lists(model, cells, args, used)
    common = training_cells(model, cells)
    if common:
        found["training_cells"] = common
        note(f"{common:,} of these {len(cells):,} cells are training cells, which a model fits better than new ones")
    if args.output != "-":
        _print(found, args.json)
    return 0


def _densities(model: CCPF, cells: Cells, args: argparse.Namespace) -> dict[str, Any]:
    """How well the values are predicted; each cell's density goes to the output file."""
    import numpy as np

    from nmar.evaluate.gains import Judges
    from nmar.evaluate.notes import ERROR

    asked = {"unknown": args.unknown, "target": args.target}
    each = model.log_density(cells, **asked)
    plugin = model.log_density(cells, plugin=True, **asked)
    weights = cells.weights
    row, col = cells.pairs()
    mean = model.predict_entries(row, col, **asked)
    if args.output:
        write_table(args.output, {"row": row, "col": col, "value": cells.values, "mean": mean, "log_density": each})
    return {
        "log_likelihood": float(np.average(each, weights=weights)),
        "se": Judges.of([cells]).error(each, weights),
        "se_is": ERROR,
        "plugin": float(np.average(plugin, weights=weights)),
        "rmse": float(np.sqrt(np.average((np.asarray(cells.values) - mean) ** 2, weights=weights))),
    }


def _lists(model: CCPF, cells: Cells, args: argparse.Namespace, used: tuple[str, ...]) -> dict[str, Any]:
    """How good lists are: by all held-out cells alike, and by each as often as the inverse of its P(observed)."""
    import numpy as np

    from nmar.evaluate import metrics

    known = model.posterior_
    seen = read_known(args.seen, args, known.rows, known.cols, used=used) if args.seen else None
    rows = cells.row_ids[np.flatnonzero(np.diff(cells.by(0).indptr))]
    listed = model.recommend(rows, args.lists, by=args.by, seen=seen, unknown=args.unknown)[0]
    given = (listed, rows, cells, args.lists, args.at_least)
    chance = model.observed_probability(*cells.pairs(), unknown=args.unknown)
    return {
        "lists": args.lists,
        "by": args.by,
        "ndcg": metrics.ndcg(*given),
        "recall": metrics.recall(*given),
        "average_precision": metrics.average_precision(*given),
        "ndcg_inverse": metrics.ndcg(*given, propensity=chance),
        "recall_inverse": metrics.recall(*given, propensity=chance),
    }


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        import json

        out(json.dumps(found))
        return
    out(f"cells           {found['cells']:,}")
    if "rmse" in found:
        out(f"log likelihood  {found['log_likelihood']:.5f} ± {found['se']:.5f} nats per cell (predictive)")
        out(f"                {found['se_is']}")
        out(f"plug-in         {found['plugin']:.5f}")
        out(f"RMSE            {found['rmse']:.5f}")
    if "lists" in found:
        out(f"lists of {found['lists']:<6} by {found['by']}; cells weighted by 1/P(observed) in brackets")
        out(f"NDCG            {found['ndcg']:.5f} ({found['ndcg_inverse']:.5f})")
        out(f"recall          {found['recall']:.5f} ({found['recall_inverse']:.5f})")
        out(f"precision       {found['average_precision']:.5f} (mean average)")
