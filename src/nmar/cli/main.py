"""``nmar``: one verb a file. Verbs import what they need when they run, so ``nmar --help`` is quick."""

from __future__ import annotations

import _thread
import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

from nmar.cli.config import with_config
from nmar.cli.errors import in_options

AGAIN = 0.02  # seconds

VERBS = (
    "compare",
    "split",
    "fit",
    "evaluate",
    "predict",
    "impute",
    "transform",
    "recommend",
    "test",
    "why",
    "simulate",
    "report",
    "convert",
    "doctor",
    "completion",
)

DESCRIPTION = """\
Learning from data that are not missing at random.

  nmar compare movielens                      the embedded demo: writes report.html
  nmar compare ratings.csv --row user --col item --value stars -o report.html
"""


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The whole command line, and the parser of each verb."""
    top = argparse.ArgumentParser(
        prog="nmar",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="nmar VERB --help shows the options of a verb and an example.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="show the version and exit")
    verbs = top.add_subparsers(dest="verb", metavar="VERB")
    found: dict[str, argparse.ArgumentParser] = {}
    for name in VERBS:
        module = import_module(f"nmar.cli.{name}")
        one = verbs.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=f"example:\n{module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        one.add_argument("--debug", action="store_true", help="show the traceback of an error")
        one.add_argument("--config", metavar="FILE", help=f"options from the table [{name}] of a TOML file")
        module.arguments(one)
        one.set_defaults(run=module.run)
        found[name] = one
    return top, found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: the verb's, 2 after an error, 130 after Ctrl-C, 143 after SIGTERM."""
    top, verbs = parsers()
    try:
        args = top.parse_args(with_config(sys.argv[1:] if argv is None else argv, verbs))
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    except (ValueError, OSError) as error:
        sys.stderr.write(f"nmar: error: {error}\n")
        return 2
    if args.version:
        from nmar import __version__

        sys.stdout.write(f"nmar {__version__}\n")
        return 0
    if args.verb is None:
        top.print_help()
        return 0
    with _warnings(args.verb, verbs[args.verb]):
        return _run(args, verbs[args.verb])


@contextmanager
def _warnings(verb: str, parser: argparse.ArgumentParser) -> Iterator[None]:
    """Warnings in one line, in the words of the command line, without the line of code they came from."""
    with warnings.catch_warnings():

        def show(message: Warning | str, *_rest: object, **_how: object) -> None:
            sys.stderr.write(f"nmar {verb}: warning: {in_options(str(message), parser)}\n")

        warnings.showwarning = show
        yield


@contextmanager
def _termination() -> Iterator[list[int]]:
    """SIGTERM ends a verb as Ctrl-C does; the list then holds its number. Only the main thread may set a handler."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before, hook = signal.signal(signal.SIGTERM, interrupt), sys.unraisablehook

    def again(lost: sys.UnraisableHookArgs) -> None:
        """Interrupt once more where Python dropped it: inside a callback from C, a compiler's for instance."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Timer(AGAIN, _thread.interrupt_main).start()  # here it would be dropped once more
        else:
            hook(lost)

    sys.unraisablehook = again
    try:
        yield received
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def _run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    with _termination() as received:
        try:
            return int(args.run(args) or 0)
        except KeyboardInterrupt:
            number = received[0] if received else signal.SIGINT
            sys.stderr.write(f"nmar: {'terminated' if received else 'interrupted'}\n")
            return 128 + number
        except BrokenPipeError:  # the reader has seen enough: nmar … | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception as error:
            if args.debug:
                raise
            return _told(args.verb, error, parser)


def _told(verb: str, error: Exception, parser: argparse.ArgumentParser) -> int:
    """The error in one line, in the words of the command line, and the status that goes with it."""
    text = in_options(" ".join(str(error).split()) or type(error).__name__, parser)
    expected = isinstance(error, ValueError | TypeError | OSError | ImportError | KeyError)
    hint = "" if expected else f" ({type(error).__name__}; --debug shows where)"
    sys.stderr.write(f"nmar {verb}: error: {text}{hint}\n")
    return 2


def command() -> None:
    """The program ``nmar``: run a command and leave with its status."""
    status = main()
    if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        # Compiled code in other threads cannot be stopped, and Python would wait for it before it leaves.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
