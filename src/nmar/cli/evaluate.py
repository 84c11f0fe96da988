"""``nmar evaluate``: how a model does on cells it has not seen."""

from __future__ import annotations

import argparse
from typing import Any

from nmar.cli.common import model_arguments, out, read_known, read_model
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_output, check_streams, write_table

HELP = "score a model on held-out cells"
EXAMPLE = "  nmar evaluate m.nmar test.csv --row user --col item --value stars\n"


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
    parser.add_argument("-o", "--output", metavar="FILE", help="log density of each cell (csv, tsv, parquet)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Load, score, print."""
    import numpy as np

    from nmar.evaluate.gains import Judges
    from nmar.evaluate.notes import ERROR

    check_output(args.output, table=True)
    check_streams(args.json, {"--output": args.output})
    model = read_model(args)
    known = model.posterior_
    cells = read_known(args.data_file, args, known.rows, known.cols, args.sql)
    asked = {"unknown": args.unknown, "target": args.target}
    each = model.log_density(cells, **asked)
    plugin = model.log_density(cells, plugin=True, **asked)
    weights = cells.weights
    row, col = cells.pairs()
    mean = model.predict_entries(row, col, **asked)
    found = {
        "cells": len(each),
        "log_likelihood": float(np.average(each, weights=weights)),
        "se": Judges.of([cells]).error(each, weights),
        "se_is": ERROR,
        "plugin": float(np.average(plugin, weights=weights)),
        "rmse": float(np.sqrt(np.average((np.asarray(cells.values) - mean) ** 2, weights=weights))),
    }
    if args.output != "-":
        _print(found, args.json)
    if args.output:
        write_table(args.output, {"row": row, "col": col, "value": cells.values, "mean": mean, "log_density": each})
    return 0


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        import json

        out(json.dumps(found))
        return
    out(f"cells           {found['cells']:,}")
    out(f"log likelihood  {found['log_likelihood']:.5f} ± {found['se']:.5f} nats per cell (predictive)")
    out(f"                {found['se_is']}")
    out(f"plug-in         {found['plugin']:.5f}")
    out(f"RMSE            {found['rmse']:.5f}")
