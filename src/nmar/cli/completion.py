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

BASH = """\
_nmar() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options=""
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{verbs}" -- "$word")); return; fi
  case "${{COMP_WORDS[1]}} $before" in
{choices}
  esac
  case "${{COMP_WORDS[1]}}" in
{options}
  esac
  if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"));
  else COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _nmar nmar"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def run(args: argparse.Namespace) -> int:
    """Print."""
    from nmar.cli.main import verb_parsers

    out({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](verb_parsers()))
    return 0


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [one for one in parser._actions if one.option_strings]


def _bash(verbs: dict[str, argparse.ArgumentParser]) -> str:
    choices, options = [], []
    for verb, parser in verbs.items():
        flags = [flag for one in _options(parser) for flag in one.option_strings]
        options.append(f'    {verb}) options="{" ".join(flags)}";;')
        for one in _options(parser):
            if one.choices:
                cases = "|".join(f'"{verb} {flag}"' for flag in one.option_strings)
                words = " ".join(map(str, one.choices))
                choices.append(f'    {cases}) COMPREPLY=($(compgen -W "{words}" -- "$word")); return;;')
    return BASH.format(verbs=" ".join(verbs), choices="\n".join(choices), options="\n".join(options))


def _zsh(verbs: dict[str, argparse.ArgumentParser]) -> str:
    """That of bash, which zsh can run."""
    return f"#compdef nmar\nautoload -U +X bashcompinit && bashcompinit\n{_bash(verbs)}"


def _fish(verbs: dict[str, argparse.ArgumentParser]) -> str:
    lines = [f"complete -c nmar -n __fish_use_subcommand -f -a '{' '.join(verbs)}'"]
    for verb, parser in verbs.items():
        for one in _options(parser):
            names = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in one.option_strings]
            words = f" -x -a '{' '.join(map(str, one.choices))}'" if one.choices else ""
            lines.append(f"complete -c nmar -n '__fish_seen_subcommand_from {verb}' {' '.join(names)}{words}")
    return "\n".join(lines)
