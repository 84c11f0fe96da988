"""``nmar fit``: a model from a file of cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmar.cli.common import (
    note,
    note_ratings,
    out,
    quiet_argument,
    read_cells,
    read_known,
    setting_arguments,
    settings_of,
    used_by,
)
from nmar.cli.common import table_arguments as table
from nmar.cli.files import check_model_output
from nmar.cli.names import DATA_HELP, LINKAGE_HELP, parse_data, parse_linkage
from nmar.fit.parameters import PARAMETERS

if TYPE_CHECKING:
    from nmar.estimators.ccpf import CCPF
    from nmar.models.settings import Settings

HELP = "fit a model and write it to a file"
EXAMPLE = """\
  nmar fit ratings.csv --row user --col item --value stars -o m.nmar
  nmar fit train.csv --valid valid.csv --data factorization:20 --linkage free --factors 20 -o m.nmar
"""


SETTINGS = tuple(name for name, one in PARAMETERS.items() if one.flag and name not in ("data", "linkage"))
STATUS = """\
exit status: 0; 2 after an error; 130 after Ctrl-C, 143 after SIGTERM, with the last finished sweep written (where the
output exists already it is kept, and the interrupted model m.nmar is written to m.interrupted.nmar)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.epilog = f"{parser.epilog}\n{STATUS}\n"
    parser.add_argument("data_file", metavar="DATA", help="observed cells to learn from; whatever is absent is missing")
    parser.add_argument("-o", "--output", required=True, help="the model file, for instance m.nmar")
    parser.add_argument("--valid", metavar="FILE", help="cells on which to stop; they are hidden from the pattern")
    parser.add_argument("--hidden", metavar="FILE", help="cells held out for later: neither observed nor missing")
    parser.add_argument("--data", default="factorization:10", metavar="MODEL", help=f"{DATA_HELP} (factorization:10)")
    parser.add_argument("--linkage", metavar="NAME", help=f"{LINKAGE_HELP} ({PARAMETERS['linkage'].usual})")
    parser.add_argument("--keep-seen", action="store_true", help="keep the training cells in the model file")
    parser.add_argument("--checkpoint", metavar="FOLDER", help="keep the run in a folder while it goes on")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="sweeps between checkpoints (10)")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in FOLDER")
    parser.add_argument("--json", action="store_true", help="what came of it as one JSON object on standard output")
    setting_arguments(parser, SETTINGS)
    quiet_argument(parser)
    table(parser)


def run(args: argparse.Namespace) -> int:
    """Fit and save."""
    data, linkage = parse_data(args.data), None if args.linkage is None else parse_linkage(args.linkage)
    check_model_output(args.output)
    if args.resume and args.checkpoint is None:
        raise ValueError("--resume needs --checkpoint FOLDER, where the run was kept")
    used = used_by(args.data_file, args.valid, args.hidden)
    cells = read_cells(args.data_file, args, query=args.sql, used=used)
    parts = {
        name: read_known(path, args, cells.rows, cells.cols, used=used)
        for name, path in (("valid", args.valid), ("hidden", args.hidden))
        if path
    }
    from nmar.estimators.ccpf import CCPF
    from nmar.report.described import chosen_words, noise_words

    note_ratings(cells, [data])
    settings = _with_bounds(settings_of(args, SETTINGS), data)
    model = CCPF(data=data, linkage=linkage, verbose=0 if args.quiet else 1, **settings)
    kept = {"checkpoint": args.checkpoint, "every": args.every, "resume": args.resume}
    try:
        model.fit(cells, valid=parts.get("valid"), hidden=parts.get("hidden"), **kept)
    except KeyboardInterrupt:
        _save_interrupted(model, args.output, args.keep_seen)
        raise
    model.save(args.output, seen=args.keep_seen)
    if args.json:
        out(_json(model, args.output))
    note(f"{cells!r}")
    if chosen := chosen_words(model):
        note(f"chosen: {chosen}")
    note(f"stopped after {model.n_iter_} sweeps ({model.stop_reason_}); {noise_words(model)}")
    note(f"wrote {args.output}")
    return 0


def _with_bounds(settings: dict[str, Any], data: Settings) -> dict[str, Any]:
    """The settings, with the range of ratings unless --bounds says otherwise."""
    bounds = settings.pop("bounds", None if getattr(data, "family", "") == "levels" else "auto")
    return settings if bounds in (None, "none") else {**settings, "bounds": bounds}


def _json(model: CCPF, path: str) -> str:
    """What came of a fit, for programs."""
    import json

    link = model.linkage_
    found = {
        "model": path,
        "sweeps": model.n_iter_,
        "stop_reason": model.stop_reason_,
        "bound": float(model.bound_trace_[-1]),
        "seconds": float(model.seconds_trace_[-1]),
        "dispersion": float(model.dispersion_),
        "linkage": link.name,
    }
    return json.dumps(found)


def _save_interrupted(model: CCPF, path: str, seen: bool) -> None:
    """Write what an interrupted fit has, if it has finished a sweep, and say so; an older model is not replaced."""
    if not hasattr(model, "posterior_"):
        note("interrupted before a sweep was finished: nothing was written")
        return
    file = Path(path)
    if file.exists():
        file = file.with_name(f"{file.stem}.interrupted{file.suffix}")
        note(f"{path} is left as it was")
    model.save(file, seen=seen)
    note(f"interrupted after {model.n_iter_} sweeps: wrote the model of the last one to {file}")
