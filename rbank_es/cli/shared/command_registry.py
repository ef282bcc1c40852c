"""The registry of commands, the group that dispatches to them, and the decorator that makes a function a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from rbank_es import __version__
from rbank_es.system.registry import Registry, checked_result

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS: dict[str, dict[str, str]] = {
    "Write": {
        "init": "Make a bank.",
        "append": "Append new events, all or none.",
        "copy": "Copy a bank, also to or from a server.",
        "fork": "Make a bank that begins as another one, up to a point.",
        "policy": "Show by which rules a bank decides, and change them.",
        "import": "Import items, trajectories, transcripts and other banks' memories.",
        "absorb": "Bring in what another bank recorded, under this bank's policies.",
        "erase": "Remove texts from every file of a bank, for good.",
    },
    "Correct": {
        "overrule": "Give a verdict that no judge outranks, and correct what was learned from it.",
        "reject": "Condemn the words of an item, and whatever states the same.",
        "retract": "End one item.",
        "restore": "Vouch for an item that has ended.",
        "admit": "Let a pending item become active.",
        "review": "List what a person should look at, or the verdicts to check first.",
        "undo": "Let one candidate count as never extracted.",
        "correct": "Make decisions again that verdicts from elsewhere changed.",
        "learn": "Draw candidates from judged runs, under the verdicts that stand now.",
    },
    "Look": {
        "log": "List events.",
        "runs": "List runs: filtered, sorted, as table, JSON or CSV.",
        "items": "List items: filtered, sorted, as table, JSON or CSV.",
        "show": "Show everything about one item, run or event.",
        "ask": "Ask any question that a bank can be asked, by its name.",
        "impact": "Show everything downstream of an item, a run or an event.",
        "query": "Ask a bank's own provenance in SPARQL.",
        "search": "Find items, as of any point in time.",
        "health": "Show how a bank does, now and over time: size, novelty, wins, use, verdicts.",
        "diff": "Compare two points in time, or two banks.",
        "drift": "Find what names terms that an ontology changed.",
        "whatif": "Show what would differ under other policies, verdicts, or without an item or a run.",
        "serve": "Show a bank in the browser, live, at any moment of its past.",
        "dashboard": "Write one self-contained page about a bank.",
        "demo": "Tour the sample bank: start here.",
    },
    "Agents": {
        "run": "Set an agent to tasks, and keep what it learns.",
        "guide": "Have an agent write a guide to an ontology, once.",
        "ontology": "Show the contents of an ontology, and its card.",
        "context": "Print the context of an agent, layer by layer; write nothing.",
        "skills": "Write lessons to files that coding agents read, and take them back when they fall.",
        "tools": "List the tools an agent may call, and try them.",
        "judge": "Judge a run, or measure a judge on labelled cases.",
        "experiment": "Run experiments: conditions over a suite, each trial in a bank of its own.",
        "suite": "Check, make and import suites of tasks.",
        "retrieval": "Fit and extend how a bank finds items: vectors, floors, comparisons.",
        "mcp": "Serve a bank to a host of agents that speaks MCP.",
        "install": "Have a coding agent run the hook; show the change first.",
        "uninstall": "Take the hook out of the settings of a coding agent.",
        "hook": "Answer one event of a coding agent with the lessons that fit.",
        "transcripts": "Find what coding agents left on this machine.",
        "doctor": "Check whether the sandbox for an agent's code works here, and how to fix it.",
    },
    "Rebuild and check": {
        "replay": "Fold the log to a point in time; print the bank as it was then.",
        "project": "Bring the read models up to date, once or continuously.",
        "head": "Print the head of a bank, to be noted somewhere safe.",
        "verify": "Prove that nothing was changed, truncated or reordered.",
        "rerun": "Run recorded runs again, with no model, and compare them event by event.",
        "bisect": "Find the event since which runs were given something else by the bank.",
        "export": "Write a bank as items, trajectories, events or provenance.",
        "schema": "Print the JSON Schema of the events, or of the answers.",
        "completion": "Print the script that completes commands in bash, zsh or fish.",
    },
}
"""The commands in the order of the help, each with its line there, so that the help loads none of them."""

PLUGINS = "Plugins"
PROGRAM, COMPLETE_VARIABLE = "rbank-es", "_RBANK_ES_COMPLETE"
LAB = ("experiment", "suite")
"""Commands of the laboratory, a room above this one: named, and imported by nobody but the registry."""


def _home(name: str) -> str:
    attribute = "import_" if name == "import" else name  # because `import` is a keyword of Python
    return f"rbank_es.{'lab.commands' if name in LAB else 'cli'}.{attribute}:{attribute}"


OURS = [name for section in SECTIONS.values() for name in section]
COMMANDS: Registry[click.Command] = Registry("command", {name: _home(name) for name in OURS})
"""Commands by name, those of plugins too; any `click.Command` can be added."""

SUBCOMMANDS: Registry[click.Command] = Registry(
    "command",
    {
        "judge calibrate": "rbank_es.lab.commands.judge_calibrate:calibrate",
        "retrieval calibrate": "rbank_es.lab.commands.retrieval_trials:calibrate",
        "retrieval compare": "rbank_es.lab.commands.retrieval_trials:compare",
    },
)
"""Commands that another room or a plugin adds to a group, as `GROUP NAME`."""


class Commands(click.Group):
    """The group of all commands, which loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS.names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, None if there is none."""
        # Look at ours first: finding plugins takes longer than most commands do.
        return _command(cmd_name) if cmd_name in OURS or cmd_name in COMMANDS.names() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument. Raises `UsageError`, with the nearest name, for an unknown one."""
        name = args[0]
        if name == "help" and not ctx.resilient_parsing:
            args = [*args[1:2], "--help"] if args[1:] else ["--help"]
            name = args[0]
        # A shell that completes the line wants no error for what is not typed yet.
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        from rbank_es.system.nearest_name import hint

        raise click.UsageError(f"no command has the name {name!r}{hint(name, COMMANDS.names())}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, each with its line in the help, and the options; loads no command."""
        from click.shell_completion import CompletionItem

        from rbank_es.cli.shared.shell_completion import words

        about = {name: line for section in SECTIONS.values() for name, line in section.items()}
        named = [CompletionItem(name, help=about.get(name)) for name in words(COMMANDS.names(), incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        sections = SECTIONS | {PLUGINS: dict(_plugin_commands())}
        widest = max(len(name) for section in sections.values() for name in section)
        for title, commands in sections.items():
            if commands:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(widest), about) for name, about in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the meaning of BANK, POINT and the exit codes."""
        with formatter.section("BANK"):
            formatter.write_text(
                "a bare name (kept under $RBANK_HOME, else ./logs), a path (with a slash: ./notes, banks/notes), "
                "or a URL such as memory: (lost at the end)"
            )
        with formatter.section("POINT"):
            formatter.write_text(
                "120 (a position), 2026-01-31T12:00 (a time, UTC), HEAD~5, an event id, "
                "or a run id (just before that run began)"
            )
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 done, 1 a check failed, 2 bad input, 3 corruption, 4 conflict, 70 a defect of rbank-es itself, "
                "130 interrupted (Ctrl-C), 141 the reader of the output went away"
            )


def _command(name: str) -> click.Command:
    """Return a command. Raises `BadPlugin` for what a plugin added that is none."""
    from rbank_es.system.extras import import_msgspec

    import_msgspec()
    found = COMMANDS.get(name)
    return checked_result(found, click.Command, name, found)


def _plugin_commands() -> Iterator[tuple[str, str]]:
    """Yield the commands of plugins, each with the beginning of its help; for one that can't be used, the reason."""
    from rbank_es.events.hidden_characters import visible

    for name in (name for name in COMMANDS.names() if name not in OURS):
        try:
            about = _command(name).get_short_help_str(80)
        # Anything, because the import of a plugin's command may raise anything, and the help lists all others.
        except Exception as error:
            about = f"can't be used: {error}"
        yield visible(name), visible(about)


class Command(click.Command):
    """A command with examples in its help."""

    def __init__(self, *args: Any, examples: tuple[str, ...], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.examples = examples

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; to a shell that completes a line, each with what its words can be."""
        params = super().get_params(ctx)
        if not ctx.resilient_parsing:
            return params
        from rbank_es.cli.shared.shell_completion import completed

        return [completed(param) for param in params]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, unwrapped, so that they can be copied."""
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


class CommandGroup(click.Group):
    """A command that is a group of others, with an example of each in its help."""

    def __init__(self, name: str | None = None, **attributes: Any) -> None:
        super().__init__(name, options_metavar="", subcommand_metavar="COMMAND ...", **attributes)
        self.params.append(debug_option())

    def add_commands(self, *commands: click.Command) -> None:
        """Add commands, each by its own name."""
        for each in commands:
            self.add_command(each)

    def all_commands(self) -> dict[str, click.Command]:
        """Return the commands by name, imported: those of the group, then those that others add to it."""
        found = (name.partition(" ")[::2] for name in SUBCOMMANDS.names())
        added = {name: SUBCOMMANDS.get(f"{group} {name}") for group, name in found if group == self.name}
        return {**self.commands, **added}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted(self.all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, None if there is none."""
        own, added = self.commands.get(cmd_name), f"{self.name} {cmd_name}"
        return SUBCOMMANDS.get(added) if own is None and added in SUBCOMMANDS else own

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example of each command, unwrapped."""
        with formatter.section("Examples"):
            for made in self.all_commands().values():
                if isinstance(made, Command):
                    formatter.write(f"  {made.examples[0]}\n")


def command(name: str, *examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a function a command; its docstring becomes the help.

    The command takes `--json`, passed as the argument `as_json`, and `--debug`.
    """

    def wrap(function: Callable[..., Any]) -> click.Command:
        made = click.command(name, cls=Command, examples=examples)(function)
        made.params += [click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."), debug_option()]
        return made

    return wrap


def decorated(*options: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
    """Return several options as one decorator, in their order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        # click lists the option that is applied last first.
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def debug_option() -> click.Option:
    """Return `--debug`, which commands ignore: `main` handles it, because it must work for unreadable command lines."""
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")


@click.command(
    cls=Commands,
    # Replace click's "[OPTIONS] COMMAND [ARGS]...", because this line is read first.
    options_metavar="",
    subcommand_metavar="COMMAND BANK[@POINT] ...",
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="rbank-es", message="%(prog)s %(version)s")
@click.pass_context
def application(context: click.Context) -> None:
    """Keep what agents do and learn in an event-sourced reasoning bank, and show it as of any point in time.

    New here? Run: rbank-es demo
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


application.params.append(debug_option())
