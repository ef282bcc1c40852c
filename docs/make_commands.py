"""Write docs/commands.md: every command with its arguments and options, as `--help` has them.

    python docs/make_commands.py

A test compares the output, so no option is without a document.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from rbank_es.cli.shared.command_registry import COMMANDS, SECTIONS, Command, CommandGroup

DOCUMENT = Path(__file__).resolve().parent / "commands.md"
INTRODUCTION = """\
# Commands

Made by `docs/make_commands.py` from the commands' own help. `rbank-es COMMAND --help` prints the same, with the meaning
of BANK, POINT and the exit codes at the end of `rbank-es --help`. Every command takes `--debug`, which shows the
traceback of an error.
"""


def document() -> str:
    """Return the whole document."""
    parts = [INTRODUCTION]
    for title, section in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts += [text for name in section for text in described(f"rbank-es {name}", COMMANDS.get(name))]
    return "".join(parts)


def described(path: str, command: click.Command) -> Iterator[str]:
    """Yield the description of a command and of those in its group."""
    context = click.Context(command, info_name=path)
    yield f"\n### {path}\n\n"
    yield f"`{' '.join([path, *command.collect_usage_pieces(context)])}`\n\n{help_of(command)}\n"
    options = [param for param in command.params if isinstance(param, click.Option) and param.name != "debug"]
    if options:
        yield "\n| option | meaning |\n|---|---|\n"
        yield from (row(option, context) for option in options)
    if isinstance(command, Command):
        yield "\n```\n" + "".join(f"{example}\n" for example in command.examples) + "```\n"
    if isinstance(command, CommandGroup):
        for name, inner in command.all_commands().items():
            yield from described(f"{path} {name}", inner)


def help_of(command: click.Command) -> str:
    """Return the help of a command, a paragraph a line."""
    paragraphs = (command.help or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()


def row(option: click.Option, context: click.Context) -> str:
    """Return the row of an option."""
    names, about = option.get_help_record(context) or (", ".join(option.opts), option.help or "")
    cells = (f"`{names}`", about)
    return "".join(f"| {' '.join(cell.split()).replace('|', chr(92) + '|')} " for cell in cells) + "|\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
