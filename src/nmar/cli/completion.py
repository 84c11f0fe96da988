"""``nmar completion``: lines for a shell that complete verbs, options and their choices."""

from __future__ import annotations

import argparse

from nmar.cli.common import out

HELP = "print the completion of this command line for a shell"
EXAMPLE = """\
  eval "$(nmar completion bash)"          # in ~/.bashrc
  nmar completion zsh > ~/.zfunc/_nmar    # a folder of fpath
  nmar completion fish > ~/.config/fish/completions/nmar.fish
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def run(args: argparse.Namespace) -> int:
    """Print what shtab makes of the command line."""
    try:
        import shtab
    except ImportError:
        raise ImportError("nmar completion needs shtab: pip install shtab") from None
    from nmar.cli.main import parsers

    out(shtab.complete(parsers()[0], args.shell))
    return 0
