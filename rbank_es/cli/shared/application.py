"""The commands by name, each loaded only when it is asked for, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from rbank_es import __version__

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Write": {
        "init": ("init:init", "Make a bank."),
        "append": ("append:append", "Append new events, all or none."),
        "import": ("import_:import_files", "Take in items, trajectories and other banks' memories."),
        "erase": ("erase:erase", "Remove texts from every file of a bank, for good."),
    },
    "Look": {
        "log": ("log:log", "List events."),
        "show": ("show:show", "Everything about one item, run or event."),
        "search": ("search:search", "Find items, as of any point in time."),
        "diff": ("diff:diff", "What changed between two points in time, or two banks."),
        "dashboard": ("dashboard:dashboard", "Write one self-contained page about a bank."),
        "demo": ("demo:demo", "A tour of the sample bank: start here."),
    },
    "Agents": {
        "run": ("run:run", "Set an agent to tasks, and keep what it learns."),
        "guide": ("guide:guide", "Have an agent write a guide to an ontology, once."),
        "ontology": ("ontology:ontology", "What is in an ontology, and the card of it."),
        "context": ("context:context", "What an agent would be told, layer by layer; writes nothing."),
        "tools": ("tools:tools", "The tools an agent may call, and what they return."),
        "judge": ("judge:judge", "Judge a run, or measure a judge on cases that an expert has judged."),
        "doctor": ("doctor:doctor", "Whether the sandbox for an agent's code runs here; how to fix it."),
    },
    "Rebuild and check": {
        "replay": ("replay:replay", "Fold the log to a point in time; print what the bank was then."),
        "project": ("project:project", "Bring the read models up to date, once or continuously."),
        "verify": ("verify:verify", "Prove that nothing was changed, cut or reordered."),
        "rerun": ("rerun:rerun", "Run recorded runs again, with no model, and compare them event by event."),
        "export": ("export:export_bank", "Write a bank as items, trajectories, events or provenance."),
        "schema": ("schema:schema", "The JSON Schema of the events."),
    },
}

COMMANDS = {name: home for section in SECTIONS.values() for name, (home, _) in section.items()}


class Commands(click.Group):
    """The group of all commands; knows their names and one line about each without loading any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded now; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command = getattr(import_module(f"rbank_es.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; a usage error with the nearest name if it names none."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(COMMANDS)}."
        raise click.UsageError(f"No such command {name!r}. {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by section."""
        widest = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), about) for name, (_, about) in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What BANK, POINT and the exit codes are."""
        with formatter.section("BANK"):
            formatter.write_text(
                "a bare name (kept under $RBANK_HOME, else ./logs), or a path that begins with ./ ../ /"
            )
        with formatter.section("POINT"):
            formatter.write_text(
                "120 (a position), 2026-01-31T12:00 (a time, UTC), HEAD~5, an event id, "
                "or a run id (just before that run began)"
            )
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 done, 1 a check failed, 2 bad input, 3 corruption, 4 conflict, 70 a defect of rbank-es itself, "
                "130 interrupted (Ctrl-C), 141 nobody read the output any more"
            )


class Command(click.Command):
    """One command: explained in a paragraph, with examples, and with the options that all have."""

    def __init__(self, *args: Any, examples: tuple[str, ...], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they were written."""
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


def command(name: str, *examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command with `--json` (its argument `as_json`) and `--debug`; its docstring is the help."""

    def wrap(function: Callable[..., Any]) -> click.Command:
        made = click.command(name, cls=Command, examples=examples)(function)
        made.params += [click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."), debug_option()]
        return made

    return wrap


def debug_option() -> click.Option:
    """`--debug`. It is `main` that heeds it, for it must also hold when the command line can't be read."""
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")


@click.command(
    cls=Commands,
    # Not click's "[OPTIONS] COMMAND [ARGS]...": what stands here is read first.
    options_metavar="",
    subcommand_metavar="COMMAND BANK[@POINT] ...",
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="rbank-es", message="%(prog)s %(version)s")
@click.pass_context
def application(context: click.Context) -> None:
    """An event-sourced reasoning bank: what an agent did, what it learnt, and how the bank was at any point in time.

    New here? Run: rbank-es demo
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


application.params.append(debug_option())
